//! What a user asks of the keys of an association (RFC 6458 section 8.3).

use crate::auth::{AuthState, SharedKey};
use crate::endpoint::Sctp;
use crate::pdu::auth::{HmacId, KeyId};
use crate::pdu::{AuthOffer, ChunkType};
use engine::{AssociationId, CommandError};

/// How an association authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSummary {
    /// The key that packets are sent with.
    pub active_key: KeyId,
    /// The HMAC that packets are sent with.
    pub hmac: HmacId,
    /// Types of chunks that this end takes only behind an AUTH.
    pub own_chunks: Vec<ChunkType>,
    /// Those that the peer takes only so.
    pub peer_chunks: Vec<ChunkType>,
}

impl Sctp {
    /// How an association authenticates; None if it does not, as one of its ends cannot.
    pub fn authentication(&self, id: AssociationId) -> Option<AuthSummary> {
        let auth = self.associations.get(&id)?.auth.as_deref()?;
        let [own_chunks, peer_chunks] = auth.offers().map(AuthOffer::chunks).map(Iterator::collect);
        Some(AuthSummary {
            active_key: auth.active(),
            hmac: auth.hmac(),
            own_chunks,
            peer_chunks,
        })
    }

    /// Adds a shared key to an association, or changes it. The peer's user must do the same; packets
    /// under way with the old key are dropped.
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownAssociation`]; [`CommandError::Unsupported`] for one that does not
    /// authenticate, or has 16 keys besides the empty one.
    pub fn set_key(
        &mut self,
        id: AssociationId,
        key: KeyId,
        shared: &SharedKey,
    ) -> Result<(), CommandError> {
        self.change_keys(id, |auth| auth.set_key(key, shared))
    }

    /// Packets of an association are sent with this key from now on.
    /// Errors are those of [`Sctp::set_key`]; [`CommandError::Unsupported`] for a key that was not set.
    pub fn set_active_key(&mut self, id: AssociationId, key: KeyId) -> Result<(), CommandError> {
        self.change_keys(id, |auth| auth.set_active(key))
    }

    /// Forgets a shared key of an association: packets of the peer with it are dropped from now on.
    /// Errors are those of [`Sctp::set_key`]; [`CommandError::Unsupported`] for a key that was not set, or that
    /// packets are sent with.
    pub fn delete_key(&mut self, id: AssociationId, key: KeyId) -> Result<(), CommandError> {
        self.change_keys(id, |auth| auth.delete_key(key))
    }

    fn change_keys(
        &mut self,
        id: AssociationId,
        change: impl FnOnce(&mut AuthState) -> bool,
    ) -> Result<(), CommandError> {
        let a = self.associations.get_mut(&id);
        let a = a.ok_or(CommandError::UnknownAssociation)?;
        let is_done = a.auth.as_deref_mut().is_some_and(change);
        is_done.then_some(()).ok_or(CommandError::Unsupported)
    }
}
