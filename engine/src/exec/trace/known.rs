//! A function that a worker knows: the ways that its calls take.

use super::{MAX_BARREN, MAX_IN_VAIN, PROBATION, Replayer, program::Trace, replay::Scene};
use crate::{
    bal::{Footprint, effects::Sink as _},
    exec::{
        dag::view::{Change, View},
        fast_path::{Call, tell_charge},
    },
};
use phalanx_paralyze::StateKey;
use phalanx_symbolic::Scope;
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::result::ExecutionResult,
};

/// A worker's record of a function.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) calls: u32,
    /// Recordings that led to nothing new.
    pub(super) barren: u32,
    /// Calls since the last judgement for which a trace was tried, and calls that a trace fitted.
    pub(super) tried: u32,
    pub(super) went: u32,
    /// The one that fitted last is first.
    pub(super) ways: Vec<Way>,
}

impl Known {
    /// Goes the first way that fits, and prepares its changes in `view`. Gives the result, and whether the way has proved
    /// itself; it is the function's first now. Leaves the effects of the call in `footprint`.
    pub(super) fn go(
        &mut self,
        replayer: &mut Replayer,
        call: Call,
        view: &mut View,
        (tx, env): (&TxEnv, &BlockEnv),
        footprint: Option<&mut Footprint>,
    ) -> Option<(ExecutionResult, bool)> {
        let Self { ways, tried, went, .. } = self;
        let Replayer { cfg, path, scratch } = replayer;
        let (from, sender) = view.writable(&StateKey::Basic(tx.caller))?;
        let scene = Scene { view, cfg, scope: Scope { tx, to: call.to, block: env } };
        let gas = tx.gas_limit - call.initial;
        let (mut counted, mut in_vain) = (false, 0);
        for place in 0..ways.len() {
            let Way { trace, proved, .. } = &mut ways[place];
            if gas < trace.least {
                // Gas pays for all that is computed.
                continue;
            }
            *tried += u32::from(!core::mem::replace(&mut counted, true));
            let Some(spent) = trace.replay(&scene, gas, scratch) else {
                in_vain += trace.ops.len();
                if in_vain > MAX_IN_VAIN {
                    // The next call begins with others.
                    ways.rotate_left(1);
                    break;
                }
                continue;
            };
            let gas = spent.result(cfg, tx.gas_limit, call.floor);
            let charged = path.charge(tx, env, &gas, &sender)?;
            let result = trace.result(gas);
            let is_proved = *proved >= PROBATION;
            let changes = view.prepare();
            changes.push(Change::Store(from, charged));
            trace.write(scratch, changes);
            if let Some(footprint) = footprint {
                footprint.account(&tx.caller);
                tell_charge(footprint, &sender, &charged);
                trace.tell(scratch, footprint);
            }
            ways[..=place].rotate_right(1);
            *went += 1;
            return Some((result, is_proved));
        }
        None
    }

    /// Ends replays and recordings of the function. Returns how many bytes that frees.
    pub(super) fn leave_alone(&mut self) -> usize {
        self.barren = MAX_BARREN;
        self.ways.drain(..).map(|way| way.bytes).sum()
    }
}

#[derive(Debug)]
pub(super) struct Way {
    pub(super) trace: Trace,
    pub(super) bytes: usize,
    /// Calls that it said the same of as revm.
    pub(super) proved: u32,
}
