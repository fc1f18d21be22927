//! Current value of every key of a block. With an exact DAG one value per key is enough, without versions.

use crate::state::Value;
use crate::state::{CodeId, Origin, StateError, StateRef};
use alloy_primitives::U256;
use core::{
    cell::UnsafeCell,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};
use phalanx_access::{Access, KeyId};
use phalanx_memory::{Pooled, Reuse, prefetch, prefetch_write};
use phalanx_paralyze::StateKey;
use rayon::prelude::*;

/// Number of keys per parallel chunk when a block is loaded.
pub(crate) const LOAD_PIECE: usize = 1024;

/// Part of a cell that creditors do not change.
#[derive(Clone, Copy, Debug, Default)]
struct Fixed {
    nonce: u64,
    code: CodeId,
    exists: bool,
    /// True if the number was not zero when it was last written.
    funded: bool,
    dirty: bool,
    /// True if some write of the block changed the code.
    recoded: bool,
}

/// Part of an account that a creditor may see: other creditors do not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) nonce: u64,
    pub(crate) code: CodeId,
    /// True if the account had a balance when it was last written, which it keeps.
    pub(crate) funded: bool,
    exists: bool,
}

impl Outline {
    /// True if the account was empty when it was last written (EIP-161).
    pub(crate) const fn is_empty(self) -> bool {
        self.nonce == 0 && self.code.is_none() && !self.funded
    }

    /// True if the account existed and was empty when it was last written.
    pub(crate) const fn is_hollow(self) -> bool {
        self.exists && self.is_empty()
    }
}

/// Value of one key, in a cache line of its own so that neighbours do not share one.
#[repr(align(64))]
struct Cell {
    number: UnsafeCell<U256>,
    fixed: UnsafeCell<Fixed>,
    /// Held while a credit is added.
    lock: AtomicBool,
    /// Set by the first credit after the last write.
    credited: AtomicBool,
}

/// All cells of a block, by [`KeyId`].
///
/// # Invariants
/// Accesses follow the predicted sets that the block's DAG was built from: a writer is alone with its cell, readers share
/// it, creditors share it among themselves. [`super::dag::view::View`] lets no other access through, but for what is paid into
/// the beneficiary's cell before a look at it, when nothing else can have it. That is what makes the unchecked accesses below
/// sound.
#[derive(Default)]
pub(crate) struct Cells {
    memory: Pooled<CellMemory>,
    /// Number of cells that the block has; the memory beyond is an earlier block's.
    len: usize,
}

/// Cells and origins, as many of each. Origins are apart because transactions do not read them.
#[derive(Default)]
pub(crate) struct CellMemory {
    cells: Vec<Cell>,
    origins: Vec<Origin>,
}

impl Reuse for CellMemory {
    /// Does nothing: [`Cells::load_more`] overwrites the memory.
    fn clear(&mut self) {}

    fn capacity(&self) -> usize {
        self.cells.capacity()
    }
}

impl From<Pooled<CellMemory>> for Cells {
    fn from(memory: Pooled<CellMemory>) -> Self {
        Self { memory, len: 0 }
    }
}

#[expect(unsafe_code, reason = "shared mutation, ordered by the DAG")]
// SAFETY: all shared access goes through the unsafe functions of `Cells`, whose callers exclude conflicts.
unsafe impl Sync for Cells {}

