//! Records of keys, two cache lines each, and the values and keys that are too long for a record.

use std::mem::offset_of;

use phalanx_memory::prefetch;
use phalanx_merkle_proof::{Hash, HashFn, Sentinels};

use crate::types::{Written, copy, prefix};

/// Records, and tails, per chunk. Chunks grow without copies.
///
/// A chunk of 8 MiB makes the allocator's overhead negligible: a quarter of that cost seven bytes more per key, and
/// with huge pages seventeen. Tests have several chunks.
pub(super) const CHUNK: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };

/// Bytes of key and value that fit into a record.
const INLINE: usize = 62;

/// Size of a tail, which holds a value beside the record: a word of storage, in bytes.
const TAIL: usize = 32;

/// Size of a place number, in bytes.
const PLACE: usize = 4;

/// Key length above which a key reaches into the record's second line.
const FIRST_LINE: usize = 64 - offset_of!(Record, bytes) - PLACE;

/// Record of a key in two adjacent cache lines.
///
/// Finding an account's key touches the first line; a slot's key reaches into the second. Preparing an update touches
/// both. The record has only the prefix of the key's hash, which is what order needs; the whole hash is computed from
/// the key.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(super) struct Record {
    /// Number of times that a key moved in or out; odd while there is one.
    pub(super) generation: u32,
    key_len: u8,
    kind: Kind,
    value_len: u16,
    /// Prefix of the key's hash.
    pub(super) prefix: u64,
    /// Content by kind.
    bytes: [u8; INLINE],
    pub(super) written: PackedWritten,
    /// Hash of the next key in key order.
    pub(super) next: Hash,
}

const _: () = assert!(size_of::<Record>() == 128);

/// Content of a record's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Key and value.
    Inline,
    /// Like `Inline`, but of a sentinel.
    Sentinel,
    /// Place of the value in [`RecordSlab::tails`], then the key.
    Tail,
    /// Place of both in [`RecordSlab::spill`].
    Spilled,
}

/// [`Written`] in 18 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PackedWritten([[u8; 6]; 3]);

impl From<Written> for PackedWritten {
    #[inline]
    fn from(written: Written) -> Self {
        let Written { sn, previous, height } = written;
        Self([sn, previous, height].map(|word| {
            let [a, b, c, d, e, f, ..] = word.to_le_bytes();
            [a, b, c, d, e, f]
        }))
    }
}

impl From<PackedWritten> for Written {
    #[inline]
    fn from(PackedWritten(words): PackedWritten) -> Self {
        let [sn, previous, height] = words.map(|[a, b, c, d, e, f]| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        Self { sn, previous, height }
    }
}

impl Record {
    /// Record of a place that never had a key.
    const EMPTY: Self = Self {
        generation: 0,
        key_len: 0,
        kind: Kind::Inline,
        value_len: 0,
        prefix: 0,
        bytes: [0; INLINE],
        written: PackedWritten([[0; 6]; 3]),
        next: [0; 32],
    };

    /// Returns true if the record has a key.
    pub(super) const fn is_alive(&self) -> bool {
        self.generation & 1 == 1
    }

    /// Stores key and value in the record; false if they are too long.
    #[inline]
    pub(super) fn fill_inline(&mut self, key: &[u8], value: &[u8]) -> bool {
        let fits = key.len() + value.len() <= INLINE;
        if fits {
            (self.key_len, self.value_len, self.kind) = (key.len() as u8, value.len() as u16, Kind::Inline);
            copy(&mut self.bytes[..key.len()], key);
            copy(&mut self.bytes[key.len()..][..value.len()], value);
        }
        fits
    }

    /// Replaces the value in the record; false if the old or the new one does not fit there.
    #[inline]
    fn replace(&mut self, value: &[u8]) -> bool {
        let key_len = usize::from(self.key_len);
        let fits = matches!(self.kind, Kind::Inline | Kind::Sentinel) && key_len + value.len() <= INLINE;
        if fits {
            self.value_len = value.len() as u16;
            copy(&mut self.bytes[key_len..][..value.len()], value);
        }
        fits
    }

