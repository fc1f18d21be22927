//! Engine behind [`phalanx_engine_api`]: requests in front, one driver thread behind.
//!
//! ```text
//!  consensus ──requests──► Desk ◄──jobs, completions── driver ──checkout, execute, hold──► Engine
//!      ▲                    │                             ▲                                   │ stage, promote
//!      └──────events────────┘                             └────────────written────────────── writer
//! ```
//!
//! Requests only change the books ([`Desk`], which the simulator proves on a model engine) and return. The driver
//! takes jobs from the desk: it puts the engine on the parent, executes, hashes and adds the fork. Writes end on the
//! writer's thread, which notifies the driver.
//!
//! Transactions come as EIP-2718 bytes. With [`EngineBuilder::with_chain`](crate::EngineBuilder::with_chain) blocks are
//! whole: system calls, withdrawals, requests and blobs, under the hard fork of each block's height and time. Without it
//! they are transactions alone, under the engine's rules for ever. BLOCKHASH returns the hash of one of the last 256 blocks,
//! which are part of the state: of a whole block that of its header, as everywhere, else its [`ExecId`]. Inside, requests and
//! votes name every block by its [`ExecId`], which is known before the block runs.

mod stepped;
mod build;
mod child;
mod prove;
mod view;
mod whole;
mod hand_over;
mod driver;
mod execute;
mod environment;
mod sink;
mod slot;
mod shelf;
mod shared;
mod restored;
mod kept;
mod codec;
mod attributes;
mod anchor;
mod failure;

pub use anchor::{Anchor, plain_payload};
pub use attributes::BlockAttributes;
pub use build::{Recovered, SendError};
pub use prove::{
    ProofMismatch, ProvenTransaction, verify_account, verify_code, verify_fate, verify_inclusion, verify_slot,
    verify_transaction,
};
pub use sink::{BlockSink, SinkBlock, SinkRefused};
pub use stepped::{Performed, SteppedService};
pub use whole::WholeBlock;

use crate::{
    engine::Engine,
    model::Error,
    pool::{Pool, PoolConfig},
    recovery::{Recovery, RecoveryCache},
    state::Ancestors,
};
use alloy_primitives::{B256, KECCAK256_EMPTY, Sealed};
use codec::{Fees, Note, Tag};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use driver::{Driver, Order};
use hand_over::Keeper;
use kept::{Changed, Kept};
use parking_lot::Mutex;
use phalanx_engine_api::{
    self as api, Candidate, CommitMeta, CommittedTip, EngineEvent, EngineStatus, ExecId, Failure, Limits, Pressure,
    Priority, RetryCause, Ticket, TxPolicy, Waker,
    desk::{Desk, Row, Rows},
};
use restored::Restored;
use revm::{DatabaseRef as _, primitives::hardfork::SpecId};
use shared::{ForcedCheck, Shared};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// Configuration of a service.
#[non_exhaustive]
pub struct ServiceConfig {
    /// Bounds of uncommitted blocks.
    pub limits: Limits,
    /// Policy of blocks that this service builds: consensus must propose them under the same policy.
    pub policy: TxPolicy,
    /// Limits and rules of the pool; its hard fork is the engine's.
    pub pool: PoolConfig,
    /// Maximum size of cached recovered transactions, in bytes, so that a signature is checked once. Default 256 MiB.
    pub recovered_bytes: usize,
    /// Returns the free bytes of the store's disk. A block is staged only if it fits. Without this function a full
    /// disk shows as a failed write, which ends the engine until the store is reopened.
    pub disk_room: Option<Box<dyn Fn() -> u64 + Send>>,
    /// The node's own store: it takes every block before the block becomes visible.
    pub sink: Option<Arc<dyn BlockSink>>,
    /// Decides whether the forced transactions of a block are those of its chain. Without this function every block with one is
    /// invalid: see [`Self::with_forced_check`].
    pub forced_check: Option<Box<CheckForced>>,
}

/// Decides whether the forced transactions of a block are those of its chain.
pub type CheckForced = dyn Fn(&Candidate) -> bool + Send + Sync;

impl core::fmt::Debug for ServiceConfig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServiceConfig").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Default for ServiceConfig {
    fn default() -> Self {
        let (limits, policy, pool) = (Limits::default(), TxPolicy::default(), PoolConfig::default());
        Self { limits, policy, pool, recovered_bytes: 256 << 20, disk_room: None, sink: None, forced_check: None }
    }
}

