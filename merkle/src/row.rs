//! What the logs store: rows, each framed with its kind, length and checksum. Both logs hold the same bytes.
//!
//! ```text
//! frame  = crc32c || len || kind || body                  (checksum of all that follows it; integers big endian)
//! params = "PHXM" || Params
//! extent = first_sn || height || entries || deletes || entry* || (sn || key_len || key)*
//! block  = "PHXB" || height || parent || root || first_extent || extents || next_sn || active_count || payload
//! code   = hash || code
//! ```
//!
//! An extent holds neighbouring entries of one block, so that a row costs little and a cold read brings in little. A
//! deletion appends no entry; its extent names the position that it switches off and the key.

use std::ops::Range;

use phalanx_merkle_proof::{Entry, Hash, Params};

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
const PARAMS_MAGIC: [u8; 4] = *b"PHXM";

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Params = 1,
    Extent = 2,
    Block = 3,
    Code = 4,
}

impl Kind {
    const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Params),
            2 => Some(Self::Extent),
            3 => Some(Self::Block),
            4 => Some(Self::Code),
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

    fn open(&mut self, first_sn: u64) {
        if self.open.is_none() {
            self.open = Some(self.rows.begin(Kind::Extent));
            (self.entries, self.deletes) = (0, 0);
            self.rows.bytes.extend_from_slice(&first_sn.to_be_bytes());
            self.rows.bytes.extend_from_slice(&self.height.to_be_bytes());
            self.rows.bytes.extend_from_slice(&[0; 4]);
        }
    }

    /// Adds the entry of position `sn`, which follows the one before; returns where in [`Self::bytes`] its encoding is.
    #[inline]
    pub(crate) fn entry(&mut self, sn: u64, entry: &Entry<'_>) -> Range<usize> {
        self.open(sn);
        let start = self.rows.bytes.len();
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
        self.open(next_sn);
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
    /// Whether the extent is the first that reaches into a twig, and which.
    pub(crate) fn opens_twig(&self) -> Option<u64> {
        let (first, end) = (self.first_sn, self.first_sn + u64::from(self.entries));
        let twig = first.div_ceil(phalanx_merkle_proof::TWIG_LEAVES as u64);
        (twig * (phalanx_merkle_proof::TWIG_LEAVES as u64) < end).then_some(twig)
    }
}

/// Reads the fixed part of an extent's body.
pub(crate) fn extent_head(body: &[u8]) -> Option<(ExtentHead, &[u8])> {
    let mut reader = Reader(body);
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
    /// The position that is switched off, and its key.
    Delete(u64, &'a [u8]),
}

/// Reads an extent's body. `None` if it is not one, after having seen some of it.
pub(crate) fn read_extent<'a>(body: &'a [u8], mut see: impl FnMut(ExtentItem<'a>)) -> Option<ExtentHead> {
    let (head, mut rest) = extent_head(body)?;
    for _ in 0..head.entries {
        let (entry, after) = Entry::decode(rest, head.height)?;
        see(ExtentItem::Entry(entry, &rest[..rest.len() - after.len()]));
        rest = after;
    }
    let mut reader = Reader(rest);
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
    pub(crate) height: u64,
    pub(crate) parent: Hash,
    pub(crate) root: Hash,
    /// Its extents are the numbers `first_extent..first_extent + extents`. Numbers are never used twice.
    pub(crate) first_extent: u64,
    pub(crate) extents: u64,
    pub(crate) next_sn: u64,
    pub(crate) active: u64,
    /// Whatever the application wants back with the block.
    pub(crate) payload: Vec<u8>,
}

impl BlockRow {
    pub(crate) fn encode(&self) -> Rows {
        let mut rows = Rows::default();
        rows.push(Kind::Block, |out| {
            out.extend_from_slice(&BLOCK_MAGIC);
            out.extend_from_slice(&self.height.to_be_bytes());
            out.extend_from_slice(&self.parent);
            out.extend_from_slice(&self.root);
            for word in [self.first_extent, self.extents, self.next_sn, self.active] {
                out.extend_from_slice(&word.to_be_bytes());
            }
            out.extend_from_slice(&self.payload);
        });
        rows
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        if *reader.array()? != BLOCK_MAGIC {
            return None;
        }
        Some(Self {
            height: reader.u64()?,
            parent: *reader.array()?,
            root: *reader.array()?,
            first_extent: reader.u64()?,
            extents: reader.u64()?,
            next_sn: reader.u64()?,
            active: reader.u64()?,
            payload: reader.0.to_vec(),
        })
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
        Some(params) => format!("format {} with {}", phalanx_merkle_proof::FORMAT, params.hash),
        None => format!("{encoded:02x?}"),
    };
    let found = match frame_body(frame) {
        Some((Kind::Params, body)) if body.starts_with(&PARAMS_MAGIC) => &body[PARAMS_MAGIC.len()..],
        _ => return Err(("unknown (not a store of this kind)".into(), words(&params.encode()))),
    };
    if found == params.encode() { Ok(()) } else { Err((words(found), words(&params.encode()))) }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| u64::from_be_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_give_back_what_was_written_and_are_cut_where_they_should_be() {
        let mut writer = ExtentWriter::new(5, 0);
        let long = vec![9u8; 4000];
        for sn in 0..100u64 {
            let value: &[u8] = if sn % 50 == 49 { &long } else { b"value" };
            writer.entry(1000 + sn, &Entry { key: &sn.to_be_bytes(), value, height: 5 });
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
            let head = read_extent(body, |item| match item {
                ExtentItem::Entry(entry, encoded) => {
                    assert_eq!((entry.key, entry.height), (&entries.to_be_bytes()[..], 5));
                    assert_eq!(encoded.len(), Entry::HEADER + 8 + entry.value.len());
                    entries += 1;
                }
                ExtentItem::Delete(sn, key) => {
                    assert_eq!((sn, key), (deletes, &b"gone"[..]));
                    deletes += 1;
                }
            })
            .expect("an extent");
            assert_eq!(head.first_sn, expected);
            assert!(entries - before <= u64::from(EXTENT_ENTRIES));
            for cut in 0..body.len() {
                assert!(read_extent(&body[..cut], |_| ()).is_none());
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