    #[inline]
    const fn place(&self) -> u32 {
        let [a, b, c, d, ..] = self.bytes;
        u32::from_le_bytes([a, b, c, d])
    }
}

/// Tails and spilled entries.
#[derive(Clone, Copy)]
struct Outside<'s> {
    tails: &'s [Box<[[u8; TAIL]; CHUNK]>],
    spill: &'s [Box<[u8]>],
}

impl<'s> Outside<'s> {
    /// Key and value of a record.
    #[inline]
    fn entry(self, record: &'s Record) -> (&'s [u8], &'s [u8]) {
        let (key_len, value_len) = (usize::from(record.key_len), usize::from(record.value_len));
        match record.kind {
            Kind::Inline | Kind::Sentinel => {
                let (key, rest) = record.bytes.split_at(key_len);
                (key, &rest[..value_len])
            }
            Kind::Tail => {
                let place = record.place() as usize;
                (&record.bytes[PLACE..][..key_len], &self.tails[place / CHUNK][place % CHUNK][..value_len])
            }
            Kind::Spilled => self.spill[record.place() as usize].split_at(key_len),
        }
    }
}

/// Part of the records, for one thread to write.
pub(crate) struct Part<'s> {
    outside: Outside<'s>,
    /// Id of the first record.
    first: usize,
    /// Slice per chunk: whole chunks, except for the first and the last.
    slices: Vec<&'s mut [Record]>,
}

impl Part<'_> {
    /// Slice of a record, and index in it.
    #[inline]
    const fn place(&self, id: u32) -> (usize, usize) {
        let slice = id as usize / CHUNK - self.first / CHUNK;
        (slice, id as usize % CHUNK - if slice == 0 { self.first % CHUNK } else { 0 })
    }

    #[inline]
    fn record(&mut self, id: u32) -> &mut Record {
        let (slice, at) = self.place(id);
        &mut self.slices[slice][at]
    }

    /// Value, next key and position of a key whose record is in the part.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> (&[u8], &Hash, PackedWritten) {
        let (slice, at) = self.place(id);
        let record = &self.slices[slice][at];
        (self.outside.entry(record).1, &record.next, record.written)
    }

    /// Prefetches a whole record of the part.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        let (slice, at) = self.place(id);
        let record = &self.slices[slice][at];
        prefetch(record);
        prefetch(&record.next);
    }

    /// Replaces a value in a record of the part; false if the old or the new value does not fit there.
    #[inline]
    pub(crate) fn replace(&mut self, id: u32, value: &[u8]) -> bool {
        self.record(id).replace(value)
    }

    /// Sets the position of a key whose record is in the part, and its next key if that changes.
    #[inline]
    pub(crate) fn rewrite(&mut self, id: u32, next: Option<&Hash>, written: impl FnOnce(Written) -> Written) {
        let record = self.record(id);
        record.written = written(record.written.into()).into();
        if let Some(next) = next {
            record.next = *next;
        }
    }
}

/// All records, and what does not fit into them.
pub(super) struct RecordSlab {
    hash: HashFn,
    pub(super) records: Vec<Box<[Record; CHUNK]>>,
    tails: Vec<Box<[[u8; TAIL]; CHUNK]>>,
    /// Number of tails ever used.
    tailed: u32,
    tails_free: Vec<u32>,
    /// Key, then value.
    spill: Vec<Box<[u8]>>,
    spill_free: Vec<u32>,
}

impl RecordSlab {
    pub(super) const fn new(hash: HashFn) -> Self {
        Self {
            hash,
            records: Vec::new(),
            tails: Vec::new(),
            tailed: 0,
            tails_free: Vec::new(),
            spill: Vec::new(),
            spill_free: Vec::new(),
        }
    }

    /// Grows until there are `records` records.
    pub(super) fn reserve(&mut self, records: usize) {
        while self.records.len() * CHUNK < records {
            self.records.push(chunk(Record::EMPTY));
        }
    }

    pub(super) const fn hash_fn(&self) -> HashFn {
        self.hash
    }

