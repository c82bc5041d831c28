//! What all associations of an endpoint share.

use crate::association::{Association, Timer};
use crate::config::SctpConfig;
use crate::discard::{DiscardReason, Discards};
use crate::dynamic_addresses::AddressChanges;
use crate::notice::{NOTICES_MAX, Notice};
use crate::numbers::{Port, Tag, Tsn};
use crate::path::PathStatus;
use crate::pdu::cookie::CookieKeys;
use crate::pdu::{ChunkType, CommonHeader, chunk};
use crate::ready_queue::ReadyQueue;
use engine::{
    Address, AssociationId, Batch, Counters, Event, Instant, Integrity, KeyedStream, Path, Purpose,
    TimerTable,
};
use std::collections::{BTreeMap, VecDeque};

/// Answers that may wait for the wire. Beyond it they are dropped, as if lost: a flood of INITs
/// costs no more memory than 1024 packets.
const REPLIES_MAX: usize = 1024;

/// The shared state of an endpoint.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) config: SctpConfig,
    pub(crate) timers: TimerTable<(AssociationId, Timer)>,
    ready: ReadyQueue,
    pub(crate) events: VecDeque<Event>,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) counters: Counters,
    pub(crate) discards: Discards,
    /// Whole packets to peers without an association, or of associations that ended.
    replies: VecDeque<(Path, Option<AssociationId>, Vec<u8>)>,
    /// Associations by their own tag.
    pub(crate) by_tag: BTreeMap<Tag, AssociationId>,
    /// Associations by an address and port of the peer, and their own port.
    pub(crate) by_peer: BTreeMap<(Address, Port, Port), AssociationId>,
    pub(crate) cookie_keys: CookieKeys,
    pub(crate) is_listening: bool,
    pub(crate) address_changes: AddressChanges,
    numbers: KeyedStream,
    /// Memory of packets in the making, reused: control chunks, and chunks of padding.
    pub(crate) prefix: Vec<u8>,
    pub(crate) scratch: Vec<u8>,
    #[cfg(test)]
    pub(crate) predictions: crate::procedure::prediction::Predictions,
}

/// Ports for associations opened here (RFC 6335 section 6).
const EPHEMERAL_FIRST: u16 = 49_152;

impl EndpointState {
    pub(crate) fn new(config: SctpConfig) -> EndpointState {
        EndpointState {
            timers: TimerTable::new(),
            ready: ReadyQueue::default(),
            events: VecDeque::new(),
            notices: VecDeque::new(),
            counters: Counters::default(),
            discards: Discards::default(),
            replies: VecDeque::new(),
            by_tag: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            cookie_keys: CookieKeys::new(config.secret, config.seed),
            is_listening: false,
            address_changes: AddressChanges::default(),
            prefix: Vec::new(),
            scratch: Vec::new(),
            numbers: KeyedStream::new(&config.secret, Purpose::Keys, config.seed),
            #[cfg(test)]
            predictions: Default::default(),
            config,
        }
    }

    pub(crate) fn discard(&mut self, reason: DiscardReason) {
        self.discards.add(reason);
    }

    /// Tells the user, if it listens.
    pub(crate) fn notify(&mut self, notice: Notice) {
        if self.notices.len() >= NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }

    /// A tag that no association has (RFC 9260 section 5.3.1).
    pub(crate) fn new_tag(&mut self) -> Tag {
        loop {
            let tag = Tag(self.numbers.next_u64() as u32);
            if tag != Tag::NONE && !self.by_tag.contains_key(&tag) {
                return tag;
            }
        }
    }

    pub(crate) fn new_tsn(&mut self) -> Tsn {
        Tsn(self.numbers.next_u64() as u32)
    }

    pub(crate) fn nonce(&mut self) -> u64 {
        self.numbers.next_u64()
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.numbers.below(bound)
    }

    /// A port that no association to that peer has; None if all are taken.
    pub(crate) fn free_port(&mut self, remote: Address) -> Option<Port> {
        let peer_port = self.config.peer_port;
        if let Some(port) = self.config.local_port {
            let key = (remote, peer_port, port);
            return (!self.by_peer.contains_key(&key)).then_some(port);
        }
        let count = u64::from(u16::MAX - EPHEMERAL_FIRST) + 1;
        let start = self.below(count);
        let mut ports = (0..count).map(|step| EPHEMERAL_FIRST + ((start + step) % count) as u16);
        ports
            .find(|port| !self.by_peer.contains_key(&(remote, peer_port, Port(*port))))
            .map(Port)
    }

