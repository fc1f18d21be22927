//! Blocks that are not committed: what each of them makes of the state below it, and how a state with some of them on top
//! is read, at the same cost for any number of them.

use std::sync::{Arc, Mutex};

use phalanx_memory::prefetch;
use phalanx_merkle_proof::{Entry, Hash, HashFn};

use crate::{
    Error,
    ground::{Base, Ground},
    keyed::Keyed,
    log::Log,
    paged::Wait,
    prepare::{Effect, name},
    resident::{Lookup, Resident, Written},
    resolve::Who,
    ring::prefix,
    state::State,
    tree::{Patch, TreePatch},
};

/// Marks ids of overlay entries among those of the resident state.
const OVER: u32 = 1 << 30;

const _: () = assert!(OVER as usize >= crate::index::MAX_KEYS);

/// Tells sentinels from keys of the same name.
const SENTINEL: u64 = 0x5e17_1e1d_0000_0001;

/// What one block changes, key by key, and what applying it takes.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) id: u64,
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// The hashes of those that are new, in order.
    created: Vec<Hash>,
    /// Per position of the block, the item that was written there.
    owners: Vec<u32>,
    first_sn: u64,
    pub(crate) tree: TreePatch,
    /// Until the block is committed.
    pub(crate) effect: Mutex<Option<Effect>>,
    /// What the effect's ids refer to besides the state.
    pub(crate) ground: Option<Arc<Overlay>>,
}

/// A key after the block.
#[derive(Debug)]
struct Item {
    digest: u64,
    /// Where the key, and after it the value, begin.
    at: u64,
    value_len: u16,
    key_len: u8,
    sentinel: bool,
    /// Whether the key exists.
    present: bool,
    /// Whether it did not exist before the block.
    created: bool,
    /// The first bytes of the key's hash.
    prefix: u64,
    /// The hash of the next key.
    next: Hash,
    written: Written,
}

impl Patch for Arc<Layer> {
    fn patch(&self) -> &TreePatch {
        &self.tree
    }
}

impl Layer {
    fn key(&self, item: &Item) -> &[u8] {
        &self.bytes[item.at as usize..][..usize::from(item.key_len)]
    }

    /// The keys that the block writes, sentinels apart, with their values unless it deletes them.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let keys = self.items.iter().filter(|item| !item.sentinel);
        keys.map(|item| (self.key(item), item.present.then(|| self.value(item))))
    }

    fn value(&self, item: &Item) -> &[u8] {
        &self.bytes[item.at as usize + usize::from(item.key_len)..][..usize::from(item.value_len)]
    }

    /// Spells out what an effect does to the state it was computed from.
    pub(crate) fn new(id: u64, state: &State, log: &dyn Log, ground: Option<Arc<Overlay>>, effect: Effect) -> Self {
        let keyed = &state.keyed();
        let mut layer = match (state, &ground) {
            (State::Resident(state), Some(overlay)) => Self::spell_out(id, keyed, &Over { state, overlay }, &effect),
            (State::Resident(state), None) => Self::spell_out(id, keyed, state, &effect),
            (State::Paged(paged), ground) => {
                let state = &paged.session(log, effect.arena.clone().unwrap_or_default(), Wait::Working);
                match ground {
                    Some(overlay) => Self::spell_out(id, keyed, &Over { state, overlay }, &effect),
                    None => Self::spell_out(id, keyed, state, &effect),
                }
            }
        };
        (layer.effect, layer.ground) = (Mutex::new(Some(effect)), ground);
        layer
    }

    fn spell_out(id: u64, keyed: &Keyed, state: &impl Ground, effect: &Effect) -> Self {
        let count = effect.linked.len() + effect.moves.len();
        let mut layer = Self {
            id,
            bytes: Vec::with_capacity(count * 48),
            items: Vec::with_capacity(count + effect.linked.deletes.len()),
            created: Vec::with_capacity(effect.linked.created),
            owners: (0..count as u32).collect(),
            first_sn: effect.first_sn,
            tree: effect.tree.clone(),
            effect: Mutex::new(None),
            ground: None,
        };
        let Effect { delta, linked, moves, first_sn, height, .. } = effect;
        for rank in 0..linked.len() {
            let (op, who) = linked.get(rank);
            let sn = first_sn + rank as u64;
            let value = op.map(|op| delta.at(op).value().unwrap_or_default());
            match who {
                Who::Known(id) => {
                    let entry = state.committed(id);
                    let entry = Entry { value: value.unwrap_or(entry.value), ..entry };
                    let place = (state.prefix(id), linked.next(rank).copied().unwrap_or(entry.next));
                    let written = Written::new(sn, Some(state.written(id).sn), *height);
                    layer.push(keyed, entry.sentinel, entry.key, Some(entry.value), place, written);
                }
                Who::New(new) => {
                    let op = op.unwrap_or_default();
                    let next = linked.next(rank).copied().unwrap_or_default();
                    let hash = *linked.digest(op, new);
                    let key = name(delta.at(op));
                    layer.push(keyed, false, key, value, (prefix(&hash), next), Written::new(sn, None, *height));
                    layer.created.push(hash);
                    layer.items.iter_mut().next_back().into_iter().for_each(|item| item.created = true);
                }
            }
        }
        for (rank, (id, _)) in moves.iter().enumerate() {
            let entry = state.committed(*id);
            let sn = first_sn + (linked.len() + rank) as u64;
            let written = Written::new(sn, entry.previous, entry.height);
            layer.push(keyed, entry.sentinel, entry.key, Some(entry.value), (state.prefix(*id), entry.next), written);
        }
        for id in &linked.deletes {
            let place = (state.prefix(*id), *state.next(*id));
            layer.push(keyed, false, state.entry(*id).0, None, place, state.written(*id));
        }
        layer
    }

    fn push(
        &mut self,
        keyed: &Keyed,
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
            digest: digest(keyed, sentinel, key),
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

fn digest(keyed: &Keyed, sentinel: bool, key: &[u8]) -> u64 {
    keyed.digest(key) ^ if sentinel { SENTINEL } else { 0 }
}

/// Some layers on top of a committed block, the last one being the overlay's own. Looking a key up takes one probe,
/// however many layers there are.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    keyed: Keyed,
    /// Of the commitment.
    hash: HashFn,
    /// The committed block below.
    pub(crate) base_id: u64,
    pub(crate) layers: Vec<Arc<Layer>>,
    /// The latest item of each key that some layer changes, as `(layer, item)`.
    entries: Vec<(u32, u32)>,
    /// Open addressing by digest, at most half full: an index into `entries` plus one, or zero.
    slots: Vec<u32>,
    /// Keys that are not in the state below, in order of their hashes.
    created: Vec<(Hash, u32)>,
    /// Number of keys.
    len: usize,
}

