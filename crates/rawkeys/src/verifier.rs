//! The check of a peer's key in the TLS handshake.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Accepts any of a few public keys. They are not secret, so comparison need not take constant
/// time.
#[derive(Debug)]
pub struct TrustedKeys {
    keys: Vec<Vec<u8>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl TrustedKeys {
    /// Accepts these keys, each a SubjectPublicKeyInfo.
    pub fn new(keys: impl IntoIterator<Item = Vec<u8>>) -> TrustedKeys {
        TrustedKeys {
            keys: keys.into_iter().collect(),
            algorithms: provider::default_provider().signature_verification_algorithms,
        }
    }

    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), Error> {
        if self.keys.iter().any(|key| key == presented.as_ref()) {
            return Ok(());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

/// Signature checks, the same for server and client.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.3 is needed".into()))
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
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for TrustedKeys {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let checked = self.check(end_entity);
        checked.map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for TrustedKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let checked = self.check(end_entity);
        checked.map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}
