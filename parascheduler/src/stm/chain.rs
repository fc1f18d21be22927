//! All versions of one key, and the transactions that have read each. Pure; the caller holds the key's lock.
//!
//! ```text
//!            settled        entries, not yet final                 readers, not yet final
//!   tx        < 5       5: =7      8: +2     12: =1 (estimate)      6 saw 7    9 saw 9
//!             value    └ what 6..8 read ┘     └ 13.. must wait
//! ```
//!
//! Final transactions leave at the front, in order, and their writes are folded into `settled`. So a chain is as long as
//! speculation is ahead of the commit, however hot the key.

use super::small_deque::SmallDeque;

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write<V, C> {
    /// The whole new value.
    Value(V),
    /// An addition that reads nothing.
    Credit(C),
}

/// Versions and readers of one key.
///
/// # Invariants
/// * Entries and readers ascend by transaction, at most one of each per transaction; no entry is of a final one.
/// * A listed reader has seen what the versions below it give *now*, whether they are estimates or not. A change that makes
///   this false takes the reader off the list and hands it to the changing thread; so it is invalidated once.
/// * Where there is a credit, `settled` is known.
#[derive(Debug)]
pub(crate) struct Chain<V, C> {
    /// Value after all final transactions; [`None`] until it is loaded.
    settled: Option<V>,
    /// True if a final transaction wrote it.
    written: bool,
    /// Number of final readers in a row that wrote it too.
    streak: u8,
    entries: SmallDeque<Entry<V, C>>,
    readers: SmallDeque<Noted<V>>,
    /// Transactions that wait here, where readers are expected to write; ascending.
    expected: SmallDeque<u32>,
}

/// Readers in a row that wrote the key too, after which the next reader counts as a writer before it has written.
const STREAK: u8 = 4;

#[derive(Debug)]
struct Entry<V, C> {
    tx: u32,
    /// True if its transaction will run again; it will probably write here again.
    estimate: bool,
    write: Write<V, C>,
}

#[derive(Debug)]
struct Noted<V> {
    tx: u32,
    incarnation: u32,
    seen: V,
}

/// Execution that reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) tx: u32,
    pub(crate) incarnation: u32,
    /// True if a guess may still cost it an attempt.
    pub(crate) is_first: bool,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<V> {
    Value(V),
    /// The value that this incarnation has read before.
    Again(V),
    /// An estimate of this transaction comes first, or probably soon a write.
    Blocked(u32),
    /// The value before the run is not loaded.
    Unloaded,
    /// The credits below do not fit. Never the case once they are final.
    Overflow,
}

/// A transaction and its incarnation that has read a value that has changed.
pub(crate) type Displaced = (u32, u32);

impl<V, C> Default for Chain<V, C> {
    fn default() -> Self {
        Self {
            settled: None,
            written: false,
            streak: 0,
            entries: SmallDeque::default(),
            readers: SmallDeque::default(),
            expected: SmallDeque::default(),
        }
    }
}

impl<V: Clone + PartialEq, C: PartialEq> Chain<V, C> {
    pub(crate) const fn settled(&self) -> Option<&V> {
        self.settled.as_ref()
    }

    /// Sets the value before the run, unless a final value is there.
    pub(crate) fn settle(&mut self, base: V) {
        self.settled.get_or_insert(base);
    }

    /// Reads for a transaction, and lists it as a reader under its incarnation. The same incarnation reads the same value again.
    ///
    /// A first attempt also waits for a probable writer. Where all readers also write, the reader just below is about to
    /// change the value that this one would read. It waits on such a guess once, so a wrong guess costs one attempt.
    pub(crate) fn read(&mut self, reader: Reader, credited: impl Fn(&V, &C) -> Option<V>) -> Found<V> {
        let Reader { tx, incarnation, is_first } = reader;
        let at = match self.readers.back() {
            Some(last) if last.tx >= tx => self.readers.partition_point(|reader| reader.tx < tx),
            _ => self.readers.len(),
        };
        let known = self.readers.get(at).filter(|reader| reader.tx == tx);
        if let Some(reader) = known
            && reader.incarnation == incarnation
        {
            return Found::Again(reader.seen.clone());
        }
        let known = known.is_some();
        if self.streak >= STREAK && is_first {
            let writer = self.probable_writer(tx, at);
            // The next transaction waits for this one.
            let at = self.expected.partition_point(|other| *other < tx);
            if self.expected.get(at) != Some(&tx) {
                self.expected.insert(at, tx);
            }
            if let Some(writer) = writer {
                return Found::Blocked(writer);
            }
        }
        let found = self.resolve(tx, credited);
        if let Found::Value(seen) = &found {
            let reader = Noted { tx, incarnation, seen: seen.clone() };
            match self.readers.get_mut(at).filter(|_| known) {
                Some(noted) => *noted = reader,
                None => self.readers.insert(at, reader),
            }
        }
        found
    }