    /// Records of a range of ids, in slices of at most `most`, for several threads to write.
    pub(super) fn slices(&mut self, first: u32, end: u32, most: usize) -> impl Iterator<Item = &mut [Record]> {
        let (first, end) = (first as usize, end as usize);
        self.records.iter_mut().enumerate().skip(first / CHUNK).flat_map(move |(at, chunk)| {
            let [from, to] = [first, end].map(|id| id.saturating_sub(at * CHUNK).min(CHUNK));
            chunk[from..to].chunks_mut(most)
        })
    }

    /// Divides the records of ids below `end` into parts of `each`.
    pub(super) fn parts(&mut self, end: usize, each: usize) -> Vec<Part<'_>> {
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(end.div_ceil(each));
        let Self { records, tails, spill, .. } = self;
        let outside = Outside { tails, spill };
        let mut id = 0;
        for chunk in records {
            let mut rest = &mut chunk[..CHUNK.min(end - id)];
            while !rest.is_empty() {
                let (slice, others) = rest.split_at_mut(rest.len().min(each - id % each));
                let len = slice.len();
                match parts.last_mut().filter(|_| !id.is_multiple_of(each)) {
                    Some(part) => part.slices.push(slice),
                    None => parts.push(Part { outside, first: id, slices: vec![slice] }),
                }
                (rest, id) = (others, id + len);
            }
        }
        parts
    }

    #[inline]
    pub(super) fn record(&self, id: u32) -> &Record {
        &self.records[id as usize / CHUNK][id as usize % CHUNK]
    }

    #[inline]
    pub(super) fn record_mut(&mut self, id: u32) -> &mut Record {
        &mut self.records[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// Record of an id, if there ever was one.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Record> {
        self.records.get(id as usize / CHUNK).map(|chunk| &chunk[id as usize % CHUNK])
    }

    /// Prefetches a whole record.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        let record = self.record(id);
        prefetch(record);
        prefetch(&record.next);
    }

    /// Prefetches what a lookup of a key of this length reads; with length zero, the record's first line.
    #[inline]
    pub(super) fn prefetch_entry(&self, id: u32, key_len: usize) {
        let record = self.record(id);
        prefetch(record);
        if Self::may_be_outside(key_len) {
            prefetch(&record.next);
        }
    }

    /// Returns true if a key of this length reaches into the second line and may have its value outside, as slots do.
    #[inline]
    pub(super) const fn may_be_outside(key_len: usize) -> bool {
        key_len > FIRST_LINE
    }

    /// Prefetches the value of a record that is in the cache, if the value is outside.
    #[inline]
    pub(super) fn prefetch_outside(&self, id: u32) {
        let record = self.record(id);
        let place = record.place() as usize;
        match record.kind {
            Kind::Inline | Kind::Sentinel => {}
            Kind::Tail => prefetch(&self.tails[place / CHUNK][place % CHUNK]),
            Kind::Spilled => self.spill.get(place).into_iter().for_each(prefetch),
        }
    }

    /// Key and value.
    #[inline]
    pub(super) fn entry(&self, id: u32) -> (&[u8], &[u8]) {
        Outside { tails: &self.tails, spill: &self.spill }.entry(self.record(id))
    }

    #[inline]
    pub(super) fn key(&self, id: u32) -> &[u8] {
        let record = self.record(id);
        let begin = match record.kind {
            Kind::Inline | Kind::Sentinel => 0,
            Kind::Tail => PLACE,
            Kind::Spilled => return self.entry(id).0,
        };
        &record.bytes[begin..][..usize::from(record.key_len)]
    }

    #[inline]
    pub(super) fn is_sentinel(&self, id: u32) -> bool {
        self.record(id).kind == Kind::Sentinel
    }

    /// Hash of a key or sentinel. Computed.
    pub(super) fn hash(&self, id: u32) -> Hash {
        let key = self.key(id);
        match key {
            [a, b] if self.is_sentinel(id) => Sentinels::place([*a, *b]),
            _ => self.hash.key(key),
        }
    }

    /// Makes `id` a sentinel.
    pub(super) fn fill_sentinel(&mut self, id: u32, name: [u8; 2]) {
        let record = self.record_mut(id);
        record.fill_inline(&name, &[]);
        (record.kind, record.prefix) = (Kind::Sentinel, prefix(&Sentinels::place(name)));
    }

    /// Stores a key at `id`, which has nothing outside its record.
    #[inline]
    pub(super) fn fill(&mut self, id: u32, key: &[u8], value: &[u8]) {
        if !self.record_mut(id).fill_inline(key, value) {
            self.fill_outside(id, key, value);
        }
    }

    fn fill_outside(&mut self, id: u32, key: &[u8], value: &[u8]) {
        let kind = if is_tail(key.len(), value.len()) { Kind::Tail } else { Kind::Spilled };
        let place = if kind == Kind::Tail { self.tail(value) } else { self.spilled([key, value].concat()) };
        let record = self.record_mut(id);
        (record.key_len, record.value_len, record.kind) = (key.len() as u8, value.len() as u16, kind);
        record.bytes[..PLACE].copy_from_slice(&place.to_le_bytes());
        if kind == Kind::Tail {
            record.bytes[PLACE..][..key.len()].copy_from_slice(key);
        }
    }

    fn tail(&mut self, value: &[u8]) -> u32 {
        let place = self.tails_free.pop().unwrap_or_else(|| {
            if self.tailed as usize == self.tails.len() * CHUNK {
                self.tails.push(chunk([0; TAIL]));
            }
            self.tailed += 1;
            self.tailed - 1
        });
        self.tails[place as usize / CHUNK][place as usize % CHUNK][..value.len()].copy_from_slice(value);
        place
    }

    fn spilled(&mut self, both: Vec<u8>) -> u32 {
        let both = both.into_boxed_slice();
        match self.spill_free.pop() {
            Some(place) => {
                self.spill[place as usize] = both;
                place
            }
            None => {
                self.spill.push(both);
                self.spill.len() as u32 - 1
            }
        }
    }

    /// Replaces a value.
    #[inline]
    pub(super) fn replace(&mut self, id: u32, value: &[u8]) {
        let record = self.record_mut(id);
        if record.replace(value) {
            return;
        }
        let inline = usize::from(record.key_len) + value.len() <= INLINE;
        match record.kind {
            Kind::Tail if !inline && value.len() <= TAIL => {
                record.value_len = value.len() as u16;
                let place = record.place() as usize;
                self.tails[place / CHUNK][place % CHUNK][..value.len()].copy_from_slice(value);
            }
            _ => {
                let key = self.key(id).to_vec();
                self.release(id);
                self.fill(id, &key, value);
            }
        }
    }

    /// Releases what a key has outside its record.
    pub(super) fn release(&mut self, id: u32) {
        let record = self.record_mut(id);
        let place = record.place();
        match record.kind {
            Kind::Inline | Kind::Sentinel => return,
            Kind::Tail => self.tails_free.push(place),
            Kind::Spilled => {
                self.spill[place as usize] = Box::default();
                self.spill_free.push(place);
            }
        }
        let record = self.record_mut(id);
        (record.kind, record.key_len, record.value_len) = (Kind::Inline, 0, 0);
    }

    /// Bytes of the records, and bytes outside them.
    pub(super) fn memory(&self) -> (usize, usize) {
        let words = (self.tails_free.capacity() + self.spill_free.capacity()) * size_of::<u32>();
        let boxes = self.spill.capacity() * size_of::<Box<[u8]>>();
        let spilled: usize = self.spill.iter().map(|both| both.len()).sum();
        let outside = self.tails.len() * CHUNK * TAIL + boxes + spilled + words;
        (self.records.len() * CHUNK * size_of::<Record>(), outside)
    }
}

/// Returns true if a value that does not fit into the record goes to a tail.
const fn is_tail(key: usize, value: usize) -> bool {
    value <= TAIL && key + PLACE <= INLINE
}

fn chunk<T: Clone>(value: T) -> Box<[T; CHUNK]> {
    vec![value; CHUNK].try_into().unwrap_or_else(|_| unreachable!("the vector has the array's length"))
}