impl core::fmt::Debug for Cells {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cells").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Cells {
    /// Removes all cells, and keeps the memory.
    pub(crate) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends a cell with the committed value for each of `keys`, in the current rayon pool.
    pub(crate) fn load_more(&mut self, state: StateRef<'_>, keys: &[StateKey]) -> Result<(), StateError> {
        let start = self.len;
        self.len += keys.len();
        let (CellMemory { cells, origins }, end) = (&mut *self.memory, self.len);
        if cells.len() < end {
            cells.resize_with(end, || Cell::new(Value::default()));
            origins.resize(end, Origin::default());
        }
        let cells = cells[start..end].par_chunks_mut(LOAD_PIECE);
        let origins = origins[start..end].par_chunks_mut(LOAD_PIECE);
        let pieces = cells.zip(origins).zip(keys.par_chunks(LOAD_PIECE));
        // An idle worker may take over at any of them.
        pieces.with_max_len(1).try_for_each(|((cells, origins), keys)| {
            let mut cells = cells.iter_mut().zip(origins);
            state.load_many(keys, |value, from| {
                if let Some((cell, origin)) = cells.next() {
                    cell.reset(&value);
                    *origin = from;
                }
            })
        })
    }

    /// The cells while no transaction runs.
    pub(crate) const fn still(&mut self) -> Still<'_> {
        Still(self)
    }

    /// Credits like [`Self::credit`], while no transaction runs.
    #[expect(unsafe_code, reason = "nothing is shared")]
    pub(crate) fn pay(&mut self, id: KeyId, amount: U256) -> bool {
        // SAFETY: the exclusive borrow excludes every other access.
        unsafe { self.credit(id, amount) }
    }

    /// Replaces the loaded value of `id` by the value that the block gave it before.
    pub(crate) fn preset(&mut self, id: KeyId, value: Value) {
        self.memory.cells[id.index()] = Cell::new(value);
    }

    /// Prefetches a cell for an access of this kind.
    #[inline]
    pub(crate) fn prefetch(&self, id: KeyId, access: Access) {
        let cell = &self.memory.cells[id.index()];
        match access {
            Access::Read => prefetch(cell),
            Access::Write | Access::Credit => prefetch_write(cell),
        }
    }

    /// # Safety
    /// The running transaction holds a read or a write of `id`, and its predecessors in the DAG have finished.
    #[inline]
    #[expect(unsafe_code, reason = "shared reads, ordered by the DAG")]
    pub(crate) unsafe fn load(&self, id: KeyId) -> Value {
        let cell = &self.memory.cells[id.index()];
        // SAFETY: neither writers nor creditors are active, by the caller's promise.
        let (number, fixed) = unsafe { (*cell.number.get(), *cell.fixed.get()) };
        let exists = fixed.exists || cell.credited.load(Ordering::Relaxed);
        Value { number, nonce: fixed.nonce, code: fixed.code, exists, incarnation: 0 }
    }

    /// Part of an account that a creditor may see.
    ///
    /// # Safety
    /// The running transaction holds some access of `id`, and its predecessors in the DAG have finished.
    #[inline]
    #[expect(unsafe_code, reason = "shared reads, ordered by the DAG")]
    pub(crate) unsafe fn outline(&self, id: KeyId) -> Outline {
        // SAFETY: no writer is active, by the caller's promise; creditors leave this part alone.
        let Fixed { nonce, code, funded, exists, .. } = unsafe { *self.memory.cells[id.index()].fixed.get() };
        Outline { nonce, code, funded, exists }
    }

    /// # Safety
    /// The running transaction holds a write of `id`, and its predecessors in the DAG have finished.
    #[inline]
    #[expect(unsafe_code, reason = "shared mutation, ordered by the DAG")]
    pub(crate) unsafe fn store(&self, id: KeyId, value: Value) {
        let cell = &self.memory.cells[id.index()];
        // SAFETY: no other thread accesses the cell, by the caller's promise.
        let (number, fixed) = unsafe { (&mut *cell.number.get(), &mut *cell.fixed.get()) };
        let recoded = fixed.recoded || fixed.code != value.code;
        *number = value.number;
        let funded = !value.number.is_zero();
        *fixed = Fixed { nonce: value.nonce, code: value.code, exists: value.exists, funded, dirty: true, recoded };
        cell.credited.store(false, Ordering::Relaxed);
    }

    /// Adds to a balance. Returns false if the sum would pass 2^256, with nothing changed.
    ///
    /// # Safety
    /// The running transaction holds a credit or a write of `id`, and its predecessors in the DAG have finished. Or no
    /// other thread accesses the cell.
    #[inline]
    #[expect(unsafe_code, reason = "shared mutation, ordered by the DAG and a lock")]
    pub(crate) unsafe fn credit(&self, id: KeyId, amount: U256) -> bool {
        let cell = &self.memory.cells[id.index()];
        // A few instructions are guarded, so the holder is gone sooner than a thread could park.
        while cell.lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
        }
        // SAFETY: creditors exclude each other by the lock, all others by the caller's promise.
        let number = unsafe { &mut *cell.number.get() };
        let sum = number.checked_add(amount);
        if let Some(sum) = sum {
            *number = sum;
            cell.credited.store(true, Ordering::Relaxed);
        }
        cell.lock.store(false, Ordering::Release);
        sum.is_some()
    }

    /// Cells that were written or credited.
    pub(crate) fn changed(&mut self) -> impl Iterator<Item = Changed> {
        let cells = self.still();
        cells.all_changed().map(move |id| cells.taken(id))
    }

    /// Turns the cells of a finished block into settled ones.
    pub(crate) const fn settle(self) -> Settled {
        Settled(self)
    }
}

