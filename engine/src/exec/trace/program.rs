//! A trace as code: a straight-line program, with accounts, slots, stores and calls among its operations.
//!
//! The recording of one call becomes such a program, without the formulas that nothing depends on.

use crate::exec::dag::view::View;
use crate::state::CodeId;
use alloy_primitives::U256;
use phalanx_symbolic::{
    Event, Log, Node, Op, Piece, Recorded, Recording, Ref, Region, Register, Registers, Slot, heap,
};
use revm::{context_interface::result::SuccessReason, interpreter::InstructionResult};

/// An operation of a trace besides computing and expecting. Operations that name gas have what the instructions since the last of
/// them cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The account in a register takes part for the first time, and has this code.
    Account { address: Register, code: CodeId },
    /// A slot of an account, by the account's number, is touched for the first time: its value goes to `original`.
    Slot { account: u16, slot: Register, original: Register },
    /// An SSTORE replaces `present` in a slot, by its number.
    Store { slot: u16, present: Register, value: Register, cold: bool, gas: u64 },
    /// A call begins; it may use what is left but a 64th (EIP-150), and at most what is in a register.
    Enter { gas: u64, at_most: Register },
    /// The gas that is left becomes a value.
    Gas { to: Register, gas: u64 },
    /// A call ends and gives back what it has left.
    Leave { gas: u64 },
}

/// End of a call.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// `None` if it reverts.
    pub(super) reason: Option<SuccessReason>,
    pub(super) output: Region,
    /// Cost of the instructions after the last operation that names gas.
    pub(super) gas: u64,
}

/// A path through a function, from a call to its end.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(super) ops: Box<[Op<Effect>]>,
    /// Constants are in theirs from the beginning; the others are written before they are read.
    pub(super) registers: Registers,
    /// Last value of each slot, by its number.
    pub(super) slots: Box<[Register]>,
    pub(super) logs: Box<[Log]>,
    pub(super) end: End,
    /// Minimum gas of a call that takes this path.
    pub(super) least: u64,
}

/// Minimum cost of a store.
const LEAST_STORE: u64 = 100;

impl Trace {
    /// The trace of a recorded call; `None` if a trace cannot tell what it did. `view` knows the codes.
    pub(super) fn new(recorded: Recorded, view: &View) -> Option<Self> {
        let Recorded { result, output, gas, recording, .. } = recorded;
        let Recording { nodes, events, slots, mut logs, .. } = recording;
        let reason = match result {
            InstructionResult::Stop => Some(SuccessReason::Stop),
            InstructionResult::Return => Some(SuccessReason::Return),
            _ => None,
        };
        let original = |slot: usize| nodes.find(&Node::Original(slot as u16));
        let mut last = Vec::new();
        if reason.is_some() {
            let value = |(number, slot): (usize, &Slot)| slot.written.unwrap_or_else(|| original(number));
            last = slots.iter().enumerate().map(value).collect::<Option<Vec<Ref>>>()?;
        } else {
            // A call that reverts leaves nothing.
            logs.clear();
        }

        // A formula is needed if the end, or a needed event, depends on it.
        let mut needed = vec![false; nodes.len()];
        let mut need = |at: Ref| needed[at as usize] = true;
        last.iter().copied().for_each(&mut need);
        each_word(&output, &mut need);
        for Log { address, topics, data } in &logs {
            topics.iter().chain([address]).copied().for_each(&mut need);
            each_word(data, &mut need);
        }
        let is_needed = |event: &&Event| {
            let mut need = |at: Ref| needed[at as usize] = true;
            match event {
                Event::Set(at) | Event::Gas { to: at, .. } => {
                    if !needed[*at as usize] {
                        return false;
                    }
                    nodes.get(*at).visit(&mut |child| needed[child as usize] = true);
                }
                Event::Guard { on: at, .. } | Event::Account { address: at, .. } | Event::Enter { at_most: at, .. } => {
                    need(*at);
                }
                Event::Slot(slot) => need(slots[*slot].name),
                Event::Store { present, value, .. } => [*present, *value].into_iter().for_each(need),
                Event::Leave { .. } | Event::Call(_) | Event::Lost => {}
            }
            true
        };
        let kept: Vec<&Event> = events.iter().rev().filter(is_needed).collect();

        let mut least = gas;
        let op = |event: &Event| {
            least += match event {
                Event::Store { gas, .. } => gas + LEAST_STORE,
                Event::Enter { gas, .. } | Event::Leave { gas } => *gas,
                _ => 0,
            };
            Some(Op::Effect(match *event {
                Event::Set(at) => return Some(Op::Set(at, nodes.get(at).clone())),
                Event::Guard { on, value } => return Some(Op::Expect(on, value)),
                Event::Gas { to, gas } => Effect::Gas { to, gas },
                Event::Account { address, code } => {
                    Effect::Account { address, code: view.code_id(&code).filter(|code| !code.is_none())? }
                }
                Event::Slot(number) => {
                    let Slot { account, name, .. } = slots[number];
                    Effect::Slot { account, slot: name, original: original(number)? }
                }
                Event::Store { slot, present, value, cold, gas } => Effect::Store { slot, present, value, cold, gas },
                Event::Enter { gas, at_most } => Effect::Enter { gas, at_most },
                Event::Leave { gas } => Effect::Leave { gas },
                // Of frames by themselves.
                Event::Call(_) | Event::Lost => return None,
            }))
        };
        let ops = kept.into_iter().rev().map(op).collect::<Option<_>>()?;
        let end = End { reason, output, gas };
        Some(Self { ops, registers: nodes.registers(), slots: last.into(), logs: logs.into(), end, least })
    }

    /// Bytes of memory that the trace takes, about.
    pub(super) fn bytes(&self) -> usize {
        let formulas = self.ops.iter().map(|op| match op {
            Op::Set(_, Node::Word(region) | Node::Keccak(region)) => heap(region),
            _ => 0,
        });
        let logs = self.logs.iter().map(|log| size_of::<Log>() + size_of_val(&*log.topics) + heap(&log.data));
        size_of_val(&*self.ops)
            + self.registers.len() * size_of::<U256>()
            + formulas.sum::<usize>()
            + logs.sum::<usize>()
            + heap(&self.end.output)
    }
}

/// Calls `see` with the words that a region has parts of.
fn each_word(region: &[Piece], see: &mut impl FnMut(Ref)) {
    for piece in region {
        if let Piece::Word { node, .. } = piece {
            see(*node);
        }
    }
}
