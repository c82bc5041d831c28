//! Keys: who this user is, and whom they trust.
//!
//! They lie in a folder of the user's own: `key`, the private key, and `trusted`, a line for each
//! key that may come in, or be gone to. Both must be readable and writable by their owner alone;
//! one that is not is refused, since others may know it or have changed it. A file is made whole
//! beside the old one and takes its place at once, so that nothing is lost on the way.

mod folder;

pub use folder::KeyFolder;

use folder::FILE_MAX;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// What a public key begins with when it is written.
const PREFIX: &str = "towpath-key-";

/// First words of the file of the private key.
const PRIVATE_KEY_PREFIX: &str = "towpath private key 1: ";

/// Octets of a public key.
const PUBLIC_KEY_LEN: usize = 32;

/// A public key, as it is shown and trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC_KEY_LEN]);

/// What is wrong with a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is none.
    #[error("there is no key in {}; make one with `towpath key new`", .0.display())]
    Missing(PathBuf),
    /// There is one already.
    #[error("{} is there already; peers know it, so remove it yourself if you want another", .0.display())]
    Exists(PathBuf),
    /// Others may have read or changed the file.
    #[error("{} may be used by others (mode {mode:o}): it must belong to you and have mode 600; \
             if nobody has read it, chmod 600 it, else remove it and make another", .path.display())]
    InsecureFile {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Others may put files of theirs into the folder.
    #[error("{} may be changed by others (mode {mode:o}): look at what is in it, and chmod 700 it", .path.display())]
    InsecureFolder {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// More than anybody trusts.
    #[error("{} is longer than {FILE_MAX} bytes; remove lines that are of no use any more", .0.display())]
    TooLong(PathBuf),
    /// What it says is no key.
    #[error("{}", .0)]
    Malformed(String),
    /// The system refused.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl PublicKey {
    /// From its octets.
    pub fn new(octets: [u8; PUBLIC_KEY_LEN]) -> PublicKey {
        PublicKey(octets)
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8; PUBLIC_KEY_LEN] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        let octets = text.trim().strip_prefix(PREFIX).and_then(decode_hex);
        let octets = octets.and_then(|octets| octets.try_into().ok());
        octets.map(PublicKey).ok_or_else(|| {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
            KeyError::Malformed(format!(
                "'{shown}' is no key; it is a word such as `towpath key show` prints, {PREFIX}..."
            ))
        })
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    let octets = pairs
        .iter()
        .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?));
    octets
        .collect::<Option<Vec<u8>>>()
        .filter(|_| odd.is_empty())
}

/// A key pair.
pub struct Identity {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public)
    }
}

impl Identity {
    /// Makes a new Ed25519 pair.
    ///
    /// # Errors
    ///
    /// When the system gives no random numbers.
    pub fn generate() -> Result<Identity, KeyError> {
        let random = ring::rand::SystemRandom::new();
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random)
            .map_err(|_| KeyError::Malformed("the system gives no random numbers".into()))?;
        Identity::from_pkcs8(pkcs8.as_ref().to_vec())
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> Result<Identity, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8);
        let pair = pair.map_err(|_| KeyError::Malformed("it holds no Ed25519 key".into()))?;
        let public = pair.public_key().as_ref().try_into();
        let public = public.map_err(|_| KeyError::Malformed("it holds no Ed25519 key".into()))?;
        Ok(Identity {
            pkcs8,
            public: PublicKey(public),
        })
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The pair, for TLS.
    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

/// A key that is trusted, and what its owner is called. By any name it may come in as a client; it may
/// answer as the agent on a host by that host's name only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// The name.
    pub name: String,
    /// The key.
    pub key: PublicKey,
}

impl TrustedKey {
    /// Whether the key is that of the agent on `host`, which is written as in [`crate::Target`].
    pub fn belongs_to_host(&self, host: &str) -> bool {
        let name = self.name.parse::<crate::AgentAddress>();
        let name = name.map_or_else(|_| self.name.clone(), |target| target.host);
        name.eq_ignore_ascii_case(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_key_text_round_trips() {
        let key = Identity::generate().expect("a key").public_key();
        assert_eq!(key.to_string().parse::<PublicKey>().expect("the same"), key);
        let cut = &key.to_string()[..60];
        for wrong in ["", "towpath-key-", cut, "ssh-ed25519 AAAA"] {
            assert!(wrong.parse::<PublicKey>().is_err());
        }
    }
}
