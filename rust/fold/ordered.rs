//! A map that keeps the order in which keys first came, as a Python dict does.
//!
//! Owns: that order. Invariants: a value that replaces another keeps its place; every operation takes logarithmic
//! time, since calls that never end are never let go. Must not know: what is kept.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A value that says under which key it is kept.
pub(super) trait Keyed {
    fn key(&self) -> Vec<u8>;
}

/// XXH3 from a seed of its own: fast, and no history can be made to fill one slot.
#[derive(Clone, Debug)]
struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for Seeded {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, length: usize) {
        self.0 = self.0.wrapping_add(length as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Debug)]
pub(super) struct Ordered<V> {
    places: HashMap<Vec<u8>, u64, Seeded>,
    values: BTreeMap<u64, V>,
    next: u64,
}

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Self { places: HashMap::default(), values: BTreeMap::new(), next: 0 }
    }
}

impl<V: Keyed> FromIterator<V> for Ordered<V> {
    fn from_iter<T: IntoIterator<Item = V>>(values: T) -> Self {
        let mut made = Self::default();
        values.into_iter().for_each(|value| made.insert(value));
        made
    }
}

impl<V: Keyed> Ordered<V> {
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        self.values.get(self.places.get(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.values.get_mut(self.places.get(key)?)
    }

    pub(super) fn insert(&mut self, value: V) {
        let place = *self.places.entry(value.key()).or_insert(self.next);
        self.next = self.next.max(place + 1);
        self.values.insert(place, value);
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        self.values.remove(&self.places.remove(key)?)
    }

    /// Remove the value that came first.
    pub(super) fn remove_first(&mut self) {
        if let Some((_, value)) = self.values.pop_first() {
            self.places.remove(&value.key());
        }
    }
}
