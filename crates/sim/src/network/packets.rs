//! Packets between an engine and the medium.

use super::{Network, ScheduledEvent};
use crate::flow::{Flow, records_in};
use crate::frames::Contents;
use crate::host::{ReadJob, Role};
use crate::station_layer::OutgoingFrame;
use crate::store::BytePattern;
use engine::{
    Bytes, Delivery, Fragmentation, Framing, Instant, Path, PathError, PathFault, Received, Store,
};
use std::collections::VecDeque;

/// What an engine of transactions keeps to.
const UNRELEASED: &str = "the engine names a message that it has not released";

impl Network {
    /// The sender asks the engine for a packet, or the layer for a frame. Returns how long that takes,
    /// ps.
    pub(super) fn build_packet(&mut self, station: usize) -> u64 {
        let host = &self.hosts[station];
        let now = host.local_time(self.now_ps);
        let before = host.charged_counters();
        if host.layer.is_some() {
            let Some(frame) = self.poll_frame(station, now) else {
                return 0;
            };
            self.hold_built(station, frame);
        } else {
            let Some((path, contents)) = self.poll_engine(station, now) else {
                return 0;
            };
            let tag = self.frames.add(station, path);
            let mut packet = std::mem::take(&mut self.frames.get_mut(tag).packet);
            self.write_packet(station, &contents, &mut packet);
            let frame = self.frames.get_mut(tag);
            (frame.packet, frame.contents) = (packet, contents);
            self.hosts[station].built = Some(tag);
        }
        let copy_ps = self.adapter_send_ps(station) + self.ring_send_ps(station);
        copy_ps + self.hosts[station].work_since_ps(before)
    }

    fn hold_built(&mut self, station: usize, built: OutgoingFrame) {
        let tag = self.frames.add(station, built.path);
        let frame = self.frames.get_mut(tag);
        (frame.packet, frame.contents) = (built.octets, built.contents);
        self.hosts[station].built = Some(tag);
    }

    /// The next frame of the layer, which gets packets until it has one.
    fn poll_frame(&mut self, station: usize, now: Instant) -> Option<OutgoingFrame> {
        loop {
            let frame = self.hosts[station].layer.as_mut()?.next_frame(now);
            if frame.is_some() {
                return frame;
            }
            let (path, contents) = self.poll_engine(station, now)?;
            let mut packet = Vec::new();
            self.write_packet(station, &contents, &mut packet);
            let layer = self.hosts[station].layer.as_mut()?;
            layer.send(now, path, &packet, contents);
        }
    }

    /// Asks the engine for a packet, which is then in the batch: where it goes, and what it carries.
    #[inline]
    fn poll_engine(&mut self, station: usize, now: Instant) -> Option<(Path, Contents)> {
        self.batch.clear();
        let engine = self.hosts[station].engine.protocol_mut();
        engine.poll_transmit(now, &mut self.batch);
        // Mostly there is none.
        match self.batch.packets().is_empty() {
            true => None,
            false => self.describe_packet(station),
        }
    }

    /// Where the packet in the batch goes, and what it carries.
    fn describe_packet(&mut self, station: usize) -> Option<(Path, Contents)> {
        let (path, built) = (self.batch.path()?, self.batch.packets().first()?);
        if usize::from(path.local.0) >= self.media.len() {
            self.refuse_packet(station, path);
            return None;
        }
        let host = &mut self.hosts[station];
        let role = self.batch.sender().and_then(|id| host.circuits.get(&id));
        let is_too_long = self.path_mtu.is_some_and(|octets| built.len() > octets);
        let may_be_cut = self.batch.fragmentation() == Fragmentation::Allowed;
        let mut contents = Contents {
            exceeds_mtu: is_too_long && !may_be_cut,
            ..Contents::default()
        };
        if let Some(&Role::Sends(flow)) = role {
            let first = self.batch.user(built).next();
            contents.flow = Some(flow);
            contents.carries = first.map(|(_, range)| (flow, range.start, range.end));
        } else if let Some(router) = host.engine.as_router() {
            let arrival = router.forwarded_from();
            contents = Contents {
                exceeds_mtu: contents.exceeds_mtu,
                ..forwarded(&mut host.forwardable, arrival)
            };
        } else if let (Some(messages), Some((Store::Message(id), range))) =
            (&host.messages, self.batch.user(built).next())
        {
            let tag = messages.outgoing.get(&id).copied().expect(UNRELEASED);
            contents.flow = Some(tag.flow);
            contents.message = Some(tag);
            let sent = (tag.flow, tag.start + range.start, tag.start + range.end);
            contents.carries = Some(sent).filter(|_| !tag.is_reply);
        }
        Some((path, contents))
    }

