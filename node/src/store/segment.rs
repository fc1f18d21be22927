//! Segments: files of consecutive blocks, only ever appended to. A segment's name is its first height.

use super::{
    error::StoreError,
    frame::{FRAME, Frame, Unsound},
    record::{Block, Entry, Head},
};
use phalanx::alloy::primitives::B256;
use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

const MAGIC: [u8; 8] = *b"PXSEG002";

/// First bytes of the segments of all versions.
const ANY: &[u8] = b"PXSEG";

/// Length of a segment before its first block, in bytes.
pub(super) const HEADER: u64 = 52;

/// Chain that the blocks of a store belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Chain id.
    pub chain: u64,
    /// Digest of the genesis: [`phalanx::chain_digest`].
    pub genesis: B256,
}

impl Identity {
    fn header(&self) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.chain.to_le_bytes());
        bytes[16..48].copy_from_slice(self.genesis.as_slice());
        let crc = crc32fast::hash(&bytes[..48]);
        bytes[48..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// An open segment.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) first: u64,
    pub(super) path: PathBuf,
    file: Arc<File>,
}

/// Path of the segment that begins with a height.
fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:016}.blocks"))
}

/// Lists the first heights of the segments in a folder, in order.
pub(super) fn list(folder: &Path) -> Result<Vec<u64>, StoreError> {
    let mut firsts = Vec::new();
    for item in fs::read_dir(folder).map_err(StoreError::io(folder))? {
        let path = item.map_err(StoreError::io(folder))?.path();
        if path.extension().is_none_or(|extension| extension != "blocks") {
            continue;
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| stem.len() == 16);
        match stem.and_then(|stem| stem.parse().ok()) {
            Some(first) => firsts.push(first),
            None => {
                let what = "its name is no height of sixteen digits".into();
                return Err(StoreError::Foreign { path, what });
            }
        }
    }
    firsts.sort_unstable();
    Ok(firsts)
}

