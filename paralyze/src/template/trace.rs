//! A dry run whose frames are followed, so that what they touch is known as formulas.

use super::{
    Function,
    tree::{Call, Event, Leaf, Path, Step},
};
use crate::{
    handler::DeferredReward,
    key::StateKey,
    simulate::observed,
    snapshot::Snapshot,
    vm::{Vm, VmConfig},
};
use alloy_primitives::{Address, B256};
use phalanx_access::{Access, AccessSet};
use phalanx_symbolic::{self as symbolic, Mode, Recorded, Recorder, Recording};
use revm::{
    ExecuteEvm,
    context::{BlockEnv, ContextTr, TxEnv},
    database::WrapDatabaseRef,
    state::EvmState,
};

/// Result of a dry run.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) set: AccessSet<StateKey>,
    /// Frames that ended in a way that formulas can explain, inner ones first.
    pub(crate) paths: Vec<(Function, Path)>,
    /// Codes that delegate (EIP-7702), and their targets.
    pub(crate) delegations: Vec<(B256, Address)>,
}

/// Runs transactions and follows them.
pub(crate) struct Tracing<'a, S: Snapshot> {
    evm: Vm<WrapDatabaseRef<&'a S>, Recorder>,
}

impl<'a, S: Snapshot> Tracing<'a, S> {
    pub(crate) fn new(snapshot: &'a S, cfg: &VmConfig, env: &BlockEnv) -> Self {
        let mut evm = cfg.build(WrapDatabaseRef(snapshot)).with_inspector(Recorder::new(Mode::Frames));
        evm.ctx.block = env.clone();
        Self { evm }
    }

    /// Follows `tx`, with its sender's nonce on the snapshot; `None` if it is invalid there.
    pub(crate) fn trace(&mut self, tx: &TxEnv) -> Option<Trace> {
        let mut tx = tx.clone();
        tx.nonce = self.evm.ctx.db().0.basic_ref(tx.caller).ok()?.map_or(0, |account| account.nonce);
        self.evm.ctx.tx = tx;
        self.evm.inspector = Recorder::new(Mode::Frames);
        let outcome = DeferredReward::inspect(&mut self.evm);
        let state = self.evm.finalize();
        outcome.ok()?;
        let (recorded, delegations) = core::mem::take(&mut self.evm.inspector).finish();
        let paths = recorded.into_iter().map(|recorded| finish(recorded, &state));
        Some(Trace { set: observed(&state), paths: paths.collect(), delegations })
    }
}

/// The path of a frame, with the accesses that the transaction ended up with.
fn finish(recorded: Recorded, state: &EvmState) -> (Function, Path) {
    let Recorded { code, selector, result, output, recording, .. } = recorded;
    let Recording { nodes, events, slots, .. } = recording;
    let access = |is_written| if is_written { Access::Write } else { Access::Read };
    let event = |event| {
        Some(Event::Step(match event {
            symbolic::Event::Guard { on, value } => return Some(Event::Guard { on, value }),
            symbolic::Event::Slot(number) => {
                let slot = &slots[number];
                let held = state.get(&slot.address).and_then(|account| account.storage.get(&slot.real));
                let is_written = slot.changed || held.is_some_and(|held| held.is_changed());
                Step::Slot { slot: slot.name, access: access(is_written) }
            }
            symbolic::Event::Account { address, .. } => Step::Account { address, access: Access::Read },
            symbolic::Event::Call(call) => {
                let account = state.get(&call.account);
                // An empty account that is touched may be deleted; other changes have other reasons.
                let is_empty = account.is_some_and(|account| account.is_touched() && account.is_empty());
                let symbolic::Call { kind, to, value, input, pays, .. } = call;
                Step::Call(Call { kind, to, value, input, access: access(pays || is_empty), pays })
            }
            symbolic::Event::Lost => Step::Lost,
            // Of exact recordings.
            _ => return None,
        }))
    };
    let events = events.into_iter().filter_map(event).collect();
    (Function { code, selector }, Path { nodes, events, leaf: Leaf { success: result.is_ok(), output } })
}
