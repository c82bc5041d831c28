//! MAINT of XTP 3.x: a question that every endpoint and router of these versions echoes (decision 0008, MAINT).
//!
//! A [`Pinger`] asks one host, directly or along a path of routers, and recognises its own answers by what is in them:
//! nobody who did not see a question can answer it. An answer is as long as its question, so that a forged source gets no
//! more octets than were sent. With a [`Pinger::path`] each question says how many routers it may pass, and the one at which it ends answers.

use crate::engine_setup::random_seed;
use crate::socket::wildcard_address;
use engine_xtp::pdu::v3::{
    BodyV3, HeaderV3, InformationSegment, OP_EXPIRED, OP_REQUEST, OP_RESPONSE, PacketKind,
    PacketV3, RTN_V3,
};
use engine_xtp::pdu::{AddressSegment, Endpoints, Version};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Octets of a question at least: what makes it unique, and its number.
pub const SIZE_MIN: usize = 12;

/// Octets of a question at most: they fit an Ethernet frame over IPv6.
pub const SIZE_MAX: usize = 1384;

/// Time to live of questions that are to reach their host: routers that they may pass.
const TTL_MAX: u8 = 255;

/// Asks one host.
#[derive(Debug)]
pub struct Pinger {
    socket: UdpSocket,
    version: Version,
    size: usize,
    /// In each question and answer.
    secret: u64,
    key: u32,
    /// The route to the first router; 0 without one.
    route: u32,
    next: u32,
    path: Option<Path>,
}

/// A path of routers.
#[derive(Clone, Copy, Debug)]
struct Path {
    from: SocketAddr,
    to: SocketAddr,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of the question.
    pub number: u32,
    /// When it came.
    pub at: Instant,
    /// Whether it is of a router that the question may not pass.
    pub is_router: bool,
}

impl Pinger {
    /// Asks the host at `to` in `version`, with questions of `size` octets.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for XTP 4.0, which has no MAINT, and for a size out of range; those of the socket.
    pub fn new(to: SocketAddr, version: Version, size: usize) -> io::Result<Pinger> {
        if !version.is_v3() {
            return Err(invalid_input(
                "XTP 4.0 has no MAINT; choose dialect 3.6, 3.5 or 3.3",
            ));
        }
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            return Err(invalid_input("a question has 12 to 1384 octets"));
        }
        let socket = UdpSocket::bind(wildcard_address(&to))?;
        socket.connect(to)?;
        Ok(Pinger {
            socket,
            version,
            size,
            secret: random_seed(),
            key: random_seed() as u32 & !RTN_V3,
            route: 0,
            next: 0,
            path: None,
        })
    }

    /// Asks the host at `to`, and the routers on the way, through the router at `via`.
    /// Errors are those of [`new`](Pinger::new); `InvalidInput` for addresses of two families.
    pub fn path(via: SocketAddr, to: SocketAddr, size: usize) -> io::Result<Pinger> {
        if via.is_ipv4() != to.is_ipv4() {
            return Err(invalid_input(
                "the router and the host have addresses of two families",
            ));
        }
        let mut pinger = Pinger::new(via, Version::V36, size)?;
        let from = pinger.socket.local_addr()?;
        // 0 is none, and the top bit says whose value it is.
        pinger.route = (random_seed() as u32 & !RTN_V3).max(1);
        pinger.path = Some(Path { from, to });
        Ok(pinger)
    }

    /// Asks once; the number of the question. Along a path it passes at most `ttl` routers, or as many as there are.
    /// Errors are those of the socket, of an earlier question too: nobody listens there, or there is no way.
    pub fn ask(&mut self, ttl: Option<u8>) -> io::Result<u32> {
        if let Some(path) = self.path {
            // Each time: it is a path's first packet if the last one was lost, and renews it otherwise.
            let body = BodyV3::Path(segment(path)?);
            self.send(body, TTL_MAX)?;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let octets = self.octets(number);
        let body = BodyV3::Maint(InformationSegment {
            op: OP_REQUEST,
            octets: &octets,
        });
        self.send(body, ttl.unwrap_or(TTL_MAX))?;
        Ok(number)
    }

    /// The next answer to one of its questions; None when there is none until `end`.
    /// Errors are those of [`ask`](Pinger::ask).
    pub fn answer(&mut self, end: Instant) -> io::Result<Option<Answer>> {
        let mut packet = [0; 2048];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket
                .set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
            let len = match self.socket.recv(&mut packet) {
                Ok(len) => len,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let at = Instant::now();
            if let Some((number, is_router)) = self.read(&packet[..len]) {
                return Ok(Some(Answer {
                    number,
                    at,
                    is_router,
                }));
            }
        }
    }

    fn send(&self, body: BodyV3<'_>, ttl: u8) -> io::Result<()> {
        let kind = match body {
            BodyV3::Path(_) => PacketKind::Path,
            _ => PacketKind::Maint,
        };
        let header = HeaderV3 {
            key: self.key,
            ..HeaderV3::plain(kind, self.route, ttl)
        };
        let packet = PacketV3 { header, body }.emit(self.version);
        self.socket.send(&packet).map(drop)
    }

    /// What is asked: the secret, the number, and a pattern.
    fn octets(&self, number: u32) -> Vec<u8> {
        let mut octets = [&self.secret.to_be_bytes()[..], &number.to_be_bytes()].concat();
        octets.extend((SIZE_MIN..self.size).map(|at| at as u8));
        octets
    }

    /// The number of the question that a packet answers, and whether a router answered it.
    fn read(&self, packet: &[u8]) -> Option<(u32, bool)> {
        let parsed = PacketV3::parse(self.version, packet).ok()?;
        let BodyV3::Maint(InformationSegment { op, octets }) = parsed.body else {
            return None;
        };
        let number = u32::from_be_bytes(*octets.get(8..)?.first_chunk()?);
        // Padding to a multiple of four may stand behind what was asked.
        let is_own =
            parsed.header.key == self.key ^ RTN_V3 && octets.starts_with(&self.octets(number));
        let answers = matches!(op, OP_RESPONSE | OP_EXPIRED) && is_own && number < self.next;
        answers.then_some((number, op == OP_EXPIRED))
    }
}

/// The address segment of a path.
fn segment(path: Path) -> io::Result<AddressSegment<'static>> {
    let (src_port, dst_port) = (path.from.port(), path.to.port());
    match (path.from.ip(), path.to.ip()) {
        (IpAddr::V4(src_host), IpAddr::V4(dst_host)) => Ok(AddressSegment::V4(Endpoints {
            dst_host,
            src_host,
            dst_port,
            src_port,
        })),
        (IpAddr::V6(src_host), IpAddr::V6(dst_host)) => Ok(AddressSegment::V6(Endpoints {
            dst_host,
            src_host,
            dst_port,
            src_port,
        })),
        _ => Err(invalid_input(
            "the router and the host have addresses of two families",
        )),
    }
}

fn invalid_input(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text)
}
