//! What the logs store: rows, each framed with its kind, length and checksum. Both logs hold the same bytes.
//!
//! ```text
//! frame  = crc32c || len || kind || body                  (checksum of all that follows it; integers big endian)
//! params = "PHXM" || Params
//! extent = first_sn || height || entries || deletes || entry* || (sn || key_len || key)*
//! moved  = first_sn || height || entries || 0 || (from || height || entry)*
//! block  = "PHXB" || seq || committed || id || parent_id || height || parent || root || first_extent || extents
//!          || first_sn || next_sn || floor || active || payload
//! tip    = "PHXT" || seq || id
//! code   = hash || code
//! ```
//!
//! An extent holds neighbouring entries of one block, so that a row costs little and a cold read brings in little. A
//! deletion appends no entry; its extent names the position that it switches off and the key. Entries that were moved up
//! come with the position and the height that they had.

use std::ops::Range;

use phalanx_merkle_proof::{Entry, Hash, Params, Shape};

/// Longest contract code.
pub(crate) const MAX_CODE_LEN: usize = 1 << 24;

/// Longest payload of a block.
pub(crate) const MAX_PAYLOAD_LEN: usize = 1 << 24;

/// Longest body that a reader accepts: allocation is bounded before a checksum can be.
const MAX_BODY_LEN: usize = (1 << 24) + 1024;

/// Most entries in an extent, and the size past which it is closed early.
const EXTENT_ENTRIES: u16 = 32;
const EXTENT_BYTES: usize = 6 << 10;

/// Bytes of a frame before its body.
pub(crate) const FRAME_HEADER: usize = 9;

/// How the body of a block row begins; a reader that lost its way finds blocks by it.
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"PHXB";
pub(crate) const TIP_MAGIC: [u8; 4] = *b"PHXT";
const PARAMS_MAGIC: [u8; 4] = *b"PHXM";

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Params = 1,
    Extent = 2,
    Block = 3,
    Code = 4,
    Moved = 5,
    Tip = 6,
    Checkpoint = 7,
}

impl Kind {
    const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Params),
            2 => Some(Self::Extent),
            3 => Some(Self::Block),
            4 => Some(Self::Code),
            5 => Some(Self::Moved),
            6 => Some(Self::Tip),
            7 => Some(Self::Checkpoint),
            _ => None,
        }
    }
}

/// Frames, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl Rows {
    pub(crate) fn push(&mut self, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin(kind);
        body(&mut self.bytes);
        self.finish(start);
    }

    fn begin(&mut self, kind: Kind) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; FRAME_HEADER - 1]);
        self.bytes.push(kind as u8);
        start
    }

    fn finish(&mut self, start: usize) {
        let len = (self.bytes.len() - start - FRAME_HEADER) as u32;
        self.bytes[start + 4..start + 8].copy_from_slice(&len.to_be_bytes());
        let checksum = crc32c::crc32c(&self.bytes[start + 4..]);
        self.bytes[start..start + 4].copy_from_slice(&checksum.to_be_bytes());
        self.ends.push(self.bytes.len());
    }

    /// Adds a frame as it is.
    pub(crate) fn push_frame(&mut self, kind: Kind, body: &[u8]) {
        self.push(kind, |out| out.extend_from_slice(body));
    }

    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// The frames in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// Kind and body length that a frame header claims, if they can be.
pub(crate) fn frame_header(header: &[u8; FRAME_HEADER]) -> Option<(Kind, usize)> {
    let [_, _, _, _, a, b, c, d, kind] = *header;
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    Some((Kind::from_id(kind)?, len)).filter(|_| len <= MAX_BODY_LEN)
}

/// The body of a frame that is exactly `frame`, if its checksum fits.
pub(crate) fn frame_body(frame: &[u8]) -> Option<(Kind, &[u8])> {
    let (header, body) = frame.split_first_chunk::<FRAME_HEADER>()?;
    let (kind, len) = frame_header(header)?;
    let (checksum, covered) = frame.split_first_chunk::<4>()?;
    (len == body.len() && crc32c::crc32c(covered) == u32::from_be_bytes(*checksum)).then_some((kind, body))
}

