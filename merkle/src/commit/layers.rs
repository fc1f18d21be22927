//! Forks as data: the changes of an uncommitted block are a layer, and layers on top of each other an overlay. Overlays
//! share what is below their own layer, and a key is found by a few probes, however many layers there are.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{HashTable, hash_table::Entry as Slot};
use phalanx_memory::{MERGED_LAYERS, Strata};
use phalanx_merkle_proof::{Hash, HashFn};

use super::effect::Effect;
use crate::{
    state::{KeyDigester, State},
    tree::{Node, Patches, TreePatch},
    types::{Error, Written},
};

/// Bit that marks ids of overlay entries among ids of the base state.
pub(super) const OVERLAID: u32 = 1 << 30;

const _: () = assert!(OVERLAID as usize >= crate::state::MAX_KEYS);

/// Maximum number of uncommitted blocks on top of each other: far more than a pipeline has in flight.
pub(crate) const MAX_DEPTH: usize = 64;

/// Bits of an item's number in the name of its place; the layer's number is above.
const ITEM_BITS: u32 = 23;

/// Maximum number of items of a layer.
const MAX_ITEMS: usize = 1 << ITEM_BITS;

/// Numbers of layers, which are given in turn.
const LAYERS: u32 = OVERLAID >> ITEM_BITS;

const _: () = assert!(LAYERS.is_power_of_two() && LAYERS as usize > MAX_DEPTH + MERGED_LAYERS);

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
    pub(crate) unapplied: Mutex<Option<Unapplied>>,
}

/// Data that applying a layer's block needs. The commit drops it, so that no block holds the blocks below it for ever.
#[derive(Debug)]
pub(crate) struct Unapplied {
    pub(crate) effect: Effect,
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

impl Layer {
    pub(super) fn key(&self, item: &Item) -> &[u8] {
        &self.bytes[item.at as usize..][..usize::from(item.key_len)]
    }

    /// Keys that the block writes, without sentinels, with their values; `None` for deleted keys.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let keys = self.items.iter().filter(|item| !item.sentinel);
        keys.map(|item| (self.key(item), item.present.then(|| self.value(item))))
    }

    /// Bytes that the layer takes, with its block's effect and its part of an overlay's index.
    pub(crate) fn memory(&self) -> usize {
        let unapplied = self.unapplied.lock().unwrap_or_else(PoisonError::into_inner);
        let effect = unapplied.as_ref().map_or(0, |unapplied| unapplied.effect.memory());
        self.bytes.capacity()
            + self.items.capacity() * (size_of::<Item>() + size_of::<Spot>())
            + self.created.capacity() * (size_of::<Hash>() + size_of::<(Hash, u32)>())
            + self.owners.capacity() * size_of::<u32>()
            + self.tree.nodes().count() * size_of::<(Node, u32)>()
            + self.tree.memory()
            + effect
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

/// Index of a layer, or of layers that are merged.
#[derive(Clone, Debug, Default)]
struct Index {
    /// Latest item of each key that the layers change.
    spots: HashTable<Spot>,
    /// Latest layer that changes a place of the tree.
    nodes: HashTable<(Node, u32)>,
    /// Keys that were created, in key order, with the place of some item of theirs.
    created: Vec<(Hash, u32)>,
}

/// A key in an index: part of its digest, and the place of its item.
#[derive(Clone, Copy, Debug)]
struct Spot {
    tag: u32,
    place: u32,
}

impl Spot {
    const fn hash(self) -> u64 {
        spread(self.tag)
    }
}

/// Part of a digest as a hash.
const fn spread(tag: u32) -> u64 {
    tag as u64 | (tag as u64) << 32
}

impl Index {
    /// Index of one layer.
    fn of(layer: &Layer, number: u32) -> Self {
        let place = |item: u32| number << ITEM_BITS | item;
        let mut index = Self { spots: HashTable::with_capacity(layer.items.len()), ..Self::default() };
        let mut created = layer.created.iter();
        for (item, at) in layer.items.iter().zip(0..) {
            let spot = Spot { tag: item.digest as u32, place: place(at) };
            // A block has one item for each key.
            index.spots.insert_unique(spot.hash(), spot, |spot| spot.hash());
            if item.created
                && let Some(hash) = created.next()
            {
                index.created.push((*hash, place(at)));
            }
        }
        index.created.sort_unstable_by_key(|(hash, _)| *hash);
        for node in layer.tree.nodes() {
            index.set(node, number);
        }
        index
    }

    fn set(&mut self, node: Node, number: u32) {
        match self.nodes.entry(node.hash(), |(other, _)| *other == node, |(other, _)| other.hash()) {
            Slot::Occupied(mut slot) => slot.get_mut().1 = number,
            Slot::Vacant(slot) => _ = slot.insert((node, number)),
        }
    }

    /// Adds the index of newer layers. `same` tells of two places of items with equal tags if they are of one key.
    fn absorb(&mut self, newer: &Self, same: impl Fn(u32, u32) -> bool) {
        for spot in &newer.spots {
            let is = |other: &Spot| other.tag == spot.tag && same(other.place, spot.place);
            match self.spots.entry(spot.hash(), is, |spot| spot.hash()) {
                Slot::Occupied(mut slot) => *slot.get_mut() = *spot,
                Slot::Vacant(slot) => _ = slot.insert(*spot),
            }
        }
        newer.nodes.iter().for_each(|(node, number)| self.set(*node, *number));
        // Two sorted runs, which a stable sort merges.
        self.created.extend_from_slice(&newer.created);
        self.created.sort_by_key(|(hash, _)| *hash);
        self.created.dedup_by_key(|(hash, _)| *hash);
    }

    fn weight(&self) -> usize {
        self.spots.len() + self.nodes.len()
    }
}

/// Layers on top of a committed block; the last one is the overlay's own. Its lowest layers may be committed by now: what
/// they say is what the state says.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    pub(super) digester: KeyDigester,
    /// Hash function of the commitment.
    pub(super) hash: HashFn,
    /// Block below the layers.
    base_id: u64,
    stack: Stack,
    /// Ids of the layers' blocks, ascending.
    ids: Vec<u64>,
    indices: Strata<Index>,
    /// Number of keys.
    pub(super) len: usize,
}

/// Layers by their numbers.
#[derive(Clone, Debug, Default)]
struct Stack {
    /// Number of the first layer.
    first: u32,
    layers: Vec<Arc<Layer>>,
}

impl Stack {
    /// Number of the next layer.
    const fn next(&self) -> u32 {
        (self.first + self.layers.len() as u32) % LAYERS
    }

