//! Transactions of blocks, and calls, that run once more under a tracer.

use super::{
    api::Api,
    calls::CallState,
    error::{RpcError, simulated},
    geth_tracer::GethTracer,
    meter::{Meter, Room},
    replay::Replay,
};
use crate::{
    chain::StateUnread,
    store::{Block, Entry},
};
use ::phalanx::{
    Form, Recovery,
    revm::{
        DatabaseRef as _,
        context::{BlockEnv, Transaction as _, TxEnv},
        context_interface::result::ResultAndState,
        primitives::U256,
        state::Account,
    },
    simulate::Simulator,
};
use alloy_primitives::map::hash_map::Entry as Place;
use revm_inspectors::tracing::{DebugInspector, TransactionContext};

/// Room and time that the traces of a request have.
pub(super) fn room(api: &Api) -> Room {
    Room { bytes: api.limits.max_trace, until: api.until() }
}

/// A transaction or call that ran under a tracer.
pub(super) struct Traced<'s> {
    pub(super) tracer: DebugInspector,
    /// Result, and the accounts that it has loaded; the beneficiary is one of them, and has its reward.
    pub(super) ran: ResultAndState,
    /// State before.
    pub(super) state: &'s CallState,
    /// Refund counter before each instruction that the trace holds.
    pub(super) refunds: Vec<u64>,
}

/// Runs one transaction or call on a state under a tracer, whose trace shows at most so many instructions.
pub(super) fn run<'s>(
    simulator: &'s Simulator<CallState>,
    env: &BlockEnv,
    tx: &TxEnv,
    (tracer, steps): (DebugInspector, usize),
    room: &mut Room,
) -> Result<Traced<'s>, RpcError> {
    // The meter comes first: it counts what the tracer will record.
    let meter = Meter::new(&tracer, *room);
    let both = (meter, GethTracer::new(tracer, steps));
    let (called, (meter, mended)) = simulator.inspect(tx, both).map_err(|error| simulated(tx.caller, &error))?;
    *room = meter.room;
    let (tracer, refunds) = mended.end();
    let mut ran = ResultAndState { result: called.result, state: called.state };
    let state = simulator.state();
    reward(&mut ran, state, env, tx)?;
    Ok(Traced { tracer, ran, state, refunds })
}

/// Pays the beneficiary, as a block does for a transaction: a simulation does not.
pub(super) fn reward(ran: &mut ResultAndState, state: &CallState, env: &BlockEnv, tx: &TxEnv) -> Result<(), RpcError> {
    let tip = tx.effective_gas_price(env.basefee.into()).saturating_sub(env.basefee.into());
    let account = match ran.state.entry(env.beneficiary) {
        Place::Occupied(account) => account.into_mut(),
        Place::Vacant(place) => {
            let info = state.basic_ref(env.beneficiary).map_err(StateUnread::from)?;
            place.insert(Account::from(info.unwrap_or_default()))
        }
    };
    let reward = U256::from(tip).saturating_mul(U256::from(ran.result.tx_gas_used()));
    account.info.balance = account.info.balance.saturating_add(reward);
    Ok(())
}

/// A transaction of a block, ready to run again on the state before it.
pub(super) struct Placed<'b> {
    pub(super) entry: &'b Entry,
    pub(super) tx: TxEnv,
    pub(super) simulator: Simulator<CallState>,
    pub(super) env: &'b BlockEnv,
    pub(super) context: TransactionContext,
}

/// Visits the executed transactions of a block whose places `wanted` accepts, in order.
pub(super) fn visit<T>(
    api: &Api,
    block: &Block,
    room: &mut Room,
    wanted: impl Fn(u32) -> bool,
    mut each: impl FnMut(&Placed<'_>, &mut Room) -> Result<T, RpcError>,
) -> Result<Vec<T>, RpcError> {
    let mut replay = Replay::new(&api.chain, &block.head)?;
    let (rules, env) = api.chain.rules(&block.head.header);
    // By the rules of the chain: one for development has senders without signatures.
    let recovery = Recovery::new(api.chain.spec.clone(), api.chain.spec.spec(&block.head.header));
    let mut all = Vec::new();
    for (place, entry) in (0..).zip(&block.entries).filter(|(place, _)| wanted(*place)) {
        room.until.check()?;
        let tx = recovery.recover(Form::Block, &entry.bytes).map_err(|error| RpcError::internal(error.to_string()))?;
        let tx = tx.tx().clone();
        let state = replay.before(place.into())?.clone();
        let simulator = Simulator::new(rules.clone(), env.clone(), state);
        let context = TransactionContext {
            block_hash: Some(block.head.hash),
            tx_index: Some(place as usize),
            tx_hash: Some(entry.hash),
        };
        all.push(each(&Placed { entry, tx, simulator, env: &env, context }, room)?);
    }
    Ok(all)
}
