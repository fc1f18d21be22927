//! A store as a stream of log records, and back: backups, moves between backends, state sync from a file.
//!
//! ```text
//! stream = params || ((code* extent)* block)* || end        frames as in `record`, blocks from the oldest kept one to the tip
//! ```
//!
//! Code comes before the first extent that names it; without rules of code all of it comes first. The end is the row of the tip:
//! a stream that was cut off between two blocks is not taken for a shorter chain.

use std::{
    collections::HashSet,
    io::{self, Read, Write},
    path::PathBuf,
    sync::Arc,
};

use phalanx_merkle_proof::{Hash, Params};

use super::{background::Background, handle::Store, partial::Partial};
use crate::{
    log::{
        Batch, BlockRecord, Disk, ExtentItem, FRAME_HEADER, Kind, Log, Marks, Opening, Place, Records, TipRecord,
        check_params, encode_params, frame_body, frame_header, open_log, params_in, read_extent,
    },
    types::{Access, BlockId, Contents, Durability, Error, MAX_CODE_LEN, Reading, StoreConfig, hex},
};

/// Bytes of a block's extents per group of log records.
const RECORDS_BYTES: usize = 1 << 20;

/// Maximum number of codes of a stream that no entry has named yet: bounds what a stream of nothing but code takes.
const MAX_UNNAMED: usize = 1 << 16;

/// Length of an export's first row, in bytes.
pub const EXPORT_HEAD_LEN: usize = FRAME_HEADER + 4 + Params::LEN;

/// Genesis parameters that an export begins with; `None` if these bytes are not the first row of one.
pub fn export_params(head: &[u8]) -> Option<Params> {
    params_in(head)
}

impl Store {
    /// Exports the store; see [`Background::export`].
    ///
    /// # Errors
    /// Errors of [`Background::export`].
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, Error> {
        self.background().export(out)
    }

    /// Imports what [`Store::export`] wrote into an absent or empty place, and opens the store, which checks everything under
    /// the last root. The caller compares that root with a trusted one; [`Self::import_root`] does it first.
    ///
    /// The store is made beside, in `DIR.partial`, and moved to its place when it is whole: an interrupted import is no store.
    /// Memory is bounded, whatever the stream says: two megabytes of records, and about a hundred bytes per code. With
    /// [rules](crate::Contents) of code its hash is checked, and code that no entry names is refused. Ids of blocks are given
    /// anew. Payloads are taken over: no root binds them, so a stream from elsewhere needs a source that is trusted with them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the path `(import)` if the stream is no export, does not lead to its roots, or lacks code that
    /// keys name; [`Error::Format`] if it has other parameters; [`Error::NotEmpty`]; [`Error::Interrupted`] if a restore into
    /// the place was interrupted; [`Error::Locked`] if another import fills it; [`Error::Unopened`] after it got its place;
    /// what the log reports.
    pub fn import(config: StoreConfig, from: &mut dyn Read) -> Result<Self, Error> {
        Self::import_root(config, from, None)
    }

    /// Imports like [`Self::import`], if the stream leads to this root.
    ///
    /// # Errors
    /// Errors of [`Self::import`]; [`Error::OtherRoot`], after which nothing is left.
    pub fn import_root(config: StoreConfig, from: &mut dyn Read, root: Option<&Hash>) -> Result<Self, Error> {
        let partial = Partial::begin(&config)?;
        if partial.file("manifest").exists() {
            return Err(Error::Interrupted { path: partial.file("") });
        }
        partial.clear()?;
        let made = Self::import_at(partial.config(&config), from, root);
        if let Err(error) = made {
            // Repeating it with the same stream fails again, and another stream begins anew.
            partial.discard();
            return Err(error);
        }
        partial.finish(config).inspect_err(|error| {
            if !matches!(error, Error::Unopened { .. }) {
                partial.discard();
            }
        })
    }