/// Writes the extents of one block.
#[derive(Debug)]
pub(crate) struct ExtentWriter {
    rows: Rows,
    height: u64,
    /// Where the open extent's frame begins.
    open: Option<usize>,
    entries: u16,
    deletes: u16,
}

impl ExtentWriter {
    pub(crate) fn new(height: u64, capacity: usize) -> Self {
        let rows = Rows { bytes: Vec::with_capacity(capacity), ends: Vec::new() };
        Self { rows, height, open: None, entries: 0, deletes: 0 }
    }

    #[inline]
    fn open(&mut self, kind: Kind, first_sn: u64) {
        if self.open.is_none() {
            self.open = Some(self.rows.begin(kind));
            (self.entries, self.deletes) = (0, 0);
            self.rows.bytes.extend_from_slice(&first_sn.to_be_bytes());
            self.rows.bytes.extend_from_slice(&self.height.to_be_bytes());
            self.rows.bytes.extend_from_slice(&[0; 4]);
        }
    }

    /// Adds the entry of position `sn`, which follows the one before; returns where in [`Self::bytes`] its encoding is.
    #[inline]
    pub(crate) fn entry(&mut self, sn: u64, entry: &Entry<'_>) -> Range<usize> {
        self.open(Kind::Extent, sn);
        self.encode(entry)
    }

    /// Like [`Self::entry`] for one that moves from another position. A writer takes either moved entries or others.
    pub(crate) fn moved(&mut self, sn: u64, from: u64, entry: &Entry<'_>) -> Range<usize> {
        self.open(Kind::Moved, sn);
        self.rows.bytes.extend_from_slice(&from.to_be_bytes());
        self.rows.bytes.extend_from_slice(&entry.height.to_be_bytes());
        self.encode(entry)
    }

    #[inline]
    fn encode(&mut self, entry: &Entry<'_>) -> Range<usize> {
        let start = self.rows.bytes.len();
        self.rows.bytes.reserve(Entry::HEADER + entry.key.len() + entry.value.len());
        entry.encode(&mut self.rows.bytes);
        let end = self.rows.bytes.len();
        self.entries += 1;
        self.close_if_full();
        start..end
    }

    /// Everything written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.rows.bytes
    }

    /// Adds a deletion; entries may not follow it in the same writer.
    pub(crate) fn delete(&mut self, next_sn: u64, sn: u64, key: &[u8]) {
        self.open(Kind::Extent, next_sn);
        self.rows.bytes.extend_from_slice(&sn.to_be_bytes());
        self.rows.bytes.push(key.len() as u8);
        self.rows.bytes.extend_from_slice(key);
        self.deletes += 1;
        self.close_if_full();
    }

    #[inline]
    fn close_if_full(&mut self) {
        let len = self.rows.bytes.len() - self.open.unwrap_or_default();
        if self.entries == EXTENT_ENTRIES || len >= EXTENT_BYTES {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some(start) = self.open.take() {
            let counts = start + FRAME_HEADER + 16;
            self.rows.bytes[counts..counts + 2].copy_from_slice(&self.entries.to_be_bytes());
            self.rows.bytes[counts + 2..counts + 4].copy_from_slice(&self.deletes.to_be_bytes());
            self.rows.finish(start);
        }
    }

    pub(crate) fn finish(mut self) -> Rows {
        self.close();
        self.rows
    }
}

/// The fixed part of an extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentHead {
    pub(crate) first_sn: u64,
    pub(crate) height: u64,
    pub(crate) entries: u16,
    deletes: u16,
}