/// Cells while no transaction runs: simulations between the batches of a block read them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Still<'c>(&'c Cells);

impl<'c> Still<'c> {
    pub(crate) const fn len(&self) -> usize {
        self.0.len
    }

    #[inline]
    #[expect(unsafe_code, reason = "reads of what is not shared with a writer")]
    pub(crate) fn get(&self, id: KeyId) -> Value {
        // SAFETY: made where nothing else has the cells, for as long as this lasts; nothing here writes.
        unsafe { self.0.load(id) }
    }

    /// Written or credited cells of a range.
    #[inline]
    pub(crate) fn changed_of(self, ids: Range<usize>) -> impl Iterator<Item = KeyId> + use<'c> {
        ids.map(|id| KeyId(id as u32)).filter(move |id| self.is_changed(*id))
    }

    /// All written or credited cells.
    pub(crate) fn all_changed(self) -> impl Iterator<Item = KeyId> + use<'c> {
        self.changed_of(0..self.0.len)
    }

    /// True if the cell was written or credited.
    #[inline]
    fn is_changed(self, id: KeyId) -> bool {
        self.fixed(id).dirty || self.0.memory.cells[id.index()].credited.load(Ordering::Relaxed)
    }

    /// True if some write of the block changed the code.
    #[inline]
    pub(crate) fn is_recoded(self, id: KeyId) -> bool {
        self.fixed(id).recoded
    }

    /// Value of the key before the block.
    #[inline]
    pub(crate) fn origin(self, id: KeyId) -> &'c Origin {
        &self.0.memory.origins[id.index()]
    }

    #[inline]
    #[expect(unsafe_code, reason = "reads of what is not shared with a writer")]
    fn fixed(self, id: KeyId) -> &'c Fixed {
        // SAFETY: as in `Self::get`, nothing writes for as long as this lasts.
        unsafe { &*self.0.memory.cells[id.index()].fixed.get() }
    }

    fn taken(self, id: KeyId) -> Changed {
        Changed { id, value: self.get(id), origin: *self.origin(id) }
    }
}

/// Cells of a finished block, which do not change any more.
#[derive(Debug)]
pub(crate) struct Settled(Cells);

impl Settled {
    /// Value of a cell.
    pub(crate) fn get(&self, id: KeyId) -> Value {
        Still(&self.0).get(id)
    }

    /// A cell, if it was written or credited.
    pub(crate) fn changed(&self, id: KeyId) -> Option<Changed> {
        let cells = self.still();
        cells.is_changed(id).then(|| cells.taken(id))
    }

    /// The cells, for reading.
    pub(crate) const fn still(&self) -> Still<'_> {
        Still(&self.0)
    }
}

