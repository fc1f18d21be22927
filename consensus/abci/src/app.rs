//! The application: one call of CometBFT after the other.

use crate::{
    answers,
    core::Done,
    driver::{Driver, Missed},
    error::{CallError, Halt},
    header::{self, Header},
    host::Host,
    join::{self, Joiner},
    mempool::{self, MempoolRequest, MempoolResponse},
    proto::{
        self, Request, RequestFinalizeBlock, RequestInitChain, RequestPrepareProposal, RequestProcessProposal,
        RequestVerifyVoteExtension, Response, request::Value as Asked, response::Value as Answer,
    },
};
use alloy_primitives::{Address, B256, Bytes};
use parking_lot::Mutex;
use phalanx_engine_api::{BlockBudget, BuildRequest, Candidate, ExecId, Failure, Payload, TxPolicy};
use prost::bytes;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// Vote for a block in CometBFT's commits; others are absent, or for no block.
const COMMIT_FLAG: i32 = tendermint_proto::v0_38::types::BlockIdFlag::Commit as i32;

/// Type of a CheckTx of a transaction that is new to CometBFT.
pub(crate) const NEW: i32 = proto::CheckTxType::New as i32;

/// Minimum gas of a transaction.
const TX_GAS: u64 = 21_000;

/// Application that answers CometBFT's calls. Clones share one state.
#[derive(Debug)]
pub struct App<H: Host>(Arc<Stages<H>>);

/// A node that joins the chain, and the application on the chain once there is one.
#[derive(Debug)]
struct Stages<H: Host> {
    joiner: Mutex<Option<Box<dyn Joiner<Host = H>>>>,
    inner: OnceLock<Inner<H>>,
    stopping: Arc<AtomicBool>,
}

impl<H: Host> Clone for App<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Inner<H> {
    host: H,
    driver: Mutex<Driver>,
    chain: u64,
    stopping: Arc<AtomicBool>,
    halted: Mutex<Option<String>>,
}

impl<H: Host> App<H> {
    /// Creates an application on the newest committed block of the host's engine, whose events it takes from now on.
    pub fn new(host: H) -> Self {
        let stopping = Arc::default();
        let inner = OnceLock::from(Inner::new(host, Arc::clone(&stopping)));
        Self(Arc::new(Stages { joiner: Mutex::new(None), inner, stopping }))
    }

    /// Creates an application of a node that has no chain yet. It takes a snapshot if CometBFT offers one, and opens the
    /// chain at the first call about a block.
    pub fn joining(joiner: impl Joiner<Host = H>) -> Self {
        let joiner: Box<dyn Joiner<Host = H>> = Box::new(joiner);
        Self(Arc::new(Stages { joiner: Mutex::new(Some(joiner)), inner: OnceLock::new(), stopping: Arc::default() }))
    }

    /// Answers a call. An error is an exception for CometBFT, except [`CallError::Halted`] and [`CallError::Stopping`]:
    /// then there is no answer at all, since CometBFT could save it.
    ///
    /// Calls about blocks wait for each other, and Info for them: what it says is true when it is said. Transactions and
    /// queries wait for nothing.
    ///
    /// # Errors
    /// [`CallError`]: nothing has changed, except that after `Halted` or `Stopping` the block of the call may be staged or
    /// committed.
    pub fn call(&self, request: Request) -> Result<Response, CallError> {
        let asked = request.value.ok_or(CallError::Unknown)?;
        let inner = match self.0.inner.get() {
            Some(inner) => inner,
            None => match self.0.join(&asked)? {
                Joined::Answer(answer) => return Ok(Response { value: Some(answer) }),
                Joined::Chain(inner) => inner,
            },
        };
        if let Some(why) = inner.halted.lock().clone() {
            return Err(CallError::Halted(why));
        }
        let (name, begun) = (name(&asked), Instant::now());
        let answer = inner.guarded(|| inner.answer(asked));
        inner.host.called(name, answer.is_err(), begun.elapsed());
        Ok(Response { value: Some(answer?) })
    }

