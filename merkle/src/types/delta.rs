//! The changes of a block in any order, as runs of operations in flat arenas.

use super::limits::MAX_CODE_LEN;
use std::sync::Arc;

use phalanx_memory::{prefetch, prefetch_write};
use phalanx_merkle_proof::{MAX_KEY_LEN, MAX_VALUE_LEN};

use super::{bytes::copy, error::Error, locator::Locator};

/// Maximum operations of a run, a power of two: an operation's number is made of its run's and its place in the run.
pub(crate) const RUN: usize = 4096;

/// Operations between the prefetch of their memory and the write to it.
const WRITE_LOOKAHEAD: usize = 8;

/// Operations below which a run is copied to the end of the run before it, if it fits there.
const SHORT: usize = RUN / 8;

/// Maximum runs of a delta: operations have numbers of 30 bits.
pub(crate) const MAX_RUNS: usize = (1 << 30) / RUN;

/// Changes of a block, in any order, in flat arenas: a hundred thousand updates are some tens of allocations.
///
/// A key may be given several times, by name or by locator; the last operation counts. An operation that leaves its key
/// unchanged, such as a put of the current value or a delete of an absent key, does not enter the commitment.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Runs of a few thousand operations, so that deltas are joined without copying them.
    runs: Vec<Run>,
    len: usize,
    pub(crate) codes: Vec<([u8; 32], Arc<[u8]>)>,
    /// First key, value or code beyond its maximum length; `prepare` reports it.
    too_long: Option<(&'static str, usize, usize)>,
}

/// Key of an operation: by its bytes, or by a locator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    Key(&'a [u8]),
    At(Locator),
}

/// Up to [`RUN`] consecutive operations.
#[derive(Clone, Debug, Default)]
struct Run {
    /// Keys, and values too long to be stored in their operation.
    bytes: Vec<u8>,
    ops: Vec<Op>,
}

/// Maximum length of a value that is stored in its operation: a word, or almost any account without code.
const SHORT_VALUE: usize = 40;

/// Operation in one cache line: updating located keys with short values in random order touches no other line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Op {
    /// Target of an operation without key bytes.
    locator: Option<Locator>,
    /// Offset of the key, if any, and then of a long value, in the run's bytes.
    at: u32,
    value_len: u16,
    key_len: u8,
    kind: Kind,
    /// The value, if it is short.
    value: [u8; SHORT_VALUE],
}

const _: () = assert!(size_of::<Op>() == 64);
const _: () = assert!(RUN * (u8::MAX as usize + u16::MAX as usize) <= u32::MAX as usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    /// Put of a value that differs from the current one.
    Change,
    Delete,
}

/// Reference to one operation of a delta.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'d> {
    bytes: &'d [u8],
    op: &'d Op,
}

impl<'d> Operation<'d> {
    #[inline]
    pub(crate) fn target(self) -> Target<'d> {
        match self.op.locator {
            Some(locator) => Target::At(locator),
            None => Target::Key(&self.bytes[self.op.at as usize..][..usize::from(self.op.key_len)]),
        }
    }

    /// Value of a put; `None` for a delete.
    #[inline]
    pub(crate) fn value(self) -> Option<&'d [u8]> {
        let (len, key_len) = (usize::from(self.op.value_len), usize::from(self.op.key_len));
        self.is_put().then(|| match self.op.value.get(..len) {
            Some(value) => value,
            None => &self.bytes[self.op.at as usize + key_len..][..len],
        })
    }

    #[inline]
    pub(crate) const fn is_put(self) -> bool {
        matches!(self.op.kind, Kind::Put | Kind::Change)
    }

    /// Located key whose value the operation changes, according to the caller.
    #[inline]
    pub(crate) fn changes(self) -> Option<Locator> {
        self.op.locator.filter(|_| self.op.kind == Kind::Change)
    }

    /// Prefetches the key and a long value.
    #[inline]
    pub(crate) fn prefetch_bytes(self) {
        if (self.op.key_len > 0 || usize::from(self.op.value_len) > SHORT_VALUE)
            && let Some(byte) = self.bytes.get(self.op.at as usize)
        {
            prefetch(byte);
        }
    }

    /// Prefetches the operation itself.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch(self.op);
    }
}

impl Delta {
    /// Bytes that the delta takes.
    pub(crate) fn memory(&self) -> usize {
        let runs = self.runs.iter().map(|run| run.bytes.capacity() + run.ops.capacity() * size_of::<Op>());
        runs.sum::<usize>() + self.codes.iter().map(|(_, code)| code.len()).sum::<usize>()
    }