impl ServiceConfig {
    /// Sets the policy of blocks that this service builds.
    #[must_use]
    pub const fn with_policy(mut self, policy: TxPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets limits and rules of the pool.
    #[must_use]
    pub const fn with_pool(mut self, pool: PoolConfig) -> Self {
        self.pool = pool;
        self
    }

    /// Sets the bounds of uncommitted blocks.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the node's own store of blocks.
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn BlockSink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Sets the function that returns the free bytes of the store's disk.
    #[must_use]
    pub fn with_disk_room(mut self, room: impl Fn() -> u64 + Send + 'static) -> Self {
        self.disk_room = Some(Box::new(room));
        self
    }

    /// Sets the check of forced transactions ([`encode_forced`](crate::encode_forced)), which mint: it returns true if the block
    /// holds those that the chain derives at this height, in this order, and no other one.
    ///
    /// Without it, and where it returns false, a block that holds one is invalid
    /// ([`InvalidCause::Forced`](api::InvalidCause::Forced)). All replicas must decide alike. It is not called for blocks without
    /// forced transactions. The driver waits for it.
    #[must_use]
    pub fn with_forced_check(mut self, check: impl Fn(&Candidate) -> bool + Send + Sync + 'static) -> Self {
        self.forced_check = Some(Box::new(check));
        self
    }
}

/// A running engine. Dropping it ends the thread and writes the queued blocks.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Opens a service on an engine with a chain, at least its genesis, and continues where the last service on its
    /// store ended. Committed blocks within reach of a rewind keep their metadata; staged blocks are not executed
    /// again when they are submitted.
    ///
    /// The store's durability must be `Block` for commits to survive power loss, as the API promises.
    ///
    /// A chain that was begun with [`Engine::begin`] is given to it before every opening, not the first one alone: the rules of the
    /// first block follow from the header of the genesis, which the store does not hold.
    ///
    /// # Errors
    /// [`Error::Outdated`] for the state of an earlier version's service. Other errors if there is no genesis, the store's note
    /// is not a service's, the chain is not on proof of stake or lacks a contract that its blocks call, the last block of a chain
    /// with whole blocks is not a service's, or the system starts no thread.
    pub fn open(engine: Engine, config: ServiceConfig) -> Result<Self, Error> {
        let (mut service, driver, inbox) = Self::assemble(engine, config)?;
        let thread = std::thread::Builder::new()
            .name("phalanx-service".into())
            .spawn(move || {
                let shared = Arc::clone(&driver.shared);
                let ran = catch_unwind(AssertUnwindSafe(|| driver.run(&inbox)));
                if let Err(panic) = ran {
                    shared.halt(format!("its driver panicked: {}", message(&*panic)));
                }
            })
            .map_err(|source| Error::Threads { threads: 1, source })?;
        service.thread = Some(thread);
        Ok(service)
    }

    /// Creates a service, its driver and the driver's inbox.
    fn assemble(mut engine: Engine, config: ServiceConfig) -> Result<(Self, Driver, Receiver<Order>), Error> {
        let height = engine.state().height();
        let height = height.ok_or(Error::Genesis { what: "the store holds no chain yet; commit a genesis first" })?;
        engine.checkout(engine.committed())?;
        let note = Note::read(engine.note())?;
        let finalised = note.finalised;
        let rows = rows(&engine, height, note)?;
        let chain = engine.rules.chain.chain_id();
        let tip = &rows.tip().value;
        let fees = tip.fees;
        check_version(&engine, height)?;
        if height > engine.state.first_height() && tip.outcome.is_none() && engine.rules.follow_chain() {
            let what = "the last block was not committed by a service of this version: its time and its blob gas, from which the fees of the \
                        next one follow, are unknown. Let a service commit every block after the genesis";
            return Err(Error::Configuration { what: what.into() });
        }
        check_contracts(&engine, &fees, height)?;
        let window = engine.state.store.history() as u64 + 1;
        let desk = Desk::open(chain, config.limits, rows, finalised).with_rows(window);
        let restored = Mutex::new(Restored::of(&engine));
        let cache = Arc::new(RecoveryCache::new(config.recovered_bytes, engine.salt));
        let mut recovery = Recovery::new(engine.rules.chain.clone(), engine.cfg.spec).with_cache(cache);
        let chain_rules = engine.cfg.shared_rules();
        if chain_rules.as_ref().is_some_and(|rules| rules.permits_forced()) {
            recovery = recovery.with_forced_transactions();
        }
        let pool = match chain_rules {
            Some(rules) => Pool::new(config.pool).with_rules(rules),
            None => Pool::new(config.pool),
        };
        let shared = Arc::new(Shared {
            desk: Mutex::new(desk),
            waker: Mutex::new(None),
            restored,
            pool: Mutex::new(pool),
            recovery,
            workers: Arc::clone(&engine.workers),
            forced_check: config.forced_check.map(ForcedCheck),
            spec: Mutex::new(engine.cfg.spec),
            rules: engine.rules.clone(),
            has_blobs: engine.rules.follow_chain(),
            halted: Mutex::new(None),
            views: engine.state.views(),
            chain,
            policy: config.policy,
            urgent: AtomicBool::new(false),
        });
        let (orders, inbox) = unbounded();
        let keeper = config.sink.map(|sink| Keeper::start(sink, orders.clone())).transpose()?;
        let driver = Driver::new(engine, Arc::clone(&shared), orders.clone(), config.disk_room, keeper);
        driver.follow(Changed::default());
        driver.tell_sink();
        Ok((Self { shared, orders, thread: None }, driver, inbox))
    }

