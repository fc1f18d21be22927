//! State that callers and the driver share, behind locks.

use super::{codec::Fees, kept::Kept, restored::Restored};
use crate::{
    engine::rules::Rules,
    pool::Pool,
    recovery::{Form, RecoveredTx, Recovery},
    state::Views,
};
use alloy_primitives::Bytes;
use parking_lot::Mutex;
use phalanx_engine_api::{self as api, BuildRequest, Failure, FatalCause, InvalidCause, TxPolicy, Waker, desk::Desk};
use phalanx_paralyze::ForcedTx;
use phalanx_parascheduler::Workers;
use revm::{
    context::BlockEnv,
    context_interface::block::BlobExcessGasAndPrice,
    primitives::{B256, U256, hardfork::SpecId},
};
use std::{
    collections::HashSet,
    sync::{Arc, atomic::AtomicBool},
};

/// Rules by which the pool judges.
pub(super) struct PoolRules {
    /// Hard fork.
    pub(super) spec: SpecId,
    /// Base fee in wei per gas, if the chain's rules give it.
    pub(super) base: Option<u64>,
    /// Price of blob gas in wei, if there are blobs.
    pub(super) blob: Option<u128>,
    pub(super) env: BlockEnv,
}

/// State that callers and driver share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) desk: Mutex<Desk<Kept>>,
    pub(super) waker: Mutex<Option<Waker>>,
    /// Blocks that were staged before a restart and not submitted since. Locked after the desk.
    pub(super) restored: Mutex<Restored>,
    /// Locked before the desk, or without it.
    pub(super) pool: Mutex<Pool>,
    pub(super) recovery: Recovery,
    pub(super) workers: Arc<Workers>,
    /// Check of forced transactions, without which none is executed.
    pub(super) forced_check: Option<ForcedCheck>,
    /// Hard fork of the committed block, which transactions are judged by.
    pub(super) spec: Mutex<SpecId>,
    pub(super) rules: Rules,
    /// True if blocks may carry blobs.
    pub(super) has_blobs: bool,
    /// Cause for which the driver ended before its service.
    pub(super) halted: Mutex<Option<String>>,
    pub(super) views: Views,
    pub(super) chain: u64,
    /// Policy of blocks that this service builds.
    pub(super) policy: TxPolicy,
    /// True if a submission has come that the driver has not seen.
    pub(super) urgent: AtomicBool,
}

/// The node's decision whether the forced transactions of a candidate are those of its chain.
pub(super) struct ForcedCheck(pub(super) Box<dyn Fn(&api::Candidate) -> bool + Send + Sync>);

impl core::fmt::Debug for ForcedCheck {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ForcedCheck")
    }
}

/// True for the bytes of a forced transaction, decodable or not.
pub(super) fn is_forced(bytes: &[u8]) -> bool {
    bytes.first() == Some(&ForcedTx::TYPE)
}

/// Refuses the second of equal bytes.
fn check_once<'b>(forced: impl Iterator<Item = (u32, &'b Bytes)>) -> Result<(), InvalidCause> {
    let mut seen = HashSet::new();
    for (index, tx) in forced {
        if !seen.insert(&tx[..]) {
            return Err(InvalidCause::Forced { index });
        }
    }
    Ok(())
}

impl Shared {
    /// Failure of every request after the driver has ended.
    pub(super) fn stopped(&self) -> Failure {
        let cause = self.halted.lock().clone();
        Failure::Fatal(FatalCause::Stopped(cause.unwrap_or_else(|| "the service was ended".into())))
    }

    /// Refuses a candidate with forced transactions that the node's check does not know, and with one of them twice. On a chain
    /// without forced transactions their bytes are an unknown type like any other.
    pub(super) fn check_forced(&self, candidate: &api::Candidate) -> Result<(), InvalidCause> {
        if !self.recovery.decodes_forced() {
            return Ok(());
        }
        let forced = || (0..).zip(candidate.payload().txs()).filter(|(_, tx)| is_forced(tx));
        let Some((index, _)) = forced().next() else { return Ok(()) };
        check_once(forced())?;
        let is_known = self.forced_check.as_ref().is_some_and(|check| (check.0)(candidate));
        if is_known { Ok(()) } else { Err(InvalidCause::Forced { index }) }
    }

