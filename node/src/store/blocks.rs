//! The store itself: opening, appending, cutting, pruning, reading.

use super::{
    error::StoreError,
    frame,
    index::{Index, Indexed, Key},
    lookup::Lookup,
    record::{Block, Entry, Head},
    segment::{self, HEADER, Identity, Segment},
};
use parking_lot::{Mutex, RwLock};
use phalanx::alloy::primitives::B256;
use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Number of blocks that are indexed in one transaction when the index is behind.
const CATCH_UP: usize = 256;

/// Behaviour of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size after which a segment is closed, in bytes. Pruning deletes whole segments.
    pub segment_bytes: u64,
    /// True if a block is durable when [`BlockStore::append`] returns. False survives kill -9, not a power cut.
    pub durable: bool,
    /// Number of blocks to keep; `None` for all.
    pub keep: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 256 << 20, durable: true, keep: None }
    }
}

/// Bytes that were cut off when a store was opened: of blocks that were never committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Segment.
    pub path: PathBuf,
    /// New length of the segment, in bytes.
    pub at: u64,
    /// Number of bytes that were cut off.
    pub bytes: u64,
}

/// Sizes of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Size of all segments, in bytes.
    pub segments: u64,
    /// Size of the index's file, in bytes. It grows in steps.
    pub index: u64,
    /// Number of stored blocks.
    pub blocks: u64,
    /// Number of stored transactions.
    pub txs: u64,
}

impl Sizes {
    /// Bytes of segments per transaction.
    pub fn per_tx(&self) -> f64 {
        self.segments as f64 / self.txs.max(1) as f64
    }
}

/// The end of the last segment.
#[derive(Debug)]
struct Writer {
    segment: Segment,
    end: u64,
    last: Option<u64>,
    /// True after a failed write, whose effect on the file is unknown.
    poisoned: bool,
}

/// Store of the blocks of one chain. Blocks are appended by one thread and read by any.
#[derive(Debug)]
pub struct BlockStore {
    folder: PathBuf,
    identity: Identity,
    options: Options,
    lookup: Lookup,
    segments: RwLock<BTreeMap<u64, Segment>>,
    writer: Mutex<Writer>,
}

impl BlockStore {
    /// Opens the store in a folder, which is created if need be. `committed` is the height of the committed state, or
    /// `None` for a chain that has none yet: blocks above it are cut off, and reported.
    ///
    /// Blocks that the index does not know are read, checked and indexed: all of them if its file is gone.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Behind`] if a committed block is not there as it was written;
    /// [`StoreError::OtherChain`]; errors of the system.
    pub fn open(
        folder: &Path,
        identity: Identity,
        options: Options,
        committed: Option<u64>,
    ) -> Result<(Self, Vec<Cut>), StoreError> {
        fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        let firsts = segment::list(folder)?;
        let mut cuts = Vec::new();
        let mut segments = BTreeMap::new();
        for (place, first) in firsts.iter().copied().enumerate() {
            let is_last = place + 1 == firsts.len();
            match Segment::open(folder, first, &identity)? {
                Some(segment) => _ = segments.insert(first, segment),
                // The file was created for a block that was never committed.
                None if is_last && committed.is_none_or(|committed| first > committed) => {
                    segment::delete_at(folder, first)?;
                }
                None => {
                    let path = folder.join(format!("{first:016}.blocks"));
                    return Err(StoreError::Damaged { height: first, path, offset: 0, what: "the file ends" });
                }
            }
        }
        let index = open_index(folder, &segments)?;
        let scan = Scan { segments: &mut segments, index: &index, committed, cuts: &mut cuts };
        let (last, end) = scan.run()?;
        if let Some(committed) = committed
            && last.is_none_or(|last| last < committed)
        {
            let held = last.map_or_else(|| "no block".into(), |last| format!("block {last}"));
            return Err(StoreError::Behind { held, committed });
        }
        let segment = match segments.last_key_value() {
            Some((_, segment)) => segment.clone(),
            None => {
                let segment = Segment::create(folder, 0, &identity)?;
                segments.insert(0, segment.clone());
                segment
            }
        };
        let writer = Mutex::new(Writer { segment, end: end.max(HEADER), last, poisoned: false });
        let store = Self {
            folder: folder.to_owned(),
            identity,
            options,
            lookup: Lookup::new(index)?,
            segments: RwLock::new(segments),
            writer,
        };
        if let Some(committed) = committed {
            store.cut_above(committed, &mut cuts)?;
        }
        Ok((store, cuts))
    }

