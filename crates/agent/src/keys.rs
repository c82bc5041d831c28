//! Keys: the user's own key pair, and the keys they trust.
//!
//! They are kept in a folder of the user: `key`, the private key, and `trusted`, one line for each
//! key that may connect or be connected to. A file that others can access, or a folder that they
//! can write to, is refused. Files are replaced atomically.

mod folder;
mod owned_file;

pub use folder::KeyFolder;

use folder::FILE_MAX;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// Prefix of a public key's text.
const PREFIX: &str = "towpath-key-";

/// Prefix of the private key file.
const PRIVATE_KEY_PREFIX: &str = "towpath private key 1: ";

/// Octets of a public key.
const PUBLIC_KEY_LEN: usize = 32;

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC_KEY_LEN]);

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no key.
    #[error("there is no key in {}; make one with `towpath key new`", .0.display())]
    Missing(PathBuf),
    /// There is a key already.
    #[error("{} already exists; peers know it, so remove it yourself to replace it", .0.display())]
    Exists(PathBuf),
    /// Others can read or write the file.
    #[error("{} is accessible to others (mode {mode:o}): it must belong to you and have mode 600; \
             if nobody has read it, chmod 600 it, else remove it and make another", .path.display())]
    InsecureFile {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another user owns the file or the folder.
    #[error("{} belongs to user {owner}, not to user {user}, who runs this: check what is in it, and \
             chown it, or name another folder with TOWPATH_KEYS", .path.display())]
    OtherOwner {
        /// The file or folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this program.
        user: u32,
    },
    /// There is no place for keys.
    #[error("there is no folder for keys: set HOME, or name one with TOWPATH_KEYS")]
    NoHome,
    /// Others can write to the folder.
    #[error("{} is writable by others (mode {mode:o}): check what is in it, and chmod 700 it", .path.display())]
    InsecureFolder {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is too long.
    #[error("{} is longer than {FILE_MAX} bytes; remove lines that are not needed", .0.display())]
    TooLong(PathBuf),
    /// The content is no key.
    #[error("{}", .0)]
    Malformed(String),
    /// A system error.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

impl PublicKey {
    /// A key from its octets.
    pub fn new(octets: [u8; PUBLIC_KEY_LEN]) -> PublicKey {
        PublicKey(octets)
    }

    /// The octets.
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
                "'{shown}' is no key; a key is what `towpath key show` prints, {PREFIX}..."
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
    /// Generates an Ed25519 key pair.
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

    /// The public key.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The key pair in PKCS #8 form, for TLS.
    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

/// A trusted key with its owner's name. The key may authenticate a client whatever its name, but an
/// agent only on the host of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// The name.
    pub name: String,
    /// The key.
    pub key: PublicKey,
}

impl TrustedKey {
    /// Whether the key is trusted for the agent on `host`, written as in [`crate::AgentAddress`].
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
