//! The endpoint: UDP sockets with any number of associations.

use super::association::Association;
use super::config::EndpointConfig;
use super::notice::Inboxes;
use crate::xtp::{contexts, tracing};
use driver::timeout::finite;
use engine::{Address, Associations};
use engine_sctp::{LocalAddresses, Sctp, SctpConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Many;
use wire::trace::Traced;
use wire_udp::UdpWire;

/// The wire of an endpoint: a socket an address.
pub type EndpointWire = Traced<Many<UdpWire>>;

/// An SCTP endpoint. Clones share it.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) inner: driver::Endpoint<Sctp, EndpointWire>,
    pub(super) addresses: Arc<[SocketAddr]>,
    inboxes: Arc<Inboxes>,
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
        let wires = bind_all(local)?;
        let bound: io::Result<Vec<SocketAddr>> = wires.iter().map(UdpWire::local_addr).collect();
        let addresses: Arc<[SocketAddr]> = bound?.into();
        let mut wire = Many::new(wires)?;
        if !config.segmentation {
            wire.wires_mut()
                .try_for_each(UdpWire::disable_segmentation)?;
        }
        let own = Address::Socket(addresses[0]);
        let wire = Traced::new(wire, tracing::process_log()?, own);
        let engine = Sctp::new(SctpConfig {
            local_addresses: LocalAddresses::Internet(
                addresses.iter().map(SocketAddr::ip).collect(),
            ),
            report_unacknowledged: true,
            ..config.config()
        });
        let endpoint = Endpoint {
            inner: driver::Endpoint::new(engine, wire, config.send_buffer_len)?,
            addresses,
            inboxes: Arc::default(),
        };
        if contexts::enabled_by_environment() {
            // An endpoint works without reports too.
            let _ = endpoint.serve_contexts();
        }
        Ok(endpoint)
    }

    /// The addresses it is bound to.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
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
    /// which tries them in turn.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no address, `ConnectionRefused` or `TimedOut`.
    pub fn connect(&self, to: &[SocketAddr], limit: Duration) -> io::Result<Association> {
        let named: Vec<Address> = to.iter().copied().map(Address::Socket).collect();
        let Some(&first) = named.first() else {
            return Err(invalid("no address to connect to; name one at least"));
        };
        let open = |engine: &mut Sctp, now| engine.connect(now, &named);
        let circuit = self.inner.connect_by(first, finite(limit), open)?;
        Ok(self.association(circuit))
    }

    pub(super) fn association(&self, circuit: driver::Circuit<Sctp, EndpointWire>) -> Association {
        Association::new(
            circuit,
            Arc::clone(&self.addresses),
            Arc::clone(&self.inboxes),
        )
    }
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

/// A wire at each address. Without a port all get the one that the first was given, if it is free.
fn bind_all(local: &[SocketAddr]) -> io::Result<Vec<UdpWire>> {
    let is_any_port = local.iter().all(|one| one.port() == 0);
    let mut tried = 1;
    loop {
        match bind_once(local) {
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

fn bind_once(local: &[SocketAddr]) -> io::Result<Vec<UdpWire>> {
    let (mut wires, mut port) = (Vec::new(), 0);
    for address in local {
        let port_here = if address.port() == 0 {
            port
        } else {
            address.port()
        };
        let wire = UdpWire::bind(SocketAddr::new(address.ip(), port_here))?;
        port = wire.local_addr()?.port();
        wires.push(wire);
    }
    Ok(wires)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
