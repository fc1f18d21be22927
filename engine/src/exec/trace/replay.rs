//! Replays a trace on another transaction's inputs and the values that it may see.

use crate::bal::effects::Sink;
use crate::exec::dag::view::{Change, View};
use crate::exec::trace::program::{Effect, Trace};
use crate::model::Fault;
use alloy_primitives::{Address, B256, Bytes, Log, LogData, U256, keccak256};
use phalanx_access::{Access, KeyId};
use phalanx_paralyze::{KnownSlots as _, Preimage, StateKey, VmConfig};
use phalanx_symbolic::{self as symbolic, Env, Inputs, Node, Op, Piece, Register, Registers, Scope, region_len};
use revm::{
    context_interface::{
        Cfg as _,
        context::SStoreResult,
        result::{ExecutionResult, Output, ResultGas},
    },
    primitives::hardfork::SpecId,
};

/// `true` in Solidity's ABI.
const TRUE: [u8; 32] = U256::ONE.to_be_bytes();

/// Inputs of a replay.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) view: &'a View,
    pub(super) cfg: &'a VmConfig,
    pub(super) scope: Scope<'a>,
}

/// Gas at the end of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) left: u64,
    refund: i64,
    /// Gas for state growth, part of what was spent (EIP-8037).
    state: u64,
}

impl Spent {
    /// Gas in the transaction's result.
    pub(super) fn result(self, cfg: &VmConfig, limit: u64, floor: u64) -> ResultGas {
        let spent = limit - self.left;
        let most = spent / cfg.gas_params.max_refund_quotient();
        let refunded = u64::try_from(self.refund).unwrap_or(0).min(most);
        let gas = ResultGas::default().with_total_gas_spent(spent).with_state_gas_spent(self.state);
        gas.with_refunded(refunded).with_floor_gas(floor)
    }
}

/// A slot that was touched.
#[derive(Clone, Copy, Debug)]
struct Held {
    id: KeyId,
    access: Access,
    original: U256,
}

/// Memory that replays share.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    accounts: Vec<Address>,
    held: Vec<Held>,
    /// Gas that the callers of the running frame have left.
    callers: Vec<u64>,
    bytes: Vec<u8>,
}

impl Trace {
    /// Goes this way with `gas` after what the transaction pays in advance; `None`, and nothing has happened, if it goes
    /// another way, runs out of gas, or touches what was not predicted.
    pub(super) fn replay(&mut self, scene: &Scene<'_>, gas: u64, scratch: &mut Scratch) -> Option<Spent> {
        let Scene { view, cfg, .. } = *scene;
        let Self { ops, registers, .. } = self;
        let Scratch { accounts, held, callers, bytes } = scratch;
        let params = &cfg.gas_params;
        accounts.clear();
        accounts.push(scene.scope.to);
        held.clear();
        callers.clear();
        let grows_state = cfg.is_amsterdam_eip8037_enabled();
        let (mut left, mut refund, mut state) = (gas, 0i64, 0);
        for op in &*ops {
            match op {
                Op::Set(register, Node::Env(Env::PrevRandao)) => registers.set(*register, scene.randomness()?),
                Op::Set(register, node) => node.run(*register, registers, scene, bytes)?,
                Op::Effect(Effect::Gas { to, gas }) => registers.set(*to, U256::from(left.checked_sub(*gas)?)),
                Op::Expect(register, value) => {
                    if !registers.holds(*register, value) && !Fault::TraceGuard.is_seeded() {
                        return None;
                    }
                }
                Op::Effect(Effect::Account { address, code }) => {
                    let address = address_of(registers, *address)?;
                    // Warm without having been touched; or met under another name.
                    let is_warm = address == scene.scope.tx.caller || address == scene.scope.block.beneficiary;
                    if is_warm || accounts.contains(&address) || cfg.may_be_precompile(&address) {
                        return None;
                    }
                    let (_, access, value) = view.read(&StateKey::Basic(address))?;
                    if access != Access::Read || !value.exists || value.code != *code {
                        return None;
                    }
                    accounts.push(address);
                }
                Op::Effect(Effect::Slot { account, slot, original }) => {
                    let key = StateKey::Slot(accounts[usize::from(*account)], registers.get(*slot));
                    let (id, access, value) = view.read(&key)?;
                    if held.iter().any(|held| held.id == id) {
                        return None;
                    }
                    registers.set(*original, value.number);
                    held.push(Held { id, access, original: value.number });
                }
                Op::Effect(Effect::Store { slot, present, value, cold, gas }) => {
                    left = left.checked_sub(*gas)?;
                    if left <= params.call_stipend() {
                        return None;
                    }
                    let values = SStoreResult {
                        original_value: held[usize::from(*slot)].original,
                        present_value: registers.get(*present),
                        new_value: registers.get(*value),
                    };
                    let cost = params.sstore_static_gas() + params.sstore_dynamic_gas(true, &values, *cold);
                    left = left.checked_sub(cost)?;
                    refund += params.sstore_refund(true, &values);
                    if grows_state {
                        if params.sstore_state_gas_refill(&values) > 0 {
                            // Gas comes back, to whatever it was taken from.
                            return None;
                        }
                        let growth = params.sstore_state_gas(&values);
                        left = left.checked_sub(growth)?;
                        state += growth;
                    }
                }
                Op::Effect(Effect::Enter { gas, at_most }) => {
                    left = left.checked_sub(*gas)?;
                    let at_most = u64::try_from(registers.get(*at_most)).unwrap_or(u64::MAX);
                    let limit = params.call_stipend_reduction(left).min(at_most);
                    callers.push(left - limit);
                    left = limit;
                }
                Op::Effect(Effect::Leave { gas }) => {
                    left = left.checked_sub(*gas)?.checked_add(callers.pop()?)?;
                }
            }
        }
        left = left.checked_sub(self.end.gas)?;
        // A call that reverts has nothing refunded, and state does not grow.
        refund = if self.end.reason.is_some() || Fault::TraceRefund.is_seeded() { refund } else { 0 };
        if self.end.reason.is_none() {
            left += core::mem::take(&mut state);
        }
        let may =
            |(slot, held): (&Register, &Held)| registers.holds(*slot, &held.original) || held.access == Access::Write;
        self.slots.iter().zip(&*held).all(may).then_some(Spent { left, refund, state })
    }

