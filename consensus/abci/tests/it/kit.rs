//! A model engine on the books of the real one, with a disk that outlives it, and a host with a pool.

use alloy_primitives::{B256, Bytes, keccak256};
use parking_lot::Mutex;
use phalanx_abci::{
    App, Halt, Header, Host, Offer, Read, Refused,
    conformance::{Comet, asked},
    proto::{self, Request, request::Value as Asked},
};
use phalanx_engine_api::{
    BlockEnv, BuildRequest, BuiltCandidate, Candidate, CommitMeta, CommittedTip, EngineEvent, EngineStatus, ExecId,
    ExecOutcome, ExecutionEngine, Failure, InvalidCause, Limits, Payload, Pressure, Priority, Ticket, TxPolicy,
    TxStatus, Waker,
    desk::{Desk, Job, JobKind, Row, Rows},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Number of the test chain.
pub(crate) const CHAIN: u64 = 4242;

/// Name of the test chain.
pub(crate) const NAME: &str = "test-4242";

/// Milliseconds at which the chain begins.
pub(crate) const START_MS: u64 = 1_700_000_000_500;

/// Format of the model's snapshots.
pub(crate) const FORMAT: u32 = 7;

/// Number of chunks of a snapshot.
pub(crate) const CHUNKS: u32 = 3;

/// Transaction that no engine decodes: it is skipped.
pub(crate) const JUNK: &[u8] = b"junk";

/// Transaction that the pool refuses for now.
pub(crate) const EARLY: &[u8] = b"early";

/// Transaction that the pool panics on.
pub(crate) const PANIC: &[u8] = b"panic";

/// Committed blocks with their milliseconds. It outlives engine and host.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<Vec<(CommittedTip, u64)>>>);

impl Disk {
    pub(crate) fn new() -> Self {
        let state_root = keccak256("genesis");
        let genesis = CommittedTip { height: 0, exec: ExecId::GENESIS, state_root, meta: CommitMeta::default() };
        Self(Arc::new(Mutex::new(vec![(genesis, 0)])))
    }

    pub(crate) fn roots(&self) -> Vec<B256> {
        self.0.lock().iter().map(|(committed, _)| committed.state_root).collect()
    }

    /// Disk of a node that knows nothing below a height.
    pub(crate) fn from(&self, height: u64) -> Self {
        let from = self.0.lock().iter().filter(|(committed, _)| committed.height >= height).take(1).cloned().collect();
        Self(Arc::new(Mutex::new(from)))
    }

    fn tip(&self) -> (CommittedTip, u64) {
        self.0.lock().last().expect("a genesis").clone()
    }
}

/// The result that every engine must find: a function of the parent's root and the block.
pub(crate) fn outcome(parent: &B256, candidate: &Candidate) -> ExecOutcome {
    let id = candidate.id();
    let status = |tx: &Bytes| if &tx[..] == JUNK { TxStatus::Skipped } else { TxStatus::Succeeded };
    let state_root = keccak256([parent.as_slice(), id.0.as_slice()].concat());
    let (receipts_root, transactions_root) = (keccak256(id.0), candidate.payload().digest());
    let txs = candidate.payload().txs().iter().map(status).collect();
    ExecOutcome { id, state_root, receipts_root, transactions_root, gas_used: 21_000, txs }
}

/// Snapshot of a state: its root is the whole metadata.
pub(crate) fn offer(height: u64, root: &B256) -> Offer {
    Offer { height, format: FORMAT, chunks: CHUNKS, metadata: root.0.into() }
}

/// Chunk of a snapshot, which can be checked under the root alone.
pub(crate) fn piece(root: &B256, number: u32) -> Bytes {
    keccak256([root.as_slice(), &number.to_be_bytes()].concat()).0.into()
}

#[derive(Debug)]
struct Inner {
    desk: Desk<()>,
    /// Failures of the next jobs of a kind.
    faults: VecDeque<(JobKind, Failure)>,
    executed: BTreeMap<ExecId, u32>,
    /// Numbers of blocks that were staged and committed, for the order of both.
    log: Vec<(JobKind, u64)>,
    is_held: bool,
}

/// An engine that works whenever its events are taken.
#[derive(Debug)]
pub(crate) struct Model {
    inner: Mutex<Inner>,
    disk: Disk,
}

impl Model {
    fn new(disk: Disk, limits: Limits) -> Self {
        let mut rows: Option<Rows<()>> = None;
        for (committed, _) in disk.0.lock().iter().cloned() {
            let row = Row { committed, value: () };
            match &mut rows {
                None => rows = Some(Rows::new(row)),
                Some(rows) => rows.push(row),
            }
        }
        let desk = Desk::open(CHAIN, limits, rows.expect("a genesis"), 0);
        let (faults, executed, log) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        Self { inner: Mutex::new(Inner { desk, faults, executed, log, is_held: false }), disk }
    }

    /// Lets the next job of a kind fail.
    pub(crate) fn fail(&self, kind: JobKind, why: Failure) {
        self.inner.lock().faults.push_back((kind, why));
    }

    /// Stops all work, or goes on with it.
    pub(crate) fn hold(&self, is_held: bool) {
        self.inner.lock().is_held = is_held;
    }

    /// Waits until a block is submitted: the call for it is under way.
    pub(crate) fn wait_for_a_block(&self) {
        let begun = Instant::now();
        while self.pressure().unexecuted == 0 {
            assert!(begun.elapsed() < Duration::from_secs(600), "no block is submitted");
            std::thread::yield_now();
        }
    }

    /// Largest number of executions of one block.
    pub(crate) fn most_executions(&self) -> u32 {
        self.inner.lock().executed.values().copied().max().unwrap_or_default()
    }

    /// Number of executions of all blocks.
    pub(crate) fn executions(&self) -> u32 {
        self.inner.lock().executed.values().sum()
    }

    /// Stages and commits so far, with their heights.
    pub(crate) fn log(&self) -> Vec<(JobKind, u64)> {
        self.inner.lock().log.clone()
    }
}

impl Inner {
    fn work(&mut self, disk: &Disk) {
        while !self.is_held {
            let jobs = self.desk.start();
            if jobs.is_empty() {
                return;
            }
            for job in jobs {
                self.perform(job, disk);
            }
        }
    }

    fn perform(&mut self, job: Job, disk: &Disk) {
        if self.faults.front().is_some_and(|(kind, _)| *kind == job.kind)
            && let Some((_, why)) = self.faults.pop_front()
        {
            return self.desk.failed(job, why);
        }
        let Some(candidate) = self.desk.candidate(job.id).cloned() else {
            return self.desk.failed(job, Failure::Superseded);
        };
        let (height, timestamp_ms) = (candidate.env().height, candidate.env().timestamp_ms);
        match job.kind {
            JobKind::Execute => {
                *self.executed.entry(job.id).or_default() += 1;
                self.desk.executed(job, Ok(()));
            }
            JobKind::Root => {
                let outcome = outcome(&disk.tip().0.state_root, &candidate);
                self.desk.rooted(job, (), outcome);
            }
            JobKind::Stage => {
                self.log.push((job.kind, height));
                self.desk.staged(job, Ok(()));
            }
            JobKind::Commit => {
                self.log.push((job.kind, height));
                let state_root = self.desk.outcome(job.id).expect("rooted").state_root;
                let meta = self.desk.pending().expect("a commit").own_meta(0);
                disk.0.lock().push((CommittedTip { height, exec: job.id, state_root, meta }, timestamp_ms));
                self.desk.committed(job, Ok(()));
            }
        }
    }
}

impl ExecutionEngine for Model {
    fn status(&self) -> EngineStatus {
        self.inner.lock().desk.status()
    }

    fn committed_at(&self, height: u64) -> Option<CommittedTip> {
        self.inner.lock().desk.committed_at(height)
    }

    fn submit(&self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure> {
        self.inner.lock().desk.submit(ticket, candidate, priority)
    }

    fn stage(&self, ticket: Ticket, id: ExecId) -> Result<(), Failure> {
        self.inner.lock().desk.stage(ticket, id)
    }

    fn commit(&self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure> {
        self.inner.lock().desk.commit(ticket, tip, meta)
    }

    fn keep_only(&self, _ticket: Ticket, leaves: &[ExecId]) -> Result<(), Failure> {
        self.inner.lock().desk.keep_only(leaves)
    }

    fn finalise(&self, _ticket: Ticket, height: u64) -> Result<(), Failure> {
        self.inner.lock().desk.check_finalise(height).map(drop)
    }

    fn rewind(&self, _ticket: Ticket, _to: ExecId) -> Result<(), Failure> {
        Err(Failure::Invalid(InvalidCause::Environment))
    }

    fn quiesce(&self, ticket: Ticket) {
        self.inner.lock().desk.quiesce(ticket);
    }

    fn resume(&self) {
        self.inner.lock().desk.resume();
    }

    fn pressure(&self) -> Pressure {
        self.inner.lock().desk.pressure()
    }

    fn poll(&self, max: usize, out: &mut Vec<EngineEvent>) -> usize {
        let inner = &mut *self.inner.lock();
        inner.work(&self.disk);
        inner.desk.poll(max, out)
    }

    fn set_waker(&self, _waker: Waker) {}
}

/// Host of the tests. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct TestHost(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: Model,
    /// Waiting transactions.
    pool: Mutex<Vec<Bytes>>,
    /// Transactions for the pools of others.
    offered: Mutex<Vec<Bytes>>,
    halted: Mutex<Vec<Halt>>,
    shown: Mutex<Vec<u64>>,
    together: AtomicUsize,
}

impl TestHost {
    pub(crate) fn open(disk: &Disk) -> Self {
        Self::open_with(disk, Limits::default())
    }

    pub(crate) fn open_with(disk: &Disk, limits: Limits) -> Self {
        let engine = Model::new(disk.clone(), limits);
        let (pool, offered) = (Mutex::default(), Mutex::default());
        let (halted, shown, together) = (Mutex::default(), Mutex::default(), AtomicUsize::default());
        Self(Arc::new(Shared { engine, pool, offered, halted, shown, together }))
    }

    pub(crate) fn model(&self) -> &Model {
        &self.0.engine
    }

    /// Has a transaction for the pools of others.
    pub(crate) fn offer(&self, tx: &Bytes) {
        self.0.offered.lock().push(tx.clone());
    }

    pub(crate) fn halts(&self) -> Vec<Halt> {
        self.0.halted.lock().clone()
    }

    /// Puts a transaction into the pool.
    pub(crate) fn put(&self, tx: &Bytes) -> Result<(), Refused> {
        assert!(&tx[..] != PANIC, "a bug in the pool");
        if &tx[..] == JUNK {
            return Err(Refused::Final("junk".into()));
        }
        if &tx[..] == EARLY {
            return Err(Refused::Passing("the pool is full".into()));
        }
        let mut pool = self.0.pool.lock();
        if !pool.contains(tx) {
            pool.push(tx.clone());
        }
        Ok(())
    }

    /// Largest number of transactions that were offered together.
    pub(crate) fn together(&self) -> usize {
        self.0.together.load(Ordering::Relaxed)
    }

    /// Heights that the node has shown.
    pub(crate) fn shown(&self) -> Vec<u64> {
        self.0.shown.lock().clone()
    }
}

impl Host for TestHost {
    fn engine(&self) -> &dyn ExecutionEngine {
        &self.0.engine
    }

    fn env(&self, header: &Header) -> Result<BlockEnv, String> {
        let (parent, parent_ms) = self.0.engine.disk.tip();
        let Header { height, timestamp_ms, proposer: beneficiary, prevrandao } = *header;
        if height != parent.height + 1 || timestamp_ms < parent_ms {
            return Err(format!("height {height} at {timestamp_ms} on {} at {parent_ms}", parent.height));
        }
        Ok(BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit: 30_000_000, base_fee: 7 })
    }

    fn check(&self, candidate: &Candidate) -> Result<(), (usize, String)> {
        let junk = candidate.payload().txs().iter().position(|tx| &tx[..] == JUNK);
        junk.map_or(Ok(()), |place| Err((place, "junk".into())))
    }

    fn build(&self, request: BuildRequest) -> Result<BuiltCandidate, Failure> {
        let mut left = request.budget.bytes;
        let take = |tx: &&Bytes| {
            let fits = tx.len() as u64 <= left;
            left = left.saturating_sub(tx.len() as u64);
            fits
        };
        let txs = self.0.pool.lock().iter().take_while(take).cloned().collect();
        let payload = Payload::new(txs).into();
        let candidate = Candidate::new(CHAIN, request.parent, request.env, TxPolicy::SkipInvalid, payload);
        Ok(BuiltCandidate { candidate, outcome: None, dropped: Vec::new() })
    }

    fn admit(&self, txs: &[Bytes]) -> Vec<Result<(), Refused>> {
        self.0.together.fetch_max(txs.len(), Ordering::Relaxed);
        txs.iter().map(|tx| self.put(tx)).collect()
    }

    fn reap(&self, max_bytes: u64) -> Vec<Bytes> {
        assert!(max_bytes > 0);
        core::mem::take(&mut self.0.offered.lock())
    }

    fn is_waiting(&self, tx: &Bytes) -> bool {
        self.0.pool.lock().contains(tx)
    }

    fn committed(&self, height: u64) -> Result<u64, String> {
        self.0.shown.lock().push(height);
        Ok(height.saturating_sub(10))
    }

    fn snapshots(&self) -> Vec<Offer> {
        // Of even heights alone: the chain goes on behind its newest snapshot.
        let height = self.0.engine.disk.tip().0.height & !1;
        let root = self.0.engine.disk.roots().get(height as usize).copied().filter(|_| height > 0);
        root.map(|root| offer(height, &root)).into_iter().collect()
    }

    fn chunk(&self, height: u64, format: u32, number: u32) -> Option<Bytes> {
        let root = *self.0.engine.disk.roots().get(usize::try_from(height).ok().filter(|height| *height > 0)?)?;
        (format == FORMAT && number < CHUNKS).then(|| piece(&root, number))
    }

    fn read(&self, path: &str, _data: &Bytes, _height: u64, _prove: bool) -> Result<Read, String> {
        Err(format!("no path {path}"))
    }

    fn halted(&self, why: &Halt) {
        self.0.halted.lock().push(why.clone());
    }
}

/// An application on a disk, and its host.
pub(crate) fn open(disk: &Disk) -> (App<TestHost>, TestHost) {
    let host = TestHost::open(disk);
    (App::new(host.clone()), host)
}

/// A transaction with a number.
pub(crate) fn tx(number: u64) -> Bytes {
    format!("transaction {number}").into_bytes().into()
}

pub(crate) const fn commit() -> Request {
    asked(Asked::Commit(proto::RequestCommit {}))
}

/// An application whose chain has begun, its host and its disk.
pub(crate) fn begun() -> (App<TestHost>, TestHost, Disk) {
    let disk = Disk::new();
    let (app, host) = open(&disk);
    Comet::new(NAME, START_MS).handshake(&mut app.clone()).expect("sound");
    (app, host, disk)
}
