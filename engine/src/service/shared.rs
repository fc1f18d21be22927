//! State that callers and the driver share, behind locks.

use super::{kept::Kept, restored::Restored};
use crate::{pool::Pool, recovery::Recovery, state::Codes};
use alloy_primitives::Bytes;
use parking_lot::Mutex;
use phalanx_engine_api::{self as api, BuildRequest, TxPolicy, Waker, desk::Desk};
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
    pub(super) codes: Arc<Codes>,
    pub(super) chain: u64,
    /// Policy of blocks that this service builds.
    pub(super) policy: TxPolicy,
    /// True if a submission has come that the driver has not seen.
    pub(super) urgent: AtomicBool,
}

impl Shared {
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
        api::Candidate::new(self.chain, request.parent, request.env, self.policy, api::Payload::new(txs).into())
    }
}
