//! An intermediate system of XTP 3.6 on a UDP port.
//!
//! Endpoints on both sides name it as their gateway (the word `gateway=ADDR:PORT`, with
//! `dialect=3.6`). It looks at the address in the first packet of an association, and from then on
//! at the route in the header alone. It passes on to hosts it is told of and to no others.

use crate::socket;
use driver::Endpoint;
use engine::{Address, Counters, Engine};
use engine_xtp::{RateLimit, RouterConfig};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use wire_udp::UdpWire;

/// What is set on a forwarder.
#[derive(Clone, Debug, Default)]
pub struct UdpRouterConfig {
    /// The neighbour on the way to each host that can be reached: its own port, or another forwarder.
    pub next_hops: BTreeMap<IpAddr, SocketAddr>,
    /// What all associations of a route together may send through it; None for no limit.
    pub rate: Option<RateLimit>,
}

/// A forwarder at work; dropping it ends it.
pub struct Router {
    endpoint: Endpoint<engine_xtp::Router, UdpWire>,
    address: SocketAddr,
}

impl Router {
    /// Binds `local` and begins. A thread of its own does the work.
    ///
    /// # Errors
    ///
    /// What the kernel says about the address.
    pub fn bind(local: SocketAddr, settings: &UdpRouterConfig) -> io::Result<Router> {
        let wire = UdpWire::bind(local)?;
        if let Some(socket) = wire::Wire::descriptor(&wire) {
            wire_udp::sys::set_buffers(socket, wire_udp::BUFFER_LEN);
        }
        let address = wire.local_addr()?;
        let next = settings.next_hops.iter();
        let engine = engine_xtp::Router::new(RouterConfig {
            next_hops: next
                .map(|(host, to)| (*host, Address::Socket(*to)))
                .collect(),
            only_listed: true,
            rate: settings.rate,
            ..RouterConfig::default()
        });
        let endpoint = Endpoint::new(engine, wire, SEND_BUFFER_LEN)?;
        Ok(Router { endpoint, address })
    }

    /// Where it is; the unspecified address if it was bound to that.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Its address as neighbours on the way to `peer` see it.
    ///
    /// # Errors
    ///
    /// What the kernel says about the way.
    pub fn address_towards(&self, peer: SocketAddr) -> io::Result<SocketAddr> {
        let probe = std::net::UdpSocket::bind(socket::wildcard_address(&peer))?;
        probe.connect(peer)?;
        Ok(SocketAddr::new(
            probe.local_addr()?.ip(),
            self.address.port(),
        ))
    }

    /// Imposes a rate on every route from now on, and tells all neighbours; None for no limit.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn impose_rate(&self, rate: Option<RateLimit>) -> io::Result<()> {
        self.endpoint
            .command(|engine, now| engine.set_rate(now, rate))
    }

    /// Trails there are: routes between two neighbours.
    pub fn path_count(&self) -> usize {
        self.endpoint.with_pump(|pump| pump.engine().paths())
    }

    /// The work done so far.
    pub fn counters(&self) -> Counters {
        self.endpoint.with_pump(|pump| pump.engine().counters())
    }
}

/// Octets of the stores of its circuits, of which it has none.
const SEND_BUFFER_LEN: usize = 64 << 10;
