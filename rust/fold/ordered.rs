//! A map that keeps the order in which keys first came, as a Python dict does.
//!
//! Owns: that order. Invariants: a value that replaces another keeps its place; every operation takes constant
//! time, since calls that never end are never let go. Must not know: what is kept.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::iter::successors;

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

/// A place for a value, and its neighbours in the order.
#[derive(Debug)]
struct Slot<V> {
    value: Option<V>,
    before: usize,
    after: usize,
}

/// The slots form a ring that begins and ends at `ANCHOR`, which holds no value; the free ones lie outside.
#[derive(Debug)]
pub(super) struct Ordered<V> {
    places: HashMap<Vec<u8>, usize, Seeded>,
    slots: Vec<Slot<V>>,
    free: Vec<usize>,
}

const ANCHOR: usize = 0;

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        let anchor = Slot { value: None, before: ANCHOR, after: ANCHOR };
        Self { places: HashMap::default(), slots: vec![anchor], free: Vec::new() }
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
        self.places.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        let places = successors(Some(self.slots[ANCHOR].after), |&at| Some(self.slots[at].after));
        places.map_while(|at| self.slots[at].value.as_ref())
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        self.slots[*self.places.get(key)?].value.as_ref()
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.slots[*self.places.get(key)?].value.as_mut()
    }

    pub(super) fn insert(&mut self, value: V) {
        match self.places.entry(value.key()) {
            Entry::Occupied(known) => self.slots[*known.get()].value = Some(value),
            Entry::Vacant(unknown) => {
                let last = self.slots[ANCHOR].before;
                let slot = Slot { value: Some(value), before: last, after: ANCHOR };
                let at = self.free.pop().unwrap_or(self.slots.len());
                match self.slots.get_mut(at) {
                    Some(free) => *free = slot,
                    None => self.slots.push(slot),
                }
                self.slots[last].after = at;
                self.slots[ANCHOR].before = at;
                unknown.insert(at);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let at = self.places.remove(key)?;
        self.take(at)
    }

    /// Remove the value that came first.
    pub(super) fn remove_first(&mut self) {
        if let Some(value) = self.take(self.slots[ANCHOR].after) {
            self.places.remove(&value.key());
        }
    }

    /// Take a value out of the ring.
    fn take(&mut self, at: usize) -> Option<V> {
        let value = self.slots[at].value.take()?;
        let (before, after) = (self.slots[at].before, self.slots[at].after);
        self.slots[before].after = after;
        self.slots[after].before = before;
        self.free.push(at);
        Some(value)
    }
}
