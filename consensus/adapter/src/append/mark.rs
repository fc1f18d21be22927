//! Beginning of a file: what kind of file it is, and the mark of what was promised.
//!
//! ```text
//!  page 0   magic (8) │ checksum (8)
//!  page 1   mark of even heights:  height (8) │ begin (8) │ end (8) │ checksum (16)
//!  page 2   mark of odd heights
//! ```
//!
//! A mark names the last synced record. It is written after the record's sync, so it never names more than is durable; the
//! next record's sync covers it. Two take turns in pages of their own, so a torn mark leaves the one before it.

/// Length of a page, in bytes.
const PAGE: usize = 4096;

/// Offset of the first record, in bytes.
pub(crate) const START: usize = 3 * PAGE;

/// Length of a mark, in bytes.
const MARK: usize = 40;

/// Last record that was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of the record, from 1: a journal's height; 0 if there is none.
    pub(crate) height: u64,
    /// Offset of the record, in bytes.
    pub(crate) begin: u64,
    /// Offset behind the record, in bytes.
    pub(crate) end: u64,
}

impl Mark {
    /// Mark of a file without a record.
    pub(crate) const EMPTY: Self = Self { height: 0, begin: START as u64, end: START as u64 };

    /// Offset of the mark of this height, in bytes.
    pub(crate) const fn page(height: u64) -> u64 {
        PAGE as u64 * (1 + height % 2)
    }

    pub(crate) fn encode(&self) -> [u8; MARK] {
        let mut bytes = [0; MARK];
        for (at, word) in [self.height, self.begin, self.end].into_iter().enumerate() {
            bytes[at * 8..][..8].copy_from_slice(&word.to_be_bytes());
        }
        let (words, sum) = bytes.split_at_mut(24);
        sum.copy_from_slice(&checksum(words));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, sum) = bytes.get(..MARK)?.split_at(24);
        if checksum(words) != sum {
            return None;
        }
        let mut words = words.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_be_bytes);
        let mark = Self { height: words.next()?, begin: words.next()?, end: words.next()? };
        (START as u64 <= mark.begin && mark.begin <= mark.end).then_some(mark)
    }
}

/// Beginning of a new file of the kind that `magic` names.
pub(crate) fn beginning(magic: &[u8; 8]) -> Vec<u8> {
    let mut bytes = vec![0; START];
    bytes[..8].copy_from_slice(magic);
    bytes[8..16].copy_from_slice(&checksum(magic)[..8]);
    let mark = Mark::EMPTY.encode();
    [PAGE, 2 * PAGE].into_iter().for_each(|page| bytes[page..][..MARK].copy_from_slice(&mark));
    bytes
}

/// Reason why the beginning of a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The file is not of this kind and format.
    Format,
    /// Both marks are damaged, or the file ends before its first record.
    Damaged,
}

/// Newest mark at the beginning of a file, of which `bytes` are the first [`START`].
pub(crate) fn read_mark(bytes: &[u8], magic: &[u8; 8]) -> Result<Mark, Unfit> {
    let of_kind = bytes.get(..16).is_some_and(|head| head[..8] == *magic && head[8..] == checksum(magic)[..8]);
    if !of_kind {
        return Err(Unfit::Format);
    }
    let marks = [PAGE, 2 * PAGE].into_iter().filter_map(|page| Mark::decode(bytes.get(page..START)?));
    marks.max_by_key(|mark| mark.height).ok_or(Unfit::Damaged)
}

fn checksum(bytes: &[u8]) -> [u8; 16] {
    let mut checksum = [0; 16];
    let mut hasher = blake3::Hasher::new_derive_key("phalanx journal 2, mark");
    hasher.update(bytes).finalize_xof().fill(&mut checksum);
    checksum
}