    /// Returns the highest transaction below `tx` that will probably write, unless an entry comes between. The reader just
    /// below is at index `at - 1`.
    fn probable_writer(&self, tx: u32, at: usize) -> Option<u32> {
        let reader = at.checked_sub(1).and_then(|below| self.readers.get(below)).map(|reader| reader.tx);
        let expected = self
            .expected
            .partition_point(|other| *other < tx)
            .checked_sub(1)
            .and_then(|at| self.expected.get(at))
            .copied();
        let writer = reader.max(expected)?;
        let below = self.entries.partition_point(|entry| entry.tx < tx).checked_sub(1);
        let entry = below.and_then(|at| self.entries.get(at)).map(|entry| entry.tx);
        (entry < Some(writer)).then_some(writer)
    }

    fn resolve(&self, tx: u32, credited: impl Fn(&V, &C) -> Option<V>) -> Found<V> {
        let end = self.entries.partition_point(|entry| entry.tx < tx);
        let mut from = end;
        let mut value = self.settled.as_ref();
        while let Some(entry) = from.checked_sub(1).and_then(|below| self.entries.get(below)) {
            if entry.estimate {
                return Found::Blocked(entry.tx);
            }
            if let Write::Value(written) = &entry.write {
                value = Some(written);
                break;
            }
            from -= 1;
        }
        let Some(value) = value else { return Found::Unloaded };
        self.add_credits(value.clone(), from, end, credited).map_or(Found::Overflow, Found::Value)
    }

    /// Adds the entries `from..end`, which are all credits, to `value`.
    fn add_credits(&self, mut value: V, from: usize, end: usize, credited: impl Fn(&V, &C) -> Option<V>) -> Option<V> {
        for entry in self.entries.range(from..end) {
            if let Write::Credit(credit) = &entry.write {
                value = credited(&value, credit)?;
            }
        }
        Some(value)
    }

    /// Returns the transaction that a read of `tx` would wait for, if any.
    pub(crate) fn blocker(&self, tx: u32) -> Option<u32> {
        let end = self.entries.partition_point(|entry| entry.tx < tx);
        for entry in self.entries.range(0..end).rev() {
            if entry.estimate {
                return Some(entry.tx);
            }
            if matches!(entry.write, Write::Value(_)) {
                return None;
            }
        }
        None
    }

    /// Puts a write of `tx`. Adds readers whose value has changed to `displaced`.
    pub(crate) fn put(
        &mut self,
        tx: u32,
        write: Write<V, C>,
        credited: impl Fn(&V, &C) -> Option<V>,
        displaced: &mut Vec<Displaced>,
    ) {
        let at = self.entries.partition_point(|entry| entry.tx < tx);
        match self.entries.get_mut(at).filter(|entry| entry.tx == tx) {
            Some(entry) => {
                entry.estimate = false;
                if entry.write == write {
                    return;
                }
                entry.write = write;
            }
            None => self.entries.insert(at, Entry { tx, estimate: false, write }),
        }
        self.displace(tx, at + 1, credited, displaced);
    }

    /// Removes the write of `tx`, which no longer writes here.
    pub(crate) fn remove(&mut self, tx: u32, credited: impl Fn(&V, &C) -> Option<V>, displaced: &mut Vec<Displaced>) {
        let at = self.entries.partition_point(|entry| entry.tx < tx);
        if self.entries.get(at).is_some_and(|entry| entry.tx == tx) {
            self.entries.remove(at);
            self.displace(tx, at, credited, displaced);
        }
    }

