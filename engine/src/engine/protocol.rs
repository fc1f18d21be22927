//! Steps of the protocol around the transactions of a whole block: system calls, drained accounts and edits before them;
//! withdrawals, rewards and requests after them.

use super::edits;
use crate::{
    bal::Footprint,
    chain::PreStep,
    exec::{context::ExecResources, overlay::Overlay, serial::Sequential},
    model::{BlockError, Error, Outcome, RecoveredBlock},
};
use alloy_primitives::{Address, Bytes, U256};
use phalanx_paralyze::StateKey;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};

/// Makes the steps before the transactions. Returns the state that the first transaction runs on, with the footprint of
/// the steps.
pub(crate) fn before<'s>(
    resources: ExecResources<'s>,
    env: &BlockEnv,
    payload: &RecoveredBlock<'_>,
) -> Result<(Overlay<'s>, Footprint), BlockError> {
    let ExecResources { state, cfg, chain, edits: given, .. } = resources;
    let mut footprint = Footprint::default();
    let mut overlay = Overlay::new(state, state.rules(cfg.spec));
    for step in chain.pre_steps(payload.header, cfg.spec) {
        match step {
            PreStep::Drain { accounts, refund } => {
                for account in accounts {
                    let balance = overlay.drain(*account).map_err(Error::from)?;
                    footprint.add_payment(*account, balance, U256::ZERO);
                    pay(&mut overlay, refund, balance, &mut footprint)?;
                }
            }
            // Where no contract exists yet the call does nothing, and a failure changes nothing.
            PreStep::SystemCall { to, data } => {
                _ = Sequential::new(&mut overlay, cfg, env).system_call(to, data.into(), &mut footprint)?;
            }
        }
    }
    if !given.is_empty() {
        edits::apply(given, &mut overlay, &mut footprint)?;
    }
    Ok((overlay, footprint))
}
/// Makes the steps after the transactions: returns the block's requests to consensus (EIP-7685), and the footprint of
/// the steps.
pub(crate) fn after(
    resources: ExecResources<'_>,
    env: &BlockEnv,
    payload: &RecoveredBlock<'_>,
    overlay: &mut Overlay<'_>,
    outcomes: &[Outcome],
) -> Result<(Option<Vec<Bytes>>, Footprint), BlockError> {
    let ExecResources { cfg, chain, .. } = resources;
    let mut footprint = Footprint::default();
    for (address, amount) in chain.post_credits(payload.header, payload.ommers, payload.withdrawals) {
        pay(overlay, address, amount, &mut footprint)?;
    }
    if !cfg.spec.is_enabled_in(SpecId::PRAGUE) {
        return Ok((None, footprint));
    }
    let logs = outcomes.iter().filter_map(Outcome::result).flat_map(|result| result.logs());
    let deposits = chain.deposit_requests(logs).map_err(|error| BlockError::Deposit { what: error.to_string() })?;
    let mut requests = Vec::from_iter(deposits);
    for (kind, address) in chain.request_calls(cfg.spec) {
        let address = *address;
        let code = overlay.get(&StateKey::Basic(address)).map_err(Error::from)?.code;
        if code.is_none() {
            return Err(BlockError::SystemContract { address, what: "has no code" });
        }
        let result = Sequential::new(overlay, cfg, env).system_call(address, Bytes::new(), &mut footprint)?;
        if !result.is_success() {
            return Err(BlockError::SystemContract { address, what: "failed" });
        }
        if let Some(output) = result.output().filter(|output| !output.is_empty()) {
            requests.push(Bytes::from_iter([*kind].iter().chain(output).copied()));
        }
    }
    Ok((Some(requests), footprint))
}
/// Pays an amount by the protocol.
fn pay(overlay: &mut Overlay<'_>, address: Address, amount: U256, footprint: &mut Footprint) -> Result<(), BlockError> {
    let key = StateKey::Basic(address);
    let before = overlay.get(&key).map_err(Error::from)?.number;
    overlay.credit(address, amount).map_err(Error::from)?;
    let after = overlay.get(&key).map_err(Error::from)?.number;
    footprint.add_payment(address, before, after);
    Ok(())
}
