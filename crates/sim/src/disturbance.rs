//! Disturbances of stations and medium during a run.

use crate::node::Node;
use link::LinkConfig;

/// Partitions that may exist at the same time.
pub const PARTITIONS_MAX: u32 = 64;

/// A disturbance at a certain time.
pub enum Disturbance {
    /// A station stops and loses its state: protocol, unsettled messages, queues. The network
    /// controller is a chip of its own and sends what it has.
    Crash(usize),
    /// The station restarts with a new engine. Its users reopen the circuits they were sending on.
    Restart(usize, Node),
    /// Nothing passes any more between these stations and all others. Partitions are numbered below
    /// [`PARTITIONS_MAX`] and independent of each other.
    Partition(u32, Vec<usize>),
    /// Ends the partition of the same number and stations.
    Heal(u32, Vec<usize>),
    /// Changes the faults: on all links, or at all receivers of an ether.
    Faults(LinkConfig),
}
