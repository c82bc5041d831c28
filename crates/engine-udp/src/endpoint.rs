//! The engine.

use crate::config::UdpConfig;
use crate::pdu::{CHECK_AT, IP_LEN, IpHeader, UDP_LEN, UdpHeader};
use crate::reassembly::Reassembly;
use core::ops::Range;
use core::time::Duration;
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, CloseReason, CommandError, Counters,
    Deliveries, Delivery, Event, Framing, Instant, Integrity, Layout, Note, NoteFields, PathFault,
    Properties, Protocol, Received, SendFlags, Status, Store,
};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of the longest message: a datagram of 65,535 octets without its headers.
pub const MESSAGE_MAX: u64 = 65_535 - (IP_LEN + UDP_LEN) as u64;

/// The port of all listeners.
const LISTENING_PORT: u16 = 7;

/// Ports of those who connect, from the first that is not reserved on.
const OWN_PORTS: Range<u32> = 1024..65_536;

/// Ports and numbers of datagrams by which the clock moves on where an endpoint begins, a millisecond: as of TCP's first sequence
/// numbers (RFC 9293 section 3.4.1), and of the numbers of 4.3BSD's datagrams. An endpoint that restarts takes up none of those that
/// packets of its earlier life have, of which some may wait at the peer. They come round after 9 s.
const STARTS_PER_MS: u64 = 7;

/// The ports and the peer of an association.
type Ends = (Address, u16, u16);

/// A peer with whom datagrams are exchanged.
#[derive(Debug)]
struct Association {
    ends: Ends,
    submitted: u64,
    /// Messages that have not left whole.
    unsent: u64,
    /// Bytes that its user has not read.
    unread: u64,
    is_full: bool,
    is_finishing: bool,
}

/// A message on its way out.
#[derive(Debug)]
struct Outgoing {
    association: AssociationId,
    bytes: Range<u64>,
    tag: u64,
    id: u16,
    /// Octets of the datagram that left, its header among them.
    sent: u64,
}

/// An endpoint of UDP.
#[derive(Debug)]
pub struct Udp {
    config: UdpConfig,
    associations: BTreeMap<AssociationId, Association>,
    by_ends: BTreeMap<Ends, AssociationId>,
    /// In the order in which they were submitted.
    outgoing: VecDeque<Outgoing>,
    reassembly: Reassembly,
    events: VecDeque<Event>,
    counters: Counters,
    is_listening: bool,
    last_id: u32,
    /// None before the first.
    last_datagram: Option<u16>,
}

impl Udp {
    /// An endpoint without associations.
    pub fn new(config: UdpConfig) -> Udp {
        Udp {
            config,
            associations: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            outgoing: VecDeque::new(),
            reassembly: Reassembly::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
            is_listening: false,
            last_id: 0,
            last_datagram: None,
        }
    }

    fn add(&mut self, ends: Ends) -> Result<AssociationId, CommandError> {
        if self.associations.len() >= self.config.associations_max || self.last_id == u32::MAX {
            return Err(CommandError::TooManyAssociations);
        }
        self.last_id += 1;
        let id = AssociationId(self.last_id);
        self.by_ends.insert(ends, id);
        let association = Association {
            ends,
            submitted: 0,
            unsent: 0,
            unread: 0,
            is_full: false,
            is_finishing: false,
        };
        self.associations.insert(id, association);
        Ok(id)
    }

    /// The first port from the clock's on that no association with this peer has.
    fn free_port(&self, now: Instant, to: Address) -> Option<u16> {
        let count = OWN_PORTS.end - OWN_PORTS.start;
        let first = (start_at(now) % u64::from(count)) as u32;
        let mut ports = (0..count).map(|step| (OWN_PORTS.start + (first + step) % count) as u16);
        ports.find(|port| !self.by_ends.contains_key(&(to, *port, LISTENING_PORT)))
    }

    /// The number of the next datagram.
    fn next_datagram(&mut self, now: Instant) -> u16 {
        let first = || start_at(now) as u16;
        let next = self
            .last_datagram
            .map_or_else(first, |last| last.wrapping_add(1));
        self.last_datagram = Some(next);
        next
    }

    fn remove(&mut self, id: AssociationId, reason: CloseReason) {
        if let Some(association) = self.associations.remove(&id) {
            self.by_ends.remove(&association.ends);
            self.outgoing.retain(|message| message.association != id);
            self.events.push_back(Event::Closed(id, reason));
        }
    }

