//! What can be set on a circuit.

use crate::contract::BLOCKING_TIMEOUT;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Options of a listener and its circuits. Both ends get the same.
///
/// An unset (`None`) option means: leave what the system does. What took effect is read back, see
/// [`crate::Circuit::effective`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Address the listener binds to; None for the loopback of the family.
    pub bind: Option<IpAddr>,
    /// The only address whose packets are heard, and so answered; None for any. The kernel drops
    /// those of others before any protocol sees them.
    pub only_from: Option<IpAddr>,
    /// Bytes of the messages to come; transports that make packets of one size use it.
    pub message_len: usize,
    /// Circuits the listener prepares for.
    pub circuits: usize,
    /// Each circuit a listener prepares for has one peer for good, so that its socket may be
    /// closed to others. Not so where circuits come and go.
    pub one_peer: bool,
    /// Bytes a byte stream's receiver asks for in one call.
    pub read_len: usize,
    /// Socket buffers in both directions, bytes.
    pub buffers: Option<usize>,
    /// TCP_NODELAY.
    pub nodelay: Option<bool>,
    /// TCP congestion control, by the kernel's name. Always set, because the system's default
    /// changes results.
    pub congestion: String,
    /// How long a blocking call on a socket waits at most before it gives `WouldBlock`; None for
    /// ever. A limit costs a timer each time a call sleeps, which shows in a delay; without one,
    /// shutting the socket down for reading ends the wait.
    pub blocking_timeout: Option<Duration>,
    /// Packets a batched or segmented call carries at most; None for as many as fit.
    pub batch: Option<usize>,
    /// Network interface of link-layer transports.
    pub interface: Option<String>,
    /// Ethernet type of link-layer transports. 0x88b5 is set aside for experiments (IEEE 802).
    pub ethertype: u16,
    /// Options only this transport knows, by name; see [`crate::Transport::options`].
    pub transport_specific: BTreeMap<String, String>,
}

/// Internet protocol version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            family: Family::V4,
            bind: None,
            only_from: None,
            message_len: 1024,
            circuits: 1,
            one_peer: false,
            read_len: 64 << 10,
            buffers: None,
            nodelay: None,
            congestion: "cubic".into(),
            blocking_timeout: Some(BLOCKING_TIMEOUT),
            batch: None,
            interface: None,
            ethertype: 0x88b5,
            transport_specific: BTreeMap::new(),
        }
    }
}

impl Options {
    /// The address a listener binds to.
    pub fn bind_address(&self) -> IpAddr {
        self.bind.unwrap_or(match self.family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        })
    }
}
