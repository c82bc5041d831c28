//! The half of a protocol that forwards what others built.

use crate::{Path, Protocol};

/// An intermediate system: a router, or a relay. It has no associations of its own.
pub trait Router: Protocol {
    /// Which arrival the packet last transmitted was, counted as
    /// [`crate::Counters::packets_parsed`]; 0 for a packet of the router's own.
    fn forwarded_from(&self) -> u64;

    /// Whether the packet from `path` that begins with `head` can be passed on before the rest of it
    /// is here (cut-through).
    fn supports_cut_through(&self, path: Path, head: &[u8]) -> bool;
}
