//! A router (intermediate system) of XTP 3.6 on a UDP port.
//!
//! Endpoints on both sides name it as their gateway (option `gateway=ADDR:PORT`, with
//! `dialect=3.6`). It routes the first packet of an association by its address, and all later ones
//! by the route in the header. It forwards to the hosts in its configuration only.

use crate::socket;
use driver::RouterHost;
use engine::{Address, Counters, Protocol};
use engine_xtp::{RateLimit, RouterConfig};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use wire_udp::UdpWire;

/// Configuration of a router.
#[derive(Clone, Debug, Default)]
pub struct UdpRouterConfig {
    /// The next hop to each reachable host: the host itself, or another router.
    pub next_hops: BTreeMap<IpAddr, SocketAddr>,
    /// Rate limit of all associations of a route together; None for no limit.
    pub rate: Option<RateLimit>,
    /// Hosts that may ask for its paths and counters ([`super::ask`]).
    pub managers: Vec<IpAddr>,
}

/// A running router; dropping it stops it.
pub struct Router {
    host: RouterHost<engine_xtp::XtpRouter, UdpWire>,
    address: SocketAddr,
}

impl Router {
    /// Binds `local` and starts the router in its own thread.
    pub fn bind(local: SocketAddr, settings: &UdpRouterConfig) -> io::Result<Router> {
        let wire = UdpWire::bind(local)?;
        if let Some(socket) = wire::Wire::descriptor(&wire) {
            wire_udp::sys::set_buffers(socket, wire_udp::BUFFER_LEN);
        }
        let address = wire.local_addr()?;
        let next = settings.next_hops.iter();
        let engine = engine_xtp::XtpRouter::new(RouterConfig {
            next_hops: next
                .map(|(host, to)| (*host, Address::Socket(*to)))
                .collect(),
            only_listed: true,
            rate: settings.rate,
            managers: settings.managers.clone(),
            ..RouterConfig::default()
        });
        let host = RouterHost::new(engine, wire)?;
        Ok(Router { host, address })
    }

    /// The address it is bound to, which may be the wildcard address.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Its address as seen by `peer`: the source address of packets to it.
    pub fn address_towards(&self, peer: SocketAddr) -> io::Result<SocketAddr> {
        let own = socket::source_address_to(peer)?;
        Ok(SocketAddr::new(own, self.address.port()))
    }

    /// Whether the router works.
    ///
    /// # Errors
    ///
    /// A panic in it: it forwards no more.
    pub fn check(&self) -> io::Result<()> {
        self.host.check()
    }

    /// Imposes a rate limit on every route, and sends it to all neighbours; None for no limit.
    pub fn impose_rate(&self, rate: Option<RateLimit>) -> io::Result<()> {
        self.host.command(|router, now| router.set_rate(now, rate))
    }

    /// Path entries: routes between two neighbours.
    pub fn path_count(&self) -> usize {
        self.host.with_router(engine_xtp::XtpRouter::paths)
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        self.host.with_router(Protocol::counters)
    }
}
