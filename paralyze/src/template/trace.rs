//! A dry run whose frames are followed, so that what they touch is known as formulas.

use super::{
    Function,
    frame::{Frame, selector},
    tree::{Event, Path, Step},
};
use crate::{DeferredReward, Snapshot, StateKey, Vm, VmConfig, observed};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY};
use phalanx_access::{Access, AccessSet};
use revm::{
    ExecuteEvm,
    context::{BlockEnv, ContextTr, JournalTr as _, TxEnv},
    database::WrapDatabaseRef,
    inspector::{Inspector, JournalExt},
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter},
    state::EvmState,
};

/// Frames of one transaction that are followed.
const MAX_FRAMES: usize = 256;

/// What a dry run showed.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) set: AccessSet<StateKey>,
    /// Frames that ended in a way that formulas can explain, inner ones first.
    pub(crate) paths: Vec<(Function, Path)>,
    /// Codes that delegate (EIP-7702), and to whom.
    pub(crate) delegations: Vec<(B256, Address)>,
}

/// Runs transactions and follows them.
pub(crate) struct Tracing<'a, S: Snapshot> {
    evm: Vm<WrapDatabaseRef<&'a S>, Tracer>,
}

impl<'a, S: Snapshot> Tracing<'a, S> {
    pub(crate) fn new(snapshot: &'a S, cfg: &VmConfig, env: &BlockEnv) -> Self {
        let mut evm = cfg.build(WrapDatabaseRef(snapshot)).with_inspector(Tracer::default());
        evm.ctx.block = env.clone();
        Self { evm }
    }

    /// Follows `tx`, with its sender's nonce on the snapshot; `None` if it is invalid there.
    pub(crate) fn trace(&mut self, tx: &TxEnv) -> Option<Trace> {
        let mut tx = tx.clone();
        tx.nonce = self.evm.ctx.db().0.basic_ref(tx.caller).ok()?.map_or(0, |account| account.nonce);
        self.evm.ctx.tx = tx;
        self.evm.inspector = Tracer::default();
        let outcome = DeferredReward::inspect(&mut self.evm);
        let state = self.evm.finalize();
        outcome.ok()?;
        let Tracer { done, delegations, .. } = core::mem::take(&mut self.evm.inspector);
        let paths = done.into_iter().map(|(function, frame, success)| (function, finish(frame, success, &state)));
        Some(Trace { set: observed(&state), paths: paths.collect(), delegations })
    }
}

/// Gives the steps of a frame the accesses that the transaction ended up with.
fn finish(mut frame: Frame, success: bool, state: &EvmState) -> Path {
    for touched in core::mem::take(&mut frame.touched) {
        let account = state.get(touched.key.address());
        let is_written = touched.written
            || match touched.key {
                StateKey::Slot(_, slot) => {
                    account.and_then(|account| account.storage.get(&slot)).is_some_and(|slot| slot.is_changed())
                }
                // An empty account that is touched may be deleted; other changes have other reasons.
                _ => account.is_some_and(|account| account.is_touched() && account.is_empty()),
            };
        let new = if is_written { Access::Write } else { Access::Read };
        match &mut frame.events[touched.event] {
            Event::Step(Step::Slot { access, .. } | Step::Account { access, .. }) => *access = new,
            Event::Step(Step::Call(call)) => call.access = new,
            Event::Step(Step::Lost) | Event::Guard { .. } => {}
        }
    }
    let leaf = frame.leaf(success);
    Path { nodes: frame.nodes, events: frame.events, leaf }
}

/// Follows the frames of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    frames: Vec<(Function, Frame)>,
    /// Calls and creations that have not ended: whether a frame was made for them.
    open: Vec<bool>,
    done: Vec<(Function, Frame, bool)>,
    delegations: Vec<(B256, Address)>,
    /// Code that runs is being created.
    creates: bool,
}

impl<C: ContextTr<Journal: JournalExt>> Inspector<C> for Tracer {
    fn initialize_interp(&mut self, interp: &mut Interpreter, _: &mut C) {
        let code = interp.bytecode.get_or_calculate_hash();
        let input = &interp.input.input;
        // An empty input may point nowhere.
        let selector = if input.is_empty() { None } else { selector(&input.as_bytes_memory(&interp.memory)) };
        let mut frame = Frame::new(interp.input.target_address);
        frame.dropped = self.creates || self.frames.len() + self.done.len() >= MAX_FRAMES;
        self.frames.push((Function { code, selector }, frame));
        if let Some(open) = self.open.last_mut() {
            *open = true;
        }
    }

    fn step(&mut self, interp: &mut Interpreter, _: &mut C) {
        if let Some((_, frame)) = self.frames.last_mut() {
            frame.step(interp);
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.open.push(false);
        self.creates = false;
        if let Some(account) = context.journal().evm_state().get(&inputs.bytecode_address)
            && let Some(to) = account.info.code.as_ref().and_then(|code| code.eip7702_address())
            && account.info.code_hash != KECCAK256_EMPTY
            && self.delegations.len() < MAX_FRAMES
        {
            self.delegations.push((account.info.code_hash, to));
        }
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        let followed = self.open.pop().unwrap_or_default();
        if followed && let Some((function, frame)) = self.frames.pop() {
            let result = *outcome.instruction_result();
            // How far one gets with too little gas is not a property of the code.
            let explained =
                result.is_ok() || matches!(result, InstructionResult::Revert | InstructionResult::InvalidFEOpcode);
            if explained && !frame.dropped {
                self.done.push((function, frame, result.is_ok()));
            }
        }
        if let Some((_, caller)) = self.frames.last_mut() {
            caller.call_ended(followed, outcome.output().len());
        }
    }

    fn create(&mut self, _: &mut C, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.open.push(false);
        self.creates = true;
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, _: &mut CreateOutcome) {
        if self.open.pop().unwrap_or_default() {
            self.frames.pop();
        }
    }
}
