//! One interface to every stack. Times are nanoseconds since the start.

mod dcsctp;
mod ours;
mod sctp_proto;
mod usrsctp;

pub use dcsctp::Dcsctp;
pub use ours::Ours;
pub use sctp_proto::SctpProto;
pub use usrsctp::{SHARED_KEY, Usrsctp};

/// What travels with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Its stream.
    pub stream: u16,
    /// Its payload protocol identifier.
    pub ppid: u32,
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of its stream.
    Ordered,
    /// It may overtake others.
    Unordered,
    /// In the order of its stream, and given up when something of it is lost (RFC 7496 section 4.2).
    OrderedOnce,
    /// It may overtake others, and is given up when something of it is lost.
    UnorderedOnce,
}

impl Order {
    /// Whether it may overtake others.
    pub fn is_unordered(self) -> bool {
        matches!(self, Order::Unordered | Order::UnorderedOnce)
    }

    /// Whether it may be given up.
    pub fn is_once(self) -> bool {
        matches!(self, Order::OrderedOnce | Order::UnorderedOnce)
    }
}

/// Packets that leave together: all but the last have one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packets {
    /// All octets.
    pub octets: Vec<u8>,
    /// Octets of a packet.
    pub len: usize,
}

impl Packets {
    /// One packet.
    pub fn one(octets: Vec<u8>) -> Packets {
        let len = octets.len();
        Packets { octets, len }
    }
}

/// One end of an association, without I/O.
pub trait Stack {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Opens the association. An end that never does waits for the other's INIT.
    fn connect(&mut self, now: u64);

    /// Packets of the peer.
    fn handle_packets(&mut self, now: u64, octets: &[u8], len: usize);

    /// The next packets for the peer.
    fn poll_packets(&mut self, now: u64) -> Option<Packets>;

    /// Runs what is due.
    fn handle_timeout(&mut self, now: u64);

    /// When something is due.
    fn poll_timeout(&self) -> Option<u64>;

    /// Sends a message; false when there is no room for it now.
    fn send(&mut self, now: u64, label: Label, order: Order, bytes: &[u8]) -> bool;

    /// The next message: its bytes are appended to `bytes`.
    fn receive(&mut self, now: u64, bytes: &mut Vec<u8>) -> Option<Label>;

    /// Lets the messages that it sends on these streams be counted anew (RFC 6525); false if it cannot now,
    /// or at all. What it was given to send before is sent, and acknowledged.
    fn reset(&mut self, now: u64, streams: &[u16]) -> bool;

    /// Whether the association is open.
    fn is_up(&self) -> bool;

    /// Whether it ended, or failed.
    fn is_down(&self) -> bool;

    /// Ends the association when all is delivered.
    fn shutdown(&mut self, now: u64);

    /// Whether it ends in every case, also when packets of the end are lost.
    fn ends_surely(&self) -> bool;
}