    /// Begins a store with a block above the genesis, in place of whatever is in the folder. The blocks below are unknown.
    ///
    /// The store is made beside the folder, durably, and gets its place as a whole: after a crash the folder is as before, or
    /// absent, or holds the block.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn begin(folder: &Path, identity: Identity, options: Options, block: &Block) -> Result<Self, StoreError> {
        let new = folder.with_extension("new");
        remove(&new)?;
        fs::create_dir_all(&new).map_err(StoreError::io(&new))?;
        let bytes = frame::encode(block).ok_or(StoreError::TooLong { height: block.height() })?;
        Segment::create(&new, block.height(), &identity)?.append(&bytes, HEADER, true)?;
        put_aside(folder)?;
        fs::rename(&new, folder).map_err(StoreError::io(folder))?;
        sync_parent(folder)?;
        // The index is made from the segment.
        Ok(Self::open(folder, identity, options, Some(block.height()))?.0)
    }

    /// Appends a block. Blocks at its height and above are replaced. It is as durable as the options say when the call
    /// returns.
    ///
    /// # Errors
    /// If the block does not follow the last one, or the disk fails; the store then takes no more blocks if it does not
    /// know what the disk holds.
    pub fn append(&self, block: &Block) -> Result<(), StoreError> {
        let height = block.height();
        let last = self.writer.lock().last;
        match last {
            Some(last) if height <= last => match height.checked_sub(1) {
                Some(below) => self.cut_above(below, &mut Vec::new())?,
                None => return Err(StoreError::Order { got: height, last }),
            },
            Some(last) if height != last + 1 => return Err(StoreError::Order { got: height, last }),
            _ => {}
        }
        self.lookup.make_room()?;
        let bytes = frame::encode(block).ok_or(StoreError::TooLong { height })?;
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        if writer.poisoned {
            return Err(StoreError::Poisoned);
        }
        if writer.end > HEADER && writer.end + bytes.len() as u64 > self.options.segment_bytes {
            let segment = Segment::create(&self.folder, height, &self.identity)?;
            self.segments.write().insert(height, segment.clone());
            (writer.segment, writer.end) = (segment, HEADER);
        }
        if let Err(error) = writer.segment.append(&bytes, writer.end, self.options.durable) {
            // What was written, if anything, is cut off; if that fails as well, it is unknown.
            writer.poisoned = writer.segment.cut(writer.end).is_err();
            return Err(error);
        }
        let place = (writer.segment.first, writer.end);
        self.lookup.add(block, place);
        writer.end += bytes.len() as u64;
        writer.last = Some(height);
        Ok(())
    }

    /// Removes the blocks above a height.
    ///
    /// # Errors
    /// If they cannot be read, or the disk fails.
    pub fn cut_above(&self, height: u64, cuts: &mut Vec<Cut>) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let Some(last) = writer.last.filter(|last| *last > height) else { return Ok(()) };
        let next = height + 1;
        let Some((first, at)) = self.lookup.place(next)? else {
            return Err(StoreError::Order { got: next, last });
        };
        // The index first: blocks that it lacks are indexed again, blocks that it has must be there.
        let removed: Result<Option<Vec<Block>>, _> = (next..=last).map(|above| self.block(above)).collect();
        match removed {
            Ok(Some(removed)) => self.lookup.remove(&removed)?,
            // They were never committed, so it does not matter what they held.
            Ok(None) | Err(StoreError::Damaged { .. }) => self.lookup.remove_above(height)?,
            Err(error) => return Err(error),
        }
        let mut segments = self.segments.write();
        let later: Vec<u64> = segments.range(first + 1..).map(|(later, _)| *later).collect();
        for later in later.into_iter().rev() {
            if let Some(segment) = segments.remove(&later) {
                let bytes = segment.len()?;
                segment.delete()?;
                cuts.push(Cut { path: segment.path, at: 0, bytes });
            }
        }
        let Some(segment) = segments.get(&first).cloned() else { return Err(StoreError::Poisoned) };
        let bytes = segment.len()?.saturating_sub(at);
        segment.cut(at)?;
        cuts.push(Cut { path: segment.path.clone(), at, bytes });
        (writer.segment, writer.end, writer.last) = (segment, at, Some(height));
        Ok(())
    }

    /// Deletes segments of which no block is to be kept, and none from `needed` on. Returns the number of deleted blocks.
    ///
    /// # Errors
    /// If a block cannot be read, or the disk fails.
    pub fn prune(&self, needed: u64) -> Result<u64, StoreError> {
        let Some(keep) = self.options.keep else { return Ok(0) };
        let Some(last) = self.writer.lock().last else { return Ok(0) };
        let oldest = last.saturating_sub(keep.max(1) - 1).min(needed);
        let mut pruned = 0;
        loop {
            let (first, segment, end) = {
                let segments = self.segments.read();
                let mut firsts = segments.iter();
                let (Some((first, segment)), Some((next, _))) = (firsts.next(), firsts.next()) else { break };
                if *next > oldest {
                    break;
                }
                (*first, segment.clone(), *next)
            };
            let from = self.lookup.extent()?.first.max(first);
            for chunk in (from..end).collect::<Vec<_>>().chunks(CATCH_UP) {
                let blocks = chunk.iter().filter_map(|height| self.block(*height).transpose());
                self.lookup.remove(&blocks.collect::<Result<Vec<_>, _>>()?)?;
                pruned += chunk.len() as u64;
            }
            self.segments.write().remove(&first);
            segment.delete()?;
        }
        Ok(pruned)
    }

    /// Makes the index durable, so that the next opening has nothing to index.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.lookup.flush()
    }

    /// Chain id and digest of the genesis.
    pub(crate) const fn identity(&self) -> (u64, B256) {
        (self.identity.chain, self.identity.genesis)
    }

    /// Highest stored height.
    pub fn last(&self) -> Option<u64> {
        self.writer.lock().last
    }

    /// Lowest stored height.
    ///
    /// # Errors
    /// If the index fails.
    pub fn first(&self) -> Result<u64, StoreError> {
        Ok(self.lookup.extent()?.first)
    }

    /// Place of a block: its segment and its offset there.
    fn place(&self, height: u64) -> Result<Option<(Segment, u64)>, StoreError> {
        let Some((first, at)) = self.lookup.place(height)? else { return Ok(None) };
        Ok(self.segments.read().get(&first).cloned().map(|segment| (segment, at)))
    }

    /// Reads a block; `None` if none is stored at that height.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the stored bytes are not as written.
    pub fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        let place = self.place(height)?;
        place.map(|(segment, at)| Ok(segment.block(height, at)?.0)).transpose()
    }

    /// Reads the head of a block. O(1) in the block's transactions.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the stored bytes are not as written.
    pub fn head(&self, height: u64) -> Result<Option<Head>, StoreError> {
        let place = self.place(height)?;
        place.map(|(segment, at)| Ok(segment.head(height, at)?.1)).transpose()
    }

    /// Reads one executed transaction of a block; `None` beyond the last.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the stored bytes are not as written.
    pub fn entry(&self, height: u64, index: u32) -> Result<Option<Entry>, StoreError> {
        let Some((segment, at)) = self.place(height)? else { return Ok(None) };
        segment.entry(height, at, index)
    }

    /// Height of the block with this name.
    ///
    /// # Errors
    /// If the index fails.
    pub fn height_of(&self, hash: &B256) -> Result<Option<u64>, StoreError> {
        self.lookup.height_of(hash)
    }

    /// Height and place of an executed transaction.
    ///
    /// # Errors
    /// If the index fails.
    pub fn place_of(&self, tx: &B256) -> Result<Option<(u64, u32)>, StoreError> {
        self.lookup.place_of(tx)
    }

    /// Heights of `range` with logs that may match: one of the keys of every list. An empty list matches every log. At
    /// most `max` heights are returned, the lowest.
    ///
    /// # Errors
    /// If the index fails.
    pub fn heights(&self, lists: &[Vec<Key>], range: RangeInclusive<u64>, max: usize) -> Result<Vec<u64>, StoreError> {
        self.lookup.heights(lists, range, max)
    }

    /// Sizes of the store.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn sizes(&self) -> Result<Sizes, StoreError> {
        let extent = self.lookup.extent()?;
        let segments = self.segments.read().values().map(Segment::len).sum::<Result<u64, _>>()?;
        let blocks = extent.last.map_or(0, |(last, ..)| last + 1 - extent.first);
        Ok(Sizes { segments, index: self.lookup.bytes(), blocks, txs: extent.txs })
    }

    /// Reads and checks every stored block, and returns their number. O(store).
    ///
    /// # Errors
    /// The first damaged block, or one that the index does not find.
    pub fn verify(&self) -> Result<u64, StoreError> {
        let extent = self.lookup.extent()?;
        let Some((last, ..)) = extent.last else { return Ok(0) };
        for height in extent.first..=last {
            let block = self.block(height)?.ok_or(StoreError::Order { got: height, last })?;
            let mut found = self.height_of(&block.head.hash)? == Some(height);
            for (entry, index) in block.entries.iter().zip(0..) {
                found &= self.place_of(&entry.hash)? == Some((height, index));
            }
            if !found {
                let what = format!("it does not find block {height} or its transactions");
                return Err(StoreError::Index { path: self.folder.join("index.redb"), what });
            }
        }
        Ok(last + 1 - extent.first)
    }
}