impl Segment {
    /// Creates an empty segment, durable with its name.
    pub(super) fn create(folder: &Path, first: u64, identity: &Identity) -> Result<Self, StoreError> {
        let path = path_of(folder, first);
        let make = || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
            file.write_all_at(&identity.header(), 0)?;
            file.sync_data()?;
            File::open(folder)?.sync_all()?;
            Ok(file)
        };
        let made = make().inspect_err(|error: &std::io::Error| {
            if error.kind() != std::io::ErrorKind::AlreadyExists {
                // A second try finds the name free; if not, it says so.
                let _ = fs::remove_file(&path);
            }
        });
        let file = Arc::new(made.map_err(StoreError::io(&path))?);
        Ok(Self { first, path, file })
    }

    /// Opens a segment; `None` if its creation was cut off, so that it holds no block.
    pub(super) fn open(folder: &Path, first: u64, identity: &Identity) -> Result<Option<Self>, StoreError> {
        let path = path_of(folder, first);
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(StoreError::io(&path))?;
        let segment = Self { first, path, file: Arc::new(file) };
        if segment.len()? < HEADER {
            return Ok(None);
        }
        let mut header = [0; HEADER as usize];
        segment.read(&mut header, 0)?;
        let expected = identity.header();
        if header == expected {
            return Ok(Some(segment));
        }
        if header[..8] != MAGIC && header.starts_with(ANY) {
            return Err(StoreError::Outdated { path: segment.path });
        }
        let crc = u32::from_le_bytes([header[48], header[49], header[50], header[51]]);
        if header[..8] != MAGIC || crc32fast::hash(&header[..48]) != crc {
            let (path, what) = (segment.path, "the segment's header is not as written");
            return Err(StoreError::Damaged { height: first, path, offset: 0, what });
        }
        let mut chain = [0; 8];
        chain.copy_from_slice(&header[8..16]);
        let name = |chain: u64, genesis: B256| format!("{chain} with genesis {genesis}");
        Err(StoreError::OtherChain {
            found: name(u64::from_le_bytes(chain), B256::from_slice(&header[16..48])),
            expected: name(identity.chain, identity.genesis),
            path: segment.path,
        })
    }

    /// Length of the file, in bytes.
    pub(super) fn len(&self) -> Result<u64, StoreError> {
        Ok(self.file.metadata().map_err(StoreError::io(&self.path))?.len())
    }

    fn read(&self, into: &mut [u8], at: u64) -> Result<(), StoreError> {
        self.file.read_exact_at(into, at).map_err(StoreError::io(&self.path))
    }

    fn part(&self, at: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; len];
        self.read(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Writes a block at the end; durable when it returns, if `durable`.
    pub(super) fn append(&self, bytes: &[u8], at: u64, durable: bool) -> Result<(), StoreError> {
        let write = || {
            self.file.write_all_at(bytes, at)?;
            if durable { self.file.sync_data() } else { Ok(()) }
        };
        write().map_err(StoreError::io(&self.path))
    }

    /// Cuts the file off, durably.
    pub(super) fn cut(&self, at: u64) -> Result<(), StoreError> {
        self.file.set_len(at).and_then(|()| self.file.sync_all()).map_err(StoreError::io(&self.path))
    }

    /// Deletes the file.
    pub(super) fn delete(&self) -> Result<(), StoreError> {
        delete(&self.path)
    }

    fn damaged(&self, height: u64, offset: u64, Unsound(what): Unsound) -> StoreError {
        StoreError::Damaged { height, path: self.path.clone(), offset, what }
    }

    /// The frame of block `height` at an offset.
    pub(super) fn frame(&self, height: u64, at: u64) -> Result<Frame, StoreError> {
        let len = self.len()?;
        let unsound = |what| self.damaged(height, at, Unsound(what));
        if at.saturating_add(FRAME as u64) > len {
            return Err(unsound("the file ends"));
        }
        let mut bytes = [0; FRAME];
        self.read(&mut bytes, at)?;
        let frame = Frame::read(&bytes).map_err(|why| self.damaged(height, at, why))?;
        if frame.height != height {
            return Err(unsound("another block is here"));
        }
        // Lengths are bounded by the file before memory is taken for them.
        if at.saturating_add(frame.len()) > len {
            return Err(unsound("the file ends within the block"));
        }
        Ok(frame)
    }

    /// Reads the head of a block.
    pub(super) fn head(&self, height: u64, at: u64) -> Result<(Frame, Head), StoreError> {
        let frame = self.frame(height, at)?;
        let bytes = self.part(at + FRAME as u64, frame.head_len as usize)?;
        let head = frame.head(&bytes).map_err(|why| self.damaged(height, at, why))?;
        Ok((frame, head))
    }

    /// Reads one executed transaction of a block; `None` beyond the last.
    pub(super) fn entry(&self, height: u64, at: u64, index: u32) -> Result<Option<Entry>, StoreError> {
        let frame = self.frame(height, at)?;
        if index >= frame.entries {
            return Ok(None);
        }
        let bytes = self.part(at + frame.directory_at(), frame.directory_len())?;
        let items = frame.directory(&bytes).map_err(|why| self.damaged(height, at, why))?;
        let Some(item) = items.get(index as usize) else { return Ok(None) };
        let bytes = self.part(at + frame.body_at() + u64::from(item.start), item.len as usize)?;
        item.entry(&bytes).map(Some).map_err(|why| self.damaged(height, at, why))
    }

    /// Reads a whole block, and the offset behind it.
    pub(super) fn block(&self, height: u64, at: u64) -> Result<(Block, u64), StoreError> {
        let (frame, head) = self.head(height, at)?;
        let bytes = self.part(at + frame.directory_at(), frame.directory_len())?;
        let items = frame.directory(&bytes).map_err(|why| self.damaged(height, at, why))?;
        let end = at + frame.len();
        let body_at = at + frame.body_at();
        let body = self.part(body_at, usize::try_from(end - body_at).unwrap_or(usize::MAX))?;
        let used = items.last().map_or(0, |last| last.start as usize + last.len as usize);
        if used != body.len() {
            return Err(self.damaged(height, at, Unsound("bytes follow the transactions")));
        }
        let entry = |item: &super::frame::Item| {
            item.entry(&body[item.start as usize..][..item.len as usize]).map_err(|why| self.damaged(height, at, why))
        };
        let entries = items.iter().map(entry).collect::<Result<_, _>>()?;
        Ok((Block { head, entries }, end))
    }
}

/// Deletes a segment's file by its first height.
pub(super) fn delete_at(folder: &Path, first: u64) -> Result<(), StoreError> {
    delete(&path_of(folder, first))
}

fn delete(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(StoreError::io(path))
}
