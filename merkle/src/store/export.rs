//! A store as a stream of log records, and back: backups, moves between backends, state sync from a file.
//!
//! ```text
//! stream = params || code* || (extent* block)*        frames as in `record`, blocks from the oldest kept one to the tip
//! ```

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    sync::Arc,
};

use phalanx_merkle_proof::{Hash, Params};

use super::{background::Background, handle::Store};
use crate::{
    log::{
        Batch, BlockRecord, Disk, FRAME_HEADER, Kind, Marks, Opening, Place, Records, check_params, encode_params,
        frame_body, frame_header, open_log,
    },
    types::{Access, Backend, BlockId, Durability, Error, StoreConfig},
};

/// Bytes of a block's extents per group of log records.
const RECORDS_BYTES: usize = 1 << 20;

impl Store {
    /// Exports the store; see [`Background::export`].
    ///
    /// # Errors
    /// Errors of [`Background::export`].
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, Error> {
        self.background().export(out)
    }

    /// Imports what [`Store::export`] wrote into an empty place, and opens the store, which checks everything under the
    /// last root. The caller compares that root with a trusted one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the path `(import)` if the stream is no export or does not lead to its roots;
    /// [`Error::Format`] if it has other parameters, or if the place is not empty; what the log reports.
    pub fn import(config: StoreConfig, from: &mut dyn Read) -> Result<Self, Error> {
        let (backend, params) = (&config.backend.clone(), &config.params.clone());
        let path = match backend {
            Backend::Mem => return Err(Error::NotWritten),
            Backend::File(path) => path.clone(),
            #[cfg(feature = "rocksdb")]
            Backend::Rocks(path) => path.clone(),
        };
        if std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::Format { path, found: "something".into(), expected: "an empty place".into() });
        }
        // The rest of a failed import must not pass for a store.
        read_into(backend, params, Disk::new(config.faults.clone()), from)
            .and_then(|()| Self::open(config))
            .inspect_err(|_| {
                // The reason for the failed import says more than a failure to remove it.
                let _ = std::fs::remove_dir_all(&path);
            })
    }
}

impl Background {
    /// Exports all blocks of the chain that the log has, up to the last written one, with all code. Blocks may be
    /// applied and written meanwhile. [`Store::import`] makes a store with the same roots and proofs.
    ///
    /// # Errors
    /// [`Error::Gone`] if a block was pruned before it was exported: begin anew. [`Error::Io`] with the path `(export)`
    /// if `out` fails, [`Error::NotWritten`] if the backend keeps no entries, [`Error::Poisoned`], or what the log
    /// reports.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, Error> {
        let (params, shared) = {
            let core = &self.read().core;
            (core.params, Arc::clone(&core.shared))
        };
        shared.check()?;
        let log = &*shared.log;
        if !log.keeps_entries() {
            return Err(Error::NotWritten);
        }
        let failed = |source: io::Error| Error::Io { path: PathBuf::from("(export)"), source };
        let ids: Vec<u64> = {
            let core = &self.read().core;
            core.chain.iter().take(core.written_blocks()).map(|block| block.id).collect()
        };
        out.write_all(&encode_params(&params).bytes).map_err(failed)?;
        log.codes(&mut |hash, code| out.write_all(&code_record(hash, code).bytes).map_err(failed))?;
        for id in &ids {
            let extents = log.extents(*id, None, &mut |kind, body| {
                let mut records = Records::default();
                records.push_frame(kind, body);
                out.write_all(&records.bytes).map_err(failed)?;
                Ok(true)
            });
            // Extents that are missing because the block was pruned are no damage.
            let record = log.block(*id)?.ok_or(Error::Gone { block: BlockId(*id) })?;
            extents?;
            out.write_all(&record.encode(&Marks::PLAIN).bytes).map_err(failed)?;
        }
        Ok(ids.len() as u64)
    }
}

/// Writes the records of a stream to a new log.
fn read_into(backend: &Backend, params: &Params, disk: Disk, from: &mut dyn Read) -> Result<(), Error> {
    // The log is flushed once, at the end, and read as a whole right afterwards.
    let place = Place::find(backend, Access::Create, params)?;
    let (access, durability) = (Access::Create, Durability::Async);
    let opening = Opening { access, durability, past_cache: false, params, note: None, disk };
    let (log, _) = open_log(place.as_ref(), opening)?.heal()?;
    let mut reader = Frames { from, frame: Vec::new() };
    reader.params(params)?;
    let mut batch = Unfinished::default();
    let (mut seq, mut next_extent, mut last_id) = (0, 0, 0);
    while let Some((kind, body)) = reader.next()? {
        match kind {
            Kind::Code => {
                let hash: &Hash = body.first_chunk().ok_or_else(corrupt)?;
                batch.codes.push((*hash, body[hash.len()..].into()));
            }
            Kind::Extent | Kind::Moved => batch.push(kind, body),
            Kind::Block => {
                let record = BlockRecord::decode(body, &Marks::PLAIN)
                    .filter(|record| record.id > last_id)
                    .ok_or_else(corrupt)?;
                let Unfinished { extents, codes } = std::mem::take(&mut batch);
                let count = extents.iter().map(|records| records.len() as u64).sum();
                last_id = record.id;
                let block = BlockRecord { seq, committed: true, first_extent: next_extent, extents: count, ..record };
                log.write(Batch { block, extents: Arc::new(extents), codes })?;
                (seq, next_extent) = (seq + 1, next_extent + count);
            }
            Kind::Params | Kind::Tip | Kind::Checkpoint | Kind::CodeEnd => return Err(corrupt()),
        }
    }
    if !batch.extents.is_empty() || seq == 0 {
        return Err(corrupt());
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

fn corrupt() -> Error {
    Error::Corrupt { path: PathBuf::from("(import)"), what: "not what an export wrote".into() }
}

/// Extents and code of a block whose record has not come yet.
#[derive(Default)]
struct Unfinished {
    extents: Vec<Records>,
    codes: Vec<(Hash, Arc<[u8]>)>,
}

impl Unfinished {
    fn push(&mut self, kind: Kind, body: &[u8]) {
        if self.extents.last().is_none_or(|records| records.bytes.len() >= RECORDS_BYTES) {
            self.extents.push(Records::default());
        }
        if let Some(records) = self.extents.last_mut() {
            records.push_frame(kind, body);
        }
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
        let header = self.frame.first_chunk::<FRAME_HEADER>().ok_or_else(corrupt)?;
        let (_, len) = frame_header(header).ok_or_else(corrupt)?;
        (&mut self.from).take(len as u64).read_to_end(&mut self.frame).map_err(failed)?;
        frame_body(&self.frame, &Marks::PLAIN).map(Some).ok_or_else(corrupt)
    }
}

fn failed(source: io::Error) -> Error {
    Error::Io { path: PathBuf::from("(import)"), source }
}