    /// Makes a store of a stream, checks it and closes it.
    fn import_at(config: StoreConfig, from: &mut dyn Read, root: Option<&Hash>) -> Result<(), Error> {
        read_into(&config, from)?;
        let store = Self::open(config)?;
        let found = store.root();
        if let Some(expected) = root.filter(|root| **root != found) {
            return Err(Error::OtherRoot { found, expected: *expected });
        }
        if let Some(rule) = &store.core().contents.code {
            store.background().check_code(rule)?;
        }
        Ok(())
    }
}

impl Background {
    /// Exports all blocks of the chain that the log has, up to the last written one, with the code that their entries name, or
    /// all code if there are no [rules](crate::Contents) of it. Blocks may be applied and written meanwhile.
    /// [`Store::import`] makes a store with the same roots and proofs.
    ///
    /// # Errors
    /// [`Error::Gone`] if a block was pruned before it was exported: begin anew. [`Error::Corrupt`] if the log lacks code that
    /// the state names, or has other bytes for it. [`Error::Io`] with the path `(export)` if `out` fails,
    /// [`Error::NotWritten`] if the backend keeps no entries, [`Error::Poisoned`], or what the log reports.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, Error> {
        let (params, contents, shared) = {
            let core = &self.read().core;
            (core.params, core.contents, Arc::clone(&core.shared))
        };
        shared.check()?;
        let log = &*shared.log;
        if !log.keeps_entries() {
            return Err(Error::NotWritten);
        }
        let ids: Vec<u64> = {
            let core = &self.read().core;
            core.chain.iter().take(core.written_blocks()).map(|block| block.id).collect()
        };
        out.write_all(&encode_params(&params).bytes).map_err(unwritten)?;
        if contents.code.is_none() {
            log.codes(&mut |hash, code| out.write_all(&code_record(hash, code).bytes).map_err(unwritten))?;
        }
        let mut codes = ExportedCodes { contents, seen: HashSet::new(), is_missing: false };
        let mut end = TipRecord { seq: 0, id: 0, note: Vec::new() };
        for id in &ids {
            let extents = log.extents(*id, None, &mut |kind, body| {
                codes.before_extent(log, kind, body, out)?;
                let mut records = Records::default();
                records.push_frame(kind, body);
                out.write_all(&records.bytes).map_err(unwritten)?;
                Ok(true)
            });
            // Extents that are missing because the block was pruned are no damage.
            let record = log.block(*id)?.ok_or(Error::Gone { block: BlockId(*id) })?;
            extents?;
            out.write_all(&record.encode(&Marks::PLAIN).bytes).map_err(unwritten)?;
            (end.seq, end.id) = (end.seq + 1, record.id);
        }
        // Entries that are no longer current may name code that a restored store never had.
        if let Some(rule) = contents.code.filter(|_| codes.is_missing) {
            self.check_code(&rule)?;
        }
        out.write_all(&end.encode(&Marks::PLAIN).bytes).map_err(unwritten)?;
        Ok(end.seq)
    }
}

/// Code of an export in the making.
struct ExportedCodes {
    contents: Contents,
    seen: HashSet<Hash>,
    is_missing: bool,
}

impl ExportedCodes {
    /// Writes the code that an extent is the first to name.
    fn before_extent(&mut self, log: &dyn Log, kind: Kind, body: &[u8], out: &mut dyn Write) -> Result<(), Error> {
        if self.contents.code.is_none() {
            return Ok(());
        }
        let mut new = Vec::new();
        read_extent(kind, body, |item| new.extend(named(&self.contents, item).filter(|hash| self.seen.insert(*hash))));
        for hash in new {
            match log.code(&hash)? {
                Some(code) if self.contents.is_code(&hash, &code) => {
                    out.write_all(&code_record(&hash, &code).bytes).map_err(unwritten)?;
                }
                Some(_) => {
                    let what = format!("code {} has another hash", hex(&hash));
                    return Err(Error::Corrupt { path: log.path(), what });
                }
                None => self.is_missing = true,
            }
        }
        Ok(())
    }
}