    /// Decodes the forced transactions of a request to build, of which none may be missing in the block.
    pub(super) fn forced_of(&self, request: &BuildRequest) -> Result<Vec<Arc<RecoveredTx>>, InvalidCause> {
        let env = super::execute::environment(&request.env);
        let recovery = self.recovery.clone().with_spec(self.rules.plain(&env).spec);
        let each = (0..).zip(recovery.recover_each(Form::Block, &request.forced));
        let all: Vec<_> =
            each.map(|(index, tx)| tx.map_err(|_| InvalidCause::Forced { index })).collect::<Result<_, _>>()?;
        let forced = || (0..).zip(&request.forced).filter(|(_, tx)| is_forced(tx));
        if let Some((index, _)) = forced().next() {
            check_once(forced())?;
            if self.forced_check.is_none() {
                return Err(InvalidCause::Forced { index });
            }
            let gas = all.iter().fold(0u64, |gas, tx| gas.saturating_add(tx.tx().gas_limit));
            if gas > request.env.gas_limit {
                return Err(InvalidCause::GasLimit);
            }
        }
        Ok(all)
    }

    /// Refuses requests after the driver has ended.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.halted.lock().is_some() { Err(self.stopped()) } else { Ok(()) }
    }

    /// Ends all open requests: the driver has ended, and nothing more is done.
    pub(super) fn halt(&self, cause: String) {
        self.halted.lock().get_or_insert(cause);
        let why = self.stopped();
        self.with(|desk| desk.halt(&why));
    }

    /// Rules by which the pool judges after a block: those of a child at the block's time. On a chain with whole blocks the fees
    /// are the child's; otherwise consensus chooses them, and the last base fee is taken.
    pub(super) fn pool_rules(&self, fees: &Fees, height: u64) -> PoolRules {
        let Fees { timestamp, gas_limit, gas_used, base_fee, excess_blob_gas, blob_gas_used } = *fees;
        let chain = &self.rules.chain;
        // Of a genesis that was begun without a header nothing is known.
        let known = self.rules.follow_chain() && fees.are_known();
        let next_base = known.then(|| chain.next_base_fee(gas_used, gas_limit, base_fee)).flatten();
        let mut env = BlockEnv {
            number: U256::from(height + 1),
            timestamp: U256::from(timestamp),
            prevrandao: Some(B256::ZERO),
            difficulty: U256::ZERO,
            basefee: next_base.unwrap_or(base_fee),
            gas_limit,
            ..BlockEnv::default()
        };
        let spec = self.rules.plain(&env).spec;
        let params = chain.blob_params(timestamp).filter(|_| self.has_blobs && spec.is_enabled_in(SpecId::CANCUN));
        let next = || chain.next_excess_blob_gas(timestamp, excess_blob_gas, blob_gas_used, base_fee);
        let blobs = params.and_then(|params| next().map(|excess| (excess, params.calc_blob_fee(excess))));
        let blob = blobs.map(|(excess_blob_gas, blob_gasprice)| {
            env.blob_excess_gas_and_price = Some(BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice });
            blob_gasprice
        });
        PoolRules { spec, base: next_base, blob, env }
    }

    /// Changes the books, then wakes the receiver of events.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Desk<Kept>) -> R) -> R {
        let mut desk = self.desk.lock();
        let result = act(&mut desk);
        let waiting = desk.has_events();
        drop(desk);
        let waker = if waiting { self.waker.lock().clone() } else { None };
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    /// The candidate that a request and its transactions make.
    pub(super) fn proposal(&self, request: &BuildRequest, txs: Vec<Bytes>) -> api::Candidate {
        let payload = api::Payload::with_attributes(txs, request.attributes.clone());
        api::Candidate::new(self.chain, request.parent, request.env, self.policy, payload.into())
    }
}
