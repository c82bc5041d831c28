//! Disturbances of stations and medium during a run.

use crate::node::Node;
use link::LinkConfig;

/// Partitions that may exist at the same time.
pub const PARTITIONS_MAX: u32 = 64;

/// Names a partition. Partitions are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Below [`PARTITIONS_MAX`].
    pub number: u32,
    /// The path it cuts; None for all of them.
    pub path: Option<usize>,
}

/// A disturbance at a certain time.
pub enum Disturbance {
    /// A station stops and loses its state: protocol, unsettled messages, queues. The network
    /// controller is a chip of its own and sends what it has.
    Crash(usize),
    /// The station restarts with a new engine. Its users reopen the circuits they were sending on.
    Restart(usize, Node),
    /// Nothing passes any more between these stations and all others.
    Partition(Partition, Vec<usize>),
    /// Ends the same partition of the same stations.
    Heal(Partition, Vec<usize>),
    /// Changes the faults of a path: on all its links, or at all receivers of its ether.
    Faults(usize, LinkConfig),
    /// The rings of these stations end, with what is in them, and none are exchanged.
    CutRings(Vec<usize>),
    /// Ends the same of the same stations.
    AllowRings(Vec<usize>),
}
