//! A recording: formulas, and the events that they took part in.

use crate::{
    expr::{Bounds, Nodes, Ref, Region, Shadow},
    mode::Mode,
};
use alloy_primitives::{Address, B256, U256};
use revm::primitives::map::{HashMap, HashSet};

/// Events of a recording; a longer one is given up.
pub(crate) const MAX_EVENTS: usize = 2048;

/// Instructions of an exact recording.
const MAX_STEPS: usize = 1 << 13;

/// Formulas and events of one frame, or in an exact recording of a transaction.
#[derive(Debug, Default)]
pub struct Recording {
    /// The formulas.
    pub nodes: Nodes,
    /// The events, in order.
    pub events: Vec<Event>,
    /// Slots that were touched, by number.
    pub slots: Vec<Slot>,
    /// Logs of an exact recording.
    pub logs: Vec<Log>,
    /// Accounts of an exact recording, by number.
    pub(crate) accounts: Vec<(Ref, Address)>,
    /// Slots by account and formula of their number.
    pub(crate) numbers: HashMap<(u16, Ref), usize>,
    pub(crate) transient: HashMap<(u16, Ref), Shadow>,
    pub(crate) looked_at: HashSet<Ref>,
    pub(crate) guarded: HashMap<Ref, U256>,
    /// Bytes of constants, or of patterns.
    pub(crate) bytes: usize,
    pub(crate) steps: usize,
    /// GAS instructions of an exact recording.
    pub(crate) gas_reads: u16,
}

impl Recording {
    pub(crate) fn new(mode: Mode) -> Self {
        let bounds = if mode == Mode::Frames { Bounds::default() } else { Bounds { depth: u16::MAX, nodes: 1 << 16 } };
        Self { nodes: Nodes::within(bounds), ..Self::default() }
    }

    pub(crate) fn is_too_long(&self, mode: Mode) -> bool {
        self.events.len() > MAX_EVENTS || mode != Mode::Frames && self.steps > MAX_STEPS
    }
}

/// A slot that was touched.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Number of the account in an exact recording.
    pub account: u16,
    /// Address of the account.
    pub address: Address,
    /// Formula of the slot's number.
    pub name: Ref,
    /// The slot's number in this execution.
    pub real: U256,
    /// Formula of the value that was written last; inner `None` for a constant.
    pub written: Option<Option<Ref>>,
    /// True if the value written last is neither a constant nor what the slot held.
    pub changed: bool,
    /// Value in this execution, once an exact recording has seen it written.
    pub(crate) held: Option<U256>,
    /// True if only the running instruction has touched the slot.
    pub(crate) cold: bool,
}

/// A log.
#[derive(Clone, Debug)]
pub struct Log {
    /// Account that emits it.
    pub address: Ref,
    /// Topics.
    pub topics: Box<[Ref]>,
    /// Data.
    pub data: Region,
}

/// A step of an execution that something depends on.
#[derive(Clone, Debug)]
pub enum Event {
    /// Everything after this depends on `on` being `value`.
    Guard {
        /// The formula.
        on: Ref,
        /// The formula's value.
        value: U256,
    },
    /// A slot, by its number, is touched for the first time.
    Slot(usize),
    /// An account is looked at; in an exact recording, takes part for the first time.
    Account {
        /// Formula of the address.
        address: Ref,
        /// Hash of the code there, in an exact recording.
        code: B256,
    },
    /// A call of a frame.
    Call(Call),
    /// A frame goes on as no formula says.
    Lost,
    /// A formula is computed for the first time. This and all that follow are events of exact recordings. Those that name gas
    /// have what the instructions since the last of them cost.
    Set(Ref),
    /// The gas that is left becomes a value.
    Gas {
        /// Formula of the value.
        to: Ref,
        /// Gas since the last event that names gas.
        gas: u64,
    },
    /// `value` replaces `present` in a slot, by its number.
    Store {
        /// Number of the slot.
        slot: u16,
        /// Formula of the value before.
        present: Ref,
        /// Formula of the new value.
        value: Ref,
        /// True if this is the first touch of the slot.
        cold: bool,
        /// Gas since the last event that names gas.
        gas: u64,
    },
    /// A call begins.
    Enter {
        /// Gas since the last event that names gas.
        gas: u64,
        /// Formula of the maximum gas that the call may use.
        at_most: Ref,
    },
    /// A call ends and gives back the gas that it has left.
    Leave {
        /// Gas since the last event that names gas.
        gas: u64,
    },
}

/// A call of a frame.
#[derive(Clone, Debug)]
pub struct Call {
    /// Kind of the call.
    pub kind: CallKind,
    /// Formula of the account whose code runs.
    pub to: Ref,
    /// The account in this execution.
    pub account: Address,
    /// Formula of the value that goes with the call; `None` if its kind has no value of its own.
    pub value: Option<Ref>,
    /// Calldata.
    pub input: Region,
    /// True if the call moves value.
    pub pays: bool,
}

/// Storage and caller that called code works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// The called account's; CALL and STATICCALL.
    Call,
    /// The caller's, as a call by itself.
    CallCode,
    /// The caller's, as if the caller ran on.
    DelegateCall,
}
