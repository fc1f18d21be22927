//! Frames: kind, length and checksum around every record.
//!
//! ```text
//! byte  0          4          8      9
//!       ├ checksum ┼ length n ┼ kind ┼ body, n bytes ┤     numbers are big-endian
//!                  └─── covered by the checksum, CRC-32C ───┘
//! ```
//!
//! A frame counts if it is complete and its checksum fits. A reader bounds the length before it trusts it, so a damaged
//! length allocates no more than the largest body.

use phalanx_merkle_proof::HashFn;

/// Maximum length of a body that a reader accepts: bounds the allocation before the checksum is known.
pub(crate) const MAX_BODY_LEN: usize = (1 << 24) + 1024;

/// Bytes of a frame before its body.
pub(crate) const FRAME_HEADER: usize = 9;

/// Kind of a record.
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
    CodeEnd = 8,
    /// Extent of a snapshot.
    Kept = 16,
}

impl Kind {
    /// True for the kinds of extents.
    pub(crate) const fn is_extent(self) -> bool {
        matches!(self, Self::Extent | Self::Moved | Self::Kept)
    }

    const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Params),
            2 => Some(Self::Extent),
            3 => Some(Self::Block),
            4 => Some(Self::Code),
            5 => Some(Self::Moved),
            6 => Some(Self::Tip),
            7 => Some(Self::Checkpoint),
            8 => Some(Self::CodeEnd),
            16 => Some(Self::Kept),
            _ => None,
        }
    }
}

/// Marks of one store's records, made from its secret: what users store cannot imitate a record of a block, tip or code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Mask of the checksums of these records.
    mask: u32,
    /// First bytes of their bodies, by which recovery finds them behind damage.
    pub(crate) block: [u8; 4],
    pub(crate) tip: [u8; 4],
    pub(crate) checkpoint: [u8; 4],
    /// Name of the store, in the files that must not be swapped with those of another.
    pub(crate) store: [u8; 8],
}

impl Marks {
    /// Marks without a secret: of exports, and of stores that have no file of their identity.
    pub(crate) const PLAIN: Self =
        Self { mask: 0, block: *b"PHXB", tip: *b"PHXT", checkpoint: *b"PHXC", store: [0; 8] };

    /// Derives the marks from a secret; zeros stand for none.
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        if *secret == [0; 16] {
            return Self::PLAIN;
        }
        let digest = HashFn::Sha256.key(secret);
        let mut fields = Fields(&digest);
        let mut word = || fields.array().copied().unwrap_or_default();
        let (mask, block, tip, checkpoint) = (u32::from_be_bytes(word()), word(), word(), word());
        Self { mask, block, tip, checkpoint, store: fields.array().copied().unwrap_or_default() }
    }

    /// True if the store has a secret.
    pub(crate) fn is_secret(&self) -> bool {
        *self != Self::PLAIN
    }

    const fn mask(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Block | Kind::Tip | Kind::Code | Kind::CodeEnd => self.mask,
            // Recovery never searches for them. They are made before their store is known.
            Kind::Params | Kind::Extent | Kind::Moved | Kind::Kept | Kind::Checkpoint => 0,
        }
    }
}

/// Framed records, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) bytes: Vec<u8>,
    /// End of each frame.
    pub(super) ends: Vec<usize>,
}

impl Records {
    pub(crate) fn push(&mut self, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin(kind);
        body(&mut self.bytes);
        self.finish(start);
    }

    /// Adds a record with the mark of a store.
    pub(crate) fn push_marked(&mut self, kind: Kind, marks: &Marks, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin(kind);
        body(&mut self.bytes);
        self.finish(start);
        let mask = marks.mask(kind).to_be_bytes();
        self.bytes[start..start + 4].iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }

    pub(super) fn begin(&mut self, kind: Kind) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; FRAME_HEADER - 1]);
        self.bytes.push(kind as u8);
        start
    }

    pub(super) fn finish(&mut self, start: usize) {
        let len = (self.bytes.len() - start - FRAME_HEADER) as u32;
        self.bytes[start + 4..start + 8].copy_from_slice(&len.to_be_bytes());
        let checksum = crc32c::crc32c(&self.bytes[start + 4..]);
        self.bytes[start..start + 4].copy_from_slice(&checksum.to_be_bytes());
        self.ends.push(self.bytes.len());
    }

    /// Adds a record with this body.
    pub(crate) fn push_frame(&mut self, kind: Kind, body: &[u8]) {
        self.push(kind, |out| out.extend_from_slice(body));
    }

    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Frames in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// Kind and body length of a frame header, if they are possible.
pub(crate) fn frame_header(header: &[u8; FRAME_HEADER]) -> Option<(Kind, usize)> {
    let [_, _, _, _, a, b, c, d, kind] = *header;
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    Some((Kind::from_id(kind)?, len)).filter(|_| len <= MAX_BODY_LEN)
}

/// Body of a frame that is exactly `frame`, if the checksum fits.
pub(crate) fn frame_body<'f>(frame: &'f [u8], marks: &Marks) -> Option<(Kind, &'f [u8])> {
    let (header, body) = frame.split_first_chunk::<FRAME_HEADER>()?;
    let (kind, len) = frame_header(header)?;
    let (checksum, covered) = frame.split_first_chunk::<4>()?;
    let sum = u32::from_be_bytes(*checksum) ^ marks.mask(kind);
    (len == body.len() && crc32c::crc32c(covered) == sum).then_some((kind, body))
}

/// Reader of fields, one after the other.
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
