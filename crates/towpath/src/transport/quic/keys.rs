//! TLS keys: one made for each listener, known to its peers from the rendezvous.
//!
//! Raw public keys (RFC 7250) instead of certificates: there is no name to certify. Peers accept
//! exactly the key they were given, so the connection is authenticated, not just encrypted.

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
};
use std::io;
use std::sync::Arc;

/// The only cipher offered, so that every race encrypts alike. The protocol's first packets need it
/// anyway.
pub(super) const CIPHER: &str = "TLS13_AES_128_GCM_SHA256";

fn crypto() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![provider::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..provider::default_provider()
    }
}

/// A listener's key pair.
pub(super) struct Keys {
    certified: Arc<CertifiedKey>,
}

impl Keys {
    /// Makes a new Ed25519 pair.
    pub(super) fn generate() -> io::Result<Keys> {
        let random = ring::rand::SystemRandom::new();
        let pair = ring::signature::Ed25519KeyPair::generate_pkcs8(&random)
            .map_err(|_| io::Error::other("the system gives no random numbers for a key"))?;
        let pair = PrivatePkcs8KeyDer::from(pair.as_ref().to_vec());
        let signing = provider::sign::any_eddsa_type(&pair).map_err(io::Error::other)?;
        let public = signing
            .public_key()
            .ok_or_else(|| io::Error::other("the key has no public part"))?;
        let public = CertificateDer::from(public.as_ref().to_vec());
        let certified = Arc::new(CertifiedKey::new(vec![public], signing));
        Ok(Keys { certified })
    }

    /// The public key, as a SubjectPublicKeyInfo.
    pub(super) fn public(&self) -> Vec<u8> {
        self.certified.cert[0].to_vec()
    }

    /// What a listener presents.
    pub(super) fn server(&self) -> io::Result<Arc<QuicServerConfig>> {
        let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.certified));
        let config = ServerConfig::builder_with_provider(Arc::new(crypto()))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        let config = QuicServerConfig::try_from(config).map_err(io::Error::other)?;
        Ok(Arc::new(config))
    }
}

/// A client that accepts a listener with this public key and no other.
pub(super) fn client(key: Vec<u8>) -> io::Result<Arc<QuicClientConfig>> {
    let crypto = crypto();
    let pinned = Pinned {
        key,
        algorithms: crypto.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(Arc::new(crypto))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    let config = QuicClientConfig::try_from(config).map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Pinned {
    key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == self.key {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC needs TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        rustls::crypto::verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &self.algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// A key as a line of text, and back.
pub(super) fn encode(key: &[u8]) -> Vec<u8> {
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    text.into_bytes()
}

pub(super) fn decode(text: &[u8]) -> io::Result<Vec<u8>> {
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
    fn keys_survive_the_way_to_the_peer() {
        let key = Keys::generate().expect("random numbers").public();
        assert_eq!(decode(&encode(&key)).expect("what was encoded"), key);
        for wrong in ["abc", "zz", "é"] {
            decode(wrong.as_bytes()).expect_err("no key");
        }
    }
}
