use crate::exec::trace::{
    limit::Limit,
    shadow::{Memory, Region, Shadow},
};
use alloy_primitives::Address;
use phalanx_paralyze::Register;

/// A call frame as it is followed.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) stack: Vec<Shadow>,
    pub(super) memory: Memory,
    /// Whose storage it works on, by number, and its address.
    pub(super) account: u16,
    pub(super) address: Register,
    pub(super) caller: Register,
    /// Its calldata; `None` if that is the transaction's.
    pub(super) input: Option<Region>,
    /// What it gives back.
    pub(super) output: Region,
    /// What its last call gave back.
    pub(super) returned: Region,
    /// Where it wants what its call gives back, and how much of it.
    pub(super) awaits: (usize, usize),
    /// Gas that was left when the last operation was made that names gas.
    pub(super) last: u64,
    /// The instruction that runs, and what it is about.
    pub(super) op: u8,
    pub(super) stored: Option<usize>,
    pub(super) asked: Option<(Register, Address)>,
}

impl Frame {
    pub(super) fn new(account: u16, address: Register, caller: Register, input: Option<Region>, gas: u64) -> Self {
        Self {
            stack: Vec::new(),
            memory: Memory::default(),
            account,
            address,
            caller,
            input,
            output: Region::default(),
            returned: Region::default(),
            awaits: (0, 0),
            last: gas,
            op: 0,
            stored: None,
            asked: None,
        }
    }

    /// What was used since the last operation that names gas, if so much is left now.
    pub(super) fn since(&self, left: u64) -> Result<u64, Limit> {
        self.last.checked_sub(left).ok_or(Limit)
    }
}
