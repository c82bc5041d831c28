//! TLS 1.3 with raw Ed25519 public keys (RFC 7250): no certificates, names, passwords or older
//! versions.
//!
//! * [`KeyPair`] - an end's own key.
//! * [`TrustedKeys`] - the peer keys an end accepts; `verifier` is its TLS side.
//! * [`server_config`], [`client_config`] - TLS configurations made of these.
//!
//! ```
//! let (ours, theirs) = (rawkeys::KeyPair::generate()?, rawkeys::KeyPair::generate()?);
//! let suites = vec![rawkeys::AES_128];
//! let clients = rawkeys::TrustedKeys::new([theirs.public_key()]);
//! let server = rawkeys::server_config(&ours, Some(clients), suites.clone())?;
//! let servers = rawkeys::TrustedKeys::new([ours.public_key()]);
//! let client = rawkeys::client_config(Some(&theirs), servers, suites)?;
//! # drop((server, client));
//! # Ok::<(), rustls::Error>(())
//! ```
#![forbid(unsafe_code)]

mod verifier;

pub use verifier::TrustedKeys;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, ServerConfig, SupportedCipherSuite};
use std::sync::Arc;

/// AES-128-GCM.
pub const AES_128: SupportedCipherSuite = provider::cipher_suite::TLS13_AES_128_GCM_SHA256;

/// ChaCha20-Poly1305, for processors without AES instructions.
pub const CHACHA20: SupportedCipherSuite = provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;

/// Octets of an Ed25519 public key.
pub const PUBLIC_KEY_LEN: usize = 32;

/// DER octets before the key in a SubjectPublicKeyInfo (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// The SubjectPublicKeyInfo of a public key, as TLS sends it.
pub fn spki(key: &[u8; PUBLIC_KEY_LEN]) -> Vec<u8> {
    [&SPKI_PREFIX[..], key].concat()
}

/// An Ed25519 key pair.
#[derive(Clone, Debug)]
pub struct KeyPair(Arc<CertifiedKey>);

impl KeyPair {
    /// Generates a key pair.
    ///
    /// # Errors
    ///
    /// When the system gives no random numbers.
    pub fn generate() -> Result<KeyPair, Error> {
        let random = ring::rand::SystemRandom::new();
        let pair = ring::signature::Ed25519KeyPair::generate_pkcs8(&random);
        KeyPair::from_pkcs8(pair.map_err(|_| Error::FailedToGetRandomBytes)?.as_ref())
    }

    /// Reads a key pair in PKCS #8 form.
    ///
    /// # Errors
    ///
    /// When the octets are no Ed25519 key pair.
    pub fn from_pkcs8(pair: &[u8]) -> Result<KeyPair, Error> {
        let pair = PrivatePkcs8KeyDer::from(pair.to_vec());
        let signing = provider::sign::any_eddsa_type(&pair)?;
        let public = signing.public_key();
        let public = public.ok_or_else(|| Error::General("the key has no public part".into()))?;
        let public = CertificateDer::from(public.as_ref().to_vec());
        Ok(KeyPair(Arc::new(CertifiedKey::new(vec![public], signing))))
    }

    /// The public key, a SubjectPublicKeyInfo.
    pub fn public_key(&self) -> Vec<u8> {
        self.0.cert[0].to_vec()
    }
}

fn crypto_provider(cipher_suites: Vec<SupportedCipherSuite>) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites,
        ..provider::default_provider()
    })
}

/// The server's configuration: it authenticates with `pair` and accepts `clients`, or any client.
///
/// # Errors
///
/// When none of `suites` is for TLS 1.3.
pub fn server_config(
    pair: &KeyPair,
    clients: Option<TrustedKeys>,
    suites: Vec<SupportedCipherSuite>,
) -> Result<ServerConfig, Error> {
    let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&pair.0));
    let config = ServerConfig::builder_with_provider(crypto_provider(suites));
    let config = config.with_protocol_versions(&[&TLS13])?;
    let config = match clients {
        Some(clients) => config.with_client_cert_verifier(Arc::new(clients)),
        None => config.with_no_client_auth(),
    };
    Ok(config.with_cert_resolver(Arc::new(resolver)))
}

/// The client's configuration: it accepts any of `servers` and authenticates with `pair`, if given.
///
/// # Errors
///
/// When none of `suites` is for TLS 1.3.
pub fn client_config(
    pair: Option<&KeyPair>,
    servers: TrustedKeys,
    suites: Vec<SupportedCipherSuite>,
) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(crypto_provider(suites))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(servers));
    Ok(match pair {
        Some(pair) => {
            let resolver = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&pair.0));
            config.with_client_cert_resolver(Arc::new(resolver))
        }
        None => config.with_no_client_auth(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, Connection, ServerConnection};

    /// Passes records both ways until both ends have finished the handshake.
    fn handshake(server: ServerConfig, client: ClientConfig) -> Result<(), Error> {
        let name = ServerName::try_from("a.invalid").expect("a name");
        let mut ends: [Connection; 2] = [
            ClientConnection::new(Arc::new(client), name)?.into(),
            ServerConnection::new(Arc::new(server))?.into(),
        ];
        for _ in 0..6 {
            for from in [0, 1] {
                let mut octets = Vec::new();
                while ends[from].wants_write() {
                    ends[from]
                        .write_tls(&mut octets)
                        .expect("a vector takes all");
                }
                let mut octets = &octets[..];
                while !octets.is_empty() {
                    ends[1 - from]
                        .read_tls(&mut octets)
                        .expect("a slice gives all");
                    ends[1 - from].process_new_packets()?;
                }
            }
        }
        assert!(ends.iter().all(|end| !end.is_handshaking()));
        Ok(())
    }

    fn pair() -> KeyPair {
        KeyPair::generate().expect("random numbers")
    }

    #[test]
    fn handshake_succeeds_only_with_trusted_keys() {
        let (one, other, untrusted) = (pair(), pair(), pair());
        let only = |pair: &KeyPair| TrustedKeys::new([pair.public_key()]);
        let listens = |trusted: Option<TrustedKeys>| {
            server_config(&one, trusted, vec![AES_128]).expect("a configuration")
        };
        let connects = |own: Option<&KeyPair>, trusted: &KeyPair| {
            client_config(own, only(trusted), vec![AES_128, CHACHA20]).expect("a configuration")
        };
        assert_eq!(
            handshake(listens(Some(only(&other))), connects(Some(&other), &one)),
            Ok(())
        );
        assert_eq!(handshake(listens(None), connects(None, &one)), Ok(()));
        handshake(listens(None), connects(None, &untrusted)).expect_err("another server");
        let tries = [Some(&untrusted), None];
        for own in tries {
            handshake(listens(Some(only(&other))), connects(own, &one))
                .expect_err("an untrusted key");
        }
    }

    #[test]
    fn spki_ends_with_public_key() {
        let public = pair().public_key();
        let (_, key) = public
            .split_last_chunk::<PUBLIC_KEY_LEN>()
            .expect("it is longer");
        assert_eq!(spki(key), public);
        KeyPair::from_pkcs8(&[1, 2, 3]).expect_err("no pair");
    }
}
