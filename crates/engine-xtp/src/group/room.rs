//! Room for a new stream, and which stream gives way (0018, Room).

use super::receiver::Receiver;
use super::source_share::{SHARES, longest_silent};
use super::{GroupContext, GroupEndpoint};
use crate::pdu::Reject;
use engine::{Address, AssociationId, CloseReason, Instant};

impl GroupEndpoint {
    /// Room for a stream from `source`: its number. In a full share, or a full endpoint, streams of
    /// unvalidated senders give way, those that were silent longest first.
    pub(super) fn make_room(&mut self, source: Address) -> Result<AssociationId, Reject> {
        if let Some(share) = self.shares.full_share(source) {
            let unvalidated = share.iter().filter_map(|&id| self.unvalidated_heard_at(id));
            let given_up = longest_silent(unvalidated, 1);
            self.abandon(&given_up)?;
        }
        self.free_id()
    }

    /// The number of a new stream.
    pub(super) fn free_id(&mut self) -> Result<AssociationId, Reject> {
        if self.contexts.len() >= self.ep.config.associations_max {
            // Several at once: a flood of forged openings looks at all contexts for one in 64.
            let count = (self.ep.config.associations_max / SHARES).max(1);
            let all = self.contexts.keys();
            let unvalidated = all.filter_map(|&id| self.unvalidated_heard_at(id));
            let given_up = longest_silent(unvalidated, count);
            self.abandon(&given_up)?;
        }
        // Numbers go round, past those in use.
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = AssociationId(self.last_id);
            if self.last_id != 0 && !self.contexts.contains_key(&id) {
                return Ok(id);
            }
        }
    }

    /// When a received stream was last heard, with its number, if its sender is unvalidated.
    fn unvalidated_heard_at(&self, id: AssociationId) -> Option<(Instant, AssociationId)> {
        match self.contexts.get(&id) {
            Some(GroupContext::Receiver(receiver)) if !receiver.sender_address.is_validated() => {
                Some((receiver.last_received_at, id))
            }
            _ => None,
        }
    }

    /// Drops received streams without a trace, but tells users that know them.
    fn abandon(&mut self, ids: &[AssociationId]) -> Result<(), Reject> {
        for &id in ids {
            if let Some(GroupContext::Receiver(mut receiver)) = self.remove_context(id) {
                receiver.terminate(&mut self.ep, CloseReason::Aborted);
            }
        }
        match ids.is_empty() {
            true => Err(Reject::NoRoom),
            false => Ok(()),
        }
    }

    /// Removes a context, its timers and its keys.
    pub(super) fn remove_context(&mut self, id: AssociationId) -> Option<GroupContext> {
        self.timers.cancel(id);
        let context = self.contexts.remove(&id)?;
        match &context {
            GroupContext::Sender(sender) => {
                let keys = &mut self.ep.sender_keys;
                keys.remove(&sender.key);
                for granted in sender.granted_keys() {
                    keys.remove(&granted);
                }
            }
            GroupContext::Receiver(receiver) => self.remove_receiver(id, receiver),
        }
        Some(context)
    }

    fn remove_receiver(&mut self, id: AssociationId, receiver: &Receiver) {
        let name = (receiver.sender, receiver.sender_key);
        self.receivers_by_sender.remove(&name);
        self.last_lookup = None;
        self.receivers_by_key
            .remove(&(receiver.sender, receiver.key));
        self.shares.remove(receiver.sender, id);
        self.damped_by_ended += receiver.damped;
    }
}