    /// Creates an empty delta.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty delta for `ops` operations, with room for the first run.
    pub fn with_capacity(ops: usize) -> Self {
        let run = Run { bytes: Vec::new(), ops: Vec::with_capacity(ops.min(RUN)) };
        Self { runs: vec![run], ..Self::default() }
    }

    /// Sets the value of `key`.
    ///
    /// A key beyond [`MAX_KEY_LEN`] or a value beyond [`MAX_VALUE_LEN`] makes preparing the delta fail.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(Kind::Put, None, key, value);
    }

    /// Sets the value of the located key, without the key's bytes and without another lookup.
    #[inline]
    pub fn put_at(&mut self, locator: Locator, value: &[u8]) {
        self.push(Kind::Put, Some(locator), &[], value);
    }

    /// Sets the value of the located key, for a caller that knows that it differs from the current one.
    ///
    /// Unlike with [`Self::put_at`], the current value need not be read first. Preparing the delta fails with
    /// [`Error::Unchanged`] if the value is the same after all, and with [`Error::StaleLocator`] if the locator is
    /// stale. An operation that a later one on its key supersedes may go unchecked.
    #[inline]
    pub fn change_at(&mut self, locator: Locator, value: &[u8]) {
        self.push(Kind::Change, Some(locator), &[], value);
    }

    /// Removes `key`.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) {
        self.push(Kind::Delete, None, key, &[]);
    }

    /// Removes the located key.
    #[inline]
    pub fn delete_at(&mut self, locator: Locator) {
        self.push(Kind::Delete, Some(locator), &[], &[]);
    }

    /// Adds contract code under its hash.
    ///
    /// Code is content addressed and outside the commitment: the values that name the hash bind it. The caller checks
    /// that the hash is the code's.
    pub fn put_code(&mut self, hash: [u8; 32], code: impl Into<Arc<[u8]>>) {
        let code = code.into();
        if code.len() > MAX_CODE_LEN {
            self.too_long.get_or_insert(("code", code.len(), MAX_CODE_LEN));
            return;
        }
        self.codes.push((hash, code));
    }

    /// Appends the operations and codes of `later`. Runs of 512 operations and more are not copied.
    pub fn append(&mut self, later: Self) {
        let Self { runs, len, codes, too_long } = later;
        for run in runs {
            match self.runs.last_mut() {
                Some(last) if last.ops.is_empty() => *last = run,
                Some(last) if run.ops.len() < SHORT && last.ops.len() + run.ops.len() <= RUN => last.extend(&run),
                _ => self.runs.push(run),
            }
        }
        self.len += len;
        self.codes.extend(codes);
        self.too_long = self.too_long.or(too_long);
    }

    /// Number of operations.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no operation and no code.
    pub const fn is_empty(&self) -> bool {
        self.len == 0 && self.codes.is_empty()
    }

    /// Removes all operations and codes; keeps the memory of one run.
    pub fn clear(&mut self) {
        self.runs.truncate(1);
        for run in &mut self.runs {
            run.bytes.clear();
            run.ops.clear();
        }
        self.len = 0;
        self.codes.clear();
        self.too_long = None;
    }

    #[inline]
    fn push(&mut self, kind: Kind, locator: Option<Locator>, key: &[u8], value: &[u8]) {
        let (Ok(key_len), Ok(value_len)) = (u8::try_from(key.len()), u16::try_from(value.len())) else {
            return self.refuse(key, value);
        };
        let Run { bytes, ops } = match self.runs.last_mut() {
            Some(run) if run.ops.len() < RUN => run,
            _ => self.begin_run(),
        };
        // Another core may have the memory of the last deltas in its cache.
        ops.spare_capacity_mut().get(WRITE_LOOKAHEAD).into_iter().for_each(prefetch_write);
        // The value is written in place: a copy would stall until the words just written in parts have left the store buffer.
        let at = bytes.len() as u32;
        let op = ops.push_mut(Op { locator, at, value_len, key_len, kind, value: [0; SHORT_VALUE] });
        bytes.extend_from_slice(key);
        match op.value.get_mut(..value.len()) {
            Some(short) => copy(short, value),
            None => bytes.extend_from_slice(value),
        }
        self.len += 1;
    }

    /// Begins a run, with room for as many bytes as the run before has.
    #[cold]
    fn begin_run(&mut self) -> &mut Run {
        let run = self.runs.last().map_or_else(Run::default, |full| Run {
            bytes: Vec::with_capacity(full.bytes.len() + full.bytes.len() / 16),
            ops: Vec::with_capacity(RUN),
        });
        self.runs.push_mut(run)
    }

    #[cold]
    fn refuse(&mut self, key: &[u8], value: &[u8]) {
        self.too_long.get_or_insert(if key.len() > MAX_KEY_LEN {
            ("key", key.len(), MAX_KEY_LEN)
        } else {
            ("value", value.len(), MAX_VALUE_LEN)
        });
    }

    /// Checks that the delta fits the format.
    ///
    /// # Errors
    /// [`Error::TooLong`] if something is too long, or if there are more runs than can be numbered. The error's maximum
    /// is the number of operations that always fits, however the runs were joined.
    pub(crate) const fn check(&self) -> Result<(), Error> {
        if let Some((what, len, max)) = self.too_long {
            return Err(Error::TooLong { what, len, max });
        }
        if self.runs.len() > MAX_RUNS {
            return Err(Error::TooLong { what: "delta", len: self.len, max: MAX_RUNS * SHORT / 2 });
        }
        Ok(())
    }

    /// Number of runs.
    #[inline]
    pub(crate) const fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Operations of a run; the first has the number `run * RUN`.
    #[inline]
    pub(crate) fn run(&self, run: usize) -> impl ExactSizeIterator<Item = Operation<'_>> + Clone {
        let Run { bytes, ops } = &self.runs[run];
        ops.iter().map(|op| Operation { bytes, op })
    }

    /// All operations, in order.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        (0..self.runs.len()).flat_map(|run| self.run(run))
    }

    /// Operation of this number.
    #[inline]
    pub(crate) fn at(&self, number: usize) -> Operation<'_> {
        let Run { bytes, ops } = &self.runs[number / RUN];
        Operation { bytes, op: &ops[number % RUN] }
    }
}

