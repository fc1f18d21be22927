//! The promise of a store: how far its log is durable, in a small file of its own. A log that ends before it lost what
//! was promised, so it is damaged, not torn.
//!
//! ```text
//! promise = slot || zeros || slot || zeros                  each slot at the begin of a block of 4 KiB
//! slot    = "PHXP" || store || generation || next_seq || height + 1 || end || code || first
//!           || acked_seq || acked_height + 1 || boot || first 8 bytes of a digest of all before it
//! ```
//!
//! Every write of a block overwrites one slot; the other one keeps what was last synced, so a torn slot loses nothing. The
//! slot is written once the block is durable, and before the caller is told. It is synced only with a segment, a checkpoint, a
//! flush, and after [`UNSYNCED`] writes: a power cut may set it back, never ahead.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use phalanx_merkle_proof::HashFn;

use super::{
    disk::{Disk, at},
    frames::read_at,
    record::{Fields, Marks},
};
use crate::{metrics, types::Error};

/// Name of the file.
const NAME: &str = "promise";

const MAGIC: [u8; 4] = *b"PHXP";

/// Distance of the slots, in bytes.
const SLOT: u64 = 4096;

/// Length of a slot's content, in bytes.
const LEN: usize = 4 + 8 + 9 * 8 + 8;

/// Writes after which the file is synced.
const UNSYNCED: u32 = 64;

/// End of a log, in writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Sequence number behind the last write.
    pub(crate) next_seq: u64,
    /// Height of the tip after it.
    pub(crate) height: Option<u64>,
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    /// Writes that survive a power cut.
    pub(crate) durable: Reached,
    /// Place behind them, where places count bytes.
    pub(crate) end: u64,
    /// Durable bytes of code, where code has a file.
    pub(crate) code: u64,
    /// Number of the first segment, or id of the first block, that is still needed.
    pub(crate) first: u64,
    /// Writes that reached the kernel. They survive the end of the process, and no power cut.
    pub(crate) acked: Reached,
    /// Run of the machine in which they did.
    pub(crate) boot: u64,
}

impl Promise {
    fn encode(&self, marks: &Marks, generation: u64) -> [u8; LEN] {
        let plus = |reached: &Reached| reached.height.map_or(0, |height| height + 1);
        let Self { durable, end, code, first, acked, boot } = self;
        let words =
            [generation, durable.next_seq, plus(durable), *end, *code, *first, acked.next_seq, plus(acked), *boot];
        let mut out = [0; LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4..12].copy_from_slice(&marks.store);
        for (word, place) in words.iter().zip(out[12..LEN - 8].chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let digest = HashFn::Sha256.key(&out[..LEN - 8]);
        out[LEN - 8..].copy_from_slice(&digest[..8]);
        out
    }

    /// Generation and content of a slot; `None` if it is not one of this store.
    fn decode(slot: &[u8], marks: &Marks) -> Option<(u64, Self)> {
        let (body, sum) = slot.split_last_chunk::<8>()?;
        (HashFn::Sha256.key(body)[..8] == *sum).then_some(())?;
        let mut fields = Fields(body);
        (*fields.array()? == MAGIC && *fields.array()? == marks.store).then_some(())?;
        let generation = fields.u64()?;
        let reached =
            |fields: &mut Fields<'_>| Some(Reached { next_seq: fields.u64()?, height: fields.u64()?.checked_sub(1) });
        let durable = reached(&mut fields)?;
        let (end, code, first) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let acked = reached(&mut fields)?;
        Some((generation, Self { durable, end, code, first, acked, boot: fields.u64()? }))
    }
}

/// Promise in a store's directory.
pub(super) fn read(dir: &Path, marks: &Marks) -> Result<Promise, Error> {
    let path = dir.join(NAME);
    let corrupt = |what: &str| Error::Corrupt { path: path.clone(), what: what.into() };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(corrupt("the file is missing, so it is unknown how much of the log was promised"));
        }
        Err(error) => return Err(at(&path)(error)),
    };
    // A slot may be overwritten at this moment, by a node that runs; the other one stays.
    newest(&file, marks)
        .map_err(at(&path))?
        .map(|(.., promise)| promise)
        .ok_or_else(|| corrupt("no slot is whole, so it is unknown how much of the log was promised"))
}

impl Promise {
    /// Takes over the begin of the log as it is promised now that the log is open: a node that runs prunes meanwhile, and raises
    /// it before it drops anything.
    ///
    /// # Errors
    /// Errors of [`read`].
    pub(super) fn renew_begin(&mut self, dir: &Path, marks: &Marks) -> Result<(), Error> {
        self.first = read(dir, marks)?.first;
        Ok(())
    }
}

