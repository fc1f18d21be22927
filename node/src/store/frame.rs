//! Encoding of a block in a segment. Every byte is covered by a checksum that is checked before the byte is used.
//!
//! ```text
//! frame   magic 4 | height 8 | head length 4 | entries 4 | body length 4 | CRC of the directory 4 | of the head 4 | of these 4
//! then    head | directory: end of the entry 4, CRC of the entry 4, each | entries
//! ```

use super::record::{Block, Entry, Head, decode, decode_head};
use alloy_rlp::Encodable as _;

const MAGIC: [u8; 4] = *b"PXB1";

/// Length of a frame before its head, in bytes.
pub(super) const FRAME: usize = 36;

/// Length of a directory's item, in bytes.
const ITEM: usize = 8;

/// Maximum length of a block, in bytes: lengths within a frame have 32 bits.
const MAX_BLOCK: usize = u32::MAX as usize;

/// Fault of a frame, or of one of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsound(pub(super) &'static str);

/// Lengths and checksums of a stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) height: u64,
    pub(super) head_len: u32,
    pub(super) entries: u32,
    body_len: u32,
    directory_crc: u32,
    head_crc: u32,
}

impl Frame {
    /// Number of bytes from the frame to the next.
    pub(super) const fn len(&self) -> u64 {
        FRAME as u64 + self.head_len as u64 + self.directory_len() as u64 + self.body_len as u64
    }

    /// Length of the directory, in bytes.
    pub(super) const fn directory_len(&self) -> usize {
        self.entries as usize * ITEM
    }

    /// Offset of the directory in the frame.
    pub(super) const fn directory_at(&self) -> u64 {
        FRAME as u64 + self.head_len as u64
    }

    /// Offset of the entries in the frame.
    pub(super) const fn body_at(&self) -> u64 {
        self.directory_at() + self.directory_len() as u64
    }

    pub(super) fn read(bytes: &[u8; FRAME]) -> Result<Self, Unsound> {
        let number = |at: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(number)
        };
        if bytes[..4] != MAGIC {
            return Err(Unsound("no block begins here"));
        }
        if crc32fast::hash(&bytes[..32]) != number(32) {
            return Err(Unsound("the frame's checksum differs"));
        }
        let height = u64::from(number(4)) | u64::from(number(8)) << 32;
        let frame = Self {
            height,
            head_len: number(12),
            entries: number(16),
            body_len: number(20),
            directory_crc: number(24),
            head_crc: number(28),
        };
        Ok(frame)
    }

    fn write(&self, out: &mut [u8]) {
        out[..4].copy_from_slice(&MAGIC);
        out[4..12].copy_from_slice(&self.height.to_le_bytes());
        let rest = [self.head_len, self.entries, self.body_len, self.directory_crc, self.head_crc];
        for (place, number) in rest.into_iter().enumerate() {
            out[12 + 4 * place..16 + 4 * place].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32fast::hash(&out[..32]);
        out[32..36].copy_from_slice(&crc.to_le_bytes());
    }

    /// Checks and decodes the head.
    pub(super) fn head(&self, bytes: &[u8]) -> Result<Head, Unsound> {
        if crc32fast::hash(bytes) != self.head_crc {
            return Err(Unsound("the head's checksum differs"));
        }
        let head = decode_head(bytes).ok_or(Unsound("the head cannot be decoded"))?;
        if head.header.number != self.height {
            return Err(Unsound("the head is of another height"));
        }
        Ok(head)
    }

    /// Checks the directory and returns place and checksum of each entry.
    pub(super) fn directory(&self, bytes: &[u8]) -> Result<Vec<Item>, Unsound> {
        if crc32fast::hash(bytes) != self.directory_crc {
            return Err(Unsound("the directory's checksum differs"));
        }
        let mut start = 0;
        let items = bytes.as_chunks::<ITEM>().0.iter().map(|item| {
            let end = u32::from_le_bytes([item[0], item[1], item[2], item[3]]);
            let crc = u32::from_le_bytes([item[4], item[5], item[6], item[7]]);
            let len = end.checked_sub(start).filter(|_| end <= self.body_len);
            let item = Item { start, len: len.ok_or(Unsound("the directory has no order"))?, crc };
            start = end;
            Ok(item)
        });
        items.collect()
    }
}

/// Place of an entry among the entries, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) start: u32,
    pub(super) len: u32,
    crc: u32,
}

impl Item {
    /// Checks and decodes the entry.
    pub(super) fn entry(&self, bytes: &[u8]) -> Result<Entry, Unsound> {
        if crc32fast::hash(bytes) != self.crc {
            return Err(Unsound("a transaction's checksum differs"));
        }
        decode(bytes).ok_or(Unsound("a transaction cannot be decoded"))
    }
}

/// Encodes a block; `None` if it is longer than 4 GiB.
pub(super) fn encode(block: &Block) -> Option<Vec<u8>> {
    let mut out = vec![0; FRAME];
    block.head.encode(&mut out);
    let head_len = out.len() - FRAME;
    let directory_at = out.len();
    let directory_len = block.entries.len() * ITEM;
    out.resize(directory_at + directory_len, 0);
    let body_at = out.len();
    for (place, entry) in block.entries.iter().enumerate() {
        let start = out.len();
        entry.encode(&mut out);
        let end = u32::try_from(out.len() - body_at).ok()?;
        let crc = crc32fast::hash(&out[start..]);
        let item = directory_at + place * ITEM;
        out[item..item + 4].copy_from_slice(&end.to_le_bytes());
        out[item + 4..item + 8].copy_from_slice(&crc.to_le_bytes());
    }
    if out.len() > MAX_BLOCK {
        return None;
    }
    let number = |len: usize| u32::try_from(len).ok();
    let frame = Frame {
        height: block.height(),
        head_len: number(head_len)?,
        entries: number(block.entries.len())?,
        body_len: number(out.len() - body_at)?,
        directory_crc: crc32fast::hash(&out[directory_at..body_at]),
        head_crc: crc32fast::hash(&out[FRAME..directory_at]),
    };
    frame.write(&mut out[..FRAME]);
    Some(out)
}
