//! From a checkpoint back to the state after its block.

use phalanx_merkle_proof::{Hash, Sentinels};

use super::{From, Reader, genesis};
use crate::{
    Ignored, Opened,
    checkpoint::{Image, Of},
    keyed::Keyed,
    log::Log,
    paged::{Extents, Keys, Paged, slot_of},
    par,
    resident::{Links, Resident, Written},
    ring::prefix,
    row::{BlockRow, ExtentItem, FRAME_HEADER, Kind, extent_head, read_extent},
    state::State,
    tree::Tree,
};

/// Extents whose keys are hashed together.
const BATCH: usize = 1 << 12;

impl From {
    /// The state and the tree of a checkpoint, ready to read the chain from the block after it.
    ///
    /// # Errors
    /// Why the checkpoint cannot be used.
    pub(super) fn restore<'l>(
        &self,
        log: &'l dyn Log,
        chain: &[BlockRow],
        image: Image,
    ) -> Result<(Reader<'l>, usize, Opened), Ignored> {
        let Image { of, tree, index } = image;
        let Of { id, height, root, shape } = of;
        let same = |row: &BlockRow| row.id == id && row.height == height && row.root == root && row.shape == shape;
        let at = chain.iter().position(same).ok_or(Ignored::NotInChain)? + 1;
        if chain.len() - at < self.window {
            return Err(Ignored::TooRecent);
        }
        let damaged = || Ignored::Damaged("it does not lead to its root".into());
        let tree = Tree::from_image(self.params, shape, tree).ok_or_else(damaged)?;
        if tree.root() != root {
            return Err(damaged());
        }
        let keyed = Keyed::new(self.salt);
        let state = match (self.memory, index) {
            (crate::Memory::Cached { bytes }, Some((keys, extents))) => {
                State::Paged(Paged::with(&self.params, keyed, bytes, keys, extents))
            }
            (crate::Memory::Cached { bytes }, None) => {
                let (keys, extents) = self.keys(log, &chain[..at], &tree)?;
                State::Paged(Paged::with(&self.params, keyed, bytes, keys, extents))
            }
            (crate::Memory::Resident, _) => {
                let (mut state, _) = genesis(self.params, self.salt, self.memory);
                if let State::Resident(state) = &mut state {
                    self.fill(log, &chain[..at], &tree, state)?;
                }
                state
            }
        };
        if state.len() as u64 + self.params.sentinels.count() != shape.active {
            return Err(damaged());
        }
        Ok((self.reader(log, state, tree, 0), at, Opened::Checkpoint { height }))
    }

    /// Hands the active entries of the log to `see`, in order of position, with their keys' hashes.
    fn each_active(
        &self,
        log: &dyn Log,
        chain: &[BlockRow],
        tree: &Tree,
        see: &mut dyn FnMut(&Found<'_>),
    ) -> Result<(), Ignored> {
        let floor = tree.shape().floor;
        let hash = self.params.hash;
        let mut bodies: Vec<(Kind, Vec<u8>, Option<u64>)> = Vec::with_capacity(BATCH);
        let mut digest = |bodies: &mut Vec<(Kind, Vec<u8>, Option<u64>)>| {
            let active = par::map(bodies, 32 * 100, |(kind, body, _)| {
                let mut hashes = Vec::new();
                each(*kind, body, |sn, item| {
                    let is_active = sn >= floor && tree.is_active(sn);
                    hashes.extend(is_active.then(|| entry_of(item).map(|entry| entry.key_hash(hash))).flatten());
                });
                hashes
            });
            for ((kind, body, place), hashes) in bodies.iter().zip(active) {
                let mut hashes = hashes.into_iter();
                if let (Some(place), Some((head, _))) = (place, extent_head(body)) {
                    see(&Found::Extent(head.first_sn, *place));
                }
                each(*kind, body, |sn, item| {
                    if sn >= floor
                        && tree.is_active(sn)
                        && let Some(hash) = hashes.next()
                    {
                        see(&Found::Entry(sn, hash, item));
                    }
                });
            }
            bodies.clear();
        };
        for row in chain.iter().filter(|row| row.shape.next_sn > floor) {
            let (begin, mut offset, mut index) = (log.begin(row.id), 0, 0);
            let read = log.extents(row.id, None, &mut |kind, body| {
                let entries = extent_head(body).map_or(0, |(head, _)| head.entries);
                let place = begin.filter(|_| entries > 0).map(|begin| begin.place(offset, index));
                offset += (FRAME_HEADER + body.len()) as u64;
                index += 1;
                bodies.push((kind, body.to_vec(), place));
                if bodies.len() == BATCH {
                    digest(&mut bodies);
                }
                Ok(true)
            });
            read.map_err(|error| Ignored::Damaged(error.to_string()))?;
            digest(&mut bodies);
        }
        Ok(())
    }

    /// The index of a state on disk, of a checkpoint that has none.
    fn keys(&self, log: &dyn Log, chain: &[BlockRow], tree: &Tree) -> Result<(Keys, Extents), Ignored> {
        let sentinels = self.params.sentinels;
        let place = |index: u64| prefix(&Sentinels::place(sentinels.name(index)));
        let first = (0..sentinels.count()).filter(|sn| *sn >= tree.shape().floor && tree.is_active(*sn));
        let mut slots: Vec<_> = first.map(|sn| slot_of(place(sn), sn)).collect();
        let mut extents = Extents::default();
        self.each_active(log, chain, tree, &mut |found| match found {
            Found::Extent(first_sn, place) => extents.push(*first_sn, *place),
            Found::Entry(sn, hash, _) => slots.push(slot_of(prefix(hash), *sn)),
        })?;
        rayon::slice::ParallelSliceMut::par_sort_unstable(slots.as_mut_slice());
        Ok((Keys::from_sorted(slots.into_iter(), tree.shape().next_sn), extents))
    }

    /// Fills a resident state that holds sentinels only.
    fn fill(&self, log: &dyn Log, chain: &[BlockRow], tree: &Tree, state: &mut Resident) -> Result<(), Ignored> {
        let (count, floor) = (self.params.sentinels.count(), tree.shape().floor);
        state.raise_floor(floor);
        if floor >= count {
            state.begin_at(floor);
        }
        let mut next_sn = floor.max(count);
        let mut fits = true;
        self.each_active(log, chain, tree, &mut |found| {
            let Found::Entry(sn, hash, item) = found else { return };
            let Some(entry) = entry_of(item) else { return };
            (next_sn..*sn).for_each(|_| state.skip());
            next_sn = sn + 1;
            let written = Written::new(*sn, entry.previous, entry.height);
            if entry.sentinel {
                match state.sentinel(entry.key) {
                    Some(id) => {
                        state.set_next(id, &entry.next);
                        state.write(id, written);
                    }
                    None => fits = false,
                }
            } else if state.has_room(1) && state.find(entry.key).is_none() {
                state.insert_unlinked(entry.key, entry.value, Links { hash: *hash, next: entry.next }, written);
            } else {
                fits = false;
            }
        })?;
        (next_sn..tree.shape().next_sn).for_each(|_| state.skip());
        fits.then_some(()).ok_or_else(|| Ignored::Damaged("the log has other entries".into()))
    }
}

/// What is met in the log.
enum Found<'a> {
    /// An extent, by its first position, and its place.
    Extent(u64, u64),
    /// An active entry: its position and its key's hash.
    Entry(u64, Hash, &'a ExtentItem<'a>),
}

const fn entry_of<'a>(item: &ExtentItem<'a>) -> Option<phalanx_merkle_proof::Entry<'a>> {
    match item {
        ExtentItem::Entry(entry, _) | ExtentItem::Moved(_, entry, _) => Some(*entry),
        ExtentItem::Delete(..) => None,
    }
}

/// Hands the entries of an extent to `see`, with their positions.
fn each(kind: Kind, body: &[u8], mut see: impl FnMut(u64, &ExtentItem<'_>)) {
    let Some((head, _)) = extent_head(body) else { return };
    let mut sn = head.first_sn;
    read_extent(kind, body, |item| {
        if !matches!(item, ExtentItem::Delete(..)) {
            see(sn, &item);
            sn += 1;
        }
    });
}