    /// Waits until every request so far has completed or failed. For tools and tests: consensus gets events.
    pub fn settle(&self) {
        let (reply, answer) = bounded(1);
        if self.orders.send(Order::Settle(reply)).is_ok() {
            // An error means that the driver has ended, and its work with it.
            let _ = answer.recv();
        }
    }

    /// Ends the service without completing its requests, as a crash of the process would. Written blocks stay.
    pub fn abandon(mut self) {
        let _ = self.orders.send(Order::Abandon);
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }

    /// Applies a request that may give the driver work.
    fn ask<R>(&self, act: impl FnOnce(&mut Desk<Kept>) -> Result<R, Failure>) -> Result<R, Failure> {
        self.shared.check()?;
        let result = self.shared.with(act)?;
        self.orders.send(Order::Look).map_err(|_| self.shared.stopped())?;
        Ok(result)
    }

    /// State of a block that a caller names.
    fn kept(&self, at: api::ViewAt) -> Result<Kept, Failure> {
        let desk = self.shared.desk.lock();
        let found = match at {
            api::ViewAt::Committed => Some(&desk.rows().tip().value),
            api::ViewAt::Exec(id) => desk.value(id).or_else(|| Some(&desk.rows().find(id)?.value)),
            api::ViewAt::Height(height) => desk.rows().at(height).map(|row| &row.value),
        };
        let oldest = desk.rows().iter().next().map_or(0, |row| row.committed.height);
        match (found, at) {
            (Some(kept), _) => Ok(kept.clone()),
            (None, api::ViewAt::Exec(id)) => Err(Failure::Retry(RetryCause::NotReady(id))),
            (None, api::ViewAt::Height(height)) if height < oldest => Err(Failure::Pruned { oldest }),
            (None, _) => Err(Failure::Retry(RetryCause::NotReady(desk.rows().tip().committed.exec))),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        self.join();
    }
}

/// Message of a panic.
fn message(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}

/// Checks that the last block is none of an earlier version's service: its state named the block itself, where that of this
/// version has the hashes of its ancestors.
fn check_version(engine: &Engine, height: u64) -> Result<(), Error> {
    if engine.state.names()?.contains_key(&height) { Err(Error::Outdated { height }) } else { Ok(()) }
}

/// Checks that whole blocks can be executed on the committed one.
fn check_contracts(engine: &Engine, fees: &Fees, height: u64) -> Result<(), Error> {
    if !engine.rules.follow_chain() {
        return Ok(());
    }
    let env = api::BlockEnv {
        height: height + 1,
        timestamp_ms: fees.timestamp.saturating_mul(1000),
        ..api::BlockEnv::default()
    };
    let spec = engine.rules.plain(&execute::environment(&env)).spec;
    if !spec.is_enabled_in(SpecId::MERGE) {
        let what = "the chain is not on proof of stake at its next block, and a service executes no other";
        return Err(Error::Configuration { what: what.into() });
    }
    for (_, address) in engine.rules.chain.request_calls(spec) {
        let code = engine.state.basic_ref(*address)?.map_or(KECCAK256_EMPTY, |info| info.code_hash);
        if code == KECCAK256_EMPTY {
            let what = format!("every block calls {address}, and there is no contract: put it into the genesis");
            return Err(Error::Configuration { what });
        }
    }
    Ok(())
}

/// Committed blocks that a rewind can reach.
fn rows(engine: &Engine, height: u64, note: Note) -> Result<Rows<Kept>, Error> {
    let (store, views) = (&engine.state.store, engine.state.views());
    let hashes = engine.state.names()?;
    let window = height.saturating_sub(store.history() as u64)..=height;
    let first = engine.state.first_height();
    let (mut tags, mut known) = (BTreeMap::new(), BTreeMap::new());
    for at in window.clone() {
        let Some(mut tag) = store.payload_at(at)?.and_then(|payload| Tag::read(&payload)) else { continue };
        known.extend(core::mem::take(&mut tag.rows).into_iter().map(|row| (row.height, row)));
        tags.insert(at, tag);
    }
    known.extend(note.committed.into_iter().map(|row| (row.height, row)));
    let mut rows: Option<Rows<Kept>> = None;
    for at in window {
        let Some(block) = store.block_at(at) else { continue };
        // A block that no rewind reaches has no view either.
        let Ok(view) = store.snapshot(block) else { continue };
        let root = views.of(view.clone())?.root();
        let mut tag = tags.remove(&at);
        let committed = match known.remove(&at).filter(|row| row.state_root == root) {
            Some(row) => row,
            // Committed before there was a service.
            None => CommittedTip {
                height: at,
                exec: unnamed(at == first, root),
                state_root: root,
                meta: CommitMeta::default(),
            },
        };
        // A tag of another service's block tells nothing about this one.
        tag = tag.filter(|tag| tag.outcome.id == committed.exec);
        let genesis = engine.begun.as_deref().filter(|_| at == first);
        let told = tag.as_ref().map(|tag| tag.hash).or_else(|| hashes.get(&at).copied());
        let hash = told.or_else(|| genesis.map(Sealed::hash)).unwrap_or(committed.exec.0);
        let mut ancestors: Ancestors = hashes.range(..at).map(|(height, hash)| (*height, *hash)).collect();
        ancestors.insert(at, hash);
        let mut value = Kept::restored(view, Arc::new(ancestors), hash, tag);
        if at + Kept::WHOLE <= height {
            value.thin();
        }
        if value.outcome.is_none() {
            value.covered = at;
        }
        if let Some(genesis) = genesis {
            value.fees = Fees::of_genesis(genesis);
        }
        let row = Row { committed, value };
        match &mut rows {
            Some(rows) => rows.push(row),
            None => rows = Some(Rows::new(row)),
        }
    }
    rows.ok_or_else(|| Error::Corrupt { what: "the committed block cannot be read".into() })
}

/// Identity of a block that consensus has not named: genesis, or a chain's other first block.
const fn unnamed(is_genesis: bool, root: B256) -> ExecId {
    if is_genesis { ExecId::GENESIS } else { ExecId(root) }
}

impl api::ExecutionEngine for Service {
    fn status(&self) -> EngineStatus {
        let desk = self.shared.desk.lock();
        let mut status = desk.status();
        self.shared.restored.lock().list(&mut status.staged);
        status
    }

