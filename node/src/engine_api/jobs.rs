//! Blocks that are built for a consensus client until it fetches them, or until their slot is over.

use super::{
    blobs,
    built::Built,
    client::{Client, Stop},
    fault::Fault,
    handle::Handle,
    version::Version,
};
use crate::{environment, error::NodeError};
use alloy_consensus::constants::MAXIMUM_EXTRA_DATA_SIZE;
use alloy_primitives::{B64, Bytes};
use alloy_rpc_types_engine::PayloadAttributes;
use phalanx::{
    BlockAttributes,
    api::{
        BlockBudget, Build as _, BuildHandle, BuildRequest, BuiltCandidate, Candidate, ExecId, Payload, Priority,
        TxPolicy,
    },
    chain::Attributes,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Maximum time that a client waits for a builder which is not done. The specification gives the node a second, and the block is still
/// to be sealed.
const DUE: Duration = Duration::from_millis(400);

/// Seconds behind the time of a block after which it is no longer improved: a slot of Ethereum.
const SLOT: u64 = 12;

/// Jobs of a client.
#[derive(Debug)]
pub(super) struct Jobs {
    active: Option<Job>,
    pub(super) handle: Handle,
    shape: Shape,
}

/// Parts of built blocks that the node chooses.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Gas limit of blocks whose attributes have none; `None` for the parent's.
    gas_limit: Option<u64>,
    /// `None` for none.
    extra_data: Option<Bytes>,
}

impl Shape {
    /// # Errors
    /// [`NodeError::Setting`] for more than 32 bytes of extra data.
    pub(crate) fn new(gas_limit: Option<u64>, extra_data: Bytes) -> Result<Self, NodeError> {
        if extra_data.len() > MAXIMUM_EXTRA_DATA_SIZE {
            let why =
                format!("extra data has at most {MAXIMUM_EXTRA_DATA_SIZE} bytes, and these are {}", extra_data.len());
            return Err(NodeError::Setting(why));
        }
        Ok(Self { gas_limit, extra_data: Some(extra_data).filter(|data| !data.is_empty()) })
    }
}

/// A block that is being built. It is built anew when the pool has got more since.
struct Job {
    id: B64,
    request: BuildRequest,
    /// The builder, until it is done.
    building: Option<Box<dyn BuildHandle>>,
    /// The best block of the builders before.
    best: Option<BuiltCandidate>,
    /// Admissions that the last builder has seen.
    seen: u64,
    /// The block that the engine holds as a draft.
    drafted: Option<ExecId>,
}

impl core::fmt::Debug for Job {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Job").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Jobs {
    pub(super) const fn new(handle: Handle, shape: Shape) -> Self {
        Self { active: None, handle, shape }
    }

    pub(super) const fn is_building(&self) -> bool {
        self.active.is_some()
    }

    /// Notes that transactions came back to the pool.
    pub(super) fn ring(&self) {
        self.handle.ring();
    }
}

impl Job {
    /// Takes the block of a builder, if it is better than the one before.
    fn settle(&mut self) {
        let Some(done) = self.building.take().and_then(|building| building.finish().ok()) else { return };
        let gas = |built: &BuiltCandidate| built.outcome.as_ref().map_or(0, |outcome| outcome.gas_used);
        if self.best.as_ref().is_none_or(|best| gas(&done) >= gas(best)) {
            self.best = Some(done);
        }
    }

    /// The best block so far. A builder that has a block ends with that; one that has none may not have begun, and goes on.
    fn best_so_far(&mut self) -> Option<Candidate> {
        let is_empty = |best: &BuiltCandidate| best.candidate.payload().txs().is_empty();
        let first = match &self.building {
            Some(building) if !building.wait(Duration::ZERO) => building.best().ok().filter(is_empty),
            _ => None,
        };
        if first.is_none() {
            self.settle();
        }
        self.best.as_ref().or(first.as_ref()).map(|best| best.candidate.clone())
    }
}

impl Client {
    /// Begins to build a block on the head, and names it. The same block is begun once.
    pub(super) fn begin(&mut self, wanted: &PayloadAttributes) -> Result<B64, Stop> {
        let head = self.chain.head();
        if wanted.timestamp <= head.header.timestamp {
            let why = format!("its time is {}, and the head's is {}", wanted.timestamp, head.header.timestamp);
            return Err(Fault::Attributes(why).into());
        }
        let limit = head.header.gas_limit;
        let target = wanted.target_gas_limit.or(self.jobs.shape.gas_limit).unwrap_or(limit);
        let attributes = Attributes {
            timestamp: wanted.timestamp,
            beneficiary: wanted.suggested_fee_recipient,
            prevrandao: wanted.prev_randao,
            gas_limit: Some(environment::gas_limit(limit, target)),
            ..Attributes::default()
        };
        let parent = ExecId(head.exec);
        let invalid = |why: &dyn core::fmt::Display| Fault::Attributes(why.to_string());
        let env = self.chain.service.next_env(parent, &attributes).map_err(|why| invalid(&why))?;
        let attributes = BlockAttributes {
            parent_beacon_block_root: wanted.parent_beacon_block_root.unwrap_or_default(),
            withdrawals: wanted.withdrawals.clone().unwrap_or_default(),
            slot_number: wanted.slot_number,
            extra_data: self.jobs.shape.extra_data.clone(),
            ..BlockAttributes::default()
        };
        let attributes = attributes.encode();
        let budget = BlockBudget::UNLIMITED;
        let empty = Payload::with_attributes(Vec::new(), attributes.clone()).into();
        // The name of the empty block binds parent, environment and attributes.
        let name = Candidate::new(self.chain.spec.chain_id(), parent, env, TxPolicy::Strict, empty).id();
        let id = B64::from_slice(&name.0[..8]);
        let is_there = self.jobs.active.as_ref().is_some_and(|job| job.id == id);
        if is_there || self.jobs.handle.shelf.sealed(id).is_some() {
            return Ok(id);
        }
        self.put_aside()?;
        // Built blocks that the client has not proposed give their transactions back.
        let executed = self.tree.executed();
        self.steps.keep_only(&executed)?;
        let request = BuildRequest { parent, env, budget, forced: Vec::new(), attributes };
        let seen = self.jobs.handle.admitted();
        let building = Some(self.chain.service.build(request.clone())?);
        self.jobs.active = Some(Job { id, request, building, best: None, seen, drafted: None });
        Ok(id)
    }

