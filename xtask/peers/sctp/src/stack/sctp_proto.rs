//! Crate sctp-proto, of str0m.

use super::{Label, Order, Packets, Stack};
use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Any address: there is one peer.
const PEER: ([u8; 4], u16) = ([127, 0, 0, 1], 5000);

/// Bytes that a stream may hold before `send` refuses more.
const BUFFERED_MAX: usize = 512 << 10;

/// One end.
pub struct SctpProto {
    started: Instant,
    endpoint: Endpoint,
    association: Option<(AssociationHandle, Association)>,
    packets: VecDeque<Bytes>,
    /// Streams with something to read.
    readable: VecDeque<u16>,
    is_up: bool,
    is_down: bool,
}

impl SctpProto {
    /// An end that listens.
    pub fn new() -> SctpProto {
        let server = Arc::new(ServerConfig::default());
        SctpProto {
            started: Instant::now(),
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), Some(server)),
            association: None,
            packets: VecDeque::new(),
            readable: VecDeque::new(),
            is_up: false,
            is_down: false,
        }
    }

    fn at(&self, now: u64) -> Instant {
        self.started + Duration::from_nanos(now)
    }

    fn collect(&mut self, payload: Payload) {
        if let Payload::RawEncode(packets) = payload {
            self.packets.extend(packets);
        }
    }

    fn drain_events(&mut self) {
        let Some((_, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => self.is_up = true,
                Event::HandshakeFailed { reason } | Event::AssociationLost { reason } => {
                    eprintln!("sctp-proto: {reason}");
                    self.is_down = true;
                }
                Event::Stream(StreamEvent::Readable { id }) => self.readable.push_back(id),
                _ => {}
            }
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let packet = Bytes::copy_from_slice(packet);
        let handled = self
            .endpoint
            .handle(now, SocketAddr::from(PEER), None, None, packet);
        match handled {
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                self.association = Some((handle, association));
            }
            Some((_, DatagramEvent::AssociationEvent(event))) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_event(event);
                }
            }
            None => {}
        }
        self.drain_events();
    }
}

impl Default for SctpProto {
    fn default() -> SctpProto {
        SctpProto::new()
    }
}

impl Stack for SctpProto {
    fn name(&self) -> &'static str {
        "sctp-proto"
    }

    fn connect(&mut self, _now: u64) {
        let opened = self
            .endpoint
            .connect(ClientConfig::default(), SocketAddr::from(PEER));
        self.association = Some(opened.expect("the first association"));
    }

    fn handle_packets(&mut self, now: u64, octets: &[u8], len: usize) {
        for packet in octets.chunks(len) {
            self.handle_packet(self.at(now), packet);
        }
    }

    fn poll_packets(&mut self, now: u64) -> Option<Packets> {
        if self.packets.is_empty() {
            while let Some(transmit) = self.endpoint.poll_transmit() {
                self.collect(transmit.payload);
            }
        }
        let at = self.at(now);
        if self.packets.is_empty()
            && let Some((_, association)) = &mut self.association
            && let Some(transmit) = association.poll_transmit(at)
        {
            self.collect(transmit.payload);
        }
        let octets = self.packets.pop_front()?;
        Some(Packets::one(octets.to_vec()))
    }

    fn handle_timeout(&mut self, now: u64) {
        let at = self.at(now);
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(at);
        }
        self.drain_events();
    }

    fn poll_timeout(&self) -> Option<u64> {
        let (_, association) = self.association.as_ref()?;
        let at = association.poll_timeout()?;
        Some(at.saturating_duration_since(self.started).as_nanos() as u64)
    }

    fn send(&mut self, _now: u64, label: Label, order: Order, bytes: &[u8]) -> bool {
        let Some((_, association)) = &mut self.association else {
            return false;
        };
        let ppid = PayloadProtocolIdentifier::from(label.ppid);
        if association.stream(label.stream).is_err()
            && association.open_stream(label.stream, ppid).is_err()
        {
            return false;
        }
        let Ok(mut stream) = association.stream(label.stream) else {
            return false;
        };
        if stream
            .buffered_amount()
            .is_ok_and(|buffered| buffered > BUFFERED_MAX)
        {
            return false;
        }
        let reliability = match order.is_once() {
            true => ReliabilityType::Rexmit,
            false => ReliabilityType::Reliable,
        };
        stream
            .set_reliability_params(order.is_unordered(), reliability, 0)
            .is_ok()
            && stream.write_with_ppi(bytes, ppid).is_ok()
    }

    fn receive(&mut self, _now: u64, bytes: &mut Vec<u8>) -> Option<Label> {
        let (_, association) = self.association.as_mut()?;
        while let Some(&id) = self.readable.front() {
            let read = association.stream(id).and_then(|mut stream| stream.read());
            let Ok(Some(chunks)) = read else {
                self.readable.pop_front();
                continue;
            };
            let start = bytes.len();
            bytes.resize(start + chunks.len(), 0);
            chunks
                .read(&mut bytes[start..])
                .expect("the length it said");
            return Some(Label {
                stream: id,
                ppid: chunks.ppi as u32,
            });
        }
        None
    }

    fn reset(&mut self, _: u64, _: &[u16]) -> bool {
        // It closes streams one by one, and opens them anew with their next message.
        false
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn is_down(&self) -> bool {
        let closed = self
            .association
            .as_ref()
            .map(|(_, association)| association.is_closed());
        self.is_down || self.is_up && closed.unwrap_or(false)
    }

    fn shutdown(&mut self, _now: u64) {
        if let Some((_, association)) = &mut self.association {
            association.shutdown().expect("an open association");
        }
    }

    fn ends_surely(&self) -> bool {
        // Its SHUTDOWN may wait for an acknowledgement that came before, and its SHUTDOWN-COMPLETE does not
        // always end it.
        false
    }
}