    fn committed_at(&self, height: u64) -> Option<CommittedTip> {
        self.shared.desk.lock().committed_at(height)
    }

    fn submit(&self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure> {
        self.shared.urgent.store(true, Ordering::Relaxed);
        self.ask(|desk| desk.submit(ticket, candidate, priority))
    }

    fn stage(&self, ticket: Ticket, id: ExecId) -> Result<(), Failure> {
        self.ask(|desk| desk.stage(ticket, id))
    }

    fn commit(&self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure> {
        self.ask(|desk| desk.commit(ticket, tip, meta))
    }

    fn keep_only(&self, _ticket: Ticket, leaves: &[ExecId]) -> Result<(), Failure> {
        self.ask(|desk| {
            desk.keep_only(leaves)?;
            self.shared.restored.lock().keep_only(leaves);
            Ok(())
        })
    }

    /// Stored with the next commit. A crash before it revokes the promise, which is harmless.
    fn finalise(&self, _ticket: Ticket, height: u64) -> Result<(), Failure> {
        self.shared.with(|desk| {
            if desk.check_finalise(height)? {
                desk.finalised(height);
            }
            Ok(())
        })
    }

    fn rewind(&self, ticket: Ticket, to: ExecId) -> Result<(), Failure> {
        self.shared.check()?;
        let (reply, answer) = bounded(1);
        let stopped = || self.shared.stopped();
        self.orders.send(Order::Rewind { ticket, to, reply }).map_err(|_| stopped())?;
        answer.recv().map_err(|_| stopped())?
    }

    fn quiesce(&self, ticket: Ticket) {
        let asked = self.ask(|desk| {
            desk.quiesce(ticket);
            self.shared.restored.lock().keep_only(&[]);
            Ok(())
        });
        // A driver that has ended is at rest.
        drop(asked);
    }

    fn resume(&self) {
        self.shared.desk.lock().resume();
    }

    fn pressure(&self) -> Pressure {
        self.shared.desk.lock().pressure()
    }

    fn poll(&self, max: usize, out: &mut Vec<EngineEvent>) -> usize {
        self.shared.desk.lock().poll(max, out)
    }

    fn set_waker(&self, waker: Waker) {
        *self.shared.waker.lock() = Some(waker);
    }
}
