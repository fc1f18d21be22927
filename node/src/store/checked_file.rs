//! File of the index. Every block of it has a checksum, which is compared whenever the block is read.
//!
//! The database has checksums of its own and compares them after a crash alone: one flipped bit of a page would hide a block
//! without a word.
//!
//! ```text
//! stored block   CRC of the block's number and its bytes 4 | bytes 4096
//! ```
//!
//! A block that was never written is all zero, its checksum included. The database's own header fills the first bytes of block 0
//! and is the only part that is written in place: checksum and header share a sector, so a power cut tears neither. Other blocks
//! are durable before the header names them.

use redb::StorageBackend;
use std::{
    fs::File,
    io::{Error, ErrorKind, Result},
    os::unix::fs::FileExt as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Bytes of a block as the database sees it: its smallest page.
const BLOCK: usize = 4096;

/// Bytes of a checksum.
const SUM: usize = 4;

/// Bytes of a block in the file.
const STORED: usize = SUM + BLOCK;

/// A file of checked blocks.
#[derive(Debug)]
pub(super) struct CheckedFile {
    file: File,
    /// Held while a part of a block is written: the rest of it is read before.
    partial: Mutex<()>,
    /// True once a block was read that is not as written.
    damaged: Arc<AtomicBool>,
}

/// Checksum of a block, which differs between equal blocks at two places.
fn sum(number: u64, bytes: &[u8]) -> [u8; SUM] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize().to_le_bytes()
}

/// Splits a range of the database's bytes into blocks: the first, and their number.
const fn blocks(offset: u64, len: usize) -> (u64, usize) {
    let first = offset / BLOCK as u64;
    let end = (offset + len as u64).div_ceil(BLOCK as u64);
    (first, (end - first) as usize)
}

impl CheckedFile {
    /// Takes an open file. `damaged` becomes true at the first block that is not as written.
    pub(super) const fn new(file: File, damaged: Arc<AtomicBool>) -> Self {
        Self { file, partial: Mutex::new(()), damaged }
    }

    /// Reads and checks whole blocks, and returns their bytes without the checksums.
    fn load(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        let mut stored = vec![0; count * STORED];
        self.file.read_exact_at(&mut stored, first * STORED as u64)?;
        let mut bytes = Vec::with_capacity(count * BLOCK);
        for (number, block) in (first..).zip(stored.chunks_exact(STORED)) {
            let (found, block) = block.split_at(SUM);
            let is_written = found != [0; SUM] || block.iter().any(|byte| *byte != 0);
            if is_written && found != sum(number, block) {
                self.damaged.store(true, Ordering::Relaxed);
                let what = format!("block {number} of the file is not as written: its checksum differs");
                return Err(Error::new(ErrorKind::InvalidData, what));
            }
            bytes.extend_from_slice(block);
        }
        Ok(bytes)
    }

    /// Writes whole blocks with their checksums.
    fn store(&self, first: u64, bytes: &[u8]) -> Result<()> {
        let mut stored = Vec::with_capacity(bytes.len() / BLOCK * STORED);
        for (number, block) in (first..).zip(bytes.chunks_exact(BLOCK)) {
            stored.extend_from_slice(&sum(number, block));
            stored.extend_from_slice(block);
        }
        self.file.write_all_at(&stored, first * STORED as u64)
    }
}

impl StorageBackend for CheckedFile {
    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len() / STORED as u64 * BLOCK as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let (first, count) = blocks(offset, out.len());
        let at = (offset - first * BLOCK as u64) as usize;
        out.copy_from_slice(&self.load(first, count)?[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        if !len.is_multiple_of(BLOCK as u64) {
            return Err(Error::new(ErrorKind::InvalidInput, "the database's length is no number of blocks"));
        }
        self.file.set_len(len / BLOCK as u64 * STORED as u64)
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let (first, count) = blocks(offset, data.len());
        let at = (offset - first * BLOCK as u64) as usize;
        if at == 0 && data.len() == count * BLOCK {
            return self.store(first, data);
        }
        let _held = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = self.load(first, count)?;
        bytes[at..at + data.len()].copy_from_slice(data);
        self.store(first, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_blocks_are_kept_and_every_flipped_bit_is_found() {
        let file = tempfile::tempfile().expect("a file");
        let damaged = Arc::new(AtomicBool::new(false));
        let checked = CheckedFile::new(file.try_clone().expect("a handle"), Arc::clone(&damaged));
        checked.set_len(4 * BLOCK as u64).expect("room");
        assert_eq!(checked.len().expect("a length"), 4 * BLOCK as u64);
        assert!(checked.set_len(7).is_err());
        let mut model = vec![0u8; 4 * BLOCK];
        for (round, (at, len)) in
            [(0, 320), (4_090, 20), (BLOCK, BLOCK), (BLOCK - 1, BLOCK + 2)].into_iter().enumerate()
        {
            let data = vec![round as u8 + 1; len];
            checked.write(at as u64, &data).expect("written");
            model[at..at + len].copy_from_slice(&data);
        }
        let mut read = vec![9; 4 * BLOCK];
        checked.read(0, &mut read).expect("sound");
        assert!(read == model && model[3 * BLOCK..].iter().all(|byte| *byte == 0), "the last block was never written");
        let mut part = [0; 5];
        checked.read(4_088, &mut part).expect("sound");
        assert_eq!(part, model[4_088..4_093]);
        assert!(checked.read(4 * BLOCK as u64 - 1, &mut [0; 2]).is_err(), "it ends before");
        for bit in (0..4 * STORED * 8).step_by(97) {
            let (at, mut byte) = ((bit / 8) as u64, [0]);
            file.read_exact_at(&mut byte, at).expect("read");
            file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], at).expect("written");
            let place = at / STORED as u64 * BLOCK as u64;
            let why = checked.read(place, &mut [0]).expect_err("a flipped bit").to_string();
            assert!(why.contains(&format!("block {} of", at / STORED as u64)), "bit {bit}: {why}");
            assert!(damaged.swap(false, Ordering::Relaxed));
            file.write_all_at(&byte, at).expect("written");
        }
        // Blocks that changed their places are not each other.
        let mut stored = [0; STORED];
        file.read_exact_at(&mut stored, 0).expect("read");
        file.write_all_at(&stored, STORED as u64).expect("written");
        assert!(checked.read(BLOCK as u64, &mut [0]).is_err());
    }
}