impl Drop for BlockStore {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "the index of blocks is not flushed: the next start indexes some blocks again");
        }
    }
}

/// Removes a folder in one step, so that a crash leaves all of it or nothing under its name.
///
/// # Errors
/// Errors of the system.
pub(crate) fn put_aside(folder: &Path) -> Result<(), StoreError> {
    let old = folder.with_extension("old");
    remove(&old)?;
    match fs::rename(folder, &old) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(StoreError::io(folder))?,
    }
    sync_parent(folder)?;
    remove(&old)
}

fn remove(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::io(folder)(error)),
        _ => Ok(()),
    }
}

fn sync_parent(folder: &Path) -> Result<(), StoreError> {
    let parent = folder.parent().unwrap_or(folder);
    let synced = fs::File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(StoreError::io(parent))
}

/// Opens the index; one that does not fit the segments is built anew.
fn open_index(folder: &Path, segments: &BTreeMap<u64, Segment>) -> Result<Index, StoreError> {
    let path = folder.join("index.redb");
    let index = Index::open(&path)?;
    match fits(&index, segments) {
        Ok(true) => return Ok(index),
        Ok(false) => {
            tracing::warn!(path = %path.display(), "the index of blocks does not fit the segments: it is built anew")
        }
        Err(why @ StoreError::Index { .. }) => {
            tracing::warn!(path = %path.display(), %why, "the index of blocks is not sound: it is built anew");
        }
        Err(error) => return Err(error),
    }
    drop(index);
    Index::remove_file(&path)?;
    Index::open(&path)
}

