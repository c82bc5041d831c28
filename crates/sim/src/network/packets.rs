//! Packets between an engine and the medium.

use super::{Network, ScheduledEvent};
use crate::flow::{Flow, records_in};
use crate::host::{GROUP, ReadJob, Role};
use crate::store::BytePattern;
use engine::{Address, Bytes, Delivery, Framing, Path, PathError, PathFault, Received};
use link::EtherDestination;
use std::collections::VecDeque;

impl Network {
    /// The sender asks the engine for a packet. Returns how long that takes, ps.
    pub(super) fn build_packet(&mut self, station: usize) -> u64 {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        let before = host.charged_counters();
        host.batch.clear();
        host.engine
            .protocol_mut()
            .poll_transmit(now, &mut host.batch);
        let (Some(path), Some(built)) = (host.batch.path(), host.batch.packets().first()) else {
            return 0;
        };
        let to = match path.remote {
            GROUP => EtherDestination::All,
            Address::Station(to) => EtherDestination::Station(to as usize),
            Address::Socket(_) | Address::Ether(_) => EtherDestination::Station(usize::MAX),
        };
        let local = path.local.0;
        if usize::from(local) >= self.media.len() {
            return self.refuse_packet(station, path);
        }
        let tag = self.frames.add(station, to, local);
        let frame = self.frames.get_mut(tag);
        let role = host.batch.sender().and_then(|id| host.circuits.get(&id));
        let mut store = None;
        if let Some(&Role::Sends(flow)) = role {
            let first = host.batch.user(built).next();
            frame.flow = Some(flow);
            frame.carries = first.map(|(_, range)| (flow, range.start, range.end));
            store = Some(&self.flows[flow].store);
        } else if let Some(router) = host.engine.as_router() {
            let arrival = router.forwarded_from();
            frame.flow = forwarded_flow(&mut host.forwardable, arrival);
        }
        frame.packet.reserve(built.len());
        host.batch
            .write(built, &mut frame.packet, |_, range, packet| {
                if let Some(store) = store {
                    store.gather(&self.pattern, range.clone(), packet);
                }
            });
        host.built = Some(tag);
        host.work_since_ps(before)
    }

    /// The engine named an address that the station does not have: the packet is lost, and the engine
    /// is told.
    fn refuse_packet(&mut self, station: usize, path: Path) -> u64 {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        host.batch.clear();
        let fault = PathFault {
            path,
            error: PathError::Local(NO_SUCH_ADDRESS),
            quoted: &[],
        };
        host.engine.protocol_mut().handle_path_error(now, fault);
        // Later: an engine that tries again for ever must not stop the clock.
        let again = ScheduledEvent::TimerServiceDone { station };
        self.queue.push(self.now_ps + RETRY_PS, 0, again);
        0
    }

    /// The receiver gives a packet to the engine. Returns how long that takes, ps.
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
        let path = frame.arrival_path();
        let before = host.charged_counters();
        let deliveries = &mut host.deliveries;
        let packet = Received::new(path, &frame.packet);
        host.engine
            .protocol_mut()
            .handle_packet(now, packet, deliveries);
        let service = host.cost.interrupt_ps + host.work_since_ps(before);
        self.arriving_flow = self.frames.get(arrived.tag).flow;
        if let (Some(flow), Some(_)) = (self.arriving_flow, host.engine.as_router()) {
            let arrival = host.engine.protocol().counters().packets_parsed;
            note_forwardable(&mut host.forwardable, arrival, flow);
        }
        self.drain_events(station, arrived.at_ps);
        self.arriving_flow = None;
        self.queue_deliveries(station, arrived.tag);
        if let Some(bit) = arrived.corrupt_bit {
            // Other receivers get it undamaged.
            flip_bit(&mut self.frames.get_mut(arrived.tag).packet, bit);
        }
        self.frames.release(arrived.tag);
        service
    }

    /// Turns the deliveries of a packet into work for the reader.
    pub(super) fn queue_deliveries(&mut self, station: usize, tag: u64) {
        let mut deliveries = std::mem::take(&mut self.hosts[station].deliveries);
        let mut counted = false;
        for delivery in deliveries.bytes.drain(..) {
            let packet = &self.frames.get(tag).packet;
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
        self.hosts[station].deliveries = deliveries;
    }
}

/// When the sender asks an engine again whose packet could not be sent: 1 us, ps.
const RETRY_PS: u64 = 1_000_000;

/// EADDRNOTAVAIL of Linux, as a wire says it.
const NO_SUCH_ADDRESS: i32 = 99;

/// Arrivals that an engine may still forward, at most: more than a queue of a mebibyte holds.
const FORWARDABLE_MAX: usize = 1 << 16;

fn note_forwardable(forwardable: &mut VecDeque<(u64, usize)>, arrival: u64, flow: usize) {
    if forwardable.back().is_some_and(|&(last, _)| last >= arrival) {
        // The station restarted.
        forwardable.clear();
    }
    if forwardable.len() >= FORWARDABLE_MAX {
        forwardable.pop_front();
    }
    forwardable.push_back((arrival, flow));
}

/// The flow of a forwarded arrival. Those before it were dropped.
fn forwarded_flow(forwardable: &mut VecDeque<(u64, usize)>, arrival: u64) -> Option<usize> {
    while let Some(&(known, flow)) = forwardable.front().filter(|(known, _)| *known <= arrival) {
        forwardable.pop_front();
        if known == arrival {
            return Some(flow);
        }
    }
    None
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
        flow.check(receiver, bytes, delivery.gap, pattern);
        match flow.framing {
            Framing::Records => (user, ends) = records_in(bytes),
            Framing::Stream => ends = flow.ends_below(receiver, stream),
            Framing::Messages if delivery.end_of_message => flow.check_end(receiver),
            Framing::Messages => {}
        }
    }
    ReadJob {
        circuit: delivery.association,
        target: None,
        stream,
        user,
        ends,
    }
}

/// Flips a bit of a frame; bits of the frame around the packet are not modelled.
fn flip_bit(packet: &mut [u8], bit: u64) {
    if let Some(octet) = packet.get_mut((bit / 8) as usize) {
        *octet ^= 1 << (bit % 8);
    }
}
