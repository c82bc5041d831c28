//! Which hosts may join, and the secret by which a sender knows them (0018, Admission).

use super::config::Config;
use crate::numbers::Key;
use engine::Address;
use engine::keyed::siphash;
use std::fmt;
use std::net::IpAddr;

/// A secret that a receiver told its sender by other means. The receiver's keys follow from it, so
/// that the sender knows its JCNTL from one that another host wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JoinSecret([u8; 16]);

impl JoinSecret {
    /// A secret of random octets.
    pub fn new(octets: [u8; 16]) -> JoinSecret {
        JoinSecret(octets)
    }

    /// The octets, to tell them to the sender.
    pub fn octets(&self) -> &[u8; 16] {
        &self.0
    }

    /// The key of the receiver in the stream with the sender's key `stream`: 63 bits, never zero.
    /// Who sees it in one stream does not know that of another.
    pub(super) fn key_for(&self, stream: Key) -> Key {
        let (words, _) = self.0.as_chunks::<8>();
        let half = |index: usize| {
            words
                .get(index)
                .map_or(0, |octets| u64::from_le_bytes(*octets))
        };
        let hash = siphash([half(0), half(1)], &stream.field().to_le_bytes());
        Key::in_field((hash >> 1).max(1))
    }
}

impl fmt::Debug for JoinSecret {
    /// Not the octets: configurations are printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinSecret")
    }
}

/// A host that may join a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmittedHost {
    /// Its address.
    pub address: IpAddr,
    /// The secret from which its keys follow; None if any key is admitted.
    pub join_secret: Option<JoinSecret>,
}

/// Whether the configuration admits the receiver at `address` with the key `key` to the stream with
/// the sender's key `stream`.
pub(super) fn is_admitted(config: &Config, address: Address, key: Key, stream: Key) -> bool {
    let Some(hosts) = &config.admitted else {
        return true;
    };
    let Address::Socket(socket) = address else {
        return false;
    };
    hosts.iter().any(|host| {
        let expected = host.join_secret.map(|secret| secret.key_for(stream));
        host.address == socket.ip() && expected.is_none_or(|expected| expected == key)
    })
}

/// Whether the configuration accepts streams from `address`.
pub(super) fn is_accepted_sender(config: &Config, address: Address) -> bool {
    match (&config.accept_from, address) {
        (None, _) => true,
        (Some(hosts), Address::Socket(socket)) => hosts.contains(&socket.ip()),
        (Some(_), Address::Station(_) | Address::Ether(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_key_depends_on_secret_and_stream() {
        let secret = JoinSecret::new([7; 16]);
        let of = |secret: JoinSecret, stream| secret.key_for(Key::in_field(stream)).field();
        assert_eq!(of(secret, 1), of(secret, 1));
        assert_ne!(of(secret, 1), of(secret, 2));
        assert_ne!(of(secret, 1), of(JoinSecret::new([8; 16]), 1));
        assert!((0..1000).all(|stream| (1..1 << 63).contains(&of(secret, stream))));
    }
}