impl ExtentHead {
    /// Whether the extent is the first one of any block that reaches into a twig, and which.
    pub(crate) fn opens_twig(&self) -> Option<u64> {
        let (first, end) = (self.first_sn, self.first_sn.checked_add(u64::from(self.entries))?);
        let twig = first.div_ceil(phalanx_merkle_proof::TWIG_LEAVES as u64);
        (twig.checked_mul(phalanx_merkle_proof::TWIG_LEAVES as u64)? < end).then_some(twig)
    }
}

/// Reads the fixed part of an extent's body.
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

/// What an extent says, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExtentItem<'a> {
    /// The entry of the next position, with its canonical encoding.
    Entry(Entry<'a>, &'a [u8]),
    /// The same, and the position that it had before.
    Moved(u64, Entry<'a>, &'a [u8]),
    /// The position that is switched off, and its key.
    Delete(u64, &'a [u8]),
}

/// Reads the body of an extent, or of one of moved entries. `None` if it is not one, after having seen some of it.
pub(crate) fn read_extent<'a>(kind: Kind, body: &'a [u8], mut see: impl FnMut(ExtentItem<'a>)) -> Option<ExtentHead> {
    let (head, rest) = extent_head(body)?;
    let mut reader = Fields(rest);
    for _ in 0..head.entries {
        let moved = match kind {
            Kind::Extent => None,
            Kind::Moved => Some((reader.u64()?, reader.u64()?)),
            _ => return None,
        };
        let (entry, after) = Entry::decode(reader.0, moved.map_or(head.height, |(_, height)| height))?;
        let encoded = &reader.0[..reader.0.len() - after.len()];
        see(match moved {
            Some((from, _)) => ExtentItem::Moved(from, entry, encoded),
            None => ExtentItem::Entry(entry, encoded),
        });
        reader.0 = after;
    }
    for _ in 0..head.deletes {
        let sn = reader.u64()?;
        let [len] = *reader.array()?;
        see(ExtentItem::Delete(sn, reader.take(usize::from(len))?));
    }
    reader.0.is_empty().then_some(head)
}

/// One block of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockRow {
    /// Counts block and tip rows, in the order in which they are written.
    pub(crate) seq: u64,
    /// Whether the block is the tip from here on; else it is staged.
    pub(crate) committed: bool,
    /// Names the block among all, siblings included. Never used twice, and greater than the parent's.
    pub(crate) id: u64,
    /// Zero before the first block.
    pub(crate) parent_id: u64,
    pub(crate) height: u64,
    pub(crate) parent: Hash,
    pub(crate) root: Hash,
    /// Its extents are the numbers `first_extent..first_extent + extents`. Numbers are never used twice.
    pub(crate) first_extent: u64,
    pub(crate) extents: u64,
    /// Its first position.
    pub(crate) first_sn: u64,
    pub(crate) shape: Shape,
    /// Whatever the application wants back with the block.
    pub(crate) payload: Vec<u8>,
}

impl BlockRow {
    pub(crate) fn encode(&self) -> Rows {
        let mut rows = Rows::default();
        rows.push(Kind::Block, |out| {
            out.extend_from_slice(&BLOCK_MAGIC);
            out.extend_from_slice(&self.seq.to_be_bytes());
            out.push(u8::from(self.committed));
            for word in [self.id, self.parent_id, self.height] {
                out.extend_from_slice(&word.to_be_bytes());
            }
            out.extend_from_slice(&self.parent);
            out.extend_from_slice(&self.root);
            let Shape { next_sn, floor, active } = self.shape;
            for word in [self.first_extent, self.extents, self.first_sn, next_sn, floor, active] {
                out.extend_from_slice(&word.to_be_bytes());
            }
            out.extend_from_slice(&self.payload);
        });
        rows
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Fields(body);
        if *reader.array()? != BLOCK_MAGIC {
            return None;
        }
        let seq = reader.u64()?;
        let [committed @ (0 | 1)] = *reader.array()? else { return None };
        let row = Self {
            seq,
            committed: committed == 1,
            id: reader.u64()?,
            parent_id: reader.u64()?,
            height: reader.u64()?,
            parent: *reader.array()?,
            root: *reader.array()?,
            first_extent: reader.u64()?,
            extents: reader.u64()?,
            first_sn: reader.u64()?,
            shape: Shape { next_sn: reader.u64()?, floor: reader.u64()?, active: reader.u64()? },
            payload: reader.0.to_vec(),
        };
        let Shape { next_sn, floor, active } = row.shape;
        let counts = [row.seq, row.id, row.parent_id, row.height, row.first_extent, row.extents, row.first_sn];
        counts.into_iter().chain([next_sn, floor, active]).all(|count| count <= MAX_COUNT).then_some(row)
    }
}

