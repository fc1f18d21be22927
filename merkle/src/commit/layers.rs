//! Forks as data: the changes of an uncommitted block are a layer, and layers on top of each other an overlay. A key is
//! found by one probe, however many layers there are.

use std::sync::{Arc, Mutex};

use phalanx_merkle_proof::{Hash, HashFn};

use super::effect::Effect;
use crate::{
    state::{KeyDigester, State},
    tree::{Patch, TreePatch},
    types::Written,
};

/// Bit that marks ids of overlay entries among ids of the base state.
pub(super) const OVERLAID: u32 = 1 << 30;

const _: () = assert!(OVERLAID as usize >= crate::state::MAX_KEYS);

/// Distinguishes sentinels from keys of the same name.
const SENTINEL: u64 = 0x5e17_1e1d_0000_0001;

/// Changes of one block by key, and the effect to apply it with.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) id: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) items: Vec<Item>,
    /// Hashes of the new keys, in order.
    pub(super) created: Vec<Hash>,
    /// Per position of the block, the item that was written there.
    pub(super) owners: Vec<u32>,
    pub(super) first_sn: u64,
    pub(crate) tree: TreePatch,
    /// Present until the block is committed.
    pub(crate) effect: Mutex<Option<Effect>>,
    /// Base that the effect's ids refer to, besides the state.
    pub(crate) base: Option<Arc<Overlay>>,
}

/// A key after the block.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) digest: u64,
    /// Offset of the key, and after it the value.
    at: u64,
    value_len: u16,
    key_len: u8,
    pub(super) sentinel: bool,
    /// True if the key exists after the block.
    pub(super) present: bool,
    /// True if the key did not exist before the block.
    pub(super) created: bool,
    /// Prefix of the key's hash.
    pub(super) prefix: u64,
    /// Hash of the next key.
    pub(super) next: Hash,
    pub(super) written: Written,
}

impl Patch for Arc<Layer> {
    fn patch(&self) -> &TreePatch {
        &self.tree
    }
}

impl Layer {
    pub(super) fn key(&self, item: &Item) -> &[u8] {
        &self.bytes[item.at as usize..][..usize::from(item.key_len)]
    }

    /// Keys that the block writes, without sentinels, with their values; `None` for deleted keys.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let keys = self.items.iter().filter(|item| !item.sentinel);
        keys.map(|item| (self.key(item), item.present.then(|| self.value(item))))
    }

    pub(super) fn value(&self, item: &Item) -> &[u8] {
        &self.bytes[item.at as usize + usize::from(item.key_len)..][..usize::from(item.value_len)]
    }

    pub(super) fn push(
        &mut self,
        digester: &KeyDigester,
        sentinel: bool,
        key: &[u8],
        value: Option<&[u8]>,
        (prefix, next): (u64, Hash),
        written: Written,
    ) {
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.items.push(Item {
            digest: digest(digester, sentinel, key),
            at,
            value_len: value.map_or(0, |value| value.len() as u16),
            key_len: key.len() as u8,
            sentinel,
            present: value.is_some(),
            created: false,
            prefix,
            next,
            written,
        });
    }
}

pub(super) fn digest(digester: &KeyDigester, sentinel: bool, key: &[u8]) -> u64 {
    digester.digest(key) ^ if sentinel { SENTINEL } else { 0 }
}

/// Layers on top of a committed block; the last one is the overlay's own.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    pub(super) digester: KeyDigester,
    /// Hash function of the commitment.
    pub(super) hash: HashFn,
    /// Committed block below.
    pub(crate) base_id: u64,
    pub(crate) layers: Vec<Arc<Layer>>,
    /// Latest item of each key that a layer changes, as `(layer, item)`.
    entries: Vec<(u32, u32)>,
    /// Open addressing by digest, at most half full: an index into `entries` plus one, or zero.
    slots: Vec<u32>,
    /// Keys that the base state does not have, in key order.
    pub(super) created: Vec<(Hash, u32)>,
    /// Number of keys.
    pub(super) len: usize,
}

