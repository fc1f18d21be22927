//! Replays the extents of blocks into state and tree, hashed in parallel a batch at a time, and checks that every entry
//! continues what is there.

use phalanx_merkle_proof::{Hash, HashFn, Params, Sentinels, TWIG_LEAVES};

use super::feed::{Batch, Part, feed, whole};
use crate::{
    commit::UndoRecord,
    log::{BlockRecord, ExtentItem, Kind, Log, extent_head, read_extent},
    parallel::Par,
    state::{PositionChange, State},
    tree::{Deactivations, Leaves, Tree, TreePatch, TreeView},
    types::{Error, Links, Lookup, Written, prefix},
};

pub(super) struct Replayer<'l> {
    pub(super) log: &'l dyn Log,
    pub(super) params: Params,
    pub(super) state: State,
    pub(super) tree: Tree,
    /// First position that the log reaches.
    pub(super) start: u64,
    /// Floor after the blocks read.
    pub(super) floor: u64,
    /// Number of extents read of the current block.
    pub(super) extents: u64,
    /// Position behind all that was read.
    pub(super) read_sn: u64,
    /// Bytes of the extents that were read of blocks without an undo record.
    pub(super) bytes: u64,
    pub(super) history: Vec<UndoRecord>,
    /// Present while a block is read that can be rolled back.
    pub(super) recording: Option<UndoRecord>,
}

/// An extent.
#[derive(Clone, Copy)]
struct Body<'b> {
    kind: Kind,
    bytes: &'b [u8],
    /// Place in the log, if wanted.
    place: Option<u64>,
}

/// Items of an extent that a pass applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Items {
    All,
    Deletes,
    Entries,
}

/// Hashes of an extent that need no state: leaves of its entries, and hashes of the keys that need one.
#[derive(Default)]
struct Hashed {
    leaves: Vec<Hash>,
    keys: Vec<Hash>,
}

impl Hashed {
    /// Hashes an extent. `needs` returns true for the old positions of entries whose key hash is needed.
    fn new(hash: HashFn, body: &Body<'_>, needs: impl Fn(Option<u64>) -> bool) -> Option<Self> {
        let (mut hashed, mut encodings) = (Self::default(), Vec::new());
        read_extent(body.kind, body.bytes, |item| {
            let before = match item {
                ExtentItem::Entry(entry, _) => entry.previous,
                ExtentItem::Moved(from, ..) => Some(from),
                ExtentItem::Kept(..) => None,
                ExtentItem::Delete(..) => return,
            };
            if let Some((entry, encoded)) = item.entry() {
                encodings.push((encoded, entry.height.to_be_bytes()));
                hashed.keys.extend(needs(before).then(|| entry.key_hash(hash)));
            }
        })?;
        hash.leaves(encodings.iter().map(|(encoded, height)| (*encoded, height)), &mut hashed.leaves);
        Some(hashed)
    }
}

