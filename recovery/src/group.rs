//! Signatures of one vector, prepared for it, and the keys that come out.

use crate::{
    lanes::{MOST, Mask, Row},
    scalar::{Digits, GENERATOR_WINDOWS, WINDOWS},
};

/// Signatures that are recovered side by side.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// x of the point R, below p, in the first four words.
    pub(crate) x: [Row; MOST],
    /// Lanes in which y of R is odd.
    pub(crate) odd: Mask,
    /// Digits of both halves of the factor of R, the least first.
    pub(crate) point: [[Windows<u8>; WINDOWS]; 2],
    /// Digits of both halves of the factor of the generator, the least first.
    pub(crate) generator: [[Windows<u16>; GENERATOR_WINDOWS]; 2],
}

/// Digit of each lane: d = ±(2 · index + 1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows<T> {
    pub(crate) index: [T; MOST],
    pub(crate) negative: Mask,
}

/// Keys of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// x and y of each key, little-endian words.
    pub(crate) rows: [Row; MOST],
    /// Lanes whose x is of no point of the curve: they have no key.
    pub(crate) off_curve: Mask,
    /// Lanes that met an exception of the formulas: their keys are unknown.
    pub(crate) exceptional: Mask,
}

impl Group {
    pub(crate) fn new() -> Self {
        Self {
            x: [Row([0; 8]); MOST],
            odd: 0,
            point: [[Windows::default(); WINDOWS]; 2],
            generator: [[Windows::default(); GENERATOR_WINDOWS]; 2],
        }
    }

    pub(crate) fn put(&mut self, lane: usize, x: [u64; 4], odd: bool, digits: &Digits) {
        self.x[lane].0[..4].copy_from_slice(&x);
        self.odd |= Mask::from(odd) << lane;
        for (half, windows) in self.point.iter_mut().enumerate() {
            for (at, window) in windows.iter_mut().enumerate() {
                let (index, negative) = digits.point(half, at);
                window.index[lane] = index;
                window.negative |= Mask::from(negative) << lane;
            }
        }
        for (half, windows) in self.generator.iter_mut().enumerate() {
            for (at, window) in windows.iter_mut().enumerate() {
                let (index, negative) = digits.generator(half, at);
                window.index[lane] = index;
                window.negative |= Mask::from(negative) << lane;
            }
        }
    }
}

impl Keys {
    pub(crate) const fn new() -> Self {
        Self { rows: [Row([0; 8]); MOST], off_curve: 0, exceptional: 0 }
    }
}
