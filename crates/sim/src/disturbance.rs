//! What can befall stations and what joins them while they work.

use crate::node::Node;
use link::LinkConfig;

/// Cuts that may be there at the same time.
pub const PARTITIONS_MAX: u32 = 64;

/// Something that happens at a certain time.
pub enum Disturbance {
    /// A station stops at once and forgets everything: protocol, messages not settled, queues. The
    /// network controller is a chip of its own and sends what it has.
    Crash(usize),
    /// It starts anew with an engine that knows nothing. What its users were sending they open new
    /// circuits for.
    Restart(usize, Node),
    /// Nothing passes any more between these stations and all others. Cuts are numbered below
    /// [`CUTS_MAX`] and independent of each other.
    Partition(u32, Vec<usize>),
    /// Cut and joined are the same stations: what passed before the cut passes again.
    Heal(u32, Vec<usize>),
    /// What befalls frames from now on: on all links, or at all receivers of an ether.
    Faults(LinkConfig),
}
