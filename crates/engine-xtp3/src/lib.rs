//! XTP as the study of D'Cruz (1992) simulated it: versions 3.3 and 3.5, reduced to what the study
//! describes, behind the contract of associations.
//!
//! This is not crate `engine-xtp`: formats, lengths and the multicast of 3.x differ, and the
//! study's sender waits for a status where 4.0 goes on sending. It runs in the same simulator, host
//! and medium as every other engine.
//!
//! Implemented: messages segmented into packets that fit an Ethernet frame; a status request on the
//! last packet of a message, and on the first of a long one, answered by a control packet; waiting
//! for that control packet; go-back-n when bytes are missing; flow control by `alloc`, bursts by
//! `credit`, the wait timer and the context timer; in a group, requests in control packets of their
//! own, control packets to the whole group with slotting and damping, and the sender's buckets.
//! Associations need no set-up packets: the study's initialisation process makes both ends.
//!
//! Not implemented: resend pairs are carried but empty, since the study has no errors.
#![forbid(unsafe_code)]

mod config;
mod packet;
mod receiver;
mod sender;
mod transmit;

pub use config::{Multicast, PACKET_MAX, PAIRS_LEN, Revision, Xtp3Config};
pub use packet::{ControlSegment, PacketFormat, Xtp3Header, options};

use core::time::Duration;
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, CloseReason, CommandError, Counters,
    Deliveries, Delivery, Event, Framing, Instant, Layout, Note, NoteFields, PathFault, Properties,
    Protocol, Received, SendFlags, SplitMix64, Status,
};
use receiver::ReceiverState;
use sender::SenderState;
use std::collections::{BTreeMap, VecDeque};

/// Associations of an endpoint at most; each takes some 300 bytes.
const ASSOCIATIONS_MAX: usize = 65_536;

/// An endpoint of the study's XTP.
#[derive(Debug)]
pub struct Xtp3 {
    config: Xtp3Config,
    associations: Vec<Association>,
    /// Associations by the peer's address and key, or by our own key.
    accepted: BTreeMap<(Address, u32), usize>,
    opened: BTreeMap<u32, usize>,
    /// Associations that may have something to send, served in turn.
    ready: VecDeque<usize>,
    events: VecDeque<Event>,
    counters: Counters,
    random: SplitMix64,
    listening: bool,
    /// Whether the configuration needs timers; the study's own runs do not.
    has_timers: bool,
}

#[derive(Debug)]
enum Association {
    Sender(Box<SenderState>),
    Receiver(ReceiverState),
    Closed,
}

