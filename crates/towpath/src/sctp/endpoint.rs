//! The endpoint: UDP or raw IP sockets with any number of associations.

use super::association::Association;
use super::config::EndpointConfig;
use super::notice::Inboxes;
use super::own_addresses::{Medium, OwnAddresses};
use crate::xtp::{contexts, tracing};
use driver::timeout::finite;
use engine::{Address, Associations, PathError};
use engine_sctp::{LocalAddresses, Sctp, SctpConfig};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use wire::trace::Traced;
use wire::{Many, Wire};

/// The wire of an endpoint: a socket an address.
pub type EndpointWire = Traced<Many<Box<dyn Wire + Send>>>;

/// Octets of a full packet on raw IP: Ethernet's 1500 less 40 for the header of IPv6.
const IP_PACKET_LEN: usize = 1460;

/// An SCTP endpoint. Clones share it.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) inner: driver::Endpoint<Sctp, EndpointWire>,
    pub(super) addresses: Arc<OwnAddresses>,
    pub(super) medium: Medium,
    inboxes: Arc<Inboxes>,
    send_buffer_len: usize,
}

/// Ports that are tried until one is free at all addresses.
const PORTS_TRIED: u32 = 20;

impl Endpoint {
    /// Binds a UDP socket at each of `local`, all with the port of the first; 0 for any that is free at
    /// all of them. Several addresses are listed to peers; with one, such as 0.0.0.0, none is.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no address, for several of which one stands for all of the host or has
    /// another port, else those of binding a socket.
    pub fn bind(local: &[SocketAddr], config: &EndpointConfig) -> io::Result<Endpoint> {
        check_addresses(local)?;
        let medium = Medium::Udp {
            segmentation: config.segmentation,
        };
        let (wires, bound) = open_all(local, medium)?;
        Endpoint::over((wires, medium), &bound, config)
    }

    /// As [`Endpoint::bind`], with UDP sockets that all endpoints of the process share which are bound to the same
    /// addresses by this call: each has an SCTP port of its own, that of `config`, for associations that it opens
    /// too. A packet for a port that none has is refused.
    /// Errors are those of [`Endpoint::bind`]; `InvalidInput` without an own SCTP port or a UDP port, and `AddrInUse`
    /// for an SCTP port that an endpoint of the process has there.
    pub fn bind_shared(local: &[SocketAddr], config: &EndpointConfig) -> io::Result<Endpoint> {
        check_addresses(local)?;
        let port = config
            .config
            .local_port
            .filter(|port| *port == config.config.port);
        let (Some(port), true) = (port, local[0].port() != 0) else {
            let text =
                "endpoints that share a UDP port have a number for it, and an SCTP port each";
            return Err(invalid(text));
        };
        let medium = Medium::SharedUdp {
            segmentation: config.segmentation,
            port: port.0,
        };
        let (wires, bound) = open_all(local, medium)?;
        Endpoint::over((wires, medium), &bound, config)
    }

    /// Opens a raw socket of IP's protocol 132 at each of `local`. Addresses of peers have port 0 then, and
    /// SCTP's own ports tell the endpoints of a host apart. A full packet has at
    /// most 1460 octets: Ethernet's 1500 less the header of IPv6.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no address or for several of which one stands for all of the host;
    /// `PermissionDenied`, with the remedy, without the right to raw sockets.
    pub fn bind_ip(local: &[IpAddr], config: &EndpointConfig) -> io::Result<Endpoint> {
        let addresses: Vec<SocketAddr> = local
            .iter()
            .map(|local| SocketAddr::new(*local, 0))
            .collect();
        check_addresses(&addresses)?;
        let mut config = config.clone();
        config.config.shared_address = true;
        config.config.packet_len = config.config.packet_len.min(IP_PACKET_LEN);
        let (wires, _) = open_once(&addresses, Medium::Ip)?;
        Endpoint::over((wires, Medium::Ip), &addresses, &config)
    }

