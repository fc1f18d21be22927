//! Beginning of a journal's file: what kind of file it is, and the mark of what was promised.
//!
//! ```text
//!  page 0   magic (8) │ checksum (8)
//!  page 1   mark of even heights:  height (8) │ begin (8) │ end (8) │ checksum (16)
//!  page 2   mark of odd heights
//! ```
//!
//! A mark names the last synced record. It is written after the record's sync, so it never names more than is durable; the
//! next record's sync covers it. Two take turns in pages of their own, so a torn mark leaves the one before it.

/// First bytes of a journal.
const MAGIC: &[u8; 8] = b"PHXJRNL2";

/// Length of a page, in bytes.
const PAGE: usize = 4096;

/// Offset of the first record, in bytes.
pub(super) const START: usize = 3 * PAGE;

/// Length of a mark, in bytes.
const MARK: usize = 40;

/// Last record that was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Height of its block; 0 if there is none.
    pub(super) height: u64,
    /// Offset of the record, in bytes.
    pub(super) begin: u64,
    /// Offset behind the record, in bytes.
    pub(super) end: u64,
}

impl Mark {
    /// Mark of a journal without a record.
    pub(super) const EMPTY: Self = Self { height: 0, begin: START as u64, end: START as u64 };

    /// Offset of the mark of this height, in bytes.
    pub(super) const fn page(height: u64) -> u64 {
        PAGE as u64 * (1 + height % 2)
    }

    pub(super) fn encode(&self) -> [u8; MARK] {
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

/// Beginning of a new journal.
pub(super) fn new() -> Vec<u8> {
    let mut bytes = vec![0; START];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&checksum(MAGIC)[..8]);
    let mark = Mark::EMPTY.encode();
    [PAGE, 2 * PAGE].into_iter().for_each(|page| bytes[page..][..MARK].copy_from_slice(&mark));
    bytes
}

/// Reason why the beginning of a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The file is no journal of this format.
    Format,
    /// Both marks are damaged, or the file ends before its first record.
    Damaged,
}

/// Newest mark at the beginning of a file, of which `bytes` are the first [`START`].
pub(super) fn read(bytes: &[u8]) -> Result<Mark, Unfit> {
    let magic = bytes.get(..16).is_some_and(|head| head[..8] == *MAGIC && head[8..] == checksum(MAGIC)[..8]);
    if !magic {
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
