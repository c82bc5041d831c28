//! A test protocol that sends what it is told to, and notes what it hears.

use engine::{
    Batch, Counters, Deliveries, Ecn, Event, Framing, Instant, NoteFields, Path, PathError,
    PathFault, Properties, Protocol, Received, Router,
};
use std::collections::VecDeque;
use std::time::Duration;

/// A protocol of packets that mean nothing.
#[derive(Default)]
pub struct Postman {
    /// What is to be sent, oldest first.
    pub outgoing: VecDeque<(Path, Vec<u8>)>,
    /// What came.
    pub received: Vec<(Path, Ecn, Vec<u8>)>,
    /// What paths said.
    pub faults: Vec<(Path, PathError)>,
    /// Sends by this path what another did not take.
    pub detour: Option<Path>,
    /// Panics at the next packet.
    pub panics: bool,
}

impl Protocol for Postman {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: 1472,
            packet_len: None,
            framing: Framing::Messages,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::ZERO,
        }
    }

    fn handle_packet(&mut self, _: Instant, packet: Received<'_>, _: &mut Deliveries) {
        assert!(!self.panics, "a packet came");
        let octets = packet.octets.to_vec();
        self.received.push((packet.path, packet.ecn, octets));
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn handle_path_error(&mut self, _: Instant, fault: PathFault<'_>) {
        self.faults.push((fault.path, fault.error));
        if let Some(detour) = self.detour {
            self.outgoing
                .push_back((detour, b"by another path".to_vec()));
        }
    }

    fn poll_transmit(&mut self, _: Instant, batch: &mut Batch) {
        if let Some((path, octets)) = self.outgoing.pop_front() {
            batch.set_path(path, None);
            batch.push_own(&octets);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

impl Router for Postman {
    fn forwarded_from(&self) -> u64 {
        0
    }

    fn supports_cut_through(&self, _: Path, _: &[u8]) -> bool {
        false
    }
}
