//! State that callers and the driver share, behind locks.

use super::{codec::Fees, kept::Kept, restored::Restored};
use crate::{engine::rules::Rules, pool::Pool, recovery::Recovery, state::Codes};
use alloy_primitives::Bytes;
use parking_lot::Mutex;
use phalanx_engine_api::{self as api, BuildRequest, Failure, FatalCause, TxPolicy, Waker, desk::Desk};
use revm::{
    context::BlockEnv,
    primitives::{B256, U256, hardfork::SpecId},
};
use std::sync::{Arc, atomic::AtomicBool};

/// State that callers and driver share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) desk: Mutex<Desk<Kept>>,
    pub(super) waker: Mutex<Option<Waker>>,
    /// Blocks that were staged before a restart and not submitted since. Locked after the desk.
    pub(super) restored: Mutex<Restored>,
    /// Locked after the desk.
    pub(super) pool: Mutex<Pool>,
    pub(super) recovery: Recovery,
    /// Hard fork of the committed block, which transactions are judged by.
    pub(super) spec: Mutex<SpecId>,
    pub(super) rules: Rules,
    /// True if blocks may carry blobs.
    pub(super) has_blobs: bool,
    /// Cause for which the driver ended before its service.
    pub(super) halted: Mutex<Option<String>>,
    pub(super) codes: Arc<Codes>,
    pub(super) chain: u64,
    /// Policy of blocks that this service builds.
    pub(super) policy: TxPolicy,
    /// True if a submission has come that the driver has not seen.
    pub(super) urgent: AtomicBool,
}

impl Shared {
    /// Failure of every request after the driver has ended.
    pub(super) fn stopped(&self) -> Failure {
        let cause = self.halted.lock().clone();
        Failure::Fatal(FatalCause::Stopped(cause.unwrap_or_else(|| "the service was ended".into())))
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

    /// Hard fork by which the pool judges after a block, the blob price of its child at the block's time, and the child's
    /// environment as far as it is known.
    pub(super) fn pool_rules(&self, fees: &Fees, height: u64) -> (SpecId, Option<u128>, BlockEnv) {
        let Fees { timestamp, base_fee, excess_blob_gas, blob_gas_used } = *fees;
        let env = BlockEnv {
            number: U256::from(height + 1),
            timestamp: U256::from(timestamp),
            prevrandao: Some(B256::ZERO),
            difficulty: U256::ZERO,
            basefee: base_fee,
            ..BlockEnv::default()
        };
        let spec = self.rules.plain(&env).spec;
        let chain = &self.rules.chain;
        let params = chain.blob_params(timestamp).filter(|_| self.has_blobs && spec.is_enabled_in(SpecId::CANCUN));
        let next = || chain.next_excess_blob_gas(timestamp, excess_blob_gas, blob_gas_used, base_fee);
        let blob = params.and_then(|params| Some(params.calc_blob_fee(next()?)));
        (spec, blob, env)
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