    #[inline]
    fn layer(&self, number: u32) -> &Layer {
        &self.layers[(number.wrapping_sub(self.first) % LAYERS) as usize]
    }

    #[inline]
    fn item(&self, place: u32) -> (&Layer, &Item) {
        let layer = self.layer(place >> ITEM_BITS);
        (layer, &layer.items[place as usize % MAX_ITEMS])
    }

    /// True if two places hold items of one key.
    fn is_same(&self, a: u32, b: u32) -> bool {
        let ((layer_a, a), (layer_b, b)) = (self.item(a), self.item(b));
        a.sentinel == b.sentinel && layer_a.key(a) == layer_b.key(b)
    }
}

impl Overlay {
    /// Creates an overlay without layers on `state`.
    pub(crate) fn new(base_id: u64, hash: HashFn, state: &State) -> Self {
        let (digester, len) = (state.digester(), state.len());
        Self { digester, hash, base_id, stack: Stack::default(), ids: Vec::new(), indices: Strata::default(), len }
    }

    /// The layers, oldest first.
    pub(crate) fn layers(&self) -> &[Arc<Layer>] {
        &self.stack.layers
    }

    /// Adds a layer, computed from this overlay. O(the layer).
    ///
    /// # Errors
    /// [`Error::TooDeep`], [`Error::TooLong`].
    pub(crate) fn push(&mut self, layer: Arc<Layer>) -> Result<(), Error> {
        if layer.items.len() > MAX_ITEMS {
            return Err(Error::TooLong { what: "fork in keys", len: layer.items.len(), max: MAX_ITEMS });
        }
        if self.ids.len() + 1 >= LAYERS as usize {
            return Err(Error::TooDeep { max: MAX_DEPTH });
        }
        let index = Index::of(&layer, self.stack.next());
        self.len = self.len + layer.created.len() - layer.items.iter().filter(|item| !item.present).count();
        self.ids.push(layer.id);
        self.stack.layers.push(layer);
        let (weight, stack) = (index.weight(), &self.stack);
        self.indices.push(index, weight, |older, newer| older.absorb(newer, |a, b| stack.is_same(a, b)));
        Ok(())
    }

