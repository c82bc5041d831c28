//! engine-sctp under the pump of crate `driver`, as on every host.

use super::{Label, Order, Packets, Stack};
use driver::pump::Pump;
use driver::receive_queue::MessageReader;
use driver::sys::{Producer, ring};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Ecn, Fragmentation, Instant, Note, Path,
    Reliability,
};
use engine_sctp::numbers::StreamId;
use engine_sctp::{Sctp, SctpConfig, StreamDirection};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use wire::{Arrival, Capabilities, MemoryMedium, MemoryWire};

/// Octets of the send store, as in races.
const STORE_LEN: usize = 512 << 10;

/// Longest message of a test.
const MESSAGE_MAX: usize = 256 << 10;

/// Octets of a batch and of an arrival, as over UDP.
const BATCH_LEN: usize = 65_507;

/// One end.
pub struct Ours {
    pump: Pump<Sctp, MemoryWire<Kept>>,
    sent: Sent,
    id: Option<AssociationId>,
    producer: Option<Producer>,
    reader: MessageReader,
    buffer: Vec<u8>,
}

impl Ours {
    /// An end that listens.
    pub fn new(config: SctpConfig) -> Ours {
        let framing = config.framing;
        let sent = Sent::default();
        let wire = MemoryWire(Kept(Rc::clone(&sent)));
        let mut pump = Pump::new(Sctp::new(config), wire);
        pump.engine().listen(true);
        Ours {
            pump,
            sent,
            id: None,
            producer: None,
            reader: MessageReader::new(framing),
            buffer: vec![0; MESSAGE_MAX],
        }
    }

    fn attach(&mut self, id: AssociationId) {
        let layout = self.pump.engine().layout(Some(id));
        let (producer, consumer) = ring(layout, STORE_LEN);
        self.pump.attach(id, consumer);
        self.producer = Some(producer);
        self.id = Some(id);
    }

    fn flush(&mut self, now: Instant) {
        let flushed = self.pump.flush(now);
        flushed.expect("a wire of memory does not fail");
    }

    fn accept(&mut self) {
        if self.id.is_none()
            && let Some((id, _)) = self.pump.accept()
        {
            self.attach(id);
        }
    }
}

fn at(now: u64) -> Instant {
    Instant::from_nanos(now)
}

impl Stack for Ours {
    fn name(&self) -> &'static str {
        "engine-sctp"
    }

    fn connect(&mut self, now: u64) {
        let peer = [Address::Station(1)];
        let id = self.pump.engine().connect(at(now), &peer);
        self.attach(id.expect("the first association"));
        self.flush(at(now));
    }

    fn handle_packets(&mut self, now: u64, octets: &[u8], len: usize) {
        let mut buffer = self.pump.take_receive_buffer();
        buffer[..octets.len()].copy_from_slice(octets);
        let arrival = Arrival {
            path: Path::to(Address::Station(1)),
            ecn: Ecn::NotEct,
            len: octets.len(),
            segment_size: len,
        };
        let handled = self.pump.handle_arrival(at(now), buffer, Ok(arrival));
        handled.expect("a wire of memory does not fail");
        self.accept();
        self.flush(at(now));
    }

    fn poll_packets(&mut self, now: u64) -> Option<Packets> {
        if self.sent.borrow().is_empty() {
            if let Some(id) = self.id {
                self.pump.submit_pending(at(now), id, true);
            }
            self.flush(at(now));
        }
        self.sent.borrow_mut().pop_front()
    }

    fn handle_timeout(&mut self, now: u64) {
        self.pump.handle_timeout(at(now));
        self.flush(at(now));
    }

    fn poll_timeout(&self) -> Option<u64> {
        self.pump.poll_timeout().map(Instant::as_nanos)
    }

    fn send(&mut self, _now: u64, label: Label, order: Order, bytes: &[u8]) -> bool {
        let note = Note {
            stream: label.stream,
            tag: (label.ppid != 0).then_some(u64::from(label.ppid)),
            unordered: order.is_unordered(),
            reliability: match order.is_once() {
                true => Reliability::Retransmissions(0),
                false => Reliability::Full,
            },
            ..Note::default()
        };
        let Some(producer) = &mut self.producer else {
            return false;
        };
        match note.is_plain() {
            true => producer.append_message(bytes),
            false => producer.append_noted([&[], bytes, &[]], note),
        }
    }

    fn receive(&mut self, now: u64, bytes: &mut Vec<u8>) -> Option<Label> {
        let id = self.id?;
        loop {
            if let Some(part) = self.reader.next_part(&mut self.buffer) {
                assert!(part.end, "a message of at most {MESSAGE_MAX} bytes");
                bytes.extend_from_slice(&self.buffer[..part.len]);
                return Some(Label {
                    stream: part.note.stream,
                    ppid: part.note.tag.unwrap_or(0) as u32,
                });
            }
            if let Some(consumed) = self.reader.take_consumed() {
                self.pump.consume(at(now), id, consumed);
            }
            match self.pump.pop_chunk(id) {
                Some(chunk) => self.reader.put(chunk),
                None => return None,
            }
        }
    }

    fn reset(&mut self, now: u64, streams: &[u16]) -> bool {
        let Some(id) = self.id else {
            return false;
        };
        let streams: Vec<StreamId> = streams.iter().map(|stream| StreamId(*stream)).collect();
        let engine = self.pump.engine();
        let asked = engine.reset_streams(at(now), id, StreamDirection::Outgoing, &streams);
        self.flush(at(now));
        asked.is_ok()
    }

    fn is_up(&self) -> bool {
        // An end that listens has a circuit once the association is open.
        self.id.is_some_and(|id| self.pump.status(id).connected)
    }

    fn is_down(&self) -> bool {
        let closed = self.id.map(|id| self.pump.status(id).closed.is_some());
        closed.unwrap_or(false)
    }

    fn shutdown(&mut self, now: u64) {
        if let Some(id) = self.id {
            self.pump.submit_pending(at(now), id, true);
            self.pump.engine().finish(at(now), id);
            self.flush(at(now));
        }
    }

    fn ends_surely(&self) -> bool {
        true
    }
}

/// What a wire was given to send.
type Sent = Rc<RefCell<VecDeque<Packets>>>;

/// Keeps what was sent. What arrives goes to the pump directly.
struct Kept(Sent);

impl MemoryMedium for Kept {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: BATCH_LEN,
            segments_max: 64,
            batch_bytes_max: BATCH_LEN,
            receive_len: 1 << 16,
        }
    }

    fn send(&mut self, _: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let mut octets = Vec::with_capacity(BATCH_LEN);
        slices
            .iter()
            .for_each(|slice| octets.extend_from_slice(slice));
        self.0.borrow_mut().push_back(Packets {
            octets,
            len: segment_size,
        });
        Ok(())
    }

    fn take(&mut self) -> Option<(Path, Vec<u8>, usize)> {
        None
    }

    fn set_fragmentation(&mut self, _: Fragmentation) {}
}
