//! TLS 1.3 with raw public keys (RFC 7250) on both sides: each proves that it has a key the other
//! trusts. There are no certificates, names, passwords, or older versions, and nothing is resumed.

use crate::keys::{Identity, PublicKey, Trusted};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, ServerConfig, ServerConnection, SignatureScheme,
};
use std::sync::Arc;

/// What comes before the 32 octets of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410).
const SPKI_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// The agent's side of a connection: it lets in those it trusts.
pub(crate) fn server(identity: &Identity, trusted: &[Trusted]) -> Result<Connection, Error> {
    let keys = trusted.iter().map(|one| one.key).collect();
    let resolver = AlwaysResolvesServerRawPublicKeys::new(certified(identity)?);
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto()))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(OneOf::new(keys)))
        .with_cert_resolver(Arc::new(resolver));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(ServerConnection::new(Arc::new(config))?.into())
}

/// The client's side: it speaks with an agent whose key it trusts for `host`.
pub(crate) fn client(
    identity: &Identity,
    trusted: &[Trusted],
    host: &str,
) -> Result<Connection, Error> {
    let resolver = AlwaysResolvesClientRawPublicKeys::new(certified(identity)?);
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto()))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OneOf::new(keys_for(trusted, host))))
        .with_client_cert_resolver(Arc::new(resolver));
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    let name = ServerName::try_from("agent.towpath.invalid")
        .map_err(|_| Error::General("a constant name".into()))?;
    Ok(ClientConnection::new(Arc::new(config), name)?.into())
}

/// The keys trusted by the name of the host; all of them where none has that name. So an agent whose
/// key is known by name cannot be mistaken for another.
fn keys_for(trusted: &[Trusted], host: &str) -> Vec<PublicKey> {
    let named: Vec<PublicKey> = trusted
        .iter()
        .filter(|one| one.name == host)
        .map(|one| one.key)
        .collect();
    match named[..] {
        [] => trusted.iter().map(|one| one.key).collect(),
        _ => named,
    }
}

fn crypto() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
            provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..provider::default_provider()
    }
}

fn certified(identity: &Identity) -> Result<Arc<CertifiedKey>, Error> {
    let pair = PrivatePkcs8KeyDer::from(identity.pkcs8().to_vec());
    let signing = provider::sign::any_eddsa_type(&pair)?;
    let public = CertificateDer::from(spki(identity.public()));
    Ok(Arc::new(CertifiedKey::new(vec![public], signing)))
}

fn spki(key: PublicKey) -> Vec<u8> {
    [&SPKI_HEAD[..], key.octets()].concat()
}

/// Accepts any of a few keys. They are public, so that comparing them tells nothing.
#[derive(Debug)]
struct OneOf {
    keys: Vec<Vec<u8>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OneOf {
    fn new(keys: Vec<PublicKey>) -> OneOf {
        OneOf {
            keys: keys.into_iter().map(spki).collect(),
            algorithms: crypto().signature_verification_algorithms,
        }
    }

    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), Error> {
        if self.keys.iter().any(|key| key == presented.as_ref()) {
            return Ok(());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(presented.as_ref());
        rustls::crypto::verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &self.algorithms,
        )
    }
}

fn too_old() -> Error {
    Error::General("TLS 1.3 is needed".into())
}

impl ServerCertVerifier for OneOf {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for OneOf {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_known_by_its_hosts_name_is_the_only_one_there() {
        let key = || Identity::generate().expect("a key").public();
        let (one, two) = (key(), key());
        let trusted = [("a", one), ("b", two)].map(|(name, key)| Trusted {
            name: name.into(),
            key,
        });
        assert_eq!(keys_for(&trusted, "a"), [one]);
        assert_eq!(keys_for(&trusted, "elsewhere"), [one, two]);
    }
}