    /// Octets of a datagram in a fragment that is not the last: a multiple of eight.
    fn piece_len(&self) -> u64 {
        ((self.config.packet_len - IP_LEN) & !7) as u64
    }

    /// Sends the next fragment of the oldest message; false when there is none.
    fn send_fragment(&mut self, batch: &mut Batch) -> bool {
        let piece_len = self.piece_len();
        let Some(message) = self.outgoing.front_mut() else {
            return false;
        };
        let id = message.association;
        let Some(association) = self.associations.get(&id) else {
            return false;
        };
        let (peer, local, remote) = association.ends;
        let whole = message.bytes.end - message.bytes.start + UDP_LEN as u64;
        let (start, end) = (message.sent, whole.min(message.sent + piece_len));
        let header = IpHeader {
            len: (IP_LEN as u64 + end - start) as u16,
            id: message.id,
            offset: start as u16,
            more: end < whole,
            tag: message.tag,
        };
        let udp = UdpHeader {
            from: local,
            to: remote,
            len: whole as u16,
        };
        let own = octets(&header, (start == 0).then_some(&udp), self.config.checksum);
        // Positions of the datagram behind its header are those of the message.
        let at = |octet: u64| message.bytes.start + octet.saturating_sub(UDP_LEN as u64);
        let integrity = match self.config.checksum {
            true => Integrity::Internet {
                at: CHECK_AT as u16,
            },
            false => Integrity::None,
        };
        batch.set_path(peer, Some(id));
        batch.push(&own, Store::Association(id), at(start)..at(end), integrity);
        self.counters.packets_built += 1;
        self.counters.bytes_sent += at(end) - at(start);
        let data = if self.config.checksum {
            u64::from(header.len)
        } else {
            own.len() as u64
        };
        self.counters.bytes_summed += data;
        message.sent = end;
        if end == whole {
            self.end_message();
        }
        // The next message may have another path.
        end < whole
    }

    /// The oldest message has left.
    fn end_message(&mut self) {
        let Some(message) = self.outgoing.pop_front() else {
            return;
        };
        let id = message.association;
        if !message.bytes.is_empty() {
            self.events.push_back(Event::Released(id, message.bytes));
        }
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        association.unsent -= 1;
        if association.is_finishing && association.unsent == 0 {
            self.remove(id, CloseReason::Graceful);
        }
    }

    /// The association of a datagram; a listener accepts one from a new peer.
    fn association_of(&mut self, from: Address, header: &UdpHeader) -> Option<AssociationId> {
        let ends = (from, header.to, header.from);
        if let Some(id) = self.by_ends.get(&ends) {
            return Some(*id);
        }
        if !self.is_listening || header.to != LISTENING_PORT {
            return None;
        }
        let id = self.add(ends).ok()?;
        self.events.push_back(Event::Accepted(id, from));
        Some(id)
    }

    /// A whole datagram: `bytes` are where its user bytes lie.
    fn deliver(
        &mut self,
        from: Address,
        header: UdpHeader,
        (bytes, tag): (Bytes, u64),
        out: &mut Deliveries,
    ) -> Option<()> {
        let id = self.association_of(from, &header)?;
        let association = self.associations.get_mut(&id)?;
        let len = u64::from(header.len) - UDP_LEN as u64;
        if association.is_full || association.unread + len > self.config.receive_buffer {
            return None;
        }
        association.unread += len;
        self.counters.bytes_delivered += len;
        out.bytes.push(Delivery {
            association: id,
            bytes,
            gap: false,
            end_of_message: true,
            note: Note {
                tag: (tag > 0).then_some(tag),
                unordered: true,
                ..Note::default()
            },
            begin_tag: false,
            end_tag: false,
        });
        Some(())
    }

    fn dispatch(
        &mut self,
        now: Instant,
        packet: &Received<'_>,
        out: &mut Deliveries,
    ) -> Option<()> {
        let (from, octets) = (packet.path.remote, packet.octets);
        let header = IpHeader::parse(octets, self.config.checksum)?;
        let datagram = &octets[IP_LEN..];
        if header.offset == 0 && !header.more {
            let udp = UdpHeader::parse(datagram)?;
            let bytes = Bytes::Packet(IP_LEN + UDP_LEN..octets.len());
            return self.deliver(from, udp, (bytes, header.tag), out);
        }
        let until = now + self.config.reassembly_timeout;
        let Some(mut whole) = self.reassembly.add(from, &header, datagram, until) else {
            return Some(());
        };
        let udp = UdpHeader::parse(&whole)?;
        whole.drain(..UDP_LEN);
        self.deliver(from, udp, (Bytes::Reassembled(whole), header.tag), out)
    }
}

