//! TLS keys of `quic` and `tls`: one key pair per listener; peers get the public key from the
//! rendezvous.
//!
//! Raw public keys (RFC 7250) instead of certificates: there is no name to certify. Peers accept
//! only the key they were given, so the connection is authenticated as well as encrypted.

use rawkeys::{AES_128, KeyPair, TrustedKeys};
use rustls::{ClientConfig, ServerConfig};
use std::io;

/// The only cipher suite offered, so that every race encrypts alike. QUIC's Initial packets need it
/// anyway (RFC 9001 s. 5.2).
pub(crate) const CIPHER: &str = "TLS13_AES_128_GCM_SHA256";

/// A listener's key pair.
pub(crate) struct ListenerKeys(KeyPair);

impl ListenerKeys {
    /// Generates a new key pair.
    pub(crate) fn generate() -> io::Result<ListenerKeys> {
        KeyPair::generate()
            .map(ListenerKeys)
            .map_err(io::Error::other)
    }

    /// The public key, as a SubjectPublicKeyInfo.
    pub(crate) fn public(&self) -> Vec<u8> {
        self.0.public_key()
    }

    /// The listener's TLS configuration.
    pub(crate) fn server(&self) -> io::Result<ServerConfig> {
        rawkeys::server_config(&self.0, None, vec![AES_128]).map_err(io::Error::other)
    }
}

/// The TLS configuration of a client that accepts this public key only.
pub(crate) fn client(key: Vec<u8>) -> io::Result<ClientConfig> {
    rawkeys::client_config(None, TrustedKeys::new([key]), vec![AES_128]).map_err(io::Error::other)
}

/// Encodes a key as hexadecimal text.
pub(crate) fn encode(key: &[u8]) -> Vec<u8> {
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    text.into_bytes()
}

pub(crate) fn decode(text: &[u8]) -> io::Result<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, odd) = text.as_chunks::<2>();
    let key: Option<Vec<u8>> = pairs
        .iter()
        .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?))
        .collect();
    key.filter(|_| odd.is_empty()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the rendezvous holds no public key",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_key_decodes_to_itself() {
        let key = ListenerKeys::generate().expect("random numbers").public();
        assert_eq!(decode(&encode(&key)).expect("what was encoded"), key);
        for wrong in ["abc", "zz", "é"] {
            decode(wrong.as_bytes()).expect_err("no key");
        }
    }
}