impl Overlay {
    /// Creates an overlay without layers on `state`.
    pub(crate) fn new(base_id: u64, hash: HashFn, state: &State) -> Self {
        let (digester, layers, entries, slots) = (state.digester(), Vec::new(), Vec::new(), vec![0; 64]);
        Self { digester, hash, base_id, layers, entries, slots, created: Vec::new(), len: state.len() }
    }

    /// Adds a layer, computed from this overlay.
    pub(crate) fn push(&mut self, layer: Arc<Layer>) {
        let number = self.layers.len() as u32;
        self.layers.push(layer);
        let layer = Arc::clone(&self.layers[number as usize]);
        self.reserve(layer.items.len());
        let mut created = layer.created.iter();
        for (item, at) in layer.items.iter().zip(0..) {
            let (key, new) = (layer.key(item), if item.created { created.next() } else { None });
            let existed = match self.find_entry(item.digest, item.sentinel, key) {
                Some(entry) => {
                    let existed = self.item(entry).1.present;
                    self.entries[entry as usize] = (number, at);
                    existed
                }
                None => {
                    self.insert_slot(item.digest, self.entries.len() as u32);
                    self.entries.push((number, at));
                    if let Some(hash) = new {
                        self.created.push((*hash, self.entries.len() as u32 - 1));
                    }
                    !item.created
                }
            };
            self.len = self.len + usize::from(item.present) - usize::from(existed);
        }
        self.created.sort_unstable();
    }

    /// Rebuilds the overlay on top of `tip`, one of its layers or the block below: the same state with fewer layers.
    pub(crate) fn above(&self, tip: u64, state: &State) -> Self {
        let mut overlay = Self::new(tip, self.hash, state);
        let above = self.layers.iter().position(|layer| layer.id == tip).map_or(0, |at| at + 1);
        self.layers[above..].iter().for_each(|layer| overlay.push(Arc::clone(layer)));
        overlay
    }

    /// Value of an id that a layer holds; `None` for an id of the base state.
    pub(crate) fn value(&self, id: u32) -> Option<&[u8]> {
        (id & OVERLAID != 0).then(|| {
            let (layer, item) = self.item(id & !OVERLAID);
            layer.value(item)
        })
    }

    /// Layer of the overlay's own block.
    pub(crate) fn own(&self) -> Option<&Arc<Layer>> {
        self.layers.last()
    }

    /// Returns true if the overlay can be read on top of `tip`: the block below it, or one of its layers.
    pub(crate) fn stands_on(&self, tip: u64) -> bool {
        self.base_id == tip || self.layers.iter().any(|layer| layer.id == tip)
    }

    fn reserve(&mut self, more: usize) {
        let wanted = ((self.entries.len() + more) * 2).next_power_of_two();
        if wanted > self.slots.len() {
            self.slots = vec![0; wanted];
            for entry in 0..self.entries.len() as u32 {
                self.insert_slot(self.item(entry).1.digest, entry);
            }
        }
    }

    fn insert_slot(&mut self, digest: u64, entry: u32) {
        let mask = self.slots.len() - 1;
        let mut at = digest as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = entry + 1;
    }

    #[inline]
    pub(super) fn find_entry(&self, digest: u64, sentinel: bool, key: &[u8]) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = digest as usize & mask;
        while self.slots[at] != 0 {
            let entry = self.slots[at] - 1;
            let (layer, item) = self.item(entry);
            if item.digest == digest && item.sentinel == sentinel && layer.key(item) == key {
                return Some(entry);
            }
            at = (at + 1) & mask;
        }
        None
    }

    #[inline]
    pub(super) fn item(&self, entry: u32) -> (&Layer, &Item) {
        let (layer, item) = self.entries[entry as usize];
        let layer = &self.layers[layer as usize];
        (layer, &layer.items[item as usize])
    }
}
