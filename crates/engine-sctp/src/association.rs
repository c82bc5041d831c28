//! One association.

use crate::auth::AuthState;
use crate::config::SctpConfig;
use crate::dynamic_addresses::AddressState;
use crate::numbers::{Port, Tag, Tsn};
use crate::path::{PathState, PathStatus};
use crate::pdu::ChunkType;
use crate::reconfig::ReconfigState;
use crate::rx::{ReceiveState, Streams};
use crate::tx::SendState;
use core::time::Duration;
use engine::{AssociationId, CloseReason, Instant, Path};
use std::collections::VecDeque;
use std::net::IpAddr;

/// How an association stands (RFC 9260 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// An INIT was sent.
    CookieWait {
        /// How often.
        attempts: u32,
        /// Stale cookies so far; each asks for a longer life of the next.
        stale: u32,
    },
    /// A COOKIE-ECHO was sent.
    CookieEchoed {
        /// How often.
        attempts: u32,
        /// As in `CookieWait`.
        stale: u32,
        /// The whole chunk, and reports behind it.
        chunks: Vec<u8>,
        /// When it was last sent.
        sent_at: Instant,
    },
    /// Data flow.
    Established,
    /// The user wants to end; data are still in flight.
    ShutdownPending,
    /// SHUTDOWN was sent.
    ShutdownSent {
        /// How often without an answer.
        attempts: u32,
    },
    /// The peer sent SHUTDOWN; own data are still in flight.
    ShutdownReceived,
    /// SHUTDOWN-ACK was sent.
    ShutdownAckSent {
        /// How often without an answer.
        attempts: u32,
    },
    /// It ended, and its endpoint removes it.
    Gone(CloseReason),
}

/// Timers of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// T1-init and T1-cookie.
    Handshake,
    /// T2-shutdown.
    Shutdown,
    /// T5-shutdown-guard.
    ShutdownGuard,
    /// T3-rtx of a path.
    Retransmission(u8),
    /// A path was silent, or a HEARTBEAT is not answered.
    Heartbeat(u8),
    /// A probe of a path's MTU is not answered, or the search begins anew.
    PathMtu(u8),
    /// An acknowledgement waited long enough.
    Sack,
    /// The peer's window is shut and nothing is in flight.
    WindowProbe,
    /// Pacing allows the next packet.
    Pacing,
    /// A RE-CONFIG is not answered.
    Reconfigure,
    /// Own streams are to begin anew.
    StreamReset,
    /// An own address is to go, or to come back.
    AddressChange,
    /// T4: an ASCONF is not answered.
    Asconf,
    /// The peer did not answer a FORWARD-TSN.
    ForwardTsn,
    /// The life of a message that waits is over.
    Lifetime,
}

/// A control chunk that waits for a packet.
#[derive(Clone, Debug)]
pub(crate) struct ControlChunk {
    /// The path it leaves by, by its index.
    pub(crate) path: usize,
    /// All of its octets, padded. Two chunks if they belong together.
    pub(crate) octets: Vec<u8>,
}

/// Control chunks that may wait. A peer that asks for more answers than leave loses the rest.
const CONTROL_CHUNKS_MAX: usize = 16;

/// Extensions that both ends support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// Messages may be given up (RFC 3758).
    pub(crate) partial_reliability: bool,
    /// User data travel in I-DATA (RFC 8260).
    pub(crate) interleave: bool,
    /// Streams may be reset and added (RFC 6525).
    pub(crate) reconfigure: bool,
    /// Addresses may come and go (RFC 5061).
    pub(crate) dynamic_addresses: bool,
}

/// An association.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) id: AssociationId,
    pub(crate) state: State,
    /// The user of this end opened it.
    pub(crate) opened_here: bool,
    /// That user was told that it can carry data.
    pub(crate) is_connected: bool,
    /// The peer has sent what no end sends while it waits for a COOKIE-ACK: it answers requests.
    pub(crate) peer_is_open: bool,
    /// The user ended it before it was open.
    pub(crate) wants_shutdown: bool,
    /// The user was told that the peer sends no more.
    pub(crate) is_finished: bool,
    pub(crate) local_tag: Tag,
    pub(crate) peer_tag: Tag,
    pub(crate) local_port: Port,
    pub(crate) peer_port: Port,
    pub(crate) initial_tsn: Tsn,
    pub(crate) paths: Vec<PathState>,
    /// The path of new data while it answers, by its index. In the handshake, the path of that.
    pub(crate) primary: usize,
    /// The path that data last came by.
    pub(crate) last_data_path: usize,
    /// Its user once had enough to send to fill a packet: longer packets are of use.
    pub(crate) fills_packets: bool,
    pub(crate) tx: SendState,
    pub(crate) rx: ReceiveState,
    pub(crate) control: VecDeque<ControlChunk>,
    pub(crate) reconfig: ReconfigState,
    pub(crate) addresses: AddressState,
    /// Timeouts in a row.
    pub(crate) errors: u32,
    /// Packets leave without a checksum, and such packets are accepted.
    pub(crate) zero_checksum: bool,
    /// Keys and codes, if both ends authenticate (RFC 4895).
    pub(crate) auth: Option<Box<AuthState>>,
    /// What else both ends support.
    pub(crate) extensions: Negotiated,
    /// A number of the peer's user for this end's.
    pub(crate) adaptation: Option<u32>,
    /// Addresses that the peer had when the association began, besides those of the paths.
    pub(crate) peer_addresses: Vec<IpAddr>,
}

