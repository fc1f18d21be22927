//! Records of keys: fixed places of two cache lines each, and what is too long for them.

use std::mem::offset_of;

use phalanx_memory::prefetch;
use phalanx_merkle_proof::{Hash, HashFn, Sentinels};

use crate::types::{Written, copy, prefix};

/// Records, and tails, per chunk. Chunks keep growth free of copies. They are so long, 8 MiB of records, that what an
/// allocator adds to each hardly counts: a quarter of that cost seven bytes more per key, and with huge pages seventeen.
/// Tests have several.
pub(super) const CHUNK: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };

/// Bytes of key and value together that live in the record.
const INLINE: usize = 62;

/// Bytes of a value that lives beside the record: a word of storage.
const TAIL: usize = 32;

/// Bytes of the number of a place outside the record.
const PLACE: usize = 4;

/// A longer key may reach into a record's second line.
const FIRST_LINE: usize = 64 - offset_of!(Record, bytes) - PLACE;

/// Two neighbouring cache lines. Finding a key touches the first one, if it is an account's; a slot's reaches into the
/// second. Preparing an update touches both.
///
/// The key's hash is not among it: its first bytes are what order needs, and who needs the others hashes the key.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(super) struct Record {
    /// Counts the keys that lived here; odd while one does.
    pub(super) generation: u32,
    key_len: u8,
    kind: Kind,
    value_len: u16,
    /// The first bytes of the key's hash.
    pub(super) prefix: u64,
    /// By kind.
    bytes: [u8; INLINE],
    pub(super) written: PackedWritten,
    /// The hash of the next key in the ring.
    pub(super) next: Hash,
}

const _: () = assert!(size_of::<Record>() == 128);

/// What a record's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Key and value.
    Inline,
    /// Sentinels are the same, and no keys.
    Sentinel,
    /// The place of the value in [`RecordSlab::tails`], then the key.
    Tail,
    /// The place of both in [`RecordSlab::spill`].
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
    /// A place that no key ever lived at.
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

    /// Whether a key lives here.
    pub(super) const fn is_alive(&self) -> bool {
        self.generation & 1 == 1
    }

    /// Makes this the record of a key, unless key and value are too long to live in it.
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

    /// Gives the key another value, if that and the old one live here.
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

/// What is too long for records.
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

/// Neighbouring records, which one thread may write.
pub(crate) struct Part<'s> {
    outside: Outside<'s>,
    /// The first record's id.
    first: usize,
    /// Of each chunk what is among them: all, but for the first and the last one.
    slices: Vec<&'s mut [Record]>,
}

impl Part<'_> {
    /// Which of the slices, and where in it.
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

    /// A key's value, its next key, and where it was written. Its record is one of these.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> (&[u8], &Hash, PackedWritten) {
        let (slice, at) = self.place(id);
        let record = &self.slices[slice][at];
        (self.outside.entry(record).1, &record.next, record.written)
    }

    /// Asks the cache for all of a record, which is one of these.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        let (slice, at) = self.place(id);
        let record = &self.slices[slice][at];
        prefetch(record);
        prefetch(&record.next);
    }

    /// Gives a key another value, if that and the old one live in its record, which is one of these.
    #[inline]
    pub(crate) fn replace(&mut self, id: u32, value: &[u8]) -> bool {
        self.record(id).replace(value)
    }

    /// Notes where a key was written, and what its next key is if that is another one. Its record is one of these.
    #[inline]
    pub(crate) fn rewrite(&mut self, id: u32, next: Option<&Hash>, written: impl FnOnce(Written) -> Written) {
        let record = self.record(id);
        record.written = written(record.written.into()).into();
        if let Some(next) = next {
            record.next = *next;
        }
    }
}

/// Records, and what is too long for them.
pub(super) struct RecordSlab {
    hash: HashFn,
    pub(super) records: Vec<Box<[Record; CHUNK]>>,
    tails: Vec<Box<[[u8; TAIL]; CHUNK]>>,
    /// Tails ever used.
    tailed: u32,
    tails_free: Vec<u32>,
    /// Key then value.
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

    /// Makes room for so many records.
    pub(super) fn reserve(&mut self, records: usize) {
        while self.records.len() * CHUNK < records {
            self.records.push(chunk(Record::EMPTY));
        }
    }

    pub(super) const fn hash_fn(&self) -> HashFn {
        self.hash
    }

    /// The records of neighbouring ids, up to `most` at a time, to be written by several threads.
    pub(super) fn slices(&mut self, first: u32, end: u32, most: usize) -> impl Iterator<Item = &mut [Record]> {
        let (first, end) = (first as usize, end as usize);
        self.records.iter_mut().enumerate().skip(first / CHUNK).flat_map(move |(at, chunk)| {
            let [from, to] = [first, end].map(|id| id.saturating_sub(at * CHUNK).min(CHUNK));
            chunk[from..to].chunks_mut(most)
        })
    }

    /// The records of ids below `end` in parts of `each`.
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

    /// The record, if there ever was one of this id.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Record> {
        self.records.get(id as usize / CHUNK).map(|chunk| &chunk[id as usize % CHUNK])
    }

    /// Asks the cache for all of a record.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        let record = self.record(id);
        prefetch(record);
        prefetch(&record.next);
    }

    /// Asks the cache for what a lookup of a key of this length reads; without one, for what is at the beginning.
    #[inline]
    pub(super) fn prefetch_entry(&self, id: u32, key_len: usize) {
        let record = self.record(id);
        prefetch(record);
        if Self::may_be_outside(key_len) {
            prefetch(&record.next);
        }
    }

    /// Whether a key of this length reaches into its record's second line, and the values of such keys may be too long for it:
    /// slots.
    #[inline]
    pub(super) const fn may_be_outside(key_len: usize) -> bool {
        key_len > FIRST_LINE
    }

    /// Asks the cache for where a record that is in it has its value, if that is outside.
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

    /// The hash that a key, or sentinel, stands at. Computed: a hash of the key.
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

    /// Makes `id`, which holds nothing outside its record, the place of a key.
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

    /// Gives a key another value.
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

    /// Frees what a key holds outside its record.
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

    /// Bytes of records, and of what lives outside them.
    pub(super) fn memory(&self) -> (usize, usize) {
        let words = (self.tails_free.capacity() + self.spill_free.capacity()) * size_of::<u32>();
        let boxes = self.spill.capacity() * size_of::<Box<[u8]>>();
        let spilled: usize = self.spill.iter().map(|both| both.len()).sum();
        let outside = self.tails.len() * CHUNK * TAIL + boxes + spilled + words;
        (self.records.len() * CHUNK * size_of::<Record>(), outside)
    }
}

/// Whether a value that does not fit into its key's record lives in a tail.
const fn is_tail(key: usize, value: usize) -> bool {
    value <= TAIL && key + PLACE <= INLINE
}

fn chunk<T: Clone>(value: T) -> Box<[T; CHUNK]> {
    vec![value; CHUNK].try_into().unwrap_or_else(|_| unreachable!("the vector has the array's length"))
}