/// Hash of the code that an entry names. What was not current in a snapshot came without its code.
fn named(contents: &Contents, item: ExtentItem<'_>) -> Option<Hash> {
    let entry = match item {
        ExtentItem::Kept(false, ..) => None,
        other => other.entry(),
    };
    entry.and_then(|(entry, _)| contents.code_of(entry.key, entry.value))
}

/// Code of a stream that is imported.
struct ImportedCodes {
    contents: Contents,
    seen: HashSet<Hash>,
    /// Codes that no entry has named yet.
    unnamed: HashSet<Hash>,
}

impl ImportedCodes {
    /// Checks code, and returns its hash and bytes.
    fn accept<'b>(&mut self, body: &'b [u8]) -> Result<(&'b Hash, &'b [u8]), Error> {
        let (hash, code) = body.split_first_chunk().ok_or_else(|| corrupt("a row of code ends early"))?;
        if !self.contents.is_code(hash, code) || code.len() > MAX_CODE_LEN {
            return Err(corrupt("code has another hash"));
        }
        if !self.seen.insert(*hash) {
            return Err(corrupt("code comes twice"));
        }
        if self.contents.code.is_some() {
            self.unnamed.insert(*hash);
            if self.unnamed.len() > MAX_UNNAMED {
                return Err(corrupt("code that no entry names"));
            }
        }
        Ok((hash, code))
    }

    /// Notes the code that an extent names.
    fn see(&mut self, kind: Kind, body: &[u8]) -> Result<(), Error> {
        let note = |item: ExtentItem<'_>| _ = named(&self.contents, item).map(|hash| self.unnamed.remove(&hash));
        read_extent(kind, body, note).map(|_| ()).ok_or_else(|| corrupt("an extent is malformed"))
    }
}

/// Writes the records of a stream to a new log. Memory holds a megabyte of extents, and the hashes of code.
fn read_into(config: &StoreConfig, from: &mut dyn Read) -> Result<(), Error> {
    let StoreConfig { backend, params, contents, .. } = config;
    // The log is flushed once, at the end, and read as a whole right afterwards.
    let disk = Disk::new(config.faults.clone());
    let place = Place::find(backend, Access::Create, params)?;
    let (access, durability) = (Access::Create, Durability::Async);
    let opening =
        Opening { access, durability, past_cache: false, reading: Reading::default(), params, note: None, disk };
    let (log, _) = open_log(place.as_ref(), opening)?.heal()?;
    let mut reader = Frames { from, frame: Vec::new() };
    reader.params(params)?;
    let (mut seq, mut next_extent, mut last) = (0, 0, None);
    let mut open = Unfinished::default();
    let mut codes = ImportedCodes { contents: *contents, seen: HashSet::new(), unnamed: HashSet::new() };
    let mut is_whole = false;
    while let Some((kind, body)) = reader.next()? {
        if is_whole {
            return Err(corrupt("it goes on behind its end"));
        }
        match kind {
            Kind::Code => {
                let (hash, code) = codes.accept(body)?;
                log.write_code(hash, code)?;
            }
            Kind::Extent | Kind::Moved | Kind::Kept => {
                codes.see(kind, body)?;
                open.push(kind, body);
                if open.records.bytes.len() >= RECORDS_BYTES {
                    log.write_part(&std::mem::take(&mut open.records), next_extent + open.written)?;
                    open.written = open.extents;
                }
            }
            Kind::Block => {
                let record = BlockRecord::decode(body, &Marks::PLAIN).ok_or_else(|| corrupt("a block is malformed"))?;
                let Unfinished { records, extents, kept, .. } = std::mem::take(&mut open);
                let follows = match last {
                    None => record.is_base() || !kept,
                    Some((_, id)) => record.parent_id == id && !record.is_base() && !kept,
                };
                if !follows || record.extents != extents {
                    return Err(corrupt("a block does not follow the one before, or lacks extents"));
                }
                // Ids that no root binds are given anew. The parent of a pruned beginning is not there.
                let (id, parent_id) = match (last, record.parent_id) {
                    (None, parent @ (0 | BlockRecord::NO_PARENT)) => (1, parent),
                    (None, _) => (2, 1),
                    (Some((id, _)), _) => (id + 1, id),
                };
                last = Some((id, record.id));
                let block =
                    BlockRecord { seq, committed: true, id, parent_id, first_extent: next_extent, extents, ..record };
                log.write(Batch { block, extents: Arc::new(vec![records]), codes: Vec::new() })?;
                (seq, next_extent) = (seq + 1, next_extent + extents);
            }
            Kind::Tip => {
                let end = TipRecord::decode(body, &Marks::PLAIN).filter(|end| end.note.is_empty() && open.extents == 0);
                let end = end.ok_or_else(|| corrupt("its end is malformed"))?;
                is_whole = (end.seq, Some(end.id)) == (seq, last.map(|(_, id)| id));
                if !is_whole {
                    return Err(corrupt("blocks are missing before its end"));
                }
            }
            _ => return Err(corrupt("a row of another kind")),
        }
    }
    if !is_whole {
        return Err(corrupt("it was cut off, or made by an earlier version"));
    }
    if !codes.unnamed.is_empty() {
        return Err(corrupt("code that no entry names"));
    }
    log.flush()
}

