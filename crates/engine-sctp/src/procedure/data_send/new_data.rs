//! Chunks that are cut and sent for the first time.

use super::{Sender, Sent, add};
use crate::association::Association;
use crate::endpoint_state::EndpointState;
use crate::path::TimedChunk;
use crate::pdu::data::FLAG_END;
use crate::tx::{Cut, OutChunk, Run};
use engine::{PacketBuilder, Store};

/// Octets that may be in flight on path `path` after what leaves now.
pub(in crate::procedure) fn window(a: &Association, ep: &EndpointState, path: usize) -> u64 {
    let window = a.paths[path].control.window();
    let burst = u64::from(ep.config.max_burst) * a.pmdcs() as u64;
    match burst {
        0 => window,
        burst => window.min(a.paths[path].flight + burst),
    }
}

impl Sender<'_> {
    /// Adds chunks of whole messages without a note to `packet`, of which `left` octets are left, as long as they
    /// fit and may be sent. Nearly all messages are such: what holds for all chunks of a packet is asked once.
    /// Whatever is next is for [`Sender::next`] to find.
    pub(super) fn send_whole(&mut self, packet: &mut PacketBuilder<'_>, left: &mut usize) {
        // Both know of positions in the store.
        if !self.a.reconfig.is_idle() || !self.a.tx.tracked.is_empty() {
            return;
        }
        let store = Store::Association(self.a.id);
        while self.a.tx.messages.has_uncut() && self.a.paths[self.path].flight < self.window {
            // A chunk that is timed is sent by itself.
            if self.a.paths[self.path].timed.is_some() {
                self.send_run(packet, left);
            }
            let room = self.a.tx.rwnd.min(*left as u64) as usize;
            let Some(cut) = self.a.tx.messages.cut_whole(room) else {
                break;
            };
            let sent = self.send_cut(cut);
            *left -= sent.2;
            add(packet, store, sent);
        }
    }

    /// Sends as much of what [`Sender::send_whole`] sends as is alike in all but its length.
    fn send_run(&mut self, packet: &mut PacketBuilder<'_>, left: &mut usize) {
        let store = Store::Association(self.a.id);
        let mut run = Run {
            left: *left as u64,
            window: self.window,
            request: self.ack_request(),
            path: self.path as u8,
            flight: self.a.paths[self.path].flight,
            octets: 0,
            bytes: 0,
        };
        self.a.tx.send_run(&mut run, |header, range, padding| {
            packet.add_joined(&header.to_be_bytes());
            packet.add_user(store, range);
            packet.add_own(&[0; 3][..padding]);
        });
        *left = run.left as usize;
        let path = &mut self.a.paths[self.path];
        path.flight = run.flight;
        path.sent += run.octets;
        self.ep.counters.bytes_sent += run.bytes;
    }

    /// Cuts and sends a new chunk.
    pub(super) fn send_new(&mut self, left: usize) -> Option<Sent> {
        let payload = self.payload();
        let mut cut = self.a.tx.messages.cut(left, payload)?;
        if let Some(tracked) = cut.tracked.take() {
            self.a.tx.tracked.insert(tracked.range.start, *tracked);
        }
        if cut.flags & FLAG_END != 0 && !self.a.tx.tracked.is_empty() {
            self.a.tx.end_tracked(cut.range.end);
        }
        Some(self.send_cut(cut))
    }

    /// Sends a chunk that was cut.
    fn send_cut(&mut self, cut: Cut) -> Sent {
        let tsn = self.a.tx.outstanding.next();
        let chunk = OutChunk::new(&cut, tsn, self.path, self.header_len());
        let octets = chunk.octets();
        self.a.tx.probes_window = false;
        self.account(octets as u64, u64::from(chunk.len));
        let path = &mut self.a.paths[self.path];
        if path.timed.is_none() {
            let app_limited = self.a.tx.messages.unsent() == 0;
            path.timed = Some(TimedChunk {
                tsn,
                is_acked: false,
                sent_at: self.now,
                packet: path.control.packet_state(self.now, path.sent, app_limited),
            });
        }
        let has_more = self.a.tx.messages.unsent() > 0;
        let request = self.ack_request();
        let (flight, tx) = (self.a.paths[self.path].flight, &mut self.a.tx);
        let asks = request.flag((flight, tx.rwnd), &mut tx.unasked, has_more);
        let header = chunk.header(tsn, asks);
        tx.outstanding.push(chunk);
        (header, cut.range, octets)
    }
}
