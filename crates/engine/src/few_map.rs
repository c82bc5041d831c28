//! A map that is a list while it has few entries.

use std::collections::BTreeMap;

/// Entries that are kept in a list: so many are found faster there than in a tree.
const FEW: usize = 16;

/// A map for tables that have one or two entries at most endpoints, and thousands at some. It allocates nothing as
/// entries come and go, as long as they are few.
#[derive(Clone, Debug)]
pub struct FewMap<K, V> {
    entries: Entries<K, V>,
}

#[derive(Clone, Debug)]
enum Entries<K, V> {
    /// [`FEW`] at most, in no order.
    Few(Vec<(K, V)>),
    /// As soon as they were more, until none is left.
    Many(BTreeMap<K, V>),
}

impl<K: Ord, V> FewMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        FewMap {
            entries: Entries::Few(Vec::new()),
        }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        match &self.entries {
            Entries::Few(few) => few.iter().find(|entry| entry.0 == *key).map(|(_, v)| v),
            Entries::Many(many) => many.get(key),
        }
    }

    /// As [`get`](FewMap::get), to change it.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.entries {
            Entries::Few(few) => few.iter_mut().find(|entry| entry.0 == *key).map(|(_, v)| v),
            Entries::Many(many) => many.get_mut(key),
        }
    }

    /// Gives `key` a value; the one that it had.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match &mut self.entries {
            Entries::Few(few) => match few.iter().position(|entry| entry.0 == key) {
                Some(index) => Some(core::mem::replace(&mut few[index].1, value)),
                None if few.len() == FEW => self.insert_beyond_few(key, value),
                None => {
                    few.push((key, value));
                    None
                }
            },
            Entries::Many(many) => many.insert(key, value),
        }
    }

    #[cold]
    fn insert_beyond_few(&mut self, key: K, value: V) -> Option<V> {
        if let Entries::Few(few) = &mut self.entries {
            few.push((key, value));
            self.entries = Entries::Many(few.drain(..).collect());
        }
        None
    }

    /// Takes the value of `key` out.
    #[inline]
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.entries {
            Entries::Few(few) => {
                let index = few.iter().position(|entry| entry.0 == *key)?;
                Some(few.swap_remove(index).1)
            }
            Entries::Many(many) => {
                let removed = many.remove(key);
                if many.is_empty() {
                    self.entries = Entries::Few(Vec::new());
                }
                removed
            }
        }
    }

    /// How many entries it has.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.entries {
            Entries::Few(few) => few.len(),
            Entries::Many(many) => many.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.entries = Entries::Few(Vec::new());
    }

    /// The keys and their values, in the order of the keys.
    pub fn sorted(&self) -> Vec<(&K, &V)> {
        let mut all: Vec<(&K, &V)> = match &self.entries {
            Entries::Few(few) => few.iter().map(|(key, value)| (key, value)).collect(),
            Entries::Many(many) => many.iter().collect(),
        };
        all.sort_unstable_by(|one, other| one.0.cmp(other.0));
        all
    }
}

impl<K: Ord, V> Default for FewMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[test]
    fn it_is_a_map_with_few_entries_and_with_many() {
        let mut random = SplitMix64::new(1);
        let (mut map, mut wanted) = (FewMap::new(), BTreeMap::new());
        let mut largest = 0;
        for round in 0..20_000_u64 {
            // Keys of which fewer and fewer are in use, and again many.
            let key = random.below(1 + (round / 100) % 40);
            match random.below(4) {
                0 => assert_eq!(map.remove(&key), wanted.remove(&key)),
                1 if random.below(50) == 0 => {
                    map.clear();
                    wanted.clear();
                }
                1 => {
                    let changed = map
                        .get_mut(&key)
                        .map(|value| std::mem::replace(value, round));
                    let other = wanted
                        .get_mut(&key)
                        .map(|value| std::mem::replace(value, round));
                    assert_eq!(changed, other);
                }
                _ => assert_eq!(map.insert(key, round), wanted.insert(key, round)),
            }
            assert_eq!(map.get(&key), wanted.get(&key));
            assert_eq!(
                (map.len(), map.is_empty()),
                (wanted.len(), wanted.is_empty())
            );
            assert!(map.sorted().into_iter().eq(&wanted));
            largest = largest.max(map.len());
        }
        assert!(largest > FEW, "{largest}");
    }
}