impl Overlay {
    /// No layer on top of `state`.
    pub(crate) fn new(base_id: u64, hash: HashFn, state: &State) -> Self {
        let (keyed, layers, entries, slots) = (state.keyed(), Vec::new(), Vec::new(), vec![0; 64]);
        Self { keyed, hash, base_id, layers, entries, slots, created: Vec::new(), len: state.len() }
    }

    /// Puts another layer on top, computed from this overlay.
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

    /// The layers above `tip`, on top of it: the same state, read with less effort.
    pub(crate) fn above(&self, tip: u64, state: &State) -> Self {
        let mut overlay = Self::new(tip, self.hash, state);
        let above = self.layers.iter().position(|layer| layer.id == tip).map_or(0, |at| at + 1);
        self.layers[above..].iter().for_each(|layer| overlay.push(Arc::clone(layer)));
        overlay
    }

    /// The value that an id of a key in some layer stands for; `None` if it is the state's below.
    pub(crate) fn value(&self, id: u32) -> Option<&[u8]> {
        (id & OVER != 0).then(|| {
            let (layer, item) = self.item(id & !OVER);
            layer.value(item)
        })
    }

    /// The overlay's own block.
    pub(crate) fn own(&self) -> Option<&Arc<Layer>> {
        self.layers.last()
    }

    /// Whether the overlay can be read on top of the state of `tip`: it is below it, or one of its layers.
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
    fn find_entry(&self, digest: u64, sentinel: bool, key: &[u8]) -> Option<u32> {
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
    fn item(&self, entry: u32) -> (&Layer, &Item) {
        let (layer, item) = self.entries[entry as usize];
        let layer = &self.layers[layer as usize];
        (layer, &layer.items[item as usize])
    }
}

/// The state with an overlay on top.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over<'s, B> {
    pub(crate) state: &'s B,
    pub(crate) overlay: &'s Overlay,
}

impl Over<'_, Resident> {
    /// The id in the state below of a key, or sentinel, that is there.
    pub(crate) fn lower(&self, id: u32) -> Option<u32> {
        if id & OVER == 0 {
            return Some(id);
        }
        let (layer, item) = self.overlay.item(id & !OVER);
        if item.sentinel { self.state.sentinel(layer.key(item)) } else { self.state.find(layer.key(item)) }
    }
}

impl<'s, B: Base> Over<'s, B> {
    /// The id of a key, wherever it is.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let digest = digest(&self.overlay.keyed, false, key);
        match self.overlay.find_entry(digest, false, key) {
            Some(entry) => self.overlay.item(entry).1.present.then_some(OVER | entry),
            None => self.state.find(key),
        }
    }

    /// The id that stands for a key, or sentinel, of the state below, unless it is gone.
    fn lift(&self, id: u32) -> Option<u32> {
        let (sentinel, key) = (self.state.is_sentinel(id), self.state.entry(id).0);
        match self.overlay.find_entry(digest(&self.overlay.keyed, sentinel, key), sentinel, key) {
            Some(entry) => self.overlay.item(entry).1.present.then_some(OVER | entry),
            None => Some(id),
        }
    }

    /// Key and value.
    #[inline]
    pub(crate) fn entry(&self, id: u32) -> (&'s [u8], &'s [u8]) {
        if id & OVER == 0 {
            return self.state.entry(id);
        }
        let (layer, item) = self.overlay.item(id & !OVER);
        (layer.key(item), layer.value(item))
    }

    /// Keys and sentinels in order of their hashes, from `from` on.
    pub(crate) fn ring_from<'r>(&'r self, from: &'r Hash) -> impl Iterator<Item = u32> + 'r {
        let mut below = self.state.ring_from(from).filter_map(|id| self.lift(id)).peekable();
        let first = self.overlay.created.partition_point(|(hash, _)| hash < from);
        let created = self.overlay.created[first..].iter().map(|(_, entry)| *entry);
        let mut created =
            created.filter(|entry| self.overlay.item(*entry).1.present).map(|entry| OVER | entry).peekable();
        std::iter::from_fn(move || match (below.peek(), created.peek()) {
            (Some(id), Some(new)) if self.hash(*id) < self.hash(*new) => below.next(),
            (Some(_), None) => below.next(),
            (_, _) => created.next(),
        })
    }
}