fn code_record(hash: &Hash, code: &[u8]) -> Records {
    let mut records = Records::default();
    records.push(Kind::Code, |out| {
        out.extend_from_slice(hash);
        out.extend_from_slice(code);
    });
    records
}

fn corrupt(why: &str) -> Error {
    Error::Corrupt { path: PathBuf::from("(import)"), what: format!("not what an export wrote: {why}") }
}

fn unwritten(source: io::Error) -> Error {
    Error::Io { path: PathBuf::from("(export)"), source }
}

/// Extents of a block whose record has not come yet.
#[derive(Default)]
struct Unfinished {
    /// Extents that are not written yet.
    records: Records,
    extents: u64,
    /// Number of extents that are written.
    written: u64,
    /// True if there are extents of a snapshot.
    kept: bool,
}

impl Unfinished {
    fn push(&mut self, kind: Kind, body: &[u8]) {
        self.records.push_frame(kind, body);
        self.extents += 1;
        self.kept |= kind == Kind::Kept;
    }
}

/// Frames of an untrusted stream.
struct Frames<'r> {
    from: &'r mut dyn Read,
    frame: Vec<u8>,
}

impl Frames<'_> {
    fn params(&mut self, params: &Params) -> Result<(), Error> {
        let mut found = Vec::new();
        let expected = encode_params(params).bytes.len() as u64;
        (&mut self.from).take(expected).read_to_end(&mut found).map_err(failed)?;
        let path = PathBuf::from("(import)");
        check_params(&found, params).map_err(|(found, expected)| Error::Format { path, found, expected })
    }

    /// Next frame; `None` at the end of the stream.
    fn next(&mut self) -> Result<Option<(Kind, &[u8])>, Error> {
        self.frame.clear();
        (&mut self.from).take(FRAME_HEADER as u64).read_to_end(&mut self.frame).map_err(failed)?;
        if self.frame.is_empty() {
            return Ok(None);
        }
        let header = self.frame.first_chunk::<FRAME_HEADER>().ok_or_else(|| corrupt("a row ends early"))?;
        let (_, len) = frame_header(header).ok_or_else(|| corrupt("a row of another kind, or too long"))?;
        (&mut self.from).take(len as u64).read_to_end(&mut self.frame).map_err(failed)?;
        frame_body(&self.frame, &Marks::PLAIN).map(Some).ok_or_else(|| corrupt("a row is damaged or ends early"))
    }
}

fn failed(source: io::Error) -> Error {
    Error::Io { path: PathBuf::from("(import)"), source }
}
