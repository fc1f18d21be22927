//! Positions of keys that change often, in front of the index's pages: one line of memory each, instead of the several that a
//! search of the pages reads.

use super::page::Frag;

/// Number of cells, in half a mebibyte. Few where tests are to take cells from other keys.
const CELLS: usize = if cfg!(test) { 1 << 6 } else { 1 << 15 };

/// Positions of keys that were set lately, by fragment.
///
/// A key's first change is written to its page, and noted here. Later changes are noted here alone, until another key takes the
/// cell, another key gets the same fragment, or the key is removed. So a cold key costs its page no second visit, and a hot one
/// few.
///
/// # Invariants
/// The index has exactly one key of a cell's fragment. Its page has its position too, unless the cell is ahead.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    cells: Box<[Cell]>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Fragment, and whether the key's page has another position.
    tag: u64,
    sn: u64,
}

impl Cell {
    const EMPTY: Self = Self { tag: u64::MAX - 1, sn: 0 };

    #[inline]
    const fn is_of(&self, frag: Frag) -> bool {
        self.tag & !1 == frag << 1
    }

    const fn is_ahead(&self) -> bool {
        self.tag & 1 == 1
    }
}

/// Position that a key's page does not have yet.
pub(super) type Ahead = (Frag, u64);

impl Recent {
    pub(super) fn new() -> Self {
        Self { cells: vec![Cell::EMPTY; CELLS].into() }
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.cells)
    }

    #[inline]
    const fn at(frag: Frag) -> usize {
        frag as usize % CELLS
    }

    /// Position of a key, if it was set lately.
    #[inline]
    pub(super) fn get(&self, frag: Frag) -> Option<u64> {
        let cell = &self.cells[Self::at(frag)];
        cell.is_of(frag).then_some(cell.sn)
    }

    /// Sets the position of a key, if it was set lately; `None` if it was not, and false if its position was not `before`.
    #[inline]
    pub(super) fn set(&mut self, frag: Frag, before: u64, after: u64) -> Option<bool> {
        let cell = &mut self.cells[Self::at(frag)];
        if !cell.is_of(frag) {
            return None;
        }
        let fits = cell.sn == before;
        if fits {
            *cell = Cell { tag: frag << 1 | 1, sn: after };
        }
        Some(fits)
    }

    /// Notes a position that the key's page has. Returns the position that was in the cell, if its page does not have it yet.
    #[must_use]
    pub(super) fn note(&mut self, frag: Frag, sn: u64) -> Option<Ahead> {
        let cell = &mut self.cells[Self::at(frag)];
        let last = std::mem::replace(cell, Cell { tag: frag << 1, sn });
        last.is_ahead().then_some((last.tag >> 1, last.sn))
    }

    /// Forgets a key. Returns its position, if its page does not have it yet.
    #[must_use]
    pub(super) fn forget(&mut self, frag: Frag) -> Option<Ahead> {
        let cell = &mut self.cells[Self::at(frag)];
        if !cell.is_of(frag) {
            return None;
        }
        let last = std::mem::replace(cell, Cell::EMPTY);
        last.is_ahead().then_some((frag, last.sn))
    }
}