    /// Appends the packet in the batch to `packet`.
    fn write_packet(&mut self, station: usize, contents: &Contents, packet: &mut Vec<u8>) {
        let host = &self.hosts[station];
        let Some(built) = self.batch.packets().first() else {
            return;
        };
        let (flows, pattern) = (&self.flows, &self.pattern);
        let messages = host.messages.as_ref();
        packet.reserve(built.len());
        self.batch.write(built, packet, |store, range, packet| {
            if let Store::Message(id) = store {
                let known = messages.and_then(|messages| messages.outgoing.get(&id));
                let from = known.expect(UNRELEASED).position() + range.start;
                let len = (range.end - range.start) as usize;
                packet.extend_from_slice(pattern.at(from, len));
            } else if let Some((flow, ..)) = contents.carries {
                flows[flow].store.gather(pattern, range.clone(), packet);
            }
        });
    }

    /// The engine named an address that the station does not have: the packet is lost, and the engine
    /// is told.
    fn refuse_packet(&mut self, station: usize, path: Path) {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        self.batch.clear();
        let fault = PathFault {
            path,
            error: PathError::Local(NO_SUCH_ADDRESS),
            quoted: &[],
        };
        host.engine.protocol_mut().handle_path_error(now, fault);
        // Later: an engine that tries again for ever must not stop the clock.
        let again = ScheduledEvent::TimerServiceDone { station };
        self.queue.push(self.now_ps + RETRY_PS, 0, again);
    }

    /// The receiver gives a packet to the engine, or a frame to the layer. Returns how long that
    /// takes, ps.
    pub(super) fn parse_packet(&mut self, station: usize) -> u64 {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        let Some(arrived) = host.receiver.pop_front() else {
            return 0;
        };
        let frame = self.frames.get_mut(arrived.tag);
        if let Some(bit) = arrived.corrupt_bit {
            flip_bit(&mut frame.packet, bit);
        }
        let (path, from) = (frame.arrival_path(), frame.from);
        let (octets, contents) = (std::mem::take(&mut frame.packet), frame.contents);
        let before = host.charged_counters();
        if let Some(layer) = &mut host.layer {
            let packets = layer.receive(now, Received::new(path, &octets));
            for (path, packet) in &packets {
                let sender = self.hosts[from].layer.as_ref();
                let own = sender.and_then(|layer| layer.contents_of(packet));
                let packet = Received::new(*path, packet);
                let contents = own.unwrap_or(contents);
                self.handle_packet(station, now, packet, &contents, arrived.at_ps);
            }
            if let Some(layer) = &mut self.hosts[station].layer {
                layer.recycle(packets);
            }
        } else {
            let packet = Received::new(path, &octets);
            self.handle_packet(station, now, packet, &contents, arrived.at_ps);
        }
        let arrival_ps = match arrived.ring_life {
            Some(life) => self.take_from_ring(arrived.tag, station, octets.len(), life),
            None => self.arrival_ps(station, &octets),
        };
        self.frames.get_mut(arrived.tag).packet = octets;
        if let Some(bit) = arrived.corrupt_bit {
            // Other receivers get it undamaged.
            flip_bit(&mut self.frames.get_mut(arrived.tag).packet, bit);
        }
        self.frames.release(arrived.tag);
        let host = &self.hosts[station];
        arrival_ps + host.work_since_ps(before)
    }

    /// Gives a packet to the engine, and what it brought to the users.
    fn handle_packet(
        &mut self,
        station: usize,
        now: Instant,
        packet: Received<'_>,
        contents: &Contents,
        at_ps: u64,
    ) {
        let host = &mut self.hosts[station];
        let engine = host.engine.protocol_mut();
        engine.handle_packet(now, packet, &mut self.deliveries);
        if contents.flow.is_some() && host.engine.as_router().is_some() {
            let arrival = host.engine.protocol().counters().packets_parsed;
            note_forwardable(&mut host.forwardable, arrival, *contents);
        }
        self.keep_blocks(station, packet.octets, contents);
        self.arriving_flow = contents.flow;
        self.drain_events(station, at_ps);
        self.arriving_flow = None;
        self.queue_deliveries(station, packet.octets);
    }