    /// Drops layers that are committed now that `tip` is: the same state with fewer layers.
    pub(crate) fn above(&self, tip: u64) -> Self {
        let mut overlay = self.clone();
        let gone = overlay.indices.trim(self.depth_above(tip).unwrap_or(self.ids.len()));
        if let Some(last) = gone.checked_sub(1) {
            overlay.base_id = overlay.ids[last];
            overlay.ids.drain(..gone);
            overlay.stack.layers.drain(..gone);
            overlay.stack.first = (self.stack.first + gone as u32) % LAYERS;
        }
        overlay
    }

    /// Number of layers above `tip`; `None` if the overlay cannot be read on top of it: `tip` is neither the block
    /// below the overlay nor one of its layers.
    #[inline]
    pub(crate) fn depth_above(&self, tip: u64) -> Option<usize> {
        if self.base_id == tip {
            return Some(self.ids.len());
        }
        // A child is younger than its parent.
        self.ids.binary_search(&tip).ok().map(|at| self.ids.len() - at - 1)
    }

    /// True if the block `id` is a layer.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.ids.binary_search(&id).is_ok()
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
        self.stack.layers.last()
    }

    /// Position of the first layer's first entry.
    pub(super) fn first_sn(&self) -> u64 {
        self.stack.layers.first().map_or(u64::MAX, |layer| layer.first_sn)
    }

    /// Place of the latest item of the key, or sentinel, that a layer wrote at a position.
    pub(super) fn owner(&self, sn: u64) -> Option<u32> {
        let at = self.stack.layers.partition_point(|layer| layer.first_sn <= sn).checked_sub(1)?;
        let layer = &self.stack.layers[at];
        let item = &layer.items[*layer.owners.get((sn - layer.first_sn) as usize)? as usize];
        self.find(item.digest, item.sentinel, layer.key(item))
    }

    /// Place of the latest item of a key, or sentinel, that a layer changes.
    #[inline]
    pub(super) fn find(&self, digest: u64, sentinel: bool, key: &[u8]) -> Option<u32> {
        let tag = digest as u32;
        let is = |spot: &Spot| {
            spot.tag == tag && {
                let (layer, item) = self.item(spot.place);
                item.sentinel == sentinel && layer.key(item) == key
            }
        };
        self.indices.newest_first().find_map(|index| index.spots.find(spread(tag), is)).map(|spot| spot.place)
    }

    #[inline]
    pub(super) fn item(&self, place: u32) -> (&Layer, &Item) {
        self.stack.item(place)
    }

    /// Place of the latest item of the key whose item is at `place`, if the key exists.
    fn latest(&self, place: u32) -> Option<u32> {
        let (layer, item) = self.item(place);
        let latest = self.find(item.digest, item.sentinel, layer.key(item))?;
        self.item(latest).1.present.then_some(latest)
    }

    /// Existing keys that a layer created, in key order, from `from` on: hash and place.
    pub(super) fn created_from(&self, from: &Hash) -> impl Iterator<Item = (Hash, u32)> {
        let behind = |index: &Index| index.created.partition_point(|(hash, _)| hash < from);
        let mut runs: Vec<&[(Hash, u32)]> =
            self.indices.newest_first().map(|index| &index.created[behind(index)..]).collect();
        core::iter::from_fn(move || {
            loop {
                let (hash, place) = *runs.iter().filter_map(|run| run.first()).min_by_key(|(hash, _)| *hash)?;
                for run in &mut runs {
                    if run.first().is_some_and(|(first, _)| *first == hash) {
                        *run = &run[1..];
                    }
                }
                if let Some(place) = self.latest(place) {
                    return Some((hash, place));
                }
            }
        })
    }

    /// Last existing key before a hash that a layer created.
    pub(super) fn created_before(&self, hash: &Hash) -> Option<(Hash, u32)> {
        let last = |index: &Index| {
            let before = index.created.partition_point(|(created, _)| created < hash);
            let newest = index.created[..before].iter().rev();
            newest.filter_map(|(created, place)| Some((*created, self.latest(*place)?))).next()
        };
        self.indices.newest_first().filter_map(last).max_by_key(|(created, _)| *created)
    }
}

impl<'t> Patches<'t> for &'t Overlay {
    fn newest<T>(self, node: Node, find: impl Fn(&'t TreePatch) -> Option<T>) -> Option<T> {
        let is = |(other, _): &(Node, u32)| *other == node;
        let (_, number) = self.indices.newest_first().find_map(|index| index.nodes.find(node.hash(), is))?;
        find(&self.stack.layer(*number).tree)
    }

    fn last(self) -> Option<&'t TreePatch> {
        self.own().map(|layer| &layer.tree)
    }
}
