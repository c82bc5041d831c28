//! The state cookie: all that an endpoint must remember of an INIT, kept by the peer (RFC 9260
//! section 5.1.3). Nobody but the endpoint that made it reads it.

use super::auth::AuthOffer;
use super::{u16_at, u32_at, u64_at};
use crate::numbers::{Port, Tag, Tsn};
use engine::keyed::siphash;
use engine::{Address, Instant, KeyedStream, LocalAddress, Path, Purpose, Secret};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Octets of the check at its end.
const MAC_LEN: usize = 16;

/// Octets in front of its addresses.
const FIELDS_LEN: usize = 64;

/// What an endpoint remembers of an INIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// When it was made, by the endpoint's clock.
    pub created_at: Instant,
    /// Milliseconds it is valid.
    pub life_ms: u32,
    /// The endpoint's port and the peer's.
    pub ports: (Port, Port),
    /// The tag the peer is to use.
    pub local_tag: Tag,
    /// The tag the peer chose.
    pub peer_tag: Tag,
    /// The tags of an association that existed, ours and the peer's; else both [`Tag::NONE`].
    pub tie_tags: (Tag, Tag),
    /// The endpoint's first TSN.
    pub local_tsn: Tsn,
    /// The peer's first TSN.
    pub peer_tsn: Tsn,
    /// The peer's receive window.
    pub peer_rwnd: u32,
    /// Streams to send on, and to accept.
    pub streams: (u16, u16),
    /// Both ends agreed on a checksum of zero.
    pub zero_checksum: bool,
    /// Both ends support FORWARD-TSN.
    pub forward_tsn: bool,
    /// Both ends support I-DATA.
    pub interleave: bool,
    /// Both ends support RE-CONFIG.
    pub reconfigure: bool,
    /// Both ends support ASCONF, authenticated.
    pub dynamic_addresses: bool,
    /// The number of the peer's user.
    pub adaptation: Option<u32>,
    /// What the peer offered of authentication.
    pub auth: Option<AuthOffer>,
    /// Where the INIT came from.
    pub path: Path,
    /// Other addresses of the peer.
    pub addresses: Vec<IpAddr>,
}

/// The keys of an endpoint's cookies: a new one each hour. A cookie of the hour before is still good.
#[derive(Clone, Debug)]
pub struct CookieKeys {
    secret: Secret,
    seed: u64,
}

/// How long a key makes cookies.
const KEY_LIFE_NS: u64 = 3_600_000_000_000;

impl CookieKeys {
    /// Keys that follow from `secret` and the endpoint's seed.
    pub fn new(secret: Secret, seed: u64) -> CookieKeys {
        CookieKeys { secret, seed }
    }

    /// SipHash-2-4 of `octets`, twice, under the keys of hour `hour`.
    fn mac(&self, hour: u64, octets: &[u8]) -> [u8; MAC_LEN] {
        let seed = self.seed.rotate_left(32) ^ hour;
        let mut keys = KeyedStream::new(&self.secret, Purpose::Cookies, seed);
        let mut half = || siphash([keys.next_u64(), keys.next_u64()], octets).to_be_bytes();
        let mut mac = [0; MAC_LEN];
        mac[..8].copy_from_slice(&half());
        mac[8..].copy_from_slice(&half());
        mac
    }
}