    /// Marks the entry of `tx`, which will run again, as an estimate.
    pub(crate) fn estimate(&mut self, tx: u32) {
        let at = self.entries.partition_point(|entry| entry.tx < tx);
        if let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.tx == tx) {
            entry.estimate = true;
        }
    }

    /// Takes the readers above `tx` off the list whose value a change at `tx` has changed. `above` is the first entry above.
    fn displace(
        &mut self,
        tx: u32,
        above: usize,
        credited: impl Fn(&V, &C) -> Option<V>,
        displaced: &mut Vec<Displaced>,
    ) {
        let first = self.readers.partition_point(|reader| reader.tx <= tx);
        if first == self.readers.len() {
            return;
        }
        // A value that overflows or is not loaded has no reader.
        let mut value = self.value_below(above, &credited);
        let (mut entry, mut kept, mut at) = (above, first, first);
        'readers: while let Some(reader) = self.readers.get(at) {
            while let Some(between) = self.entries.get(entry).filter(|entry| entry.tx < reader.tx) {
                // This and later readers see a value from here on.
                let Write::Credit(credit) = &between.write else { break 'readers };
                value = value.and_then(|value| credited(&value, credit));
                entry += 1;
            }
            if value.as_ref() == Some(&reader.seen) {
                self.readers.swap(kept, at);
                kept += 1;
            } else {
                displaced.push((reader.tx, reader.incarnation));
            }
            at += 1;
        }
        self.readers.cut(kept..at);
    }

    /// Value of the versions below entry `end`, estimates included.
    fn value_below(&self, end: usize, credited: impl Fn(&V, &C) -> Option<V>) -> Option<V> {
        let mut from = end;
        let mut value = self.settled.as_ref();
        while let Some(entry) = from.checked_sub(1).and_then(|below| self.entries.get(below)) {
            if let Write::Value(written) = &entry.write {
                value = Some(written);
                break;
            }
            from -= 1;
        }
        self.add_credits(value?.clone(), from, end, credited)
    }

    /// Returns true if this incarnation of `tx`, the lowest transaction that is not final, read the value that is final now.
    /// Takes it off the list of readers.
    pub(crate) fn confirm(&mut self, tx: u32, incarnation: u32) -> bool {
        let writes = self.entries.front().is_some_and(|entry| entry.tx == tx);
        self.streak = if writes { self.streak.saturating_add(1) } else { 0 };
        while self.expected.front().is_some_and(|other| *other <= tx) {
            self.expected.remove(0);
        }
        while let Some(reader) = self.readers.front().filter(|reader| reader.tx <= tx) {
            let confirmed = reader.tx == tx && reader.incarnation == incarnation;
            let confirmed = confirmed && self.settled.as_ref() == Some(&reader.seen);
            self.readers.remove(0);
            if confirmed {
                return true;
            }
        }
        false
    }

    /// Returns true if the credit of the lowest transaction `tx` fits, if there is one.
    pub(crate) fn fits(&self, tx: u32, credited: impl Fn(&V, &C) -> Option<V>) -> bool {
        match self.entries.front() {
            Some(Entry { tx: at, write: Write::Credit(credit), .. }) if *at == tx => self.takes(credit, credited),
            _ => true,
        }
    }

    /// Returns true if `credit` fits onto the final value.
    pub(crate) fn takes(&self, credit: &C, credited: impl Fn(&V, &C) -> Option<V>) -> bool {
        self.settled.as_ref().is_some_and(|value| credited(value, credit).is_some())
    }

    /// Makes the write of the lowest transaction `tx` final.
    pub(crate) fn fold(&mut self, tx: u32, credited: impl Fn(&V, &C) -> Option<V>) {
        if self.entries.front().is_some_and(|entry| entry.tx == tx)
            && let Some(entry) = self.entries.remove(0)
        {
            self.apply(entry.write, credited);
        }
    }

    /// Applies a final write. A credit that does not fit, which callers rule out with [`Self::takes`], changes nothing.
    pub(crate) fn apply(&mut self, write: Write<V, C>, credited: impl Fn(&V, &C) -> Option<V>) {
        let value = match write {
            Write::Value(value) => Some(value),
            Write::Credit(credit) => self.settled.as_ref().and_then(|value| credited(value, &credit)),
        };
        if value.is_some() {
            self.settled = value;
            self.written = true;
        }
    }

    /// Returns the final value, if a final transaction wrote it.
    pub(crate) fn into_written(self) -> Option<V> {
        self.settled.filter(|_| self.written)
    }
}
