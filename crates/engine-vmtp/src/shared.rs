//! What all transactions of an endpoint share.

use crate::config::VmtpConfig;
use crate::pdu::{NotifyClient, NotifyServer, PACKET_MIN, VmtpHeader, packet};
use crate::peers::Peers;
use engine::{
    Counters, Event, IncomingMessage, Instant, KeyedStream, Path, Purpose, TransactionEvent,
};
use std::collections::VecDeque;

/// A time that does not come: 584 years.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Packets of managers that wait, at most: beyond it they are lost, as on a path.
const CONTROL_MAX: usize = 4096;

/// Of those that have a segment: of up to 64 KiB, so many take 4 MiB.
const LISTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: VmtpConfig,
    pub(crate) events: VecDeque<Event>,
    pub(crate) control: VecDeque<(Path, [u8; PACKET_MIN])>,
    /// Answers of managers with a segment, whole packets.
    pub(crate) lists: VecDeque<(Path, Vec<u8>)>,
    pub(crate) counters: Counters,
    pub(crate) peers: Peers,
    /// Numbers that peers see, and cannot guess.
    pub(crate) random: KeyedStream,
    incoming: u64,
    /// The number of the manager's last datagram.
    notifications: u32,
}

impl Shared {
    pub(crate) fn new(config: VmtpConfig) -> Shared {
        let mut random = KeyedStream::new(&config.secret, Purpose::Visible, config.seed);
        Shared {
            notifications: random.next_u64() as u32,
            random,
            config,
            events: VecDeque::new(),
            control: VecDeque::new(),
            lists: VecDeque::new(),
            counters: Counters::default(),
            peers: Peers::default(),
            incoming: 0,
        }
    }

    pub(crate) fn next_incoming(&mut self) -> IncomingMessage {
        self.incoming += 1;
        IncomingMessage(self.incoming)
    }

    pub(crate) fn tell(&mut self, event: TransactionEvent) {
        self.events.push_back(Event::Transaction(event));
    }

    /// Sends a packet without segment data, unless its address is not known to be real and would get
    /// more than it sent. Whether it leaves.
    pub(crate) fn send(&mut self, path: Path, header: &VmtpHeader) -> bool {
        let peer = self.peers.get(path);
        let leaves = self.control.len() < CONTROL_MAX && peer.credit() >= PACKET_MIN as u64;
        if leaves {
            peer.note_sent(PACKET_MIN as u64);
            let octets = packet::emit(header, self.config.checksum);
            self.control.push_back((path, octets));
        }
        leaves
    }

    /// Sends a packet with all of its message's segment; without it where the address is not known to be
    /// real and would get more than it sent, or where there is none. Whether it leaves.
    pub(crate) fn send_list(&mut self, path: Path, header: &VmtpHeader, segment: &[u8]) -> bool {
        let octets = packet::emit_with(header, segment, self.config.checksum);
        let peer = self.peers.get(path);
        let has_room = self.lists.len() < LISTS_MAX && peer.credit() >= octets.len() as u64;
        if segment.is_empty() || !has_room {
            return self.send(path, header);
        }
        peer.note_sent(octets.len() as u64);
        self.lists.push_back((path, octets));
        true
    }

    /// The number of the manager's next datagram.
    pub(crate) fn next_notification(&mut self) -> u32 {
        self.notifications = self.notifications.wrapping_add(1);
        self.notifications
    }

    pub(crate) fn notify_client(&mut self, path: Path, notification: &NotifyClient) {
        let number = self.next_notification();
        let (manager, domain) = (self.config.manager(), self.config.domain);
        let header = notification.header(manager, domain, number);
        self.send(path, &header);
    }

    pub(crate) fn notify_server(&mut self, path: Path, notification: &NotifyServer) {
        let number = self.next_notification();
        let (manager, domain) = (self.config.manager(), self.config.domain);
        let header = notification.header(manager, domain, number);
        self.send(path, &header);
    }
}
