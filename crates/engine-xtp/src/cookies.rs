//! Cookies: keys for associations that this side does not remember (0021).
//!
//! A cookie is a keyed function of the peer's address and key and of the time, as the sequence
//! numbers of SYN cookies are (RFC 4987 s. 3.6) and the tokens of Retry (RFC 9000 s. 8.1.2). Who
//! returns it hears what is sent to that address.

use crate::config::Config;
use crate::numbers::{Key, SyncNumber};
use core::net::SocketAddr;
use engine::{Address, Instant, KeyedStream, siphash};

/// The secret of an endpoint's cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    key: [u64; 2],
    sync_key: [u64; 2],
    /// A cookie is good in the period in which it was made and in the next one.
    period_ns: u64,
}

/// Keeps cookies apart from keys of contexts: never zero, and without RTN.
const COOKIE_BIT: u64 = 1 << 62;

impl Cookies {
    /// Cookies whose secret is drawn from `stream`.
    pub(crate) fn new(config: &Config, mut stream: KeyedStream) -> Cookies {
        let mut pair = || [stream.next_u64(), stream.next_u64()];
        Cookies {
            key: pair(),
            sync_key: pair(),
            // An initiator gives up after `handshake_max`.
            period_ns: (config.handshake_max.as_nanos() as u64 / 2).max(1),
        }
    }

    /// The key that answers the initiator's `key` from `peer`.
    pub(crate) fn make(&self, now: Instant, peer: Address, key: Key) -> Key {
        self.of_period(now.as_nanos() / self.period_ns, peer, key)
    }

    /// Whether `cookie` was made for the initiator's `key` from `peer`, not long ago.
    pub(crate) fn is_valid(&self, now: Instant, peer: Address, key: Key, cookie: Key) -> bool {
        let period = now.as_nanos() / self.period_ns;
        let made_in = |period| self.of_period(period, peer, key) == cookie;
        made_in(period) || period > 0 && made_in(period - 1)
    }

    /// The first sync of the association: the same in each answer, since the initiator echoes the
    /// latest that it saw.
    pub(crate) fn sync(&self, peer: Address, key: Key) -> SyncNumber {
        SyncNumber(siphash(self.sync_key, named(peer, key, 0).as_flattened()) as u32)
    }

    fn of_period(&self, period: u64, peer: Address, key: Key) -> Key {
        let hash = siphash(self.key, named(peer, key, period).as_flattened());
        Key::in_field((hash >> 1) | COOKIE_BIT)
    }
}

/// What a cookie stands for, in octets that no other peer, key and period have.
fn named(peer: Address, key: Key, period: u64) -> [[u8; 8]; 6] {
    let [kind, high, low, port] = match peer {
        Address::Station(station) => [1, 0, u64::from(station), 0],
        Address::Ether([a, b, c, d, e, f]) => {
            [2, 0, u64::from_be_bytes([0, 0, a, b, c, d, e, f]), 0]
        }
        Address::Socket(SocketAddr::V4(socket)) => {
            let host = u64::from(socket.ip().to_bits());
            [3, 0, host, u64::from(socket.port())]
        }
        Address::Socket(SocketAddr::V6(socket)) => {
            let host = socket.ip().to_bits();
            let scope = u64::from(socket.scope_id()) << 16;
            let port = scope | u64::from(socket.port());
            [4, (host >> 64) as u64, host as u64, port]
        }
    };
    [kind, high, low, port, key.field(), period].map(u64::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::collections::BTreeSet;

    fn cookies(secret: u64) -> Cookies {
        let secret = engine::Secret::from_seed(secret);
        let stream = KeyedStream::new(&secret, engine::Purpose::Cookies, 1);
        Cookies::new(&Config::default(), stream)
    }

    fn socket(text: &str) -> Address {
        Address::Socket(text.parse().expect("an address"))
    }

    #[test]
    fn cookie_is_valid_for_its_address_and_key_alone() {
        let (now, mine) = (Instant::from_nanos(77), cookies(1));
        let peers = [
            Address::Station(1),
            Address::Ether([0, 0, 0, 0, 0, 1]),
            socket("0.0.0.1:1"),
            socket("0.0.0.1:2"),
            socket("[::1]:1"),
            socket("[1::1]:1"),
            socket("[::1%1]:1"),
        ];
        let mut seen = BTreeSet::new();
        for peer in peers {
            for number in [5, 6] {
                let (key, other_key) = (Key::in_field(number), Key::in_field(number ^ 8));
                let cookie = mine.make(now, peer, key);
                assert!(cookie.field() >> 63 == 0 && seen.insert(cookie));
                assert!(mine.is_valid(now, peer, key, cookie));
                assert!(!cookies(2).is_valid(now, peer, key, cookie));
                assert!(!mine.is_valid(now, peer, other_key, cookie));
                assert!(!mine.is_valid(now, peer, key, Key::in_field(cookie.field() ^ 1)));
            }
        }
    }

    #[test]
    fn cookie_ends_with_the_handshake_time() {
        let (peer, mine) = (Address::Station(1), cookies(1));
        let made_at = Instant::from_nanos(0) + Duration::from_secs(100);
        let key = Key::in_field(5);
        let cookie = mine.make(made_at, peer, key);
        assert!(mine.is_valid(made_at + Duration::from_secs(15), peer, key, cookie));
        assert!(!mine.is_valid(made_at + Duration::from_secs(30), peer, key, cookie));
        assert_eq!(mine.sync(peer, key), mine.sync(peer, key));
    }
}