impl Replayer<'_> {
    /// Reads the blocks of a chain from index `from` on, and keeps undo records of the last `window`.
    pub(super) fn read(&mut self, chain: &[BlockRecord], from: usize, window: usize) -> Result<(), Error> {
        // An undo record needs all entries that were current before its block, in whole twigs.
        let start = self.start;
        let base = chain.first().is_some_and(BlockRecord::is_base);
        let known = |at: usize| {
            (start == 0 && !(base && at == 0))
                || (base && at > 0)
                || at
                    .checked_sub(1)
                    .is_some_and(|before| chain[before].shape.first_twig() * TWIG_LEAVES as u64 >= start)
        };
        let recorded = (chain.len().saturating_sub(window).max(from)..chain.len()).find(|at| known(*at));
        let recorded = recorded.unwrap_or(chain.len());
        let (log, records) = (self.log, &chain[from..recorded]);
        let mut ends = records.iter();
        feed(log, records, matches!(self.state, State::Paged(_)), |batch| self.digest(batch, &mut ends))?;
        chain[recorded..].iter().try_for_each(|record| self.record(record))
    }

    pub(super) fn corrupt(&self, what: String) -> Error {
        Error::Corrupt { path: self.log.path(), what }
    }

    /// Checks that extents continue each other, and that each block is complete at its end. `records` are the batch's
    /// blocks, from that of its first part on.
    fn check<'b>(
        &mut self,
        batch: &'b Batch,
        records: &mut std::slice::Iter<'_, BlockRecord>,
    ) -> Result<Vec<Body<'b>>, Error> {
        let mut bodies = Vec::with_capacity(batch.parts.len());
        for part in &batch.parts {
            let Some(record) = records.as_slice().first() else { break };
            let Part::Extent(extent) = part else {
                // The positions of a snapshot begin with the floor's twig.
                let floor_fits = record.is_base() || record.shape.floor <= record.first_sn;
                if self.extents != record.extents || self.read_sn != record.shape.next_sn || !floor_fits {
                    return Err(self.corrupt(format!("block {} lacks entries", record.height)));
                }
                self.floor = self.floor.max(record.shape.floor);
                self.extents = 0;
                records.next();
                continue;
            };
            let bytes = batch.body(extent);
            let head = extent_head(bytes).map(|(head, _)| head);
            let head = head.filter(|head| head.height == record.height && head.first_sn == self.read_sn);
            let Some(head) = head else {
                return Err(self.corrupt(format!("an extent of block {} does not fit", record.height)));
            };
            self.extents += 1;
            self.bytes += if self.recording.is_none() { bytes.len() as u64 } else { 0 };
            self.read_sn += u64::from(head.entries);
            bodies.push(Body { kind: extent.kind, bytes, place: extent.place });
        }
        Ok(bodies)
    }

    /// Reads a block, keeps its undo record, and checks its root.
    fn record(&mut self, record: &BlockRecord) -> Result<(), Error> {
        self.recording = Some(UndoRecord::new(TreePatch::of_shape(record.shape)));
        let batch = whole(self.log, record, matches!(self.state, State::Paged(_)))?;
        self.digest(&batch, &mut std::slice::from_ref(record).iter())?;
        match self.recording.take() {
            Some(undo) => self.history.push(undo),
            // The block goes back to pruned entries.
            None => self.history.clear(),
        }
        if self.tree.shape() == &record.shape && self.tree.root() == record.root {
            return Ok(());
        }
        Err(self.corrupt(format!("entries up to block {} do not lead to its root", record.height)))
    }

    /// Brings state and tree to the end of what was read.
    fn digest(&mut self, batch: &Batch, records: &mut std::slice::Iter<'_, BlockRecord>) -> Result<(), Error> {
        let (hash, start) = (self.params.hash, self.start);
        let bodies = self.check(batch, records)?;
        // A resident state needs the hash of a key when it first meets it.
        let all = matches!(self.state, State::Paged(_));
        let needs = |before: Option<u64>| all || before.is_none_or(|before| before < start);
        let hashed = Par::UNOBSERVED.map(&bodies, 32 * 200, |body| Hashed::new(hash, body, needs));
        let (mut leaves, mut off) = (Leaves::with_capacity(hashed.len()), Vec::new());
        let mut next_sn = self.tree.shape().next_sn;
        // A block with an undo record is applied in the order of `apply`: deletions first.
        let passes: &[Items] = if self.recording.is_some() { &[Items::Deletes, Items::Entries] } else { &[Items::All] };
        for items in passes {
            for (body, hashed) in bodies.iter().zip(&hashed) {
                let fits = hashed.as_ref().is_some_and(|hashed| match self.state {
                    State::Resident(_) => self.extent(body, *items, &hashed.keys, &mut next_sn, &mut off),
                    State::Paged(_) => self.extent_on_disk(body, *items, &hashed.keys, &mut next_sn, &mut off),
                });
                if !fits {
                    return Err(self.corrupt(format!("the extent before position {next_sn} does not fit")));
                }
            }
        }
        hashed.into_iter().flatten().for_each(|hashed| leaves.push(hashed.leaves));
        let (tree, entries) = (TreeView::from(&self.tree), leaves.len() as u64);
        let regions = tree.regions(entries);
        let off = Deactivations::new(&regions, off);
        let mut plan = tree.plan(entries, &regions, &[off]);
        plan.raise_floor(self.floor);
        let patch = plan.finish(&leaves, Vec::new(), false);
        let back = self.tree.apply(patch);
        if let Some(undo) = &mut self.recording {
            undo.tree = back;
        }
        if let State::Resident(state) = &mut self.state {
            state.raise_floor(self.floor);
        }
        Ok(())
    }

    /// Applies an extent to a resident state. Returns false if it does not continue the state.
    fn extent(&mut self, body: &Body<'_>, wanted: Items, keys: &[Hash], next_sn: &mut u64, off: &mut Vec<u64>) -> bool {
        // Nothing below the floor is current.
        let floor = self.tree.shape().floor;
        let State::Resident(state) = &mut self.state else { return false };
        let (start, recording) = (self.start, &mut self.recording);
        let mut items = Vec::new();
        read_extent(body.kind, body.bytes, |item| {
            let is_delete = matches!(item, ExtentItem::Delete(..));
            if wanted == Items::All || is_delete == (wanted == Items::Deletes) {
                items.push(item);
            }
        });
        let lookups = items.iter().map(|item| match item {
            ExtentItem::Entry(entry, _) | ExtentItem::Moved(_, entry, _) | ExtentItem::Kept(_, entry, _) => {
                Lookup::Key(entry.key)
            }
            ExtentItem::Delete(_, key) => Lookup::Key(key),
        });
        // The keys of an extent differ, so all can be looked up before any is applied.
        let (mut found, mut keys) = (Vec::with_capacity(items.len()), keys.iter());
        state.find_many(lookups, |id| {
            id.into_iter().for_each(|id| state.prefetch(id));
            found.push(id);
        });
        for (item, id) in items.into_iter().zip(found) {
            let (entry, before, written) = match item {
                ExtentItem::Entry(entry, _) => {
                    (entry, entry.previous, Written::new(*next_sn, entry.previous, entry.height))
                }
                ExtentItem::Moved(from, entry, _) => {
                    (entry, Some(from), Written::new(*next_sn, entry.previous, entry.height))
                }
                ExtentItem::Kept(active, entry, _) => {
                    let written = Written::new(*next_sn, entry.previous, entry.height);
                    let Some(hash) = keys.next().filter(|_| written.fits()) else { return false };
                    *next_sn += 1;
                    if !active {
                        off.push(*next_sn - 1);
                        state.pass();
                    } else if entry.sentinel {
                        let Some(id) = state.sentinel(entry.key) else { return false };
                        // Its first position is known if the positions begin with it.
                        let before = state.written(id).sn;
                        off.extend((before >= floor).then_some(before));
                        state.set_next(id, &entry.next);
                        state.write(id, written);
                    } else if id.is_some() || !state.has_room(1) || state.find(entry.key).is_some() {
                        return false;
                    } else {
                        let links = Links { hash: *hash, next: entry.next };
                        state.insert_unlinked(entry.key, entry.value, links, written);
                    }
                    continue;
                }
                ExtentItem::Delete(sn, key) => {
                    match id {
                        Some(id) if sn >= floor && state.written(id).sn == sn && state.entry(id).0 == key => {
                            off.push(sn);
                            if let Some(undo) = recording {
                                undo.note_delete(state, id);
                            }
                            state.remove_unlinked(id);
                        }
                        None if sn < start => *recording = None,
                        _ => return false,
                    }
                    continue;
                }
            };
            let hash = if before.is_none_or(|before| before < start) { keys.next().copied() } else { None };
            if !written.fits() {
                return false;
            }
            *next_sn += 1;
            let id = if entry.sentinel { state.sentinel(entry.key) } else { id };
            match (id, before) {
                // Entries below the start of the log are unknown.
                (Some(_), Some(before)) if entry.sentinel && before < start => *recording = None,
                (Some(id), Some(before)) if before >= floor && state.written(id).sn == before => off.push(before),
                (None, Some(before)) if before < start => *recording = None,
                (None, None) => {}
                _ => return false,
            }
            match id {
                Some(id) => {
                    if let Some(undo) = recording {
                        undo.note_change(state, id, true, true);
                    }
                    state.replace(id, entry.value);
                    state.set_next(id, &entry.next);
                    state.write(id, written);
                }
                None if entry.sentinel || !state.has_room(1) || state.find(entry.key).is_some() => return false,
                None => {
                    let Some(hash) = hash else { return false };
                    let links = Links { hash, next: entry.next };
                    let id = state.insert_unlinked(entry.key, entry.value, links, written);
                    if let Some(undo) = recording {
                        undo.note_created(id);
                    }
                }
            }
        }
        true
    }

    /// Applies an extent to a paged state. Returns false if it does not continue the state.
    fn extent_on_disk(
        &mut self,
        body: &Body<'_>,
        wanted: Items,
        keys: &[Hash],
        next_sn: &mut u64,
        off: &mut Vec<u64>,
    ) -> bool {
        let State::Paged(paged) = &mut self.state else { return false };
        let (start, floor, hash) = (self.start, self.tree.shape().floor, self.params.hash);
        let recording = &mut self.recording;
        let sentinels = self.params.sentinels;
        let (mut keys, mut fits, first_sn) = (keys.iter(), true, *next_sn);
        read_extent(body.kind, body.bytes, |item| {
            if wanted != Items::All && matches!(item, ExtentItem::Delete(..)) != (wanted == Items::Deletes) {
                return;
            }
            let (place, before, after) = match item {
                ExtentItem::Kept(active, entry, _) => {
                    let (sn, place) = (*next_sn, keys.next().map_or(0, prefix));
                    *next_sn += 1;
                    paged.keys.advance(*next_sn);
                    if !active {
                        off.push(sn);
                        return;
                    }
                    let is_its = |index: &u64| prefix(&Sentinels::place(sentinels.name(*index))) == place;
                    let before = (0..sentinels.count()).find(is_its).filter(|_| entry.sentinel);
                    fits &= paged.step(&[PositionChange { prefix: place, before, after: Some(sn) }]);
                    // Its first position is known if the positions begin with it.
                    off.extend(before.filter(|before| *before >= floor));
                    return;
                }
                ExtentItem::Delete(sn, key) => (prefix(&hash.key(key)), Some(sn), None),
                ExtentItem::Entry(entry, _) => {
                    (keys.next().map_or(0, prefix), entry.previous, Some((*next_sn, entry.sentinel)))
                }
                ExtentItem::Moved(from, entry, _) => {
                    (keys.next().map_or(0, prefix), Some(from), Some((*next_sn, entry.sentinel)))
                }
            };
            *next_sn += u64::from(after.is_some());
            // Entries below the start of the log are unknown, except for the names of sentinels.
            let known = before.is_none_or(|before| before >= start);
            if !known {
                *recording = None;
            }
            let from = match (known, after) {
                (true, _) => before,
                (false, Some((_, true))) => {
                    (0..sentinels.count()).find(|index| prefix(&Sentinels::place(sentinels.name(*index))) == place)
                }
                (false, _) => None,
            };
            let step = PositionChange { prefix: place, before: from, after: after.map(|(sn, _)| sn) };
            if step.before.is_none() && step.after.is_none() {
                return;
            }
            paged.keys.advance(*next_sn);
            fits &= paged.step(&[step]);
            if let Some(before) = before.filter(|_| known) {
                fits &= before >= floor;
                off.push(before);
            }
            if let Some(undo) = recording {
                undo.steps.all.push(step);
            }
        });
        if let Some(place) = body.place.filter(|_| *next_sn > first_sn) {
            paged.extents.push(first_sn, place);
        }
        fits
    }
}
