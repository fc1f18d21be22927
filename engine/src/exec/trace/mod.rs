//! Traces: the usual paths of calls of a function, as straight-line code.
//!
//! ```text
//!   first calls of a function                           calls after them
//!   revm, followed by phalanx-symbolic ─► program.rs ─► replay.rs: registers, slots, gas ─► result and changes
//!                                                           │ another path, too little gas, an unpredicted key
//!                                                           └────► revm
//! ```
//!
//! A recording follows one call that succeeds or reverts through the interpreter and notes, for each value, what it was
//! computed from: calldata, sender, block, stored slots. A value that depends on none is the same in every call that takes
//! the same decisions, so that stack, memory and jumps are gone from what is left: a list of operations over registers, the
//! decisions among them as expectations. A call that meets all of them has the same effect as if revm had run it, with gas
//! and refunds computed by revm's own rules; where one is not met nothing has happened, and revm runs it. This is the
//! accelerated program of Forerunner (SOSP 2021), learned from executions instead of speculated.
//!
//! A trace is on probation first: revm runs the same calls, and after one difference the function is left to revm, until its
//! worker forgets all. Each worker learns for itself, so nothing is shared.

mod known;
mod replay;
mod program;

pub(crate) use phalanx_symbolic::Recorder;

use self::{
    known::{Known, Way},
    program::Trace,
    replay::Scratch,
};
use crate::model::Traces;
use crate::{
    bal::Footprint,
    exec::{
        dag::view::{Change, View},
        fast_path::FastPath,
    },
    state::CodeId,
};
use phalanx_access::Access;
use phalanx_paralyze::{StateKey, VmConfig};
use phalanx_symbolic::Mode;
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::result::ExecutionResult,
    primitives::{hardfork::SpecId, map::HashMap},
};

/// Functions that one worker knows, and bytes of all its traces. When there are more, all are forgotten.
const MAX_FUNCTIONS: usize = 1 << 12;
const MAX_BYTES: usize = 1 << 24;

/// Traces of a function: ways that calls of it take.
const MAX_TRACES: usize = 8;

/// A function is recorded from its so many-th call on, up to so many recordings that lead to nothing. To record takes
/// much longer than to execute, and most functions of a block of mainnet are called a few times.
const RECORDED_FROM: u32 = 8;
const MAX_BARREN: u32 = 4;

/// Calls per recording, and recordings that are free of that rule: bounds recording so that it cannot be a DoS.
const CALLS_PER_RECORDING: u64 = 16;
const FREE_RECORDINGS: u64 = 256;

/// Tried calls after which a function is judged: at least an eighth must take a recorded path, or the function is left to
/// revm.
const TRIED: u32 = 64;

/// Operations of ways that did not fit after which a call is left to revm.
const MAX_IN_VAIN: usize = 1 << 10;

/// Calls that a new trace is only compared in.
const PROBATION: u32 = 4;

/// Name of a function: the code, the length of the calldata, and its first four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    code: CodeId,
    input_len: usize,
    selector: Option<[u8; 4]>,
}

/// The traces of one worker.
#[derive(Debug)]
pub(crate) struct Tracer {
    replayer: Replayer,
    is_checked: bool,
    functions: HashMap<Function, Known>,
    /// Bytes of all traces, about.
    bytes: usize,
    /// Calls that were planned, and recordings of them.
    calls: u64,
    recordings: u64,
}

/// State of replays besides traces.
#[derive(Debug)]
struct Replayer {
    cfg: VmConfig,
    /// Rules of what a transaction pays and must be able to pay.
    path: FastPath,
    scratch: Scratch,
}

/// Treatment of a transaction.
#[derive(Debug)]
pub(crate) enum Plan {
    /// revm runs it.
    Run,
    /// revm runs it, watched by a recorder.
    Record(Function),
    /// revm runs it and says whether the trace is right.
    Compare(Rehearsal),
    /// A trace was replayed, and its changes are prepared in the view.
    Replayed(ExecutionResult),
}

/// Result of a trace for a transaction, to be compared.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    function: Function,
    result: ExecutionResult,
    changes: Vec<Change>,
}

impl Tracer {
    /// `None` where calls are not replayed: before access lists (EIP-2929), or with some rule of revm's switched off.
    pub(crate) fn new(cfg: &VmConfig, traces: Traces) -> Option<Self> {
        let known = cfg.spec.is_enabled_in(SpecId::BERLIN);
        let path = FastPath::new(cfg, known && traces != Traces::Off)?;
        let is_checked = traces == Traces::Checked;
        let replayer = Replayer { cfg: cfg.clone(), path, scratch: Scratch::default() };
        Some(Self { replayer, is_checked, functions: HashMap::default(), bytes: 0, calls: 0, recordings: 0 })
    }