/// A cell at the end of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) id: KeyId,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

impl Cell {
    fn new(value: Value) -> Self {
        let Value { nonce, code, exists, .. } = value;
        let fixed = Fixed { nonce, code, exists, funded: !value.number.is_zero(), dirty: false, recoded: false };
        Self {
            number: UnsafeCell::new(value.number),
            fixed: UnsafeCell::new(fixed),
            lock: AtomicBool::new(false),
            credited: AtomicBool::new(false),
        }
    }

    /// Sets this to [`Self::new`], part by part in place.
    #[inline]
    fn reset(&mut self, value: &Value) {
        let Value { number, nonce, code, exists, .. } = *value;
        let funded = !number.is_zero();
        *self.number.get_mut() = number;
        *self.fixed.get_mut() = Fixed { nonce, code, exists, funded, dirty: false, recoded: false };
        *self.lock.get_mut() = false;
        *self.credited.get_mut() = false;
    }
}

const _: () = assert!(size_of::<Cell>() == 64, "a cell is one cache line");

#[cfg(test)]
#[expect(unsafe_code, reason = "the tests keep the promises by hand")]
mod tests {
    use super::*;

    fn held<const N: usize>(values: [Value; N]) -> Cells {
        let cells = values.into_iter().map(Cell::new).collect();
        let memory = CellMemory { cells, origins: vec![Origin::default(); N] };
        Cells { memory: memory.into(), len: N }
    }

    #[test]
    fn credits_from_many_threads_add_up_and_mark_the_account() {
        let mut cells = held([Value::default(); 2]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        // SAFETY: there are only creditors.
                        assert!(unsafe { cells.credit(KeyId(1), U256::from(3)) });
                    }
                });
            }
        });
        let changed: Vec<_> = cells.changed().collect();
        let value = Value { number: U256::from(120_000), exists: true, ..Value::default() };
        assert_eq!(changed, [Changed { id: KeyId(1), value, origin: Origin::default() }]);
    }

    #[test]
    fn a_cell_that_is_reset_is_a_new_one() {
        let values = [7u64, 0].map(|number| Value {
            number: U256::from(number),
            nonce: number,
            exists: true,
            ..Value::default()
        });
        let mut cells = held([Value::default(); 2]);
        // SAFETY: single thread.
        unsafe {
            cells.store(KeyId(0), Value { code: CodeId(3), nonce: 9, ..Value::default() });
            assert!(cells.credit(KeyId(0), U256::ONE) && cells.still().is_recoded(KeyId(0)));
        }
        for value in values {
            cells.memory.cells[0].reset(&value);
            cells.memory.cells[1] = Cell::new(value);
            let [reset, new] = [0, 1].map(|id| {
                let (cells, id) = (cells.still(), KeyId(id));
                (cells.get(id), cells.is_changed(id), cells.is_recoded(id), cells.fixed(id).funded)
            });
            assert_eq!((reset, reset.0), (new, value));
            // SAFETY: single thread.
            assert!(unsafe { cells.credit(KeyId(0), U256::ONE) });
        }
    }

    #[test]
    fn a_credit_past_the_end_changes_nothing_and_a_write_forgets_credits() {
        let full = Value { number: U256::MAX, exists: true, ..Value::default() };
        let mut cells = held([full]);
        // SAFETY: single thread.
        unsafe {
            assert!(!cells.credit(KeyId(0), U256::ONE));
            assert_eq!(cells.load(KeyId(0)), full);
            assert_eq!(cells.changed().count(), 0);
            cells.store(KeyId(0), Value::default());
            assert!(!cells.load(KeyId(0)).exists);
            assert!(cells.credit(KeyId(0), U256::ONE));
            assert!(cells.load(KeyId(0)).exists);
            assert_eq!(cells.load(KeyId(0)).number, U256::ONE);
        }
    }
}
