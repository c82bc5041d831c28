//! TLS 1.3 with raw public keys on both sides (RFC 7250), without session resumption.

use crate::keys::{Identity, PublicKey, TrustedKey};
use rawkeys::{AES_128, CHACHA20, KeyPair, TrustedKeys, spki};
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConnection, Connection, Error, ServerConnection};
use std::sync::Arc;

/// The agent's side: accepts clients with any trusted key.
pub fn server_connection(identity: &Identity, trusted: &[TrustedKey]) -> Result<Connection, Error> {
    let pair = KeyPair::from_pkcs8(identity.pkcs8())?;
    let clients = TrustedKeys::new(trusted.iter().map(|one| spki(one.key.octets())));
    let mut config = rawkeys::server_config(&pair, Some(clients), vec![AES_128, CHACHA20])?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(ServerConnection::new(Arc::new(config))?.into())
}

/// The client's side: accepts an agent whose key is trusted for `host`.
pub fn client_connection(
    identity: &Identity,
    trusted: &[TrustedKey],
    host: &str,
) -> Result<Connection, Error> {
    let pair = KeyPair::from_pkcs8(identity.pkcs8())?;
    let keys = keys_for(trusted, host);
    let servers = TrustedKeys::new(keys.iter().map(|key| spki(key.octets())));
    let mut config = rawkeys::client_config(Some(&pair), servers, vec![AES_128, CHACHA20])?;
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    let name = ServerName::try_from("agent.towpath.invalid")
        .map_err(|_| Error::General("a constant name".into()))?;
    Ok(ClientConnection::new(Arc::new(config), name)?.into())
}

/// The keys trusted for the host, and no others, even if there are none: a key trusted for a client
/// must not authenticate an agent.
fn keys_for(trusted: &[TrustedKey], host: &str) -> Vec<PublicKey> {
    let named = trusted.iter().filter(|one| one.belongs_to_host(host));
    named.map(|one| one.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_accepts_only_keys_of_named_host() {
        let key = || Identity::generate().expect("a key").public_key();
        let (one, two) = (key(), key());
        let names = ["lab", "me", "2001:DB8:0::1", "lab2:99"];
        let trusted = names.map(|name| TrustedKey {
            name: name.into(),
            key: if name == "me" { two } else { one },
        });
        for host in ["lab", "LAB", "2001:db8::1", "lab2"] {
            assert_eq!(keys_for(&trusted, host), [one], "{host}");
        }
        assert_eq!(keys_for(&trusted, "me"), [two]);
        // A client's key authenticates no agent.
        assert_eq!(keys_for(&trusted, "elsewhere"), []);
    }
}
