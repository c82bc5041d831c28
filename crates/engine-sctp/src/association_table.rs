//! The associations of an endpoint.

use crate::association::Association;
use engine::AssociationId;
use std::collections::BTreeMap;

/// Associations by number. A packet asks for its association some seven times: the one that was asked for last is
/// found without a search.
#[derive(Debug, Default)]
pub(crate) struct AssociationTable {
    /// Where each lies.
    by_id: BTreeMap<AssociationId, usize>,
    slots: Vec<Option<Box<Association>>>,
    free: Vec<usize>,
    /// The slot that was asked for last.
    last: usize,
}

impl AssociationTable {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether one has this number.
    pub(crate) fn contains_key(&self, id: &AssociationId) -> bool {
        self.by_id.contains_key(id)
    }

    /// All numbers, ascending.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &AssociationId> {
        self.by_id.keys()
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AssociationId, &Association)> {
        let slots = &self.slots;
        self.by_id
            .iter()
            .filter_map(|(id, slot)| Some((id, slots[*slot].as_deref()?)))
    }

    /// All of them, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Association> {
        self.slots.iter_mut().flatten().map(|boxed| &mut **boxed)
    }

    /// The one that was asked for last.
    #[inline]
    pub(crate) fn last(&self) -> Option<&Association> {
        self.slots.get(self.last)?.as_deref()
    }

    /// The one that was asked for last, to be changed.
    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut Association> {
        self.slots.get_mut(self.last)?.as_deref_mut()
    }

    #[inline]
    fn slot(&self, id: AssociationId) -> Option<usize> {
        match self.last() {
            Some(last) if last.id == id => Some(self.last),
            _ => self.by_id.get(&id).copied(),
        }
    }

    /// The association of this number.
    #[inline]
    pub(crate) fn get(&self, id: &AssociationId) -> Option<&Association> {
        self.slots[self.slot(*id)?].as_deref()
    }

    /// The association of this number, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: &AssociationId) -> Option<&mut Association> {
        self.last = self.slot(*id)?;
        self.slots[self.last].as_deref_mut()
    }

    /// Adds an association, whose number none has.
    pub(crate) fn insert(&mut self, association: Association) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.by_id.insert(association.id, slot);
        self.slots[slot] = Some(Box::new(association));
    }

    /// Takes the association of this number out.
    pub(crate) fn remove(&mut self, id: &AssociationId) -> Option<Association> {
        let slot = self.by_id.remove(id)?;
        self.free.push(slot);
        self.slots[slot].take().map(|association| *association)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SctpConfig;
    use crate::numbers::{Port, Tag, Tsn};
    use engine::{Instant, SplitMix64};

    fn association(id: u32, tag: u32) -> Association {
        let (now, config) = (Instant::from_nanos(0), SctpConfig::default());
        let local = (Tag(tag), Tsn(0));
        let mut new = Association::new(now, &config, &[], (Port(1), Port(2)), local);
        new.id = AssociationId(id);
        new
    }

    /// Added, found and removed at random, they are those of a map.
    #[test]
    fn associations_are_found_wherever_they_lie() {
        let (mut table, mut model) = (AssociationTable::default(), BTreeMap::new());
        let mut random = SplitMix64::new(5);
        for step in 1..3000 {
            let id = AssociationId(random.below(6) as u32 + 1);
            match random.below(4) {
                0 => {
                    let removed = table.remove(&id).map(|a| a.local_tag.0);
                    assert_eq!(removed, model.remove(&id));
                }
                1 if !model.contains_key(&id) => {
                    table.insert(association(id.0, step));
                    model.insert(id, step);
                }
                _ => {
                    let found = table.get_mut(&id).map(|a| a.local_tag.0);
                    assert_eq!(found, model.get(&id).copied());
                    assert_eq!(table.get(&id).map(|a| a.local_tag.0), found);
                }
            }
            assert_eq!(table.len(), model.len());
            let listed = table.iter().map(|(id, a)| (*id, a.local_tag.0));
            assert!(listed.eq(model.clone()));
        }
    }
}