    fn over(
        (wires, medium): (Vec<Box<dyn Wire + Send>>, Medium),
        addresses: &[SocketAddr],
        config: &EndpointConfig,
    ) -> io::Result<Endpoint> {
        let own = Address::Socket(addresses[0]);
        let wire = Traced::new(Many::new(wires)?, tracing::process_log()?, own);
        let engine = Sctp::new(SctpConfig {
            local_addresses: LocalAddresses::Internet(
                addresses.iter().map(SocketAddr::ip).collect(),
            ),
            report_unacknowledged: true,
            ..config.config()
        });
        let endpoint = Endpoint {
            inner: driver::Endpoint::new(engine, wire, config.send_buffer_len)?,
            addresses: Arc::new(OwnAddresses::new(addresses)),
            medium,
            inboxes: Arc::default(),
            send_buffer_len: config.send_buffer_len,
        };
        if contexts::enabled_by_environment() {
            // An endpoint works without reports too.
            let _ = endpoint.serve_contexts();
        }
        Ok(endpoint)
    }

    /// The addresses it is bound to now, in the order in which it got them.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.addresses.present()
    }

    /// Accepts associations that peers open, or refuses them (the initial state).
    pub fn listen(&self, accept: bool) {
        self.inner.listen(accept);
    }

    /// The next association that a peer opened; waits up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or errors of the sockets.
    pub fn accept(&self, limit: Duration) -> io::Result<Association> {
        Ok(self.association(self.inner.accept(finite(limit))?))
    }

    /// Opens an association to the peer with the addresses `to`; waits up to `limit` for the handshake,
    /// which tries them in turn. An address to which this host has no way is left for the end.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no address, `ConnectionRefused` or `TimedOut`, or why nothing can be sent to any
    /// of them.
    pub fn connect(&self, to: &[SocketAddr], limit: Duration) -> io::Result<Association> {
        let mut named: Vec<Address> = to.iter().copied().map(Address::Socket).collect();
        let mut untried = named.len();
        let end = std::time::Instant::now() + finite(limit);
        loop {
            let Some(&first) = named.first() else {
                return Err(invalid("no address to connect to; name one at least"));
            };
            let open = |engine: &mut Sctp, now| engine.connect(now, &named);
            let left = end.saturating_duration_since(std::time::Instant::now());
            untried -= 1;
            match self.inner.connect_by(first, left, open) {
                Err(error) if untried > 0 && is_of_this_host(&error) => named.rotate_left(1),
                opened => return Ok(self.association(opened?)),
            }
        }
    }

    pub(super) fn association(&self, circuit: driver::Circuit<Sctp, EndpointWire>) -> Association {
        Association::new(
            circuit,
            Arc::clone(&self.addresses),
            Arc::clone(&self.inboxes),
            self.send_buffer_len / 2,
        )
    }
}

/// Whether an error says that this host cannot send to an address, and nothing of the peer.
fn is_of_this_host(error: &io::Error) -> bool {
    error.raw_os_error().is_some() && matches!(wire::path_error(error), Some(PathError::Local(_)))
}

fn check_addresses(local: &[SocketAddr]) -> io::Result<()> {
    let Some(first) = local.first() else {
        return Err(invalid("no address to bind; name one at least"));
    };
    if local.iter().any(|one| one.port() != first.port()) {
        let text = "the addresses of an endpoint have one UDP port; name the same at each";
        return Err(invalid(text));
    }
    if local.len() > 1 && local.iter().any(|one| one.ip().is_unspecified()) {
        let text =
            "one of several addresses stands for all of the host; name each, or this one alone";
        return Err(invalid(text));
    }
    Ok(())
}

/// Wires, and the addresses they have.
type OpenedWires = (Vec<Box<dyn Wire + Send>>, Vec<SocketAddr>);

/// A wire at each address. Without a port all get the one that the first was given, if it is free.
fn open_all(local: &[SocketAddr], medium: Medium) -> io::Result<OpenedWires> {
    let is_any_port = local.iter().all(|one| one.port() == 0);
    let mut tried = 1;
    loop {
        match open_once(local, medium) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && is_any_port
                    && tried < PORTS_TRIED =>
            {
                tried += 1;
            }
            other => return other,
        }
    }
}

fn open_once(local: &[SocketAddr], medium: Medium) -> io::Result<OpenedWires> {
    let (mut wires, mut bound) = (Vec::new(), Vec::new());
    let mut port = 0;
    for address in local {
        let port_here = if address.port() == 0 {
            port
        } else {
            address.port()
        };
        let (wire, at) = medium.open(SocketAddr::new(address.ip(), port_here))?;
        port = at.port();
        wires.push(wire);
        bound.push(at);
    }
    Ok((wires, bound))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