/// Where an endpoint begins to count at this time.
fn start_at(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000 * STARTS_PER_MS
}

/// The headers of a fragment. Their sum is complete where it covers them alone, and else without the data.
fn octets(header: &IpHeader, udp: Option<&UdpHeader>, whole: bool) -> Vec<u8> {
    let mut octets = header.octets().to_vec();
    if let Some(udp) = udp {
        octets.extend_from_slice(&udp.octets());
    }
    if whole {
        octets[CHECK_AT..CHECK_AT + 2].fill(0);
        let check = engine::checksum::checksum(&octets);
        octets[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
    }
    octets
}

impl Protocol for Udp {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: self.config.packet_len,
            packet_len: None,
            framing: Framing::Messages,
            notes: NoteFields {
                tag: true,
                unordered: true,
                ..NoteFields::NONE
            },
            coalesce_delay: Duration::ZERO,
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.counters.packets_parsed += 1;
        let octets = packet.octets.len();
        let summed = if self.config.checksum {
            octets
        } else {
            octets.min(IP_LEN)
        };
        self.counters.bytes_summed += summed as u64;
        if self.dispatch(now, &packet, deliveries).is_none() {
            self.counters.packets_discarded += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.counters.packets_discarded += self.reassembly.expire(now);
    }

    /// A lost datagram stays lost, whatever the reason.
    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {}

    fn poll_transmit(&mut self, _now: Instant, batch: &mut Batch) {
        while batch.room() > 0 && self.send_fragment(batch) {}
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.reassembly.deadline()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Associations for Udp {
    /// A user's call copies a message as a whole; it is cut afterwards.
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        Layout {
            header: IP_LEN + UDP_LEN,
            payload: MESSAGE_MAX as usize,
            trailer: 0,
        }
    }

    fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        let &[to] = to else {
            return Err(CommandError::Unsupported);
        };
        let port = self.free_port(now, to);
        let port = port.ok_or(CommandError::TooManyAssociations)?;
        let id = self.add((to, port, LISTENING_PORT))?;
        self.events.push_back(Event::Connected(id));
        Ok(id)
    }

    fn listen(&mut self, accept: bool) {
        self.is_listening = accept;
    }

    fn submit(&mut self, now: Instant, id: AssociationId, end: u64, flags: SendFlags, note: &Note) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if flags.end_of_message && end >= association.submitted {
            let bytes = association.submitted..end;
            association.submitted = end;
            if bytes.end - bytes.start > MESSAGE_MAX {
                // EMSGSIZE: it never leaves.
                self.counters.count_gap(bytes.end - bytes.start);
                self.events.push_back(Event::Released(id, bytes));
            } else {
                association.unsent += 1;
                let datagram = self.next_datagram(now);
                self.outgoing.push_back(Outgoing {
                    association: id,
                    bytes,
                    tag: note.tag.unwrap_or(0),
                    id: datagram,
                    sent: 0,
                });
            }
        }
        if flags.fin {
            self.close(now, id, Close::Graceful);
        }
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        engine::submit_each(self, now, id, ends);
    }

    fn consume(&mut self, _now: Instant, id: AssociationId, bytes: u64) {
        if let Some(association) = self.associations.get_mut(&id) {
            association.unread = association.unread.saturating_sub(bytes);
        }
    }

    /// The peer does not hear of it.
    fn close(&mut self, _now: Instant, id: AssociationId, how: Close) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        association.is_finishing = true;
        match how {
            Close::Abort => self.remove(id, CloseReason::Aborted),
            Close::Graceful if association.unsent == 0 => self.remove(id, CloseReason::Graceful),
            Close::Graceful => {}
        }
    }

    /// Nothing that left is waited for.
    fn status(&self, _id: AssociationId) -> Status {
        Status::default()
    }

    fn receive_window(&self) -> u64 {
        self.config.receive_buffer
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        if let Some(association) = self.associations.get_mut(&id) {
            association.is_full = is_full;
        }
    }

    /// Packets have the length that the medium has when the endpoint is made.
    fn set_path_mtu(&mut self, _: Instant, _: AssociationId, _: usize) {}

    /// All are equal.
    fn sort_by_priority(&self, _ids: &mut [AssociationId]) {}
}