    /// Drops all recordings.
    pub(crate) fn forget(&mut self) {
        self.functions.clear();
        (self.bytes, self.calls, self.recordings) = (0, 0, 0);
    }

    /// True if a difference is an error.
    pub(crate) const fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Replays `tx` on what `view` shows, if it goes a way that is known. `footprint` has the effects of a replay.
    #[inline]
    pub(crate) fn plan(
        &mut self,
        view: &mut View,
        tx: &TxEnv,
        env: &BlockEnv,
        footprint: Option<&mut Footprint>,
    ) -> Plan {
        self.try_plan(view, tx, env, footprint).unwrap_or(Plan::Run)
    }

    fn try_plan(
        &mut self,
        view: &mut View,
        tx: &TxEnv,
        env: &BlockEnv,
        footprint: Option<&mut Footprint>,
    ) -> Option<Plan> {
        let call = self.replayer.path.call(tx, env)?;
        let (_, access, callee) = view.read(&StateKey::Basic(call.to))?;
        if access != Access::Read || !callee.exists || callee.code.is_none() {
            return None;
        }
        // A sender that cannot send does not pay, and the call does not count.
        let (_, sender) = view.writable(&StateKey::Basic(tx.caller))?;
        if !FastPath::may_send(tx, &sender) {
            return None;
        }
        let function =
            Function { code: callee.code, input_len: tx.data.len(), selector: tx.data.first_chunk::<4>().copied() };
        let is_full = self.functions.len() >= MAX_FUNCTIONS && !self.functions.contains_key(&function);
        if is_full || self.bytes > MAX_BYTES {
            self.functions.clear();
            self.bytes = 0;
        }
        self.calls += 1;
        let known = self.functions.entry(function).or_default();
        known.calls = known.calls.saturating_add(1);
        if known.tried >= TRIED {
            if known.went < known.tried / 8 && !self.is_checked {
                self.bytes -= known.leave_alone();
            }
            (known.tried, known.went) = (0, 0);
        }
        if let Some((result, is_proved)) = known.go(&mut self.replayer, call, view, (tx, env), footprint) {
            return Some(if is_proved && !self.is_checked {
                Plan::Replayed(result)
            } else {
                Plan::Compare(Rehearsal { function, result, changes: view.published().to_vec() })
            });
        }
        let may = self.recordings < FREE_RECORDINGS + self.calls / CALLS_PER_RECORDING;
        let is_due = known.calls >= RECORDED_FROM && may || self.is_checked;
        let records = is_due && known.ways.len() < MAX_TRACES && known.barren < MAX_BARREN;
        if !records {
            return Some(Plan::Run);
        }
        self.recordings += 1;
        Some(Plan::Record(function))
    }

    /// Sets a recorder to a call of `function`.
    pub(crate) fn watch(function: &Function, recorder: &mut Recorder) {
        let Function { input_len, selector, .. } = *function;
        *recorder = Recorder::new(Mode::Exact { input_len, has_selector: selector.is_some() });
    }

    /// Takes in what was recorded of a call of `function`, which has changed nothing yet, and gives what it says of that
    /// call.
    pub(crate) fn learn(
        &mut self,
        function: Function,
        recorder: &mut Recorder,
        view: &mut View,
        tx: &TxEnv,
        env: &BlockEnv,
    ) -> Option<Rehearsal> {
        let (mut recorded, _) = core::mem::take(recorder).finish();
        let call = self.replayer.path.call(tx, env)?;
        let known = self.functions.get_mut(&function)?;
        known.barren += 1;
        let recorded = recorded.pop().filter(|recorded| view.code_id(&recorded.code) == Some(function.code))?;
        let trace = Trace::new(recorded, view)?;
        let bytes = trace.bytes();
        // A way that does not even say what it was made from is dropped.
        let mut alone = Known { ways: vec![Way { trace, bytes, proved: 0 }], ..Known::default() };
        let (result, _) = alone.go(&mut self.replayer, call, view, (tx, env), None)?;
        known.ways.splice(0..0, alone.ways);
        self.bytes += bytes;
        Some(Rehearsal { function, result, changes: view.published().to_vec() })
    }

    /// Compares what a trace said with what revm did. Gives whether they agree.
    pub(crate) fn judge(&mut self, rehearsal: Rehearsal, result: &ExecutionResult, changes: &[Change]) -> bool {
        let Rehearsal { function, result: said, changes: mut mine } = rehearsal;
        let mut theirs = changes.to_vec();
        mine.sort_unstable_by_key(Change::id);
        theirs.sort_unstable_by_key(Change::id);
        let agree = said == *result && mine == theirs;
        if let Some(known) = self.functions.get_mut(&function) {
            if agree {
                known.barren = 0;
                if let Some(way) = known.ways.first_mut() {
                    way.proved = way.proved.saturating_add(1);
                }
            } else {
                self.bytes -= known.leave_alone();
            }
        }
        agree
    }
}