impl Xtp3 {
    /// An endpoint without associations.
    pub fn new(config: Xtp3Config) -> Xtp3 {
        Xtp3 {
            config,
            associations: Vec::new(),
            accepted: BTreeMap::new(),
            opened: BTreeMap::new(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            random: SplitMix64::new(config.seed),
            listening: false,
            has_timers: config.credit.is_some()
                || config.wtimer.is_some()
                || config.ctimer.is_some()
                || config.multicast.is_some_and(|group| group.is_timed()),
        }
    }

    fn add(&mut self, circuit: Association) -> Result<usize, CommandError> {
        if self.associations.len() >= ASSOCIATIONS_MAX {
            return Err(CommandError::TooManyAssociations);
        }
        self.associations.push(circuit);
        Ok(self.associations.len() - 1)
    }

    fn sending(&mut self, circuit: AssociationId) -> Option<&mut SenderState> {
        match self.associations.get_mut(circuit.0 as usize)? {
            Association::Sender(sending) => Some(sending),
            _ => None,
        }
    }

    fn multi(&self, in_group: bool) -> u16 {
        if in_group { options::MULTI } else { 0 }
    }

    fn dispatch(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Option<()> {
        let (header, control) = Xtp3Header::parse(&self.config, packet)?;
        self.counters.bytes_summed += match control {
            None => self.config.revision.header_len() as u64,
            Some(_) => packet.len() as u64,
        };
        match control {
            Some(control) if header.has(options::RTN) => self.handle_control(&header, &control),
            _ => self.handle_forward(now, from, &header, packet, deliveries),
        }
    }

    /// Handles a control packet from a receiver.
    fn handle_control(&mut self, header: &Xtp3Header, control: &ControlSegment) -> Option<()> {
        let Some(&index) = self.opened.get(&header.key) else {
            // Control packets of a group reach its other receivers too.
            return self.overhear(header, control);
        };
        let Association::Sender(sending) = &mut self.associations[index] else {
            return None;
        };
        let before = sending.acknowledged;
        if sending.handle_status(control) {
            let released = before..sending.acknowledged;
            let released = Event::Released(AssociationId(index as u32), released);
            self.events.push_back(released);
        }
        if sending.finishing && sending.is_done() {
            self.terminate(index, CloseReason::Graceful);
        }
        self.ready.push_back(index);
        Some(())
    }

    fn overhear(&mut self, header: &Xtp3Header, control: &ControlSegment) -> Option<()> {
        let damps = self.config.multicast?.damping;
        for circuit in &mut self.associations {
            if let Association::Receiver(receiving) = circuit
                && damps
                && receiving.key == header.key
            {
                receiving.overhear(control);
            }
        }
        header.has(options::MULTI).then_some(())
    }

    /// Handles data, or a sender's control packet.
    fn handle_forward(
        &mut self,
        now: Instant,
        from: Address,
        header: &Xtp3Header,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Option<()> {
        let index = self.find_or_accept(from, header)?;
        let header_len = self.config.revision.header_len();
        let alloc = u64::from(self.config.alloc);
        let Association::Receiver(receiving) = &mut self.associations[index] else {
            return None;
        };
        let start = packet::unwrap(header.seq, receiving.rseq);
        let mut bytes = header_len..header_len;
        let mut end = start;
        if header.format == PacketFormat::Data {
            let len = (packet.len() - header_len) as u64;
            end = start + len;
            if end <= receiving.dseq + alloc
                && let Some(duplicate) = receiving.accept_data(start, len)
            {
                bytes = header_len + duplicate as usize..packet.len();
            }
        }
        let ends = header.has(options::EOM) && receiving.end_message(end);
        self.counters.bytes_delivered += bytes.len() as u64;
        if ends || !bytes.is_empty() {
            deliveries.push(Delivery {
                note: Note::default(),
                association: AssociationId(index as u32),
                bytes: Bytes::Packet(bytes),
                begin_tag: false,
                end_tag: false,
                gap: false,
                end_of_message: ends,
            });
        }
        let answers = self.config.multicast.is_none_or(|group| group.responds);
        if header.has(options::SREQ) && answers {
            receiving.control_due = Some(header.sync);
            let slot = self.config.multicast.and_then(|group| group.slot);
            receiving.control_at = slot.map(|slot| {
                self.counters.timers_set += 1;
                let wait = self.random.below(slot.as_nanos() as u64);
                Instant::from_nanos(now.as_nanos().saturating_add(wait))
            });
            self.ready.push_back(index);
        }
        Some(())
    }

    fn find_or_accept(&mut self, from: Address, header: &Xtp3Header) -> Option<usize> {
        if let Some(&index) = self.accepted.get(&(from, header.key)) {
            return Some(index);
        }
        if !self.listening {
            return None;
        }
        let receiving = ReceiverState::new(from, header.key, header.has(options::MULTI));
        let index = self.add(Association::Receiver(receiving)).ok()?;
        self.accepted.insert((from, header.key), index);
        let accepted = Event::Accepted(AssociationId(index as u32), from);
        self.events.push_back(accepted);
        Some(index)
    }

    fn terminate(&mut self, index: usize, reason: CloseReason) {
        match std::mem::replace(&mut self.associations[index], Association::Closed) {
            Association::Sender(sending) => {
                self.opened.remove(&sending.key);
            }
            Association::Receiver(receiving) => {
                self.accepted.remove(&(receiving.peer, receiving.key));
            }
            Association::Closed => return,
        }
        let closed = Event::Closed(AssociationId(index as u32), reason);
        self.events.push_back(closed);
    }
}

impl Protocol for Xtp3 {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: self.config.revision.header_len() + self.config.payload(),
            packet_len: None,
            framing: Framing::Messages,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::from_millis(1),
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.counters.packets_parsed += 1;
        let (from, octets) = (packet.path.remote, packet.octets);
        let taken = self.dispatch(now, from, octets, &mut deliveries.bytes);
        if taken.is_none() {
            self.counters.packets_discarded += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.has_timers {
            for index in 0..self.associations.len() {
                self.handle_timers(now, index);
            }
        }
    }

    /// The study's network loses nothing.
    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {}

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        while let Some(index) = self.ready.pop_front() {
            match &self.associations[index] {
                Association::Sender(_) => self.transmit_data(now, index, batch),
                Association::Receiver(_) => self.transmit_control(now, index, batch),
                Association::Closed => {}
            }
            if !batch.is_empty() {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.has_timers {
            return None;
        }
        let timers = self.associations.iter().flat_map(|circuit| match circuit {
            Association::Sender(sending) => [
                sending.credit_at,
                sending.wait_at,
                sending.give_up_at,
                sending.bucket_act_at,
            ],
            Association::Receiver(receiving) => [receiving.control_at, None, None, None],
            Association::Closed => [None; 4],
        });
        timers.flatten().min()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Associations for Xtp3 {
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        Layout {
            header: self.config.revision.header_len(),
            payload: self.config.payload(),
            trailer: 0,
        }
    }

    fn connect(&mut self, _now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        let &[to] = to else {
            return Err(CommandError::Unsupported);
        };
        let key = loop {
            let key = self.random.next_u64() as u32;
            if !self.opened.contains_key(&key) {
                break key;
            }
        };
        let sending = Box::new(SenderState::new(&self.config, to, key));
        let index = self.add(Association::Sender(sending))?;
        self.opened.insert(key, index);
        let circuit = AssociationId(index as u32);
        self.events.push_back(Event::Connected(circuit));
        Ok(circuit)
    }

    fn listen(&mut self, accept: bool) {
        self.listening = accept;
    }

    fn submit(&mut self, _: Instant, id: AssociationId, end: u64, flags: SendFlags, _: &Note) {
        let Some(sending) = self.sending(id) else {
            return;
        };
        if flags.end_of_message {
            sending.end_message(end);
        }
        sending.finishing |= flags.fin;
        let is_done = flags.fin && sending.is_done();
        if end > sending.end {
            sending.end = end;
            self.ready.push_back(id.0 as usize);
        }
        if is_done {
            self.terminate(id.0 as usize, CloseReason::Graceful);
        }
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        engine::submit_each(self, now, id, ends);
    }

    fn consume(&mut self, _now: Instant, circuit: AssociationId, bytes: u64) {
        if let Some(Association::Receiver(receiving)) =
            self.associations.get_mut(circuit.0 as usize)
        {
            receiving.dseq = (receiving.dseq + bytes).min(receiving.rseq);
        }
    }

    fn close(&mut self, now: Instant, id: AssociationId, how: Close) {
        match how {
            Close::Graceful => self.submit(now, id, 0, SendFlags::FIN, &Note::default()),
            Close::Abort if (id.0 as usize) < self.associations.len() => {
                self.terminate(id.0 as usize, CloseReason::Aborted);
            }
            Close::Abort => {}
        }
    }

    fn status(&self, id: AssociationId) -> Status {
        let bytes_in_flight = match self.associations.get(id.0 as usize) {
            Some(Association::Sender(sending)) => {
                sending.next_seq.saturating_sub(sending.acknowledged)
            }
            _ => 0,
        };
        Status { bytes_in_flight }
    }

    fn receive_window(&self) -> u64 {
        u64::MAX
    }

    fn set_receive_full(&mut self, _: AssociationId, _: bool) {}

    fn set_path_mtu(&mut self, _: Instant, _: AssociationId, _: usize) {}

    /// The study serves all alike.
    fn sort_by_priority(&self, _ids: &mut [AssociationId]) {}
}
