//! What a user asks of the own addresses of an association (RFC 5061, RFC 6458 section 8.1.11).

use crate::addresses::station_address;
use crate::dynamic_addresses::Request;
use crate::endpoint::Sctp;
use crate::pdu::asconf::AddressAction;
use crate::procedure::asconf;
use engine::{AssociationId, CommandError, Instant, LocalAddress};
use std::net::IpAddr;

/// How often own addresses change at an interval: a simulation ends.
const CHANGES_MAX: u32 = 16;

impl Sctp {
    /// The endpoint has another address from now on, or one that it lost again: a wire with the index that
    /// is returned. New associations list it, and each open one asks its peer to add it, which a notice
    /// tells ([`crate::Notice::OwnAddress`]). Until then it is no source of packets.
    ///
    /// # Errors
    ///
    /// [`CommandError::Unsupported`] for an address that the endpoint has, or that stands for all of a
    /// host, at an endpoint that does not know its own addresses, and for more than 64.
    pub fn gain_address(
        &mut self,
        now: Instant,
        address: IpAddr,
    ) -> Result<LocalAddress, CommandError> {
        let count = self.shared.config.local_addresses.count();
        let index = self.shared.config.local_addresses.index_or_add(address);
        let index = index.ok_or(CommandError::Unsupported)?;
        let is_new = usize::from(index.0) == count;
        if !is_new && !self.shared.address_changes.lost.contains(&index) {
            return Err(CommandError::Unsupported);
        }
        self.shared.address_changes.gain(index, now);
        for a in self.associations.values_mut().filter(|_| is_new) {
            a.addresses.excluded.push(index);
        }
        self.change_for_all(now, AddressAction::Add, index);
        Ok(index)
    }

    /// The endpoint does not have an address any more: new associations do not list it, and each open one
    /// does without it if its peer can and another one is left.
    ///
    /// # Errors
    ///
    /// [`CommandError::Unsupported`] for an address that the endpoint does not have, and for the last.
    pub fn lose_address(&mut self, now: Instant, index: LocalAddress) -> Result<(), CommandError> {
        let known = self.shared.config.local_addresses.ip_at(index).is_some();
        let lost = &self.shared.address_changes.lost;
        let is_last = lost.len() + 1 >= self.shared.config.local_addresses.count();
        if !known || is_last || lost.contains(&index) {
            return Err(CommandError::Unsupported);
        }
        self.shared.address_changes.lose(index);
        self.change_for_all(now, AddressAction::Delete, index);
        Ok(())
    }

    /// Asks the peers of all associations that can.
    fn change_for_all(&mut self, now: Instant, action: AddressAction, address: LocalAddress) {
        let ids: Vec<AssociationId> = self.associations.keys().copied().collect();
        for id in ids {
            // A peer that cannot leaves the association as it is.
            let _ = self.change_address(now, id, action, address);
        }
    }

    /// [`crate::SctpConfig::address_changes`]: the next change. One that cannot be now is left out.
    pub(crate) fn handle_address_interval(&mut self, id: AssociationId, now: Instant) {
        let Some(a) = self.associations.get_mut(&id) else {
            return;
        };
        a.addresses.changes += 1;
        let change = a.addresses.changes;
        if change < CHANGES_MAX {
            asconf::start_interval(a, &mut self.shared, now);
        }
        let Some(schedule) = self.shared.config.address_changes.as_mut() else {
            return;
        };
        let _ = match schedule.gains.checked_sub(1) {
            Some(left) => {
                schedule.gains = left;
                self.gain_last(now)
            }
            None => self.change_last(now, id, change),
        };
    }

    /// A station gets the next medium.
    fn gain_last(&mut self, now: Instant) -> Result<(), CommandError> {
        let count = self.shared.config.local_addresses.count() as u16;
        self.gain_address(now, station_address(count)).map(|_| ())
    }

    /// The last own address goes or comes back: of one association, then of all.
    fn change_last(
        &mut self,
        now: Instant,
        id: AssociationId,
        change: u32,
    ) -> Result<(), CommandError> {
        let addresses = &self.shared.config.local_addresses;
        let last = LocalAddress((addresses.count() - 1) as u16);
        match change % 5 {
            0 => self.delete_address(now, id, last),
            1 => self.add_address(now, id, last),
            2 => self.request_peer_primary(now, id, last),
            3 => self.lose_address(now, last),
            _ => {
                let address = addresses.ip_at(last).ok_or(CommandError::Unsupported)?;
                self.gain_address(now, address).map(|_| ())
            }
        }
    }

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
    /// peer is told. Errors are those of [`Sctp::add_address`]; [`CommandError::Unsupported`] for the last one, too.
    pub fn delete_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: LocalAddress,
    ) -> Result<(), CommandError> {
        self.change_address(now, id, AddressAction::Delete, address)
    }

    /// Asks the peer to prefer an own address for what it sends.
    /// Errors are those of [`Sctp::add_address`], but the peer must know the address.
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