impl Association {
    /// An association with confirmed paths and the tags and numbers given.
    pub(crate) fn new(
        now: Instant,
        config: &SctpConfig,
        paths: &[Path],
        ports: (Port, Port),
        local: (Tag, Tsn),
    ) -> Association {
        let (local_tag, initial_tsn) = local;
        Association {
            id: AssociationId(0),
            state: State::CookieWait {
                attempts: 1,
                stale: 0,
            },
            opened_here: false,
            is_connected: false,
            peer_is_open: false,
            wants_shutdown: false,
            is_finished: false,
            local_tag,
            peer_tag: Tag::NONE,
            local_port: ports.0,
            peer_port: ports.1,
            initial_tsn,
            paths: paths
                .iter()
                .map(|path| PathState::new(*path, PathStatus::Active, config, now))
                .collect(),
            primary: 0,
            last_data_path: 0,
            fills_packets: false,
            tx: SendState::new(initial_tsn, config),
            rx: ReceiveState::new(
                Tsn(0),
                Streams::new(config.inbound_streams, false),
                config.receive_buffer,
            ),
            control: VecDeque::new(),
            reconfig: ReconfigState::new(initial_tsn, Tsn(0)),
            addresses: AddressState::new(initial_tsn, Tsn(0)),
            errors: 0,
            zero_checksum: false,
            auth: None,
            extensions: Negotiated::default(),
            adaptation: None,
            peer_addresses: Vec::new(),
        }
    }

    /// Whether it ended.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// Whether data may be sent in its state.
    pub(crate) fn may_send_data(&self) -> bool {
        matches!(
            self.state,
            State::Established | State::ShutdownPending | State::ShutdownReceived
        )
    }

    /// Whether data of the peer are taken in its state.
    pub(crate) fn may_receive_data(&self) -> bool {
        matches!(
            self.state,
            State::Established | State::ShutdownPending | State::ShutdownSent { .. }
        )
    }

    /// Whether an acknowledgement may be sent in its state.
    pub(crate) fn may_send_sack(&self) -> bool {
        self.may_send_data() || matches!(self.state, State::ShutdownSent { .. })
    }

    /// Whether packets with a checksum of zero are good. One that asked for it takes the answer so too,
    /// before it knows whether the peer agrees (RFC 9653 section 5.3).
    pub(crate) fn accepts_zero_checksum(&self, config: &SctpConfig) -> bool {
        let has_asked = matches!(self.state, State::CookieWait { .. }) && !config.checksum;
        self.zero_checksum || has_asked
    }

    /// `chunks`, which leave in a packet of their own, behind an AUTH if the peer wants one.
    pub(crate) fn authenticated(&self, chunks: Vec<u8>) -> Vec<u8> {
        match &self.auth {
            Some(auth) if auth.covers(&chunks) => auth.sealed(&chunks),
            _ => chunks,
        }
    }

    /// Octets of control chunks in a packet.
    pub(crate) fn control_room(&self) -> usize {
        self.pmdcs() - self.auth.as_ref().map_or(0, |auth| auth.len())
    }

    /// The retransmission timeout of path `index`.
    pub(crate) fn rto(&self, index: usize) -> Duration {
        self.paths[index].rto()
    }

    /// The index of the path that a packet came by. The one with its remote address if it came to
    /// another of our addresses; the primary if the address is unknown.
    pub(crate) fn path_index(&self, path: Path) -> usize {
        let is = |known: &PathState| known.path == path && !known.is_removed;
        let exact = self.paths.iter().position(is);
        let same_remote = || {
            let mut paths = self.paths.iter();
            paths.position(|known| known.path.remote == path.remote && !known.is_removed)
        };
        exact.or_else(same_remote).unwrap_or(self.primary)
    }

    /// Queues a control chunk for path `path`; false if too many wait. An unconfirmed path carries
    /// HEARTBEATs, answers to them and to an ASCONF, and a COOKIE-ACK alone (RFC 9260 section 5.4).
    pub(crate) fn queue_control(&mut self, path: usize, octets: Vec<u8>) -> bool {
        let is_probe = matches!(
            ChunkType(octets[0]),
            ChunkType::HEARTBEAT
                | ChunkType::HEARTBEAT_ACK
                | ChunkType::COOKIE_ACK
                | ChunkType::ASCONF_ACK
        );
        let path = match self.paths[path].status {
            PathStatus::Unconfirmed if !is_probe => self.data_path(),
            _ => path,
        };
        let has_room = self.control.len() < CONTROL_CHUNKS_MAX;
        if has_room {
            self.control.push_back(ControlChunk { path, octets });
        }
        has_room
    }
}
