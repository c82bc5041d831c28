//! Crate dcsctp, by the authors of WebRTC's dcSCTP.

use super::{Label, Order, Packets, Stack};
use dcsctp::api::{
    DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime,
    StreamId, ZeroChecksumAlternateErrorDetectionMethod,
};
use std::collections::VecDeque;
use std::time::Duration;

/// One end.
pub struct Dcsctp {
    socket: Box<dyn DcSctpSocket>,
    packets: VecDeque<Vec<u8>>,
    is_up: bool,
    is_down: bool,
}

impl Dcsctp {
    /// An end that accepts packets without a checksum if `zero_checksum` is the method that the peer
    /// names too (RFC 9653); 0 for none.
    pub fn new(mtu: usize, zero_checksum: u32) -> Dcsctp {
        let options = Options {
            mtu,
            zero_checksum_alternate_error_detection_method:
                ZeroChecksumAlternateErrorDetectionMethod(zero_checksum),
            ..Options::default()
        };
        Dcsctp::with(&options)
    }

    /// An end that interleaves messages if its peer does (RFC 8260).
    pub fn interleaving(mtu: usize) -> Dcsctp {
        Dcsctp::with(&Options {
            mtu,
            enable_message_interleaving: true,
            ..Options::default()
        })
    }

    fn with(options: &Options) -> Dcsctp {
        Dcsctp {
            socket: dcsctp::new_socket("peer", options),
            packets: VecDeque::new(),
            is_up: false,
            is_down: false,
        }
    }

    fn advance(&mut self, now: u64) {
        let now = SocketTime::zero() + Duration::from_nanos(now);
        self.socket.advance_time(now);
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.socket.poll_event() {
            match event {
                SocketEvent::SendPacket(packet) => self.packets.push_back(packet),
                SocketEvent::OnConnected() => self.is_up = true,
                SocketEvent::OnClosed() => self.is_down = true,
                SocketEvent::OnAborted(kind, why) => {
                    eprintln!("dcsctp aborted: {kind:?}: {why}");
                    self.is_down = true;
                }
                SocketEvent::OnError(kind, why) => eprintln!("dcsctp: {kind:?}: {why}"),
                _ => {}
            }
        }
    }
}

impl Stack for Dcsctp {
    fn name(&self) -> &'static str {
        "dcsctp"
    }

    fn connect(&mut self, now: u64) {
        self.advance(now);
        self.socket.connect();
    }

    fn handle_packets(&mut self, now: u64, octets: &[u8], len: usize) {
        self.advance(now);
        for packet in octets.chunks(len) {
            self.socket.handle_input(packet);
        }
    }

    fn poll_packets(&mut self, _now: u64) -> Option<Packets> {
        if self.packets.is_empty() {
            self.drain_events();
        }
        self.packets.pop_front().map(Packets::one)
    }

    fn handle_timeout(&mut self, now: u64) {
        self.advance(now);
    }

    fn poll_timeout(&self) -> Option<u64> {
        let at = self.socket.poll_timeout();
        let is_set = at < SocketTime::infinite_future();
        is_set.then(|| (at - SocketTime::zero()).as_nanos() as u64)
    }

    fn send(&mut self, now: u64, label: Label, order: Order, bytes: &[u8]) -> bool {
        self.advance(now);
        let options = SendOptions {
            unordered: order.is_unordered(),
            max_retransmissions: order.is_once().then_some(0),
            ..SendOptions::default()
        };
        let message = Message::new(StreamId(label.stream), PpId(label.ppid), bytes.to_vec());
        self.socket.send(message, &options).is_ok()
    }

    fn receive(&mut self, _now: u64, bytes: &mut Vec<u8>) -> Option<Label> {
        let message = self.socket.get_next_message()?;
        bytes.extend_from_slice(&message.payload);
        Some(Label {
            stream: message.stream_id.0,
            ppid: message.ppid.0,
        })
    }

    fn reset(&mut self, now: u64, streams: &[u16]) -> bool {
        self.advance(now);
        let streams: Vec<StreamId> = streams.iter().map(|stream| StreamId(*stream)).collect();
        self.socket.reset_streams(&streams).is_ok()
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn is_down(&self) -> bool {
        self.is_down || self.is_up && self.socket.state() == SocketState::Closed
    }

    fn shutdown(&mut self, now: u64) {
        self.advance(now);
        self.socket.shutdown();
    }

    fn ends_surely(&self) -> bool {
        true
    }
}
