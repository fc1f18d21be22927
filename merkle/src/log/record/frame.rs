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

/// Maximum length of a body that a reader accepts: bounds the allocation before the checksum is known.
const MAX_BODY_LEN: usize = (1 << 24) + 1024;

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
pub(crate) fn frame_body(frame: &[u8]) -> Option<(Kind, &[u8])> {
    let (header, body) = frame.split_first_chunk::<FRAME_HEADER>()?;
    let (kind, len) = frame_header(header)?;
    let (checksum, covered) = frame.split_first_chunk::<4>()?;
    (len == body.len() && crc32c::crc32c(covered) == u32::from_be_bytes(*checksum)).then_some((kind, body))
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