    /// Adds what the replay that was just made writes to slots.
    #[inline]
    pub(super) fn write(&self, scratch: &Scratch, changes: &mut Vec<Change>) {
        for (slot, held) in self.slots.iter().zip(&scratch.held) {
            if !self.registers.holds(*slot, &held.original) {
                changes.push(Change::store_slot(held.id, self.registers.get(*slot)));
            }
        }
    }

    /// Reports the effects of the replay that was just made on all accounts but the sender.
    pub(super) fn tell(&self, scratch: &Scratch, sink: &mut impl Sink) {
        let Scratch { accounts, held, .. } = scratch;
        accounts.iter().for_each(|address| sink.account(address));
        let touched = self.ops.iter().filter_map(|op| match op {
            Op::Effect(Effect::Slot { account, slot, .. }) => Some((account, slot)),
            _ => None,
        });
        for ((account, slot), (place, Held { original, .. })) in touched.zip(held.iter().enumerate()) {
            sink.account(&accounts[usize::from(*account)]);
            let after = self.slots.get(place).map_or(*original, |last| self.registers.get(*last));
            let slot = self.registers.get(*slot);
            if after == *original { sink.read(slot) } else { sink.write(slot, *original, after) }
        }
    }

    /// Result of the transaction that was just replayed.
    pub(super) fn result(&self, gas: ResultGas) -> ExecutionResult {
        let registers = &self.registers;
        let bytes = |region: &[Piece]| {
            if region.is_empty() {
                return Bytes::new();
            }
            if registers.is_word(region, &U256::ONE) {
                // What most functions return; many workers would count references to anything else that they share.
                return Bytes::from_static(&TRUE);
            }
            let mut bytes = Vec::with_capacity(region_len(region));
            registers.write(region, &mut bytes);
            Bytes::from(bytes)
        };
        let log = |symbolic::Log { address, topics, data }: &symbolic::Log| {
            let address = registers.address(*address);
            let topics = topics.iter().map(|topic| B256::from(registers.get(*topic))).collect();
            Log { address, data: LogData::new_unchecked(topics, bytes(data)) }
        };
        let logs = self.logs.iter().map(log).collect();
        let output = bytes(&self.end.output);
        match self.end.reason {
            Some(reason) => ExecutionResult::Success { reason, gas, logs, output: Output::Call(output) },
            None => ExecutionResult::Revert { gas, logs, output },
        }
    }
}

impl Scene<'_> {
    /// Randomness of the beacon chain; before the Merge, the difficulty.
    fn randomness(&self) -> Option<U256> {
        if self.cfg.spec.is_enabled_in(SpecId::MERGE) {
            self.scope.block.prevrandao.map(Into::into)
        } else {
            Some(self.scope.block.difficulty)
        }
    }
}

impl Inputs for Scene<'_> {
    #[inline]
    fn scope(&self) -> &Scope<'_> {
        &self.scope
    }

    #[inline]
    fn hash(&self, bytes: &[u8]) -> U256 {
        let known = <&Preimage>::try_from(bytes).ok().and_then(|preimage| self.view.known_slot(preimage));
        known.unwrap_or_else(|| keccak256(bytes).into())
    }

    /// Slots are read by operations of their own.
    fn load(&self, _: Address, _: U256) -> Option<U256> {
        None
    }
}

/// Returns the address in a register, if the word is no more.
fn address_of(registers: &Registers, register: Register) -> Option<Address> {
    (registers.get(register).bit_len() <= 160).then(|| registers.address(register))
}