/// The row that makes a written block the tip: a staged one that is committed, or an older one that is gone back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TipRow {
    pub(crate) seq: u64,
    pub(crate) id: u64,
    /// Whatever the application wants back with this tip.
    pub(crate) note: Vec<u8>,
}

impl TipRow {
    pub(crate) fn encode(&self) -> Rows {
        let mut rows = Rows::default();
        rows.push(Kind::Tip, |out| {
            out.extend_from_slice(&TIP_MAGIC);
            out.extend_from_slice(&self.seq.to_be_bytes());
            out.extend_from_slice(&self.id.to_be_bytes());
            out.extend_from_slice(&self.note);
        });
        rows
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Fields(body);
        (*reader.array()? == TIP_MAGIC).then_some(())?;
        let row = Self { seq: reader.u64()?, id: reader.u64()?, note: reader.0.to_vec() };
        (row.seq <= MAX_COUNT && row.id <= MAX_COUNT).then_some(row)
    }
}

/// The row that says what the store is.
pub(crate) fn encode_params(params: &Params) -> Rows {
    let mut rows = Rows::default();
    rows.push(Kind::Params, |out| {
        out.extend_from_slice(&PARAMS_MAGIC);
        out.extend_from_slice(&params.encode());
    });
    rows
}

/// Compares a store's own parameters with the caller's.
///
/// # Errors
/// What the store is and what was asked for, in words.
pub(crate) fn check_params(frame: &[u8], params: &Params) -> Result<(), (String, String)> {
    let words = |encoded: &[u8]| match Params::decode(encoded) {
        Some(params) => {
            let Params { hash, compaction, sentinels } = params;
            let sentinels = sentinels.count();
            format!("format {} with {hash}, {compaction:?}, {sentinels} sentinels", phalanx_merkle_proof::FORMAT)
        }
        None => format!("{encoded:02x?}"),
    };
    let found = match frame_body(frame) {
        Some((Kind::Params, body)) if body.starts_with(&PARAMS_MAGIC) => &body[PARAMS_MAGIC.len()..],
        _ => return Err(("unknown (not a store of this kind)".into(), words(&params.encode()))),
    };
    if found == params.encode() { Ok(()) } else { Err((words(found), words(&params.encode()))) }
}

/// No log counts so far. What claims to is no row, and sums of what rows say fit.
const MAX_COUNT: u64 = 1 << 62;

