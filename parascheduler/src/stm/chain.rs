//! All versions of one key, and who has read which: pure, one lock above it.
//!
//! ```text
//!            settled        entries, not yet final                 readers, not yet final
//!   tx        < 5       5: =7      8: +2     12: =1 (estimate)      6 saw 7    9 saw 9
//!             value    └ what 6..8 read ┘     └ 13.. must wait
//! ```
//!
//! Transactions leave at the front, in order, when they are final; what they wrote is folded into `settled`. So a chain
//! is as long as speculation is ahead of the commit, however hot the key.

use super::few::Few;

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write<V, C> {
    /// The whole new value.
    Value(V),
    /// An addition that looks at nothing.
    Credit(C),
}

/// # Invariants
/// * Entries and readers ascend by transaction, at most one of each per transaction; no entry is of a final one.
/// * What a listed reader has seen is what the versions below it give *now*, whether they are estimates or not. A change
///   that makes this false takes the reader off the list and hands it to the one who changed; so it is told once.
/// * Where there is a credit, `settled` is known.
#[derive(Debug)]
pub(crate) struct Chain<V, C> {
    /// The value after all final transactions; nothing before somebody has loaded it.
    settled: Option<V>,
    /// Whether a final transaction wrote it.
    written: bool,
    /// How many final readers in a row wrote it too.
    streak: u8,
    entries: Few<Entry<V, C>>,
    readers: Few<Reader<V>>,
    /// Transactions that had to wait here where readers are expected to write; ascending.
    expected: Few<u32>,
}

/// After so many readers in a row that wrote the key too, the next is taken for a writer before it has written.
const STREAK: u8 = 4;

#[derive(Debug)]
struct Entry<V, C> {
    tx: u32,
    /// Its transaction will run again and will probably write here again.
    estimate: bool,
    write: Write<V, C>,
}

#[derive(Debug)]
struct Reader<V> {
    tx: u32,
    incarnation: u32,
    seen: V,
}

/// What a read finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<V> {
    Value(V),
    /// The same as this incarnation has found before.
    Again(V),
    /// An estimate, or probably soon a write, of this transaction comes first.
    Blocked(u32),
    /// Nobody has loaded the value before the run.
    Unloaded,
    /// The credits below do not fit. Never so once they are final.
    Overflow,
}

/// An incarnation of a transaction that has read what is no longer there.
pub(crate) type Displaced = (u32, u32);

impl<V, C> Default for Chain<V, C> {
    fn default() -> Self {
        Self {
            settled: None,
            written: false,
            streak: 0,
            entries: Few::default(),
            readers: Few::default(),
            expected: Few::default(),
        }
    }
}

impl<V: Clone + PartialEq, C: PartialEq> Chain<V, C> {
    pub(crate) const fn settled(&self) -> Option<&V> {
        self.settled.as_ref()
    }

    /// Takes the value before the run; too late if something final is there.
    pub(crate) fn settle(&mut self, base: V) {
        self.settled.get_or_insert(base);
    }

    /// What `tx` finds, noted under its incarnation. The same incarnation finds the same again.
    ///
    /// A first incarnation also waits for a writer that is only guessed: where everybody who reads also writes, the
    /// reader just below is about to make what this one would read worthless. It guesses once, so a wrong guess costs
    /// one attempt.
    pub(crate) fn read(&mut self, tx: u32, incarnation: u32, credited: impl Fn(&V, &C) -> Option<V>) -> Found<V> {
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
        if self.streak >= STREAK && incarnation == 1 {
            let writer = self.probable_writer(tx, at);
            // The next one waits for this one.
            let at = self.expected.partition_point(|other| *other < tx);
            self.expected.insert(at, tx);
            if let Some(writer) = writer {
                return Found::Blocked(writer);
            }
        }
        let found = self.resolve(tx, credited);
        if let Found::Value(seen) = &found {
            let reader = Reader { tx, incarnation, seen: seen.clone() };
            match self.readers.get_mut(at).filter(|_| known) {
                Some(noted) => *noted = reader,
                None => self.readers.insert(at, reader),
            }
        }
        found
    }

    /// The highest transaction below `tx` that will probably write, unless an entry comes between; the reader just
    /// below is at place `at - 1`.
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

    /// `value` and the credits among the entries `from..end`, which are all credits.
    fn add_credits(&self, mut value: V, from: usize, end: usize, credited: impl Fn(&V, &C) -> Option<V>) -> Option<V> {
        for entry in self.entries.range(from..end) {
            if let Write::Credit(credit) = &entry.write {
                value = credited(&value, credit)?;
            }
        }
        Some(value)
    }

    /// The transaction that a read of `tx` would wait for, if any.
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

    /// `tx` writes. Whoever has read something else than it would find now is added to `displaced`.
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

    /// `tx` no longer writes here.
    pub(crate) fn remove(&mut self, tx: u32, credited: impl Fn(&V, &C) -> Option<V>, displaced: &mut Vec<Displaced>) {
        let at = self.entries.partition_point(|entry| entry.tx < tx);
        if self.entries.get(at).is_some_and(|entry| entry.tx == tx) {
            self.entries.remove(at);
            self.displace(tx, at, credited, displaced);
        }
    }

    /// `tx` will run again.
    pub(crate) fn estimate(&mut self, tx: u32) {
        let at = self.entries.partition_point(|entry| entry.tx < tx);
        if let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.tx == tx) {
            entry.estimate = true;
        }
    }

    /// Takes off the readers above `tx` that a change at `tx` left with a wrong value; `above` is the first entry above.
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
        // Where the value is not known, because it overflows or nobody has loaded it, nobody can have seen it.
        let mut value = self.value_below(above, &credited);
        let (mut entry, mut kept, mut at) = (above, first, first);
        'readers: while let Some(reader) = self.readers.get(at) {
            while let Some(between) = self.entries.get(entry).filter(|entry| entry.tx < reader.tx) {
                // What this and later readers see begins here.
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

    /// What the versions below entry `end` give, estimates taken at their word.
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

    /// Whether this incarnation of `tx`, the lowest that is not final, saw what is final now. Its note is taken off.
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

    /// Whether what the lowest transaction `tx` credits here, if it does, fits.
    pub(crate) fn fits(&self, tx: u32, credited: impl Fn(&V, &C) -> Option<V>) -> bool {
        match self.entries.front() {
            Some(Entry { tx: at, write: Write::Credit(credit), .. }) if *at == tx => self.takes(credit, credited),
            _ => true,
        }
    }

    /// Whether `credit` fits onto what is final.
    pub(crate) fn takes(&self, credit: &C, credited: impl Fn(&V, &C) -> Option<V>) -> bool {
        self.settled.as_ref().is_some_and(|value| credited(value, credit).is_some())
    }

    /// What the lowest transaction `tx` wrote is final.
    pub(crate) fn fold(&mut self, tx: u32, credited: impl Fn(&V, &C) -> Option<V>) {
        if self.entries.front().is_some_and(|entry| entry.tx == tx)
            && let Some(entry) = self.entries.remove(0)
        {
            self.apply(entry.write, credited);
        }
    }

    /// A final write. A credit that does not fit, which callers rule out with [`Self::takes`], changes nothing.
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

    /// The final value, if anybody final wrote it.
    pub(crate) fn into_written(self) -> Option<V> {
        self.settled.filter(|_| self.written)
    }
}
