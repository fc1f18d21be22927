//! Extents: up to 32 neighbouring entries of a block in one record, so that a record's overhead is small and a cold
//! read loads little.

use std::ops::Range;

use phalanx_merkle_proof::Entry;

use super::frame::{FRAME_HEADER, Fields, Kind, Records};

/// Maximum entries of an extent, and the size after which it is closed early.
pub(crate) const EXTENT_ENTRIES: u16 = 32;
pub(super) const EXTENT_BYTES: usize = 6 << 10;

/// Writer of a block's extents.
#[derive(Debug)]
pub(crate) struct ExtentWriter {
    records: Records,
    height: u64,
    /// Offset of the open extent's frame.
    open: Option<usize>,
    entries: u16,
    deletes: u16,
}

impl ExtentWriter {
    pub(crate) fn new(height: u64, capacity: usize) -> Self {
        let records = Records { bytes: Vec::with_capacity(capacity), ends: Vec::new() };
        Self { records, height, open: None, entries: 0, deletes: 0 }
    }

    #[inline]
    fn open(&mut self, kind: Kind, first_sn: u64) {
        if self.open.is_none() {
            self.open = Some(self.records.begin(kind));
            (self.entries, self.deletes) = (0, 0);
            self.records.bytes.extend_from_slice(&first_sn.to_be_bytes());
            self.records.bytes.extend_from_slice(&self.height.to_be_bytes());
            self.records.bytes.extend_from_slice(&[0; 4]);
        }
    }

    /// Adds the entry of position `sn`, the next one; returns the range of its encoding in [`Self::bytes`].
    #[inline]
    pub(crate) fn entry(&mut self, sn: u64, entry: &Entry<'_>) -> Range<usize> {
        self.open(Kind::Extent, sn);
        self.encode(entry)
    }

    /// Adds an entry that compaction moves from another position. A writer takes either moved entries or new ones.
    pub(crate) fn moved(&mut self, sn: u64, from: u64, entry: &Entry<'_>) -> Range<usize> {
        self.open(Kind::Moved, sn);
        self.records.bytes.extend_from_slice(&from.to_be_bytes());
        self.records.bytes.extend_from_slice(&entry.height.to_be_bytes());
        self.encode(entry)
    }

    /// Adds the entry of a snapshot's position, active or not. A writer takes either these or others.
    pub(crate) fn kept(&mut self, sn: u64, active: bool, entry: &Entry<'_>) {
        self.open(Kind::Kept, sn);
        self.records.bytes.push(u8::from(active));
        self.records.bytes.extend_from_slice(&entry.height.to_be_bytes());
        self.encode(entry);
    }

    #[inline]
    fn encode(&mut self, entry: &Entry<'_>) -> Range<usize> {
        let start = self.records.bytes.len();
        self.records.bytes.reserve(Entry::HEADER + entry.key.len() + entry.value.len());
        entry.encode(&mut self.records.bytes);
        let end = self.records.bytes.len();
        self.entries += 1;
        self.close_if_full();
        start..end
    }

    /// All bytes so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.records.bytes
    }

    /// Adds a deletion; entries may not follow it in the same writer.
    pub(crate) fn delete(&mut self, next_sn: u64, sn: u64, key: &[u8]) {
        self.open(Kind::Extent, next_sn);
        self.records.bytes.extend_from_slice(&sn.to_be_bytes());
        self.records.bytes.push(key.len() as u8);
        self.records.bytes.extend_from_slice(key);
        self.deletes += 1;
        self.close_if_full();
    }

    #[inline]
    fn close_if_full(&mut self) {
        let len = self.records.bytes.len() - self.open.unwrap_or_default();
        if self.entries == EXTENT_ENTRIES || len >= EXTENT_BYTES {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some(start) = self.open.take() {
            let counts = start + FRAME_HEADER + 16;
            self.records.bytes[counts..counts + 2].copy_from_slice(&self.entries.to_be_bytes());
            self.records.bytes[counts + 2..counts + 4].copy_from_slice(&self.deletes.to_be_bytes());
            self.records.finish(start);
        }
    }

    pub(crate) fn finish(mut self) -> Records {
        self.close();
        self.records
    }
}

/// Fixed part of an extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentHead {
    pub(crate) first_sn: u64,
    pub(crate) height: u64,
    pub(crate) entries: u16,
    deletes: u16,
}

impl ExtentHead {
    /// Twig that the extent is the first of any block to reach into, if there is one.
    pub(crate) fn opens_twig(&self) -> Option<u64> {
        let (first, end) = (self.first_sn, self.first_sn.checked_add(u64::from(self.entries))?);
        let twig = first.div_ceil(phalanx_merkle_proof::TWIG_LEAVES as u64);
        (twig.checked_mul(phalanx_merkle_proof::TWIG_LEAVES as u64)? < end).then_some(twig)
    }
}

/// Decodes the fixed part of an extent's body.
pub(crate) fn extent_head(body: &[u8]) -> Option<(ExtentHead, &[u8])> {
    let mut reader = Fields(body);
    let head = ExtentHead {
        first_sn: reader.u64()?,
        height: reader.u64()?,
        entries: u16::from_be_bytes(*reader.array()?),
        deletes: u16::from_be_bytes(*reader.array()?),
    };
    Some((head, reader.0))
}

/// Item of an extent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExtentItem<'a> {
    /// Entry of the next position, with its canonical encoding.
    Entry(Entry<'a>, &'a [u8]),
    /// Entry that was moved, with its old position first.
    Moved(u64, Entry<'a>, &'a [u8]),
    /// Entry of a snapshot, with its active bit first.
    Kept(bool, Entry<'a>, &'a [u8]),
    /// Position that the deletion deactivates, and its key.
    Delete(u64, &'a [u8]),
}

impl<'a> ExtentItem<'a> {
    /// Entry of the next position, with its canonical encoding; `None` for a deletion.
    pub(crate) const fn entry(&self) -> Option<(Entry<'a>, &'a [u8])> {
        match *self {
            Self::Entry(entry, encoded) | Self::Moved(_, entry, encoded) | Self::Kept(_, entry, encoded) => {
                Some((entry, encoded))
            }
            Self::Delete(..) => None,
        }
    }
}

/// Hands the items of an extent's body to `visit`. Returns `None` if the body is invalid, perhaps after some items.
pub(crate) fn read_extent<'a>(kind: Kind, body: &'a [u8], mut visit: impl FnMut(ExtentItem<'a>)) -> Option<ExtentHead> {
    let (head, rest) = extent_head(body)?;
    let mut reader = Fields(rest);
    for _ in 0..head.entries {
        let (word, height) = match kind {
            Kind::Extent => (0, head.height),
            Kind::Moved => (reader.u64()?, reader.u64()?),
            Kind::Kept => match *reader.array()? {
                [active @ (0 | 1)] => (u64::from(active), reader.u64()?),
                _ => return None,
            },
            _ => return None,
        };
        let (entry, after) = Entry::decode(reader.0, height)?;
        let encoded = &reader.0[..reader.0.len() - after.len()];
        visit(match kind {
            Kind::Moved => ExtentItem::Moved(word, entry, encoded),
            Kind::Kept => ExtentItem::Kept(word == 1, entry, encoded),
            _ => ExtentItem::Entry(entry, encoded),
        });
        reader.0 = after;
    }
    for _ in 0..head.deletes {
        let sn = reader.u64()?;
        let [len] = *reader.array()?;
        visit(ExtentItem::Delete(sn, reader.take(usize::from(len))?));
    }
    reader.0.is_empty().then_some(head)
}
