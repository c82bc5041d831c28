//! Why peers refused openings, for a user who asks after the association is gone.

use crate::pdu::DiagValue;
use engine::AssociationId;
use std::collections::VecDeque;

/// The last refusals: a user asks at once, or not at all.
const REFUSALS_MAX: usize = 64;

/// Refused openings, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Refusals(VecDeque<(AssociationId, DiagValue)>);

impl Refusals {
    pub(crate) fn record(&mut self, id: AssociationId, why: DiagValue) {
        if self.0.len() == REFUSALS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, why));
    }

    pub(crate) fn of(&self, id: AssociationId) -> Option<DiagValue> {
        let mut latest = self.0.iter().rev();
        latest.find(|(of, _)| *of == id).map(|(_, why)| *why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_refusal_of_an_association_is_kept_and_old_ones_go() {
        let mut refusals = Refusals::default();
        refusals.record(AssociationId(1), DiagValue::NO_LISTENER);
        refusals.record(AssociationId(1), DiagValue::NO_RESOURCE);
        assert_eq!(refusals.of(AssociationId(1)), Some(DiagValue::NO_RESOURCE));
        assert_eq!(refusals.of(AssociationId(2)), None);
        for number in 0..REFUSALS_MAX as u32 {
            refusals.record(AssociationId(10 + number), DiagValue::UNSPECIFIED);
        }
        assert_eq!(refusals.of(AssociationId(1)), None);
        assert_eq!(refusals.0.len(), REFUSALS_MAX);
    }
}