/// True if the highest block of the index is where it says, or it has none.
fn fits(index: &Index, segments: &BTreeMap<u64, Segment>) -> Result<bool, StoreError> {
    let Some((last, first, at)) = index.extent()?.last else { return Ok(true) };
    match segments.get(&first).map(|segment| segment.head(last, at)) {
        Some(Ok((_, head))) => Ok(index.height_of(&head.hash)? == Some(last)),
        _ => Ok(false),
    }
}

/// Walk over the blocks that the index does not know.
struct Scan<'s> {
    segments: &'s mut BTreeMap<u64, Segment>,
    index: &'s Index,
    committed: Option<u64>,
    cuts: &'s mut Vec<Cut>,
}

impl Scan<'_> {
    /// Indexes what is sound, cuts off what was never committed. Returns the last height and the end of its segment.
    fn run(self) -> Result<(Option<u64>, u64), StoreError> {
        let Self { segments, index, committed, cuts } = self;
        let mut last = None;
        let mut at = HEADER;
        let mut from = 0;
        if let Some((height, first, place)) = index.extent()?.last
            && let Some(segment) = segments.get(&first)
        {
            (last, from) = (Some(height), first);
            at = place + segment.frame(height, place)?.len();
        }
        let firsts: Vec<u64> = segments.range(from..).map(|(first, _)| *first).collect();
        let mut found = Vec::new();
        let flush = |found: &mut Vec<Arc<Indexed>>| {
            let added = if found.is_empty() { Ok(()) } else { index.add(found, true) };
            found.clear();
            added
        };
        let mut end = at;
        let mut broken: Option<(u64, u64)> = None;
        for first in firsts.iter().copied() {
            let segment = &segments[&first];
            if first != from || last.is_none() {
                at = HEADER;
                // The lowest segment begins anywhere: those before it are pruned.
                let expected = last.map_or(first, |last| last + 1);
                if first != expected {
                    if committed.is_some_and(|committed| expected <= committed) {
                        let what = format!("block {expected} should come first");
                        return Err(StoreError::Foreign { path: segment.path.clone(), what });
                    }
                    broken = Some((first, 0));
                    break;
                }
            }
            let len = segment.len()?;
            while at < len {
                let height = last.map_or(first, |last| last + 1);
                match segment.block(height, at) {
                    Ok((block, next)) => {
                        found.push(Arc::new(Indexed::of(&block, (first, at))));
                        (at, last) = (next, Some(height));
                    }
                    Err(error @ StoreError::Damaged { .. }) => {
                        if committed.is_some_and(|committed| height <= committed) {
                            return Err(error);
                        }
                        broken = Some((first, at));
                        break;
                    }
                    Err(error) => return Err(error),
                }
                if found.len() == CATCH_UP {
                    flush(&mut found)?;
                }
            }
            end = at;
            if broken.is_some() {
                break;
            }
        }
        flush(&mut found)?;
        if let Some((first, at)) = broken {
            for later in firsts.iter().rev().copied().filter(|later| *later > first || (*later == first && at == 0)) {
                if let Some(segment) = segments.remove(&later) {
                    cuts.push(Cut { path: segment.path.clone(), at: 0, bytes: segment.len()? });
                    segment.delete()?;
                }
            }
            if let Some(segment) = segments.get(&first).filter(|_| at > 0) {
                cuts.push(Cut { path: segment.path.clone(), at, bytes: segment.len()?.saturating_sub(at) });
                segment.cut(at)?;
                end = at;
            }
        }
        Ok((last, end))
    }
}