    /// Answers offers of transactions that have arrived together, each as [`Self::call`] answers CheckTx.
    ///
    /// # Errors
    /// [`CallError`], as of [`Self::call`].
    pub fn check(&self, txs: Vec<bytes::Bytes>) -> Result<Vec<Response>, CallError> {
        let Some(inner) = self.0.inner.get() else {
            let one =
                |tx| self.call(Request { value: Some(Asked::CheckTx(proto::RequestCheckTx { tx, r#type: NEW })) });
            return txs.into_iter().map(one).collect();
        };
        if let Some(why) = inner.halted.lock().clone() {
            return Err(CallError::Halted(why));
        }
        let begun = Instant::now();
        let txs: Vec<Bytes> = txs.into_iter().map(Bytes).collect();
        let answers = inner.guarded(|| Ok(inner.admit(&txs)));
        // Each has an equal part of their time.
        let each = begun.elapsed() / u32::try_from(txs.len()).unwrap_or(u32::MAX).max(1);
        txs.iter().for_each(|_| inner.host.called("CheckTx", answers.is_err(), each));
        Ok(answers?.into_iter().map(|answer| Response { value: Some(Answer::CheckTx(answer)) }).collect())
    }

    /// Answers offers of other validators' transactions that have arrived together, each as [`Self::mempool`] does.
    ///
    /// # Errors
    /// [`CallError::Halted`]: nothing has changed.
    pub fn insert(&self, txs: Vec<bytes::Bytes>) -> Result<Vec<MempoolResponse>, CallError> {
        let txs: Vec<Bytes> = txs.into_iter().map(Bytes).collect();
        let Some(inner) = self.0.inner.get() else { return Ok(mempool::insert(None::<&H>, &txs)) };
        if let Some(why) = inner.halted.lock().clone() {
            return Err(CallError::Halted(why));
        }
        inner.guarded(|| Ok(mempool::insert(Some(&inner.host), &txs)))
    }

    /// Answers a call of the mempool. It waits for nothing.
    ///
    /// # Errors
    /// [`CallError::Halted`]: nothing has changed.
    pub fn mempool(&self, request: MempoolRequest) -> Result<MempoolResponse, CallError> {
        let Some(inner) = self.0.inner.get() else { return Ok(mempool::answer(None::<&H>, request)) };
        if let Some(why) = inner.halted.lock().clone() {
            return Err(CallError::Halted(why));
        }
        inner.guarded(|| Ok(mempool::answer(Some(&inner.host), request)))
    }

    /// Ends the calls that wait.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }

    /// True once the application answers nothing any more.
    pub fn is_halted(&self) -> bool {
        match self.0.inner.get() {
            Some(inner) => inner.halted.lock().is_some(),
            // A call that is under way holds the lock.
            None => self.0.joiner.try_lock().is_some_and(|joiner| joiner.is_none() && self.0.inner.get().is_none()),
        }
    }
}

/// A call to a node that joins is answered, or the chain is there.
#[expect(clippy::large_enum_variant, reason = "it lives for a call")]
enum Joined<'a, H: Host> {
    Answer(Answer),
    Chain(&'a Inner<H>),
}

impl<H: Host> Stages<H> {
    /// Answers a call without a chain, or opens the chain for it. Such calls wait for each other.
    fn join(&self, asked: &Asked) -> Result<Joined<'_, H>, CallError> {
        let mut joiner = self.joiner.lock();
        if let Some(inner) = self.inner.get() {
            return Ok(Joined::Chain(inner));
        }
        let Some(joining) = joiner.as_deref_mut() else {
            return Err(CallError::Halted("the chain could not be opened".into()));
        };
        // A snapshot that a panic has left half done is begun again by the next process.
        let act = || match join::answer(joining, asked) {
            Some(answer) => Ok(Err(answer)),
            None => joining.open().map(Ok),
        };
        let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| Err(words(panic.as_ref())));
        match done {
            Ok(Err(answer)) => Ok(Joined::Answer(answer)),
            Ok(Ok(host)) => {
                *joiner = None;
                Ok(Joined::Chain(self.inner.get_or_init(|| Inner::new(host, Arc::clone(&self.stopping)))))
            }
            Err(why) => {
                tracing::error!(why, "the node cannot join the chain");
                if let Some(mut failed) = joiner.take() {
                    // What has panicked may panic again.
                    let told = catch_unwind(AssertUnwindSafe(|| failed.failed(&why)));
                    if told.is_err() {
                        tracing::error!("the node could not be told");
                    }
                }
                Err(CallError::Halted(why))
            }
        }
    }
}

impl<H: Host> Inner<H> {
    fn new(host: H, stopping: Arc<AtomicBool>) -> Self {
        let driver = Mutex::new(Driver::new(host.engine()));
        let chain = host.engine().status().chain;
        Self { host, driver, chain, stopping, halted: Mutex::default() }
    }

    /// Performs a call. Without an answer after a panic CometBFT would wait for good: the application halts.
    fn guarded<R>(&self, act: impl FnOnce() -> Result<R, Missed>) -> Result<R, CallError> {
        let caught = catch_unwind(AssertUnwindSafe(act));
        let done = caught.unwrap_or_else(|panic| Err(Missed::Halt(Halt::Panic(words(panic.as_ref())))));
        done.map_err(|missed| match missed {
            Missed::Call(error) => error,
            Missed::Halt(halt) => self.halt(&halt),
        })
    }

    /// Performs a call that has the driver to itself. A halt is noted before the next call has its turn: that one must not
    /// meet what a panic has left behind.
    fn turn<R>(&self, act: impl FnOnce(&mut Driver) -> Result<R, Missed>) -> Result<R, CallError> {
        let mut driver = self.driver.lock();
        if let Some(why) = self.halted.lock().clone() {
            return Err(CallError::Halted(why));
        }
        self.guarded(|| act(&mut driver))
    }

    fn halt(&self, halt: &Halt) -> CallError {
        let why = halt.to_string();
        tracing::error!(why, "consensus has halted");
        *self.halted.lock() = Some(why.clone());
        self.host.halted(halt);
        CallError::Halted(why)
    }

    fn answer(&self, asked: Asked) -> Result<Answer, Missed> {
        Ok(match asked {
            Asked::Echo(echo) => Answer::Echo(proto::ResponseEcho { message: echo.message }),
            Asked::Flush(_) => Answer::Flush(proto::ResponseFlush {}),
            // The last calls of a CometBFT that has died may still be under way.
            Asked::Info(_) => Answer::Info(self.turn(|_| Ok(self.info()))?),
            Asked::CheckTx(check) => Answer::CheckTx(self.check(check.tx, check.r#type)),
            Asked::Query(query) => Answer::Query(self.query(query)),
            Asked::InitChain(begin) => Answer::InitChain(self.turn(|driver| self.begin(driver, &begin))?),
            Asked::PrepareProposal(prepare) => {
                Answer::PrepareProposal(self.turn(|driver| self.prepare(driver, &prepare))?)
            }
            Asked::ProcessProposal(process) => {
                Answer::ProcessProposal(self.turn(|driver| self.process(driver, process))?)
            }
            Asked::ExtendVote(extend) => Answer::ExtendVote(self.turn(|driver| self.extend(driver, &extend.hash))?),
            Asked::VerifyVoteExtension(vote) => {
                Answer::VerifyVoteExtension(self.turn(|driver| self.verify(driver, &vote))?)
            }
            Asked::FinalizeBlock(block) => Answer::FinalizeBlock(self.turn(|driver| self.finalize(driver, block))?),
            Asked::Commit(_) => Answer::Commit(self.turn(|driver| self.commit(driver))?),
            asked @ (Asked::ListSnapshots(_)
            | Asked::LoadSnapshotChunk(_)
            | Asked::OfferSnapshot(_)
            | Asked::ApplySnapshotChunk(_)) => join::serve(&self.host, &asked).ok_or(CallError::Unknown)?,
        })
    }

    fn info(&self) -> proto::ResponseInfo {
        let committed = self.host.engine().status().committed;
        answers::info(committed.height, &committed.state_root)
    }

    fn check(&self, tx: bytes::Bytes, kind: i32) -> proto::ResponseCheckTx {
        let tx = Bytes(tx);
        if kind != proto::CheckTxType::Recheck as i32 {
            return self.admit(&[tx]).pop().unwrap_or_default();
        }
        let left = || "the transaction has left the pool".to_owned();
        answers::check(self.host.is_waiting(&tx).then_some(()).ok_or_else(left))
    }

    fn admit(&self, txs: &[Bytes]) -> Vec<proto::ResponseCheckTx> {
        let results = self.host.admit(txs).into_iter();
        results.map(|result| answers::check(result.map_err(|refused| refused.to_string()))).collect()
    }

    fn query(&self, query: proto::RequestQuery) -> proto::ResponseQuery {
        let (key, height) = (query.data.clone(), u64::try_from(query.height).unwrap_or(u64::MAX));
        answers::query(key, self.host.read(&query.path, &Bytes(query.data), height, query.prove))
    }

    fn begin(&self, driver: &mut Driver, begin: &RequestInitChain) -> Result<proto::ResponseInitChain, Missed> {
        const CALL: &str = "InitChain";
        if header::chain_number(&begin.chain_id) != Some(self.chain) {
            return Err(CallError::Chain { says: begin.chain_id.clone(), ours: self.chain }.into());
        }
        // 0 stands for 1 in requests of older versions.
        if !(0..=1).contains(&begin.initial_height) {
            return Err(CallError::FirstHeight { says: begin.initial_height }.into());
        }
        let committed = self.host.engine().status().committed;
        if committed.height == 0 {
            // The first block has this time: if it is too early, every proposal would be rejected.
            let first = Header::check(CALL, (1, committed.exec), begin.time, Address::ZERO.as_slice())?;
            self.host.env(&first).map_err(CallError::Environment)?;
        }
        driver.core.begin()?;
        Ok(answers::begun(&committed.state_root))
    }

    fn prepare(
        &self,
        driver: &mut Driver,
        prepare: &RequestPrepareProposal,
    ) -> Result<proto::ResponsePrepareProposal, Missed> {
        const CALL: &str = "PrepareProposal";
        driver.settle(self.host.engine(), Vec::new())?;
        let next = driver.core.next(CALL, prepare.height)?;
        let votes = prepare.local_last_commit.iter().flat_map(|commit| &commit.votes).map(|vote| {
            let (voter, power) =
                vote.validator.as_ref().map_or((&[][..], 0), |voter| (&voter.address[..], voter.power));
            let digest = B256::try_from(&vote.vote_extension[..]).ok().filter(|_| vote.block_id_flag == COMMIT_FLAG);
            (Address::try_from(voter).unwrap_or_default(), u64::try_from(power).unwrap_or_default(), digest)
        });
        let outs = driver.core.last_commit(&votes.collect::<Vec<_>>());
        driver.settle(self.host.engine(), outs)?;
        let header = Header::check(CALL, next, prepare.time, &prepare.proposer_address)?;
        let env = self.host.env(&header).map_err(CallError::Environment)?;
        let room = u64::try_from(prepare.max_tx_bytes).unwrap_or_default();
        let budget = BlockBudget { bytes: answers::payload(room), ..BlockBudget::UNLIMITED };
        let gas_limit = env.gas_limit;
        let request = BuildRequest { parent: next.1, env, budget, forced: Vec::new(), attributes: Bytes::new() };
        let txs = match self.host.build(request) {
            Ok(built) => {
                let mut txs = answers::fitting(built.candidate.payload().txs(), room);
                txs.truncate(usize::try_from(most_txs(gas_limit)).unwrap_or(usize::MAX));
                txs
            }
            Err(why @ Failure::Fatal(_)) => return Err(Missed::Halt(Halt::Engine { height: next.0, why })),
            Err(why) => {
                // An empty block is better than none.
                tracing::warn!(%why, height = next.0, "no block is built: an empty one is proposed");
                Vec::new()
            }
        };
        Ok(proto::ResponsePrepareProposal { txs })
    }

    fn process(
        &self,
        driver: &mut Driver,
        process: RequestProcessProposal,
    ) -> Result<proto::ResponseProcessProposal, Missed> {
        use proto::response_process_proposal::ProposalStatus;
        const CALL: &str = "ProcessProposal";
        driver.settle(self.host.engine(), Vec::new())?;
        let next = driver.core.next(CALL, process.height)?;
        let hash = header::hash(CALL, &process.hash)?;
        let candidate = Header::check(CALL, next, process.time, &process.proposer_address)
            .and_then(|header| self.candidate(next.1, &header, process.txs))
            .and_then(|candidate| plausible(&candidate).map(|()| candidate))
            .and_then(|candidate| match self.host.check(&candidate) {
                Ok(()) => Ok(candidate),
                Err((place, why)) => Err(CallError::NoTx { place, why }),
            });
        let status = match candidate {
            Ok(candidate) => {
                let outs = driver.core.process(hash, candidate)?;
                driver.settle(self.host.engine(), outs)?;
                ProposalStatus::Accept
            }
            Err(error) => {
                // Every validator rejects it: the check is a function of the proposal and the committed block.
                tracing::warn!(%error, height = next.0, "a proposal is rejected");
                self.host.rejected(&error);
                ProposalStatus::Reject
            }
        };
        Ok(proto::ResponseProcessProposal { status: status.into() })
    }

    fn extend(&self, driver: &mut Driver, hash: &[u8]) -> Result<proto::ResponseExtendVote, Missed> {
        let hash = header::hash("ExtendVote", hash)?;
        driver.settle(self.host.engine(), Vec::new())?;
        // A block that is still executed is voted for without a digest: consensus does not wait for execution here.
        let vote_extension = driver.core.digest(&hash).as_ref().map(answers::shared).unwrap_or_default();
        Ok(proto::ResponseExtendVote { vote_extension })
    }

    fn verify(
        &self,
        driver: &mut Driver,
        vote: &RequestVerifyVoteExtension,
    ) -> Result<proto::ResponseVerifyVoteExtension, Missed> {
        use proto::response_verify_vote_extension::VerifyStatus;
        const CALL: &str = "VerifyVoteExtension";
        let hash = header::hash(CALL, &vote.hash)?;
        let field = "validator_address";
        let voter =
            Address::try_from(&vote.validator_address[..]).map_err(|_| CallError::Malformed { call: CALL, field })?;
        let status = match B256::try_from(&vote.vote_extension[..]) {
            Ok(digest) => {
                driver.core.vote(vote.height, hash, voter, digest);
                VerifyStatus::Accept
            }
            Err(_) if vote.vote_extension.is_empty() => VerifyStatus::Accept,
            Err(_) => VerifyStatus::Reject,
        };
        Ok(proto::ResponseVerifyVoteExtension { status: status.into() })
    }

    fn finalize(
        &self,
        driver: &mut Driver,
        block: RequestFinalizeBlock,
    ) -> Result<proto::ResponseFinalizeBlock, Missed> {
        const CALL: &str = "FinalizeBlock";
        driver.settle(self.host.engine(), Vec::new())?;
        let next = driver.core.next(CALL, block.height)?;
        let hash = header::hash(CALL, &block.hash)?;
        let header = Header::check(CALL, next, block.time, &block.proposer_address)?;
        let candidate = self.candidate(next.1, &header, block.txs)?;
        let powers = block.decided_last_commit.iter().flat_map(|commit| &commit.votes).filter_map(|vote| {
            let validator = vote.validator.as_ref()?;
            Some((Address::try_from(&validator.address[..]).ok()?, u64::try_from(validator.power).ok()?))
        });
        let outs = driver.core.finalize(hash, candidate, powers.collect())?;
        match driver.wait(self.host.engine(), outs, &self.stopping)? {
            Done::Finalized(outcome) => Ok(answers::finalized(&outcome)),
            Done::Committed(_) => unreachable!("the core ends FinalizeBlock by its outcome"),
        }
    }

    fn commit(&self, driver: &mut Driver) -> Result<proto::ResponseCommit, Missed> {
        driver.settle(self.host.engine(), Vec::new())?;
        let outs = driver.core.commit()?;
        match driver.wait(self.host.engine(), outs, &self.stopping)? {
            Done::Committed(height) => {
                let lowest = self.host.committed(height);
                let lowest = lowest.map_err(|why| Missed::Halt(Halt::Host { height, why }))?;
                Ok(proto::ResponseCommit { retain_height: lowest.try_into().unwrap_or_default() })
            }
            Done::Finalized(_) => unreachable!("the core ends Commit by its height"),
        }
    }

    fn candidate(&self, parent: ExecId, header: &Header, txs: Vec<bytes::Bytes>) -> Result<Candidate, CallError> {
        let env = self.host.env(header).map_err(CallError::Environment)?;
        let payload = Payload::new(txs.into_iter().map(Bytes).collect());
        Ok(Candidate::new(self.chain, parent, env, TxPolicy::SkipInvalid, payload.into()))
    }
}

/// Name of a call, as CometBFT has it.
const fn name(asked: &Asked) -> &'static str {
    match asked {
        Asked::Echo(_) => "Echo",
        Asked::Flush(_) => "Flush",
        Asked::Info(_) => "Info",
        Asked::InitChain(_) => "InitChain",
        Asked::Query(_) => "Query",
        Asked::CheckTx(_) => "CheckTx",
        Asked::Commit(_) => "Commit",
        Asked::ListSnapshots(_) => "ListSnapshots",
        Asked::OfferSnapshot(_) => "OfferSnapshot",
        Asked::LoadSnapshotChunk(_) => "LoadSnapshotChunk",
        Asked::ApplySnapshotChunk(_) => "ApplySnapshotChunk",
        Asked::PrepareProposal(_) => "PrepareProposal",
        Asked::ProcessProposal(_) => "ProcessProposal",
        Asked::ExtendVote(_) => "ExtendVote",
        Asked::VerifyVoteExtension(_) => "VerifyVoteExtension",
        Asked::FinalizeBlock(_) => "FinalizeBlock",
    }
}

/// Maximum number of transactions that a block has gas for.
const fn most_txs(gas_limit: u64) -> u64 {
    gas_limit / TX_GAS
}

/// Checks that a proposal could be of an honest proposer, by its transactions' number and lengths: a function of the
/// proposal and the committed block, before anything is decoded. A decided block is executed in any case.
fn plausible(candidate: &Candidate) -> Result<(), CallError> {
    let (txs, most) = (candidate.payload().txs(), most_txs(candidate.env().gas_limit));
    if txs.len() as u64 > most {
        return Err(CallError::Crowded { count: txs.len(), most });
    }
    txs.iter().position(|tx| tx.is_empty()).map_or(Ok(()), |place| Err(CallError::EmptyTx { place }))
}

/// Message of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}
