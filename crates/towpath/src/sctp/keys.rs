//! Keys of an association that authenticates (RFC 4895, RFC 6458 section 8.3).

use super::association::Association;
use engine::{AssociationId, CommandError};
use engine_sctp::pdu::KeyId;
use engine_sctp::{AuthSummary, Sctp, SharedKey};
use std::io;

impl Association {
    /// How it authenticates; None if it does not, as option `auth` is off or the peer cannot.
    pub fn authentication(&self) -> Option<AuthSummary> {
        self.engine(|engine, id| engine.authentication(id))
    }

    /// Adds a shared key or changes it; the peer's user must do the same.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an association that does not authenticate, or with 16 keys.
    pub fn set_key(&mut self, number: u16, key: &SharedKey) -> io::Result<()> {
        self.change_keys(|engine, id| engine.set_key(id, KeyId(number), key))
    }

    /// Packets are sent with this key from now on.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a key that was not set.
    pub fn set_active_key(&mut self, number: u16) -> io::Result<()> {
        self.change_keys(|engine, id| engine.set_active_key(id, KeyId(number)))
    }

    /// Forgets a shared key: packets of the peer with it are dropped from now on.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a key that was not set, or that packets are sent with.
    pub fn delete_key(&mut self, number: u16) -> io::Result<()> {
        self.change_keys(|engine, id| engine.delete_key(id, KeyId(number)))
    }

    fn change_keys(
        &mut self,
        change: impl FnOnce(&mut Sctp, AssociationId) -> Result<(), CommandError>,
    ) -> io::Result<()> {
        self.engine(change).map_err(|_| {
            let text = "the key cannot be changed: the association does not authenticate (option auth), \
                        there is no such key, packets are sent with it, or 16 others are set";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }
}