    /// Turns the deliveries of a packet into work for the reader.
    pub(super) fn queue_deliveries(&mut self, station: usize, packet: &[u8]) {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        let mut counted = false;
        for delivery in deliveries.bytes.drain(..) {
            let octets = packet.len() as u64;
            let reassembled;
            let bytes = match &delivery.bytes {
                Bytes::Packet(range) => &packet[range.clone()],
                Bytes::Reassembled(bytes) => {
                    reassembled = bytes;
                    reassembled.as_slice()
                }
            };
            let role = self.hosts[station].circuits.get(&delivery.association);
            let target = match role {
                Some(&Role::Receives { flow, receiver }) => Some((flow, receiver)),
                _ => None,
            };
            let flow = target.map(|(flow, receiver)| (&mut self.flows[flow], receiver));
            let mut job = read_job(&delivery, bytes, flow, &self.pattern);
            job.target = target;
            if let (Some((flow, receiver)), false, true) = (target, counted, job.stream > 0) {
                self.flows[flow].report.receivers[receiver].packet_bytes += octets;
                counted = true;
            }
            self.hosts[station].read_jobs.push(job);
        }
        self.deliveries = deliveries;
    }
}

/// When the sender asks an engine again whose packet could not be sent: 1 us, ps.
const RETRY_PS: u64 = 1_000_000;

/// EADDRNOTAVAIL of Linux, as a wire says it.
const NO_SUCH_ADDRESS: i32 = 99;

/// Arrivals that an engine may still forward, at most: more than a queue of a mebibyte holds.
const FORWARDABLE_MAX: usize = 1 << 16;

fn note_forwardable(forwardable: &mut VecDeque<(u64, Contents)>, arrival: u64, contents: Contents) {
    if forwardable.back().is_some_and(|&(last, _)| last >= arrival) {
        // The station restarted.
        forwardable.clear();
    }
    if forwardable.len() >= FORWARDABLE_MAX {
        forwardable.pop_front();
    }
    forwardable.push_back((arrival, contents));
}

/// What a forwarded arrival carries. Those before it were dropped.
fn forwarded(forwardable: &mut VecDeque<(u64, Contents)>, arrival: u64) -> Contents {
    while let Some(&(known, contents)) = forwardable.front().filter(|(known, _)| *known <= arrival)
    {
        forwardable.pop_front();
        if known == arrival {
            return Contents {
                carries: None,
                ..contents
            };
        }
    }
    Contents::default()
}

/// The reader's work for a delivery.
fn read_job(
    delivery: &Delivery,
    bytes: &[u8],
    target: Option<(&mut Flow, usize)>,
    pattern: &BytePattern,
) -> ReadJob {
    let stream = bytes.len() as u64;
    let (mut user, mut ends) = (stream, u64::from(delivery.end_of_message));
    if let Some((flow, receiver)) = target {
        if flow.notes.is_some() {
            let number = flow.check_labelled(receiver, (delivery, bytes), pattern);
            return read_job_of(delivery, (stream, stream, 0), number);
        }
        flow.check(receiver, bytes, delivery.gap, pattern);
        match flow.framing {
            Framing::Records => (user, ends) = records_in(bytes),
            Framing::Stream => ends = flow.ends_below(receiver, stream),
            Framing::Messages if delivery.end_of_message => flow.check_end(receiver),
            Framing::Messages => {}
        }
    }
    read_job_of(delivery, (stream, user, ends), None)
}

fn read_job_of(
    delivery: &Delivery,
    (stream, user, ends): (u64, u64, u64),
    number: Option<u64>,
) -> ReadJob {
    ReadJob {
        circuit: delivery.association,
        target: None,
        stream,
        user,
        ends,
        number,
        request: None,
    }
}

/// Flips a bit of a frame; bits of the frame around the packet are not modelled.
fn flip_bit(packet: &mut [u8], bit: u64) {
    if let Some(octet) = packet.get_mut((bit / 8) as usize) {
        *octet ^= 1 << (bit % 8);
    }
}
