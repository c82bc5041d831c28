//! The addresses of an endpoint, which may come and go while it runs.

use super::endpoint::{Endpoint, EndpointWire};
use super::shared_port::PortWire;
use engine::{Instant, LocalAddress};
use engine_sctp::Sctp;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::Wire;
use wire_ip::IpWire;
use wire_udp::UdpWire;

/// SCTP's number among the protocols over IP (IANA).
const IP_PROTOCOL: u8 = 132;

/// A wire and its address.
type OpenedWire = (Box<dyn Wire + Send>, SocketAddr);

/// What an endpoint opens at each of its addresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Medium {
    /// A UDP socket; with segmentation or without.
    Udp { segmentation: bool },
    /// The part of SCTP's port `port` of a UDP socket that other endpoints of the process share.
    SharedUdp { segmentation: bool, port: u16 },
    /// A raw socket.
    Ip,
}

impl Medium {
    /// The wire at `address`, and the address it has then; of raw sockets the port is 0.
    pub(super) fn open(self, address: SocketAddr) -> io::Result<OpenedWire> {
        match self {
            Medium::Udp { segmentation } => {
                let mut wire = UdpWire::bind(address)?;
                if !segmentation {
                    wire.disable_segmentation()?;
                }
                let bound = wire.local_addr()?;
                Ok((Box::new(wire), bound))
            }
            Medium::SharedUdp { segmentation, port } => Ok((
                Box::new(PortWire::open(address, port, segmentation)?),
                address,
            )),
            Medium::Ip => Ok((Box::new(IpWire::bind(address.ip(), IP_PROTOCOL)?), address)),
        }
    }
}

/// The addresses of an endpoint. Each keeps its index ([`LocalAddress`]) when it goes.
///
/// Its lock is taken last: after that of the endpoint, where both are.
pub(super) struct OwnAddresses(Mutex<Vec<OwnAddress>>);

struct OwnAddress {
    address: SocketAddr,
    is_lost: bool,
}

impl OwnAddresses {
    pub(super) fn new(addresses: &[SocketAddr]) -> OwnAddresses {
        let of = |address: &SocketAddr| OwnAddress {
            address: *address,
            is_lost: false,
        };
        OwnAddresses(Mutex::new(addresses.iter().map(of).collect()))
    }

    /// Those that it has now.
    pub(super) fn present(&self) -> Vec<SocketAddr> {
        let known = self.lock();
        let present = known.iter().filter(|own| !own.is_lost);
        present.map(|own| own.address).collect()
    }

    /// The one with this index, also one that it lost; the first for an index that it never had.
    pub(super) fn at(&self, index: LocalAddress) -> SocketAddr {
        let known = self.lock();
        let own = known.get(usize::from(index.0)).or(known.first());
        own.expect("an endpoint has an address").address
    }

    /// The index of an address that it has now.
    pub(super) fn index_of(&self, address: IpAddr) -> Option<LocalAddress> {
        let known = self.lock();
        let is_it = |own: &OwnAddress| own.address.ip() == address && !own.is_lost;
        known
            .iter()
            .position(is_it)
            .map(|at| LocalAddress(at as u16))
    }

    /// The index that an address gets or gets back, with the port of the others.
    fn place_of(&self, address: IpAddr) -> io::Result<(LocalAddress, SocketAddr)> {
        let known = self.lock();
        let first = known.first().expect("an endpoint has an address").address;
        if first.ip().is_unspecified() || address.is_unspecified() {
            return Err(invalid(format!(
                "{address} cannot join {first}: an endpoint at all addresses of the host gets none \
                 besides, bind to each instead"
            )));
        }
        let found = known.iter().position(|own| own.address.ip() == address);
        if found.is_some_and(|at| !known[at].is_lost) {
            let text = format!("the endpoint has {address} already");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let index = LocalAddress(found.unwrap_or(known.len()) as u16);
        Ok((index, SocketAddr::new(address, first.port())))
    }

    fn set(&self, index: LocalAddress, address: SocketAddr) {
        let own = OwnAddress {
            address,
            is_lost: false,
        };
        let mut known = self.lock();
        match known.get_mut(usize::from(index.0)) {
            Some(place) => *place = own,
            None => known.push(own),
        }
    }

    fn lose(&self, index: LocalAddress) {
        if let Some(own) = self.lock().get_mut(usize::from(index.0)) {
            own.is_lost = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OwnAddress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Endpoint {
    /// Binds another address of the host, or one that was lost, with the port of the others. Associations
    /// that open from now on list it. Each open one whose peer can (option `addresses`) asks it to add the
    /// address, and has paths from it when the peer has agreed, which a notice tells
    /// ([`Notice::OwnAddress`](super::Notice::OwnAddress)); others stay as they are.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for an address that the endpoint has, `InvalidInput` at an endpoint that stands for
    /// all addresses of the host or has had 64, else those of binding a socket.
    pub fn gain_address(&self, address: IpAddr) -> io::Result<()> {
        let gain = |engine: &mut Sctp, wire: &mut EndpointWire, now| {
            let (index, at) = self.addresses.place_of(address)?;
            let many = wire.wire_mut();
            many.put(index, self.medium.open(at)?.0)?;
            if engine.gain_address(now, address).is_err() {
                many.remove(index)?;
                return Err(invalid(format!(
                    "the endpoint takes no other address than those it had; {address} is one too many"
                )));
            }
            self.addresses.set(index, at);
            Ok(())
        };
        self.inner.command_with_wire(gain)?
    }

    /// Closes the socket at an address, which the host may have lost already. Associations that open from
    /// now on do not list it; open ones go on by others, and tell their peer if it can.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that the endpoint does not have, and for the last one.
    pub fn lose_address(&self, address: IpAddr) -> io::Result<()> {
        let lose = |engine: &mut Sctp, wire: &mut EndpointWire, now: Instant| {
            let index = self.addresses.index_of(address);
            let lost = index.filter(|index| engine.lose_address(now, *index).is_ok());
            let index = lost.ok_or_else(|| {
                invalid(format!(
                    "the endpoint cannot lose {address}: it does not have it, or has no other"
                ))
            })?;
            self.addresses.lose(index);
            wire.wire_mut().remove(index).map(drop)
        };
        self.inner.command_with_wire(lose)?
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