impl<B: Base> Ground for Over<'_, B> {
    fn len(&self) -> usize {
        self.overlay.len
    }

    fn find_many<'k>(
        &self,
        lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone,
        mut found: impl FnMut(Option<u32>),
    ) {
        // Those that no layer changes are looked up below at once.
        let over = |lookup: Lookup<'_>| match lookup {
            Lookup::Key(key) => self.overlay.find_entry(digest(&self.overlay.keyed, false, key), false, key),
            Lookup::At(_) => None,
        };
        let below: Vec<Lookup<'k>> = lookups.clone().filter(|lookup| over(*lookup).is_none()).collect();
        let mut ids = Vec::with_capacity(below.len());
        self.state.find_many(below.into_iter(), |id| ids.push(id));
        let mut ids = ids.into_iter();
        for lookup in lookups {
            found(match (over(lookup), lookup) {
                (Some(entry), _) => self.overlay.item(entry).1.present.then_some(OVER | entry),
                (None, Lookup::Key(_)) => ids.next().flatten(),
                (None, Lookup::At(_)) => ids.next().flatten().and_then(|id| self.lift(id)),
            });
        }
    }

    #[inline]
    fn entry(&self, id: u32) -> (&[u8], &[u8]) {
        Over::entry(self, id)
    }

    fn committed(&self, id: u32) -> Entry<'_> {
        if id & OVER == 0 {
            return self.state.committed(id);
        }
        let (layer, item) = self.overlay.item(id & !OVER);
        let (previous, height, next) = (item.written.previous(), item.written.height, item.next);
        Entry { sentinel: item.sentinel, key: layer.key(item), value: layer.value(item), next, previous, height }
    }

    fn hash(&self, id: u32) -> Hash {
        if id & OVER == 0 { self.state.hash(id) } else { self.committed(id).key_hash(self.overlay.hash) }
    }

    #[inline]
    fn prefix(&self, id: u32) -> u64 {
        if id & OVER == 0 { self.state.prefix(id) } else { self.overlay.item(id & !OVER).1.prefix }
    }

    #[inline]
    fn next(&self, id: u32) -> &Hash {
        if id & OVER == 0 { self.state.next(id) } else { &self.overlay.item(id & !OVER).1.next }
    }

    #[inline]
    fn written(&self, id: u32) -> Written {
        if id & OVER == 0 { self.state.written(id) } else { self.overlay.item(id & !OVER).1.written }
    }

    fn owners(&self, sns: &[u64]) -> Option<Vec<u32>> {
        let first = self.overlay.layers.first().map_or(u64::MAX, |layer| layer.first_sn);
        let below: Vec<u64> = sns.iter().copied().filter(|sn| *sn < first).collect();
        let mut below = self.state.owners(&below)?.into_iter();
        let owner = |sn: &u64| {
            let layer = self.overlay.layers.iter().rev().find(|layer| layer.first_sn <= *sn);
            let Some(layer) = layer else { return below.next() };
            let item = &layer.items[*layer.owners.get((sn - layer.first_sn) as usize)? as usize];
            self.overlay.find_entry(item.digest, item.sentinel, layer.key(item)).map(|entry| OVER | entry)
        };
        sns.iter().map(owner).collect()
    }

    fn expect(&self, hashes: impl Iterator<Item = Hash>) {
        self.state.expect(hashes);
    }

    fn before(&self, hash: &Hash) -> Option<u32> {
        let mut below = self.state.before(hash);
        let below = loop {
            let Some(id) = below else { break None };
            if let Some(lifted) = self.lift(id) {
                break Some(lifted);
            }
            below = self.state.before(&self.state.hash(id));
        };
        let at = self.overlay.created.partition_point(|(created, _)| created < hash);
        let created = self.overlay.created[..at].iter().rev().find(|(_, entry)| self.overlay.item(*entry).1.present);
        let created = created.map(|(_, entry)| OVER | entry);
        [below, created].into_iter().flatten().max_by_key(|id| self.hash(*id))
    }

    #[inline]
    fn prefetch(&self, id: u32) {
        if id & OVER == 0 {
            self.state.prefetch(id);
        } else {
            prefetch(self.overlay.item(id & !OVER).1);
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.state.check()
    }
}