    /// Whether packets of no association to `port` may be answered: on a shared address only those to
    /// the port that is listened on.
    pub(crate) fn owns_port(&self, port: Port) -> bool {
        !self.config.shared_address || self.is_listening && port == self.config.port
    }

    pub(crate) fn set_timer(&mut self, id: AssociationId, timer: Timer, at: Instant) {
        self.timers.set((id, timer), at);
        self.counters.timers_set += 1;
    }

    pub(crate) fn cancel_timer(&mut self, id: AssociationId, timer: Timer) {
        self.timers.cancel((id, timer));
    }

    /// Packets from the confirmed addresses of `a` belong to it, unless they are another one's.
    pub(crate) fn index_paths(&mut self, a: &Association) {
        for known in a.live_paths() {
            if known.status != PathStatus::Unconfirmed {
                let key = (known.path.remote, a.peer_port, a.local_port);
                self.by_peer.entry(key).or_insert(a.id);
            }
        }
    }

    /// The addresses of `a` are no longer its own.
    pub(crate) fn unindex_paths(&mut self, a: &Association) {
        for known in a.live_paths() {
            let key = (known.path.remote, a.peer_port, a.local_port);
            if self.by_peer.get(&key) == Some(&a.id) {
                self.by_peer.remove(&key);
            }
        }
    }

    /// Cancels all timers of an association with `paths` paths.
    pub(crate) fn cancel_timers(&mut self, id: AssociationId, paths: usize) {
        for timer in [
            Timer::Handshake,
            Timer::Shutdown,
            Timer::ShutdownGuard,
            Timer::Sack,
            Timer::WindowProbe,
            Timer::Pacing,
            Timer::Reconfigure,
            Timer::StreamReset,
            Timer::AddressChange,
            Timer::Asconf,
            Timer::ForwardTsn,
            Timer::Lifetime,
        ] {
            self.timers.cancel((id, timer));
        }
        for path in 0..paths as u8 {
            self.timers.cancel((id, Timer::Retransmission(path)));
            self.timers.cancel((id, Timer::Heartbeat(path)));
            self.timers.cancel((id, Timer::PathMtu(path)));
        }
    }

    /// An association may have packets to send.
    pub(crate) fn mark_ready(&mut self, id: AssociationId) {
        self.ready.push(id);
    }

    pub(crate) fn next_ready(&mut self) -> Option<AssociationId> {
        self.ready.pop()
    }

    /// Answers with a packet of `chunks`.
    pub(crate) fn reply(&mut self, path: Path, header: CommonHeader, chunks: &[u8]) {
        self.send_for(None, path, header, chunks);
    }

    /// Sends a packet of `chunks` for an association, if it is one's.
    pub(crate) fn send_for(
        &mut self,
        sender: Option<AssociationId>,
        path: Path,
        header: CommonHeader,
        chunks: &[u8],
    ) {
        if self.replies.len() >= REPLIES_MAX {
            return self.discard(DiscardReason::Full);
        }
        let packet = [&header.emit()[..], chunks].concat();
        self.replies.push_back((path, sender, packet));
    }

    /// Puts the next answer into `batch`; false when there is none.
    pub(crate) fn transmit_reply(&mut self, batch: &mut Batch) -> bool {
        let Some((path, sender, packet)) = self.replies.pop_front() else {
            return false;
        };
        batch.set_path(path, sender);
        let at = chunk_checksum();
        batch.begin().own(&packet).end(Integrity::Crc32c { at });
        self.counters.packets_built += 1;
        true
    }

    /// Sends a chunk without a value as the last packet of an association.
    pub(crate) fn send_last(
        &mut self,
        association: &Association,
        path: usize,
        kind: ChunkType,
        causes: &[u8],
    ) {
        let mut chunks = Vec::new();
        chunk::push_chunk(&mut chunks, kind, 0, causes);
        let header = association.header();
        let chunks = association.authenticated(chunks);
        self.reply(association.paths[path].path, header, &chunks);
    }
}

impl Association {
    /// The common header of its packets.
    pub(crate) fn header(&self) -> CommonHeader {
        CommonHeader {
            source: self.local_port,
            destination: self.peer_port,
            tag: self.peer_tag,
        }
    }
}

/// Where a packet's checksum lies, as [`Integrity::Crc32c`] takes it.
pub(crate) fn chunk_checksum() -> u16 {
    crate::pdu::header::CHECKSUM_AT as u16
}