/// Slot, generation and content of the newest slot.
fn newest(file: &File, marks: &Marks) -> io::Result<Option<(usize, u64, Promise)>> {
    let mut found: Option<(usize, u64, Promise)> = None;
    for slot in 0..2 {
        let mut bytes = [0; LEN];
        read_at(file, &mut bytes, slot as u64 * SLOT)?;
        if let Some((generation, promise)) = Promise::decode(&bytes, marks)
            && found.is_none_or(|(_, newest, _)| generation > newest)
        {
            found = Some((slot, generation, promise));
        }
    }
    Ok(found)
}

/// Promise of an open log.
#[derive(Debug)]
pub(super) struct PromiseFile {
    disk: Disk,
    marks: Marks,
    path: PathBuf,
    file: File,
    /// Slot that the next write overwrites; the other one is synced.
    slot: usize,
    generation: u64,
    unsynced: u32,
    now: Promise,
}

impl PromiseFile {
    /// Opens the file of a store that has one, or creates it with this promise.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub(super) fn open(dir: &Path, marks: Marks, new: Option<Promise>, disk: &Disk) -> Result<Self, Error> {
        let path = dir.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(new.is_some()).truncate(false);
        let file = options.open(&path).map_err(at(&path))?;
        let mut this = Self {
            disk: disk.clone(),
            marks,
            path,
            file,
            slot: 0,
            generation: 0,
            unsynced: 0,
            now: Promise { boot: boot(), ..Promise::default() },
        };
        match new {
            Some(promise) => {
                this.disk.cut(&this.file, &this.path, 0)?;
                this.disk.cut(&this.file, &this.path, 2 * SLOT)?;
                this.now = Promise { boot: this.now.boot, ..promise };
                this.sync()?;
                this.disk.sync_names(dir)?;
            }
            None => {
                let newest = newest(&this.file, &this.marks).map_err(at(&this.path))?;
                let (slot, generation, promise) = newest
                    .ok_or_else(|| Error::Corrupt { path: this.path.clone(), what: "no slot is whole".into() })?;
                this.slot = 1 - slot;
                (this.generation, this.now) = (generation, Promise { boot: this.now.boot, ..promise });
            }
        }
        Ok(this)
    }

    pub(super) const fn now(&self) -> &Promise {
        &self.now
    }

    /// Writes a changed promise without syncing it, unless many writes were not.
    pub(super) fn put(&mut self, change: impl FnOnce(&mut Promise)) -> Result<(), Error> {
        change(&mut self.now);
        self.unsynced += 1;
        if self.unsynced >= UNSYNCED { self.sync() } else { self.write() }
    }

    /// Writes a changed promise durably.
    pub(super) fn put_synced(&mut self, change: impl FnOnce(&mut Promise)) -> Result<(), Error> {
        change(&mut self.now);
        self.sync()
    }

    /// Syncs what was only written.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        if self.unsynced > 0 { self.sync() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        self.generation += 1;
        let bytes = self.now.encode(&self.marks, self.generation);
        self.disk.overwrite(&self.file, &self.path, self.slot as u64 * SLOT, &bytes)?;
        metrics::wrote_rows(LEN);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.write()?;
        self.disk.sync(&self.file, &self.path)?;
        (self.slot, self.unsynced) = (1 - self.slot, 0);
        Ok(())
    }
}

/// Number of this run of the machine; zero if it is not known.
fn boot() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Returns true if the machine has not been started anew since the promise was written.
pub(super) fn same_boot(promise: &Promise) -> bool {
    promise.boot != 0 && promise.boot == boot()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(at: u64) -> Promise {
        let reached = Reached { next_seq: at, height: at.checked_sub(1) };
        Promise { durable: reached, end: at << 40, code: at, first: 0, acked: reached, boot: 0 }
    }

    /// A torn slot leaves the one that was synced before it.
    #[test]
    fn a_torn_slot_leaves_the_synced_one() {
        let (dir, marks) = (tempfile::tempdir().expect("a folder"), Marks::new(&[7; 16]));
        let mut file = PromiseFile::open(dir.path(), marks, Some(promise(0)), &Disk::default()).expect("a new file");
        file.put_synced(|now| *now = promise(1)).expect("a write");
        let synced = std::fs::read(dir.path().join(NAME)).expect("the file");
        for at in 2..20 {
            file.put(|now| *now = promise(at)).expect("a write");
            assert_eq!(read(dir.path(), &marks).expect("whole"), promise(at));
            let now = std::fs::read(dir.path().join(NAME)).expect("the file");
            for byte in (0..now.len()).filter(|byte| now[*byte] != synced[*byte]) {
                let mut torn = now.clone();
                torn[byte] ^= 1;
                std::fs::write(dir.path().join(NAME), &torn).expect("a write");
                assert_eq!(read(dir.path(), &marks).expect("one slot is whole"), promise(1), "byte {byte}");
            }
            std::fs::write(dir.path().join(NAME), &now).expect("a write");
            file.file = OpenOptions::new().read(true).write(true).open(dir.path().join(NAME)).expect("the file");
        }
        let other = read(dir.path(), &Marks::new(&[8; 16]));
        assert!(matches!(other, Err(Error::Corrupt { .. })), "the promise of another store");
    }
}