    /// Improves the block until its slot is over.
    pub(super) fn improve(&mut self) {
        let Some(job) = &self.jobs.active else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        if now <= (job.request.env.timestamp_ms / 1000).saturating_add(SLOT) {
            self.renew();
        }
    }

    /// Builds the block anew if its builder is done, and the pool has got more since it began, or the builder was ended early, or has
    /// failed.
    fn renew(&mut self) {
        let admitted = self.jobs.handle.admitted();
        let Some(job) = &mut self.jobs.active else { return };
        if job.building.as_ref().is_some_and(|building| !building.wait(Duration::ZERO)) {
            return;
        }
        job.settle();
        if job.seen == admitted && job.best.is_some() {
            return;
        }
        job.seen = admitted;
        // Without another builder the block stays as it is.
        job.building = self.chain.service.build(job.request.clone()).ok();
    }

    /// Ends the job that goes on, if any. Its best block can be fetched from now on; after an error it goes on.
    fn seal(&mut self) -> Result<(), Stop> {
        let Some(mut job) = self.jobs.active.take() else { return Ok(()) };
        let (id, sealed) = (job.id, self.sealed(&mut job));
        match sealed {
            Ok(built) => {
                self.jobs.handle.shelf.seal(id, built);
                Ok(())
            }
            Err(stop) => {
                self.jobs.active = Some(job);
                Err(stop)
            }
        }
    }

    /// The best block of a job, executed.
    fn sealed(&mut self, job: &mut Job) -> Result<Built, Stop> {
        job.settle();
        let best = job.best.clone().ok_or_else(|| Fault::Server("no block could be built: retry".into()))?;
        let id = best.candidate.id();
        self.submit(best.candidate)?;
        self.whole(id)
    }

    /// An executed block as it is fetched.
    fn whole(&self, id: ExecId) -> Result<Built, Stop> {
        let whole = self.chain.service.whole_block(id)?;
        let blobs = blobs::of_payload(&self.chain, whole.payload.txs());
        let version = Version::at(&self.chain.spec, whole.header.timestamp);
        Ok(Built { whole, version, blobs })
    }

    /// Leaves the best block so far for a client that fetches it while the thread is busy. The job goes on. No payload that is executed
    /// leaves the engine for it.
    pub(super) fn draft(&mut self) -> Result<(), Stop> {
        let Some(job) = &mut self.jobs.active else { return Ok(()) };
        if job.building.as_ref().is_some_and(|building| !building.wait(Duration::ZERO)) {
            // It ends early, so that the block is built anew.
            self.jobs.handle.ring();
        }
        let Some(candidate) = job.best_so_far() else { return Ok(()) };
        let (job, id, before) = (job.id, candidate.id(), job.drafted.replace(candidate.id()));
        // One at a time: payloads beside it need the engine's places.
        let room = match before.filter(|before| *before != id) {
            Some(_) => self.steps.keep_only(&self.tree.executed()),
            None => Ok(()),
        };
        let executed = room.and_then(|()| self.steps.submit(candidate, Priority::Speculative)).map_err(Stop::from);
        match executed.and_then(|_| self.whole(id)) {
            Ok(built) => self.jobs.handle.shelf.draft(job, built),
            Err(Stop::Fault(fault)) => tracing::debug!(%fault, "a built block is not kept"),
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    /// Ends the job that goes on, whose block is lost if it cannot be executed: nothing else depends on it.
    pub(super) fn put_aside(&mut self) -> Result<(), Stop> {
        match self.seal() {
            Err(Stop::Fault(fault)) => {
                tracing::warn!(%fault, "a built block is lost");
                self.jobs.active = None;
                Ok(())
            }
            done => done,
        }
    }

    /// The best block of a job, which ends with that.
    pub(super) fn fetch(&mut self, id: B64) -> Result<Arc<Built>, Stop> {
        if self.jobs.active.as_ref().is_some_and(|job| job.id == id) {
            // The thread is not busy with another order, so that a better block comes soon.
            self.jobs.handle.shelf.clear();
            // An order may have ended the builder early.
            self.renew();
            // Right after its beginning the block would be empty, on a busy machine.
            let building = self.jobs.active.as_ref().and_then(|job| job.building.as_ref());
            building.map(|building| building.wait(DUE));
            self.seal()?;
        }
        Ok(self.jobs.handle.shelf.sealed(id).ok_or(Fault::UnknownPayload)?)
    }
}
