//! Packets between an engine and the medium.

use super::Network;
use crate::flow::{Flow, records_in};
use crate::host::{GROUP, Reading, Role};
use crate::store::Pattern;
use engine::{Address, Bytes, Delivery, Engine, Framing};
use link::EtherTo;
use std::collections::VecDeque;

impl<E: Engine> Network<E> {
    /// The sender asks the engine for a packet.
    pub(super) fn build(&mut self, station: usize) -> u64 {
        let host = &mut self.hosts[station];
        let now = host.clock(self.now_ps);
        let before = host.counted();
        host.batch.clear();
        host.engine.poll_transmit(now, &mut host.batch);
        let Some((circuit, destination)) = host.batch.destination() else {
            return 0;
        };
        if host.batch.is_empty() {
            return 0;
        }
        let to = match destination {
            GROUP => EtherTo::All,
            Address::Station(to) => EtherTo::Station(to as usize),
            Address::Socket(_) | Address::Ether(_) => EtherTo::Station(usize::MAX),
        };
        let tag = self.frames.add(station, to);
        self.scratch.clear();
        let payload = host.batch.segments()[0].payload.clone();
        if let Some(&Role::Sends(flow)) = host.circuits.get(&circuit) {
            let frame = self.frames.get_mut(tag);
            frame.flow = Some(flow);
            if payload.end > payload.start {
                let store = &self.flows[flow].store;
                store.gather(&self.pattern, payload.clone(), &mut self.scratch);
                frame.carries = Some((flow, payload.start, payload.end));
            }
        } else if let Some(arrival) = host.engine.forwarded_from() {
            self.frames.get_mut(tag).flow = passed(&mut host.passing, arrival);
        }
        let sum = &self.scratch;
        host.batch.extend_checksums(|_| engine::checksum::sum(sum));
        let packet = &mut self.frames.get_mut(tag).packet;
        packet.reserve(host.engine.layout().header + self.scratch.len());
        let segment = &host.batch.segments()[0];
        let scratch = &self.scratch;
        host.batch
            .write(segment, packet, |_, out| out.extend_from_slice(scratch));
        host.built = Some(tag);
        host.worked(before)
    }

    /// The receiver gives a packet to the engine.
    pub(super) fn parse(&mut self, station: usize) -> u64 {
        let host = &mut self.hosts[station];
        let now = host.clock(self.now_ps);
        let Some(arrived) = host.receiver.pop_front() else {
            return 0;
        };
        let frame = self.frames.get_mut(arrived.tag);
        if let Some(bit) = arrived.corrupt_bit {
            damage(&mut frame.packet, bit);
        }
        let from = Address::Station(frame.from as u32);
        let before = host.counted();
        let deliveries = &mut host.deliveries;
        host.engine
            .handle_packet(now, from, &frame.packet, deliveries);
        let service = host.cost.interrupt_ps + host.worked(before);
        self.arriving = self.frames.get(arrived.tag).flow;
        if let (Some(flow), Some(_)) = (self.arriving, host.engine.forwarded_from()) {
            let arrival = host.engine.counters().packets_parsed;
            note_passing(&mut host.passing, arrival, flow);
        }
        self.drain_events(station, arrived.at_ps);
        self.arriving = None;
        self.sort_deliveries(station, arrived.tag);
        if let Some(bit) = arrived.corrupt_bit {
            // Other receivers got it whole.
            damage(&mut self.frames.get_mut(arrived.tag).packet, bit);
        }
        self.frames.release(arrived.tag);
        service
    }

    /// Turns the deliveries of a packet into work for the reader.
    pub(super) fn sort_deliveries(&mut self, station: usize, tag: u64) {
        let mut deliveries = std::mem::take(&mut self.hosts[station].deliveries);
        let mut counted = false;
        for delivery in deliveries.drain(..) {
            let packet = &self.frames.get(tag).packet;
            let octets = packet.len() as u64;
            let held;
            let bytes = match &delivery.bytes {
                Bytes::Packet(range) => &packet[range.clone()],
                Bytes::Reassembled(bytes) => {
                    held = bytes;
                    held.as_slice()
                }
            };
            let role = self.hosts[station].circuits.get(&delivery.association);
            let of = match role {
                Some(&Role::Receives { flow, place }) => Some((flow, place)),
                _ => None,
            };
            let flow = of.map(|(flow, place)| (&mut self.flows[flow], place));
            let mut reading = read(&delivery, bytes, flow, &self.pattern);
            reading.of = of;
            if let (Some((flow, place)), false, true) = (of, counted, reading.stream > 0) {
                self.flows[flow].report.receivers[place].packet_bytes += octets;
                counted = true;
            }
            self.hosts[station].found.push(reading);
        }
        self.hosts[station].deliveries = deliveries;
    }
}

/// Arrivals an engine may still pass on, at most: more than a queue of a mebibyte holds.
const PASSING_MAX: usize = 1 << 16;

fn note_passing(passing: &mut VecDeque<(u64, usize)>, arrival: u64, flow: usize) {
    if passing.back().is_some_and(|&(last, _)| last >= arrival) {
        // The station began anew.
        passing.clear();
    }
    if passing.len() >= PASSING_MAX {
        passing.pop_front();
    }
    passing.push_back((arrival, flow));
}

/// The flow of an arrival that is passed on. Those before it were dropped.
fn passed(passing: &mut VecDeque<(u64, usize)>, arrival: u64) -> Option<usize> {
    while let Some(&(known, flow)) = passing.front().filter(|(known, _)| *known <= arrival) {
        passing.pop_front();
        if known == arrival {
            return Some(flow);
        }
    }
    None
}

/// What a delivery means to the reader.
fn read(
    delivery: &Delivery,
    bytes: &[u8],
    of: Option<(&mut Flow, usize)>,
    pattern: &Pattern,
) -> Reading {
    let stream = bytes.len() as u64;
    let (mut user, mut ends) = (stream, u64::from(delivery.end));
    if let Some((flow, place)) = of {
        flow.check(place, bytes, delivery.gap, pattern);
        match flow.framing {
            Framing::Records => (user, ends) = records_in(bytes),
            Framing::Stream => ends = flow.ends_below(place, stream),
            Framing::Messages if delivery.end => flow.check_end(place),
            Framing::Messages => {}
        }
    }
    Reading {
        circuit: delivery.association,
        of: None,
        stream,
        user,
        ends,
    }
}

/// Turns a bit of a frame over; bits of the frame around the packet are not kept.
fn damage(packet: &mut [u8], bit: u64) {
    if let Some(octet) = packet.get_mut((bit / 8) as usize) {
        *octet ^= 1 << (bit % 8);
    }
}
