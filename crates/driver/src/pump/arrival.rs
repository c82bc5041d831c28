//! From the wire through the engine to the receive queues.

use super::{Pump, recycle};
use crate::demultiplex::{demultiplex, demultiplex_whole};
use engine::{Associations, Ecn, Instant, Path, Received};
use std::io;
use wire::{Arrival, Wire};

impl<E: Associations, W: Wire> Pump<E, W> {
    /// Receives one arrival; false when there was none.
    /// Errors are those of the wire itself; those of a path are counted.
    pub fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let mut buffer = self.take_receive_buffer();
        let arrival = self.wire.wire_mut().receive(&mut buffer);
        self.handle_arrival(now, buffer, arrival)
    }

    /// A buffer to receive into, for [`handle_arrival`](Pump::handle_arrival).
    pub fn take_receive_buffer(&mut self) -> Vec<u8> {
        let spare = self.spare_buffers.pop();
        spare.unwrap_or_else(|| vec![0; self.receive_len])
    }

    /// Handles what was received into `buffer`; false when it was nothing.
    /// Errors are those of the wire itself; those of a path are counted.
    pub fn handle_arrival(
        &mut self,
        now: Instant,
        buffer: Vec<u8>,
        arrival: io::Result<Arrival>,
    ) -> io::Result<bool> {
        // Also what is no packet may tell of a path.
        self.settled_at = None;
        self.last_at = now;
        let Some(arrival) = self.wire.check(arrival)? else {
            recycle(&mut self.spare_buffers, buffer);
            return Ok(false);
        };
        self.arrivals += 1;
        if self.layer.is_some() {
            self.handle_frames(now, buffer, &arrival);
        } else {
            self.handle_datagrams(now, buffer, &arrival);
        }
        self.drain_events(now);
        self.publish_changes();
        Ok(true)
    }

    /// Gives the frames of an arrival to the layer. Each packet that is whole now is an arrival of
    /// its own.
    fn handle_frames(&mut self, now: Instant, buffer: Vec<u8>, arrival: &Arrival) {
        let Some(port) = &mut self.layer else {
            return;
        };
        let octets = &buffer[..arrival.len.min(buffer.len())];
        let mut packets = port.receive(now, arrival, octets);
        recycle(&mut self.spare_buffers, buffer);
        for (path, packet) in packets.drain(..) {
            self.handle_packets(now, (path, arrival.ecn), &packet, packet.len());
            let len = packet.len();
            self.queue_deliveries(now, packet, len);
        }
        if let Some(port) = &mut self.layer {
            port.recycle(packets);
        }
    }

    /// Handles an arrival that is one or more packets.
    #[inline]
    fn handle_datagrams(&mut self, now: Instant, buffer: Vec<u8>, arrival: &Arrival) {
        let octets = &buffer[..arrival.len.min(buffer.len())];
        if octets.len() > arrival.segment_size || octets.len() >= self.receive_len / 2 {
            let from = (arrival.path, arrival.ecn);
            self.handle_packets(now, from, octets, arrival.segment_size);
            return self.queue_deliveries(now, buffer, arrival.len);
        }
        self.handle_packet(now, arrival, octets);
        self.queue_short(now, octets);
        self.recycle_arrival(buffer);
    }

    /// Gives an arrival that is one packet to the engine.
    #[inline]
    pub(super) fn handle_packet(&mut self, now: Instant, arrival: &Arrival, octets: &[u8]) {
        let received = Received {
            path: arrival.path,
            ecn: arrival.ecn,
            octets,
        };
        self.engine
            .handle_packet(now, received, &mut self.deliveries);
    }

    /// Gives the packets of an arrival to the engine and demultiplexes the deliveries.
    fn handle_packets(
        &mut self,
        now: Instant,
        (path, ecn): (Path, Ecn),
        octets: &[u8],
        segment_size: usize,
    ) {
        let segment_size = segment_size.max(1);
        let whole = octets.len() / segment_size;
        // Built once: copying a structure whose fields were just written stalls on store forwarding.
        let mut received = Received {
            path,
            ecn,
            octets: &[],
        };
        let mut start = 0;
        for (index, packet) in octets.chunks(segment_size).enumerate() {
            received.octets = packet;
            self.engine
                .handle_packet(now, received, &mut self.deliveries);
            let more = whole - index;
            if let Some(messages) = &mut self.deliveries.whole {
                demultiplex_whole(&mut self.by_circuit, &mut self.spare_lists, messages, start);
            }
            for delivery in self.deliveries.bytes.drain(..) {
                demultiplex(
                    &mut self.by_circuit,
                    &mut self.spare_lists,
                    delivery,
                    start,
                    more,
                );
            }
            start += packet.len();
        }
    }
}