impl Cookie {
    /// Its octets with their check.
    pub fn emit(&self, keys: &CookieKeys) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIELDS_LEN + 64);
        out.extend(self.created_at.as_nanos().to_be_bytes());
        out.extend(self.life_ms.to_be_bytes());
        out.extend(self.ports.0.0.to_be_bytes());
        out.extend(self.ports.1.0.to_be_bytes());
        for number in [
            self.local_tag.0,
            self.peer_tag.0,
            self.tie_tags.0.0,
            self.tie_tags.1.0,
            self.local_tsn.0,
            self.peer_tsn.0,
            self.peer_rwnd,
        ] {
            out.extend(number.to_be_bytes());
        }
        out.extend(self.streams.0.to_be_bytes());
        out.extend(self.streams.1.to_be_bytes());
        out.extend(self.path.local.0.to_be_bytes());
        out.push(u8::from(self.zero_checksum));
        out.push(u8::from(self.forward_tsn));
        out.push(u8::from(self.interleave));
        out.push(u8::from(self.reconfigure));
        out.push(u8::from(self.dynamic_addresses));
        out.push(u8::from(self.adaptation.is_some()));
        out.extend(self.adaptation.unwrap_or(0).to_be_bytes());
        let mut auth = Vec::new();
        if let Some(offer) = &self.auth {
            offer.push(&mut auth);
        }
        out.extend((auth.len() as u16).to_be_bytes());
        out.extend([0; 2]);
        out.extend(auth);
        push_address(&mut out, self.path.remote);
        for ip in &self.addresses {
            push_address(&mut out, Address::Socket(SocketAddr::new(*ip, 0)));
        }
        let hour = self.created_at.as_nanos() / KEY_LIFE_NS;
        let mac = keys.mac(hour, &out);
        out.extend(mac);
        out
    }

    /// The cookie of `octets`; None if its check is wrong, so that nobody else made it, or if its key
    /// is older than two hours.
    pub fn open(octets: &[u8], keys: &CookieKeys, now: Instant) -> Option<Cookie> {
        let (body, mac) = octets.split_last_chunk::<MAC_LEN>()?;
        let created_at = Instant::from_nanos(u64_at(body, 0)?);
        let hour = created_at.as_nanos() / KEY_LIFE_NS;
        let hour_now = now.as_nanos() / KEY_LIFE_NS;
        if hour > hour_now || hour + 1 < hour_now {
            return None;
        }
        // A comparison whose time says nothing of where they differ.
        let expected = keys.mac(hour, body);
        let differs = mac
            .iter()
            .zip(expected)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        if differs != 0 {
            return None;
        }
        Cookie::parse(body, created_at)
    }

    fn parse(body: &[u8], created_at: Instant) -> Option<Cookie> {
        let number = |index: usize| u32_at(body, 16 + 4 * index);
        let (auth, mut rest) = body
            .get(FIELDS_LEN..)?
            .split_at_checked(u16_at(body, 60)?.into())?;
        let remote = take_address(&mut rest)?;
        let mut addresses = Vec::new();
        while !rest.is_empty() {
            match take_address(&mut rest)? {
                Address::Socket(socket) => addresses.push(socket.ip()),
                Address::Station(_) | Address::Ether(_) => return None,
            }
        }
        Some(Cookie {
            created_at,
            life_ms: u32_at(body, 8)?,
            ports: (Port(u16_at(body, 12)?), Port(u16_at(body, 14)?)),
            local_tag: Tag(number(0)?),
            peer_tag: Tag(number(1)?),
            tie_tags: (Tag(number(2)?), Tag(number(3)?)),
            local_tsn: Tsn(number(4)?),
            peer_tsn: Tsn(number(5)?),
            peer_rwnd: number(6)?,
            streams: (u16_at(body, 44)?, u16_at(body, 46)?),
            zero_checksum: body[50] != 0,
            forward_tsn: body[51] != 0,
            interleave: body[52] != 0,
            reconfigure: body[53] != 0,
            dynamic_addresses: body[54] != 0,
            adaptation: u32_at(body, 56).filter(|_| body[55] != 0),
            auth: AuthOffer::parse(auth),
            path: Path {
                local: LocalAddress(u16_at(body, 48)?),
                remote,
            },
            addresses,
        })
    }
}

fn push_address(out: &mut Vec<u8>, address: Address) {
    match address {
        Address::Socket(SocketAddr::V4(v4)) => {
            out.push(4);
            out.extend(v4.ip().octets());
            out.extend(v4.port().to_be_bytes());
        }
        Address::Socket(SocketAddr::V6(v6)) => {
            out.push(6);
            out.extend(v6.ip().octets());
            out.extend(v6.port().to_be_bytes());
        }
        Address::Station(station) => {
            out.push(1);
            out.extend(station.to_be_bytes());
        }
        Address::Ether(hardware) => {
            out.push(2);
            out.extend(hardware);
        }
    }
}

fn take_address(rest: &mut &[u8]) -> Option<Address> {
    let (&kind, octets) = rest.split_first()?;
    let socket = |ip: IpAddr, at: usize| {
        let port = u16_at(octets, at)?;
        Some(Address::Socket(SocketAddr::new(ip, port)))
    };
    let (address, len) = match kind {
        4 => (
            socket(Ipv4Addr::from(*octets.first_chunk::<4>()?).into(), 4)?,
            6,
        ),
        6 => (
            socket(Ipv6Addr::from(*octets.first_chunk::<16>()?).into(), 16)?,
            18,
        ),
        1 => (Address::Station(u32_at(octets, 0)?), 4),
        2 => (Address::Ether(*octets.first_chunk()?), 6),
        _ => return None,
    };
    *rest = &octets[len..];
    Some(address)
}
