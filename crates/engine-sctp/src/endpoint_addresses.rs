//! What a user asks of the own addresses of an association (RFC 5061, RFC 6458 section 8.1.11).

use crate::dynamic_addresses::Request;
use crate::endpoint::Sctp;
use crate::pdu::asconf::AddressAction;
use crate::procedure::asconf;
use engine::{AssociationId, CommandError, Instant, LocalAddress};

impl Sctp {
    /// Tells the peer of an own address that it does not know: one that was deleted. It is a path once
    /// the peer has agreed, which a notice says ([`crate::Notice::OwnAddress`]).
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownAssociation`]; [`CommandError::Unsupported`] when the peer cannot
    /// ([`crate::SctpConfig::dynamic_addresses`]), the association is not open or ends, the endpoint does
    /// not have the address or the peer knows it already, or four requests wait.
    pub fn add_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: LocalAddress,
    ) -> Result<(), CommandError> {
        self.change_address(now, id, AddressAction::Add, address)
    }

    /// Lets an association do without an own address: packets do not leave from it any more, and the
    /// peer is told.
    ///
    /// # Errors
    ///
    /// As [`Sctp::add_address`]; [`CommandError::Unsupported`] for the last one, too.
    pub fn delete_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: LocalAddress,
    ) -> Result<(), CommandError> {
        self.change_address(now, id, AddressAction::Delete, address)
    }

    /// Asks the peer to prefer an own address for what it sends.
    ///
    /// # Errors
    ///
    /// As [`Sctp::add_address`], but the peer must know the address.
    pub fn request_peer_primary(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: LocalAddress,
    ) -> Result<(), CommandError> {
        self.change_address(now, id, AddressAction::SetPrimary, address)
    }

    fn change_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        action: AddressAction,
        address: LocalAddress,
    ) -> Result<(), CommandError> {
        let a = self.associations.get_mut(&id);
        let a = a.ok_or(CommandError::UnknownAssociation)?;
        asconf::do_request(a, &mut self.shared, now, Request { action, address })?;
        self.shared.mark_ready(id);
        Ok(())
    }
}
