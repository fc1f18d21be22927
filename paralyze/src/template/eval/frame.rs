//! Frames of a transaction whose templates are evaluated.

use crate::template::{
    Function,
    tree::{Leaf, Template},
};
use alloy_primitives::{Address, B256, U256};
use phalanx_symbolic::{Piece, Ref};

/// Weight of a formula that reads the state or raises to a power, in formulas.
pub(super) const DEAR_FORMULA: u64 = 16;

/// Where a frame's calldata comes from.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    Transaction,
    Of(usize, &'a [Piece]),
}

/// Wei that came with a call.
#[derive(Clone, Copy)]
pub(super) enum Wei {
    Known(U256),
    Of(usize, Ref),
}

#[derive(Clone, Copy)]
pub(super) enum Called {
    /// No code ran.
    Nothing {
        /// The code that delegates to none.
        found: Option<B256>,
    },
    Frame(usize),
}

pub(super) struct Running<'a> {
    pub(super) template: &'a Template,
    /// Function that a call led to, unless the code there delegates.
    pub(super) function: Option<Function>,
    pub(super) memo: usize,
    pub(super) caller: Address,
    pub(super) target: Address,
    pub(super) value: Wei,
    pub(super) input: Input<'a>,
    pub(super) calls: Vec<Called>,
    /// The blocks after the first that it went through.
    pub(super) path: Vec<u32>,
    pub(super) leaf: Option<&'a Leaf>,
}