/// Reads fields one after the other.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| u64::from_be_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(key: &'a [u8], value: &'a [u8], height: u64) -> Entry<'a> {
        Entry { sentinel: false, key, value, next: [4; 32], previous: Some(3), height }
    }

    #[test]
    fn moved_entries_keep_their_heights() {
        let mut writer = ExtentWriter::new(9, 0);
        for sn in 0..70u64 {
            writer.moved(sn, sn / 2, &entry(&sn.to_be_bytes(), b"v", sn % 5));
        }
        let mut seen = 0u64;
        for frame in writer.finish().iter() {
            let (kind, body) = frame_body(frame).expect("a frame");
            let head = read_extent(kind, body, |item| {
                let ExtentItem::Moved(from, found, _) = item else { panic!("{item:?}") };
                assert_eq!((from, found), (seen / 2, entry(&seen.to_be_bytes(), b"v", seen % 5)));
                seen += 1;
            });
            assert_eq!(head.map(|head| head.height), Some(9));
            assert!(read_extent(Kind::Extent, body, |_| ()).is_none() || body.is_empty());
        }
        assert_eq!(seen, 70);
    }

    #[test]
    fn block_and_tip_rows_have_one_encoding() {
        let row = BlockRow {
            seq: 1,
            committed: true,
            id: 2,
            parent_id: 3,
            height: 4,
            parent: [5; 32],
            root: [6; 32],
            first_extent: 7,
            extents: 8,
            first_sn: 9,
            shape: Shape { next_sn: 10, floor: 11, active: 12 },
            payload: vec![13; 14],
        };
        let rows = row.encode();
        let (_, body) = frame_body(&rows.bytes).expect("a frame");
        assert_eq!(BlockRow::decode(body), Some(row));
        let mut other = body.to_vec();
        other[12] = 2;
        assert_eq!(BlockRow::decode(&other), None);
        // Numbers from which there is no way on, of a block and of its id.
        for place in [4, 13] {
            let mut other = body.to_vec();
            other[place..place + 8].copy_from_slice(&u64::MAX.to_be_bytes());
            assert_eq!(BlockRow::decode(&other), None);
        }
        for note in [&b""[..], b"where consensus stands"] {
            let tip = TipRow { seq: 1, id: 2, note: note.to_vec() };
            let rows = tip.encode();
            let (_, body) = frame_body(&rows.bytes).expect("a frame");
            assert_eq!(TipRow::decode(body), Some(tip));
            assert_eq!(TipRow::decode(&body[..body.len() - note.len() - 1]), None);
        }
    }

    #[test]
    fn extents_give_back_what_was_written_and_are_cut_where_they_should_be() {
        let mut writer = ExtentWriter::new(5, 0);
        let long = vec![9u8; 4000];
        for sn in 0..100u64 {
            let value: &[u8] = if sn % 50 == 49 { &long } else { b"value" };
            writer.entry(1000 + sn, &entry(&sn.to_be_bytes(), value, 5));
        }
        for sn in 0..700u64 {
            writer.delete(1100, sn, b"gone");
        }
        let rows = writer.finish();
        let (mut entries, mut deletes) = (0u64, 0u64);
        for frame in rows.iter() {
            let (kind, body) = frame_body(frame).expect("a frame");
            assert_eq!(kind, Kind::Extent);
            assert!(body.len() < 2 * EXTENT_BYTES);
            let (expected, before) = (1000 + entries, entries);
            let head = read_extent(Kind::Extent, body, |item| match item {
                ExtentItem::Entry(entry, encoded) => {
                    assert_eq!((entry.key, entry.height), (&entries.to_be_bytes()[..], 5));
                    assert_eq!(encoded.len(), Entry::HEADER + 8 + entry.value.len());
                    entries += 1;
                }
                ExtentItem::Delete(sn, key) => {
                    assert_eq!((sn, key), (deletes, &b"gone"[..]));
                    deletes += 1;
                }
                ExtentItem::Moved(..) => panic!("nothing was moved"),
            })
            .expect("an extent");
            assert_eq!(head.first_sn, expected);
            assert!(entries - before <= u64::from(EXTENT_ENTRIES));
            for cut in 0..body.len() {
                assert!(read_extent(Kind::Extent, &body[..cut], |_| ()).is_none());
            }
        }
        assert_eq!((entries, deletes), (100, 700));
    }

    #[test]
    fn a_changed_frame_is_noticed() {
        let mut rows = Rows::default();
        rows.push(Kind::Code, |out| out.extend_from_slice(b"some code"));
        assert_eq!(frame_body(&rows.bytes), Some((Kind::Code, &b"some code"[..])));
        for at in 0..rows.bytes.len() {
            let mut changed = rows.bytes.clone();
            changed[at] ^= 0x40;
            assert_eq!(frame_body(&changed), None, "byte {at}");
            assert_eq!(frame_body(&rows.bytes[..at]), None);
        }
    }
}
