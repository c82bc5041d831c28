//! Options of listeners and circuits.

use crate::contract::BLOCKING_TIMEOUT;
use crate::raw_sockets::GrantedSockets;
use engine_aal34::CellsConfig;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::discard::DiscardMeter;

/// Options of a listener and its circuits; the same at both ends.
///
/// An unset (`None`) option keeps the system's default. [`crate::Circuit::effective`] reads back
/// the values in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Address the listener binds to; None for the loopback address.
    pub bind: Option<IpAddr>,
    /// UDP port that the listener of an engine binds to; 0 for one of the system's. With another than 0
    /// `circuits` has to be 1, because each has a port of its own; other transports ignore it.
    pub bind_port: u16,
    /// Addresses of this end, one a link between the ends, of one family; empty where there is one
    /// path, as within a host. The first is the one that a transport with one path uses; a transport
    /// with several binds a wire to each (`wire::Many`), in this order.
    pub local_addresses: Vec<IpAddr>,
    /// Addresses of the other end, link by link as `local_addresses`.
    pub peer_addresses: Vec<IpAddr>,
    /// The only source address whose packets are accepted; None for any. A socket filter drops all
    /// others before any protocol sees them.
    pub only_from: Option<IpAddr>,
    /// Message length, for transports whose packets have one size.
    pub message_len: usize,
    /// Circuits that the listener provides.
    pub circuits: usize,
    /// Each circuit of the listener keeps its first peer, so that its socket may be connected to
    /// that peer. False where circuits are opened and closed repeatedly.
    pub one_peer: bool,
    /// All circuits of an end are entities of one endpoint, where the transport's endpoints have
    /// several: those of transactions do. Elsewhere each has an endpoint or a socket of its own.
    pub share_endpoint: bool,
    /// Bytes of one read of a byte stream.
    pub read_len: usize,
    /// SO_SNDBUF and SO_RCVBUF, bytes.
    pub buffers: Option<usize>,
    /// TCP_NODELAY.
    pub nodelay: Option<bool>,
    /// TCP congestion control, by the kernel's name. Always set: with the system's default, results
    /// would differ between hosts.
    pub congestion: String,
    /// Timeout of blocking socket calls (SO_RCVTIMEO, SO_SNDTIMEO), after which they return
    /// `WouldBlock`; None for no timeout. A timeout sets a timer on each sleep, which adds to
    /// latency; without one, shutting the socket down for reading ends the wait.
    pub blocking_timeout: Option<Duration>,
    /// Most packets in one batched or segmented call; None for as many as fit.
    pub batch: Option<usize>,
    /// Network interface for link-layer transports.
    pub interface: Option<String>,
    /// EtherType of link-layer transports. 0x88b5 is reserved for experiments (IEEE 802).
    pub ethertype: u16,
    /// Raw sockets from a process that may open them, used instead of opening some.
    pub raw_sockets: Option<GrantedSockets>,
    /// ATM cells between an engine's packets and its wire. Set by a transport that has the option
    /// `cells`; others have no place for them.
    pub cells: Option<CellsConfig>,
    /// The packets of circuits that connect are copied, counted here and discarded. For transports that say so
    /// ([`crate::Transport::sends_unanswered`]); others send as always.
    pub discard: Option<DiscardMeter>,
    /// Options of this transport alone, by name; see [`crate::Transport::options`].
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
            bind_port: 0,
            local_addresses: Vec::new(),
            peer_addresses: Vec::new(),
            only_from: None,
            message_len: 1024,
            circuits: 1,
            one_peer: false,
            share_endpoint: false,
            read_len: 64 << 10,
            buffers: None,
            nodelay: None,
            congestion: "cubic".into(),
            blocking_timeout: Some(BLOCKING_TIMEOUT),
            batch: None,
            interface: None,
            ethertype: 0x88b5,
            raw_sockets: None,
            cells: None,
            discard: None,
            transport_specific: BTreeMap::new(),
        }
    }
}

/// The switch `name` among a transport's options `own`; `default` where it is not given.
/// The error is a sentence that names the option and its values.
pub(crate) fn switch(
    own: &BTreeMap<String, String>,
    name: &str,
    default: bool,
) -> Result<bool, String> {
    match own.get(name).map(String::as_str) {
        None => Ok(default),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(format!("'{other}' is no value of {name}; give on or off")),
    }
}

/// The error of an option that was not checked before a listen or a connect.
pub(crate) fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

impl Options {
    /// The only source address whose packets are accepted by link `link`; None for any.
    pub(crate) fn only_from_by(&self, link: usize) -> Option<IpAddr> {
        let first = self.only_from?;
        match link {
            0 => Some(first),
            link => Some(self.peer_addresses.get(link).copied().unwrap_or(first)),
        }
    }

    /// The address a listener binds to.
    pub fn bind_address(&self) -> IpAddr {
        self.bind.unwrap_or(match self.family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        })
    }
}