impl Run {
    fn extend(&mut self, later: &Self) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&later.bytes);
        self.ops.extend(later.ops.iter().map(|op| Op { at: start + op.at, ..*op }));
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    type Seen = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn seen<'d>(operations: impl Iterator<Item = Operation<'d>>) -> Seen {
        let one = |op: Operation<'_>| match op.target() {
            Target::Key(key) => (key.to_vec(), op.value().map(<[u8]>::to_vec)),
            Target::At(_) => unreachable!("none is located"),
        };
        operations.map(one).collect()
    }

    /// Puts `count` random operations into the delta and the model.
    fn fill(rng: &mut rand_chacha::ChaCha8Rng, count: usize, delta: &mut Delta, model: &mut Seen) {
        for _ in 0..count {
            let key = vec![rng.random(); rng.random_range(0..=MAX_KEY_LEN)];
            let value = rng.random_bool(0.9).then(|| vec![rng.random(); rng.random_range(0..100)]);
            match &value {
                Some(value) => delta.put(&key, value),
                None => delta.delete(&key),
            }
            model.push((key, value));
        }
    }

    #[test]
    fn joined_deltas_equal_a_single_delta() {
        for seed in 0..20 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut delta, mut model) = (Delta::with_capacity(rng.random_range(0..2 * RUN)), Seen::new());
            for _ in 0..12 {
                let count = [0, 1, 100, SHORT - 1, SHORT, RUN - 1, RUN, 2 * RUN + 7][rng.random_range(0..8)];
                if rng.random() {
                    fill(&mut rng, count, &mut delta, &mut model);
                } else {
                    let mut later = Delta::new();
                    fill(&mut rng, count, &mut later, &mut model);
                    delta.append(later);
                }
            }
            assert_eq!(delta.len(), model.len(), "seed {seed}");
            assert!(seen(delta.operations()) == model, "seed {seed}");
            let numbers = (0..delta.runs()).flat_map(|run| (run * RUN..).take(delta.run(run).len()));
            assert!(seen(numbers.map(|number| delta.at(number))) == model, "seed {seed}");
            assert!(delta.runs() <= 2 * model.len() / SHORT + 1, "seed {seed}: {} runs", delta.runs());
            delta.clear();
            assert!(delta.is_empty() && delta.operations().next().is_none(), "seed {seed}");
        }
    }

    #[test]
    fn many_small_deltas_join_into_few_runs() {
        let mut delta = Delta::new();
        for number in 0..3 * RUN as u32 {
            let mut one = Delta::new();
            one.put(&number.to_be_bytes(), &[]);
            delta.append(one);
        }
        assert_eq!((delta.len(), delta.runs()), (3 * RUN, 3));
    }

    #[test]
    fn a_delta_with_a_long_key_stays_refused_after_joining() {
        let mut long = Delta::new();
        long.put(&[0; MAX_KEY_LEN + 1], &[]);
        let mut delta = Delta::new();
        delta.put(b"key", b"value");
        assert!(delta.check().is_ok());
        delta.append(long);
        assert!(matches!(delta.check(), Err(Error::TooLong { what: "key", .. })));
    }
}
