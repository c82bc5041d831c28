//! Loop-back: providers of TPI between ends of one host, in one process or in two. `ticots` and `ticotsord`
//! connect ends, `ticlts` carries datagrams between them.
//!
//! An address is any name of 1 to 64 octets, of its own for each provider; it holds while an end that
//! listens or receives datagrams is bound to it. Behind it stands a Unix socket with an abstract name: who
//! connects to it passes rings of shared memory (crate `channel`) over that socket, and all data go through
//! them. Both processes must belong to one user.
//!
//! * `link` - frames in the rings of a connection.
//! * `names` - addresses, and the sockets behind them.
//! * `protocol` - connections, for the provider of them.
//! * `datagrams`, `sources` - the provider of datagrams, and the ends that send to it.

mod datagrams;
mod link;
mod names;
mod protocol;
mod sources;

pub(crate) use datagrams::LoopDatagrams;
pub(crate) use protocol::LoopProtocol;

use crate::connections::ConnectionProvider;
use crate::tpi::ServiceType;
use channel::Geometry;
use streams::{Marks, Module};

/// Octets of one primitive's data, and of a datagram.
pub const TIDU: usize = 65_536;

/// Octets of the longest message of a connection (TSDU).
pub const TSDU: usize = 1 << 20;

/// Octets of what a user says with a connect, its answer, a release or a disconnect.
pub const WITH_DATA: usize = 512;

/// Octets of a ring unless the user says otherwise; the least holds four of the longest primitives.
pub const RING_OCTETS: usize = 1 << 20;
const RING_OCTETS_MIN: usize = 4 * TIDU;

/// Octets of a slot of a ring: the shortest, so that short messages waste the least.
const SLOT_OCTETS: u32 = channel::SLOT_LEN_MIN;

/// The driver of a stream that provides connections, with or without orderly release; its write queue has
/// `marks`, and its rings have at least `ring_octets`.
pub fn connections(service: ServiceType, ring_octets: usize, marks: Marks) -> Box<dyn Module> {
    let protocol = LoopProtocol::new(service, ring_octets);
    Box::new(ConnectionProvider::new(protocol, marks))
}

/// A ring of at least `octets`, within what rings may have.
fn geometry(octets: usize) -> Geometry {
    let max = channel::RING_OCTETS_MAX as usize;
    let octets = octets.clamp(RING_OCTETS_MIN, max).next_power_of_two();
    let slots = octets as u32 / SLOT_OCTETS;
    Geometry::new(SLOT_OCTETS, slots).expect("powers of two within the limits")
}
