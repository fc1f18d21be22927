//! CometBFT of one validator as a script: what it calls, what it saves between two calls, and its death at any step.
//!
//! A chain team runs it against its own [`Host`]. The handshake is that of CometBFT v0.38, case by case
//! (`consensus/replay.go` of its source), and so is the order of saves around FinalizeBlock and Commit.

mod sync;

pub use sync::{Peer, chunk, snapshots};

use crate::{
    app::App,
    error::CallError,
    frame,
    host::Host,
    proto::{
        self, CommitInfo, ExtendedCommitInfo, ExtendedVoteInfo, Request, RequestFinalizeBlock, RequestInitChain,
        RequestPrepareProposal, RequestProcessProposal, RequestVerifyVoteExtension, Response, Validator, VoteInfo,
        request::Value as Asked, response::Value as Answer,
    },
};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use std::{
    collections::BTreeMap,
    io::{BufReader, Write as _},
    net::{SocketAddr, TcpStream},
};
use tendermint_proto::{google::protobuf::Timestamp, v0_38::types::BlockIdFlag};

/// Number of validators, the scripted one included.
const VALIDATORS: u8 = 4;

/// Voting power of each validator.
const POWER: i64 = 10;

/// Milliseconds between two blocks: several have the same second.
const PERIOD_MS: u64 = 400;

/// Reason for which a script has ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// CometBFT has died at the step that was asked for.
    #[error("CometBFT has died")]
    Died,
    /// The application has gone without an answer.
    #[error("no answer: {0}")]
    Lost(String),
    /// The application has answered with an exception.
    #[error("exception: {0}")]
    Refused(String),
    /// The application has answered what CometBFT cannot live with.
    #[error("{0}")]
    Wrong(String),
}

/// Way of calls to an application.
pub trait Link {
    /// Makes a call.
    ///
    /// # Errors
    /// `Lost` without an answer, `Refused` for an exception.
    fn call(&mut self, request: Request) -> Result<Response, Broken>;
}

impl<H: Host> Link for App<H> {
    fn call(&mut self, request: Request) -> Result<Response, Broken> {
        Self::call(self, request).map_err(|error| match error {
            CallError::Halted(_) | CallError::Stopping => Broken::Lost(error.to_string()),
            error => Broken::Refused(error.to_string()),
        })
    }
}

/// Connection over TCP.
#[derive(Debug)]
pub struct TcpLink {
    reader: BufReader<TcpStream>,
}

impl TcpLink {
    /// Connects to a [`Server`](crate::Server).
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// The stream below.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }
}

impl Link for TcpLink {
    fn call(&mut self, request: Request) -> Result<Response, Broken> {
        let lost = |error: std::io::Error| Broken::Lost(error.to_string());
        let mut stream = self.reader.get_ref();
        frame::write(&mut stream, &request).and_then(|()| stream.flush()).map_err(lost)?;
        let response: Option<Response> = frame::read(&mut self.reader).map_err(lost)?;
        match response {
            Some(Response { value: Some(Answer::Exception(exception)) }) => Err(Broken::Refused(exception.error)),
            Some(response) => Ok(response),
            None => Err(Broken::Lost("the connection has ended".into())),
        }
    }
}

/// A proposal of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// This validator proposes what PrepareProposal gives.
    Own,
    /// Another validator proposes these transactions.
    Other(Vec<Bytes>),
    /// Another validator proposes, and this one sees it only when it is decided.
    Unseen(Vec<Bytes>),
}

/// A block of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Height of the block.
    pub height: u64,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Validator that has proposed it.
    pub proposer: Address,
    /// Transactions of the block.
    pub txs: Vec<Bytes>,
    /// Hash of all that and the round.
    pub hash: B256,
}

impl Block {
    /// Creates the block of a round, in a chain that begins at this time.
    #[must_use]
    pub fn new(height: u64, round: u8, start_ms: u64, txs: Vec<Bytes>) -> Self {
        let (timestamp_ms, proposer) = (start_ms + height * PERIOD_MS, validator(round % VALIDATORS));
        let mut bytes =
            [&height.to_be_bytes()[..], &[round], &timestamp_ms.to_be_bytes(), proposer.as_slice()].concat();
        for tx in &txs {
            bytes.extend((tx.len() as u64).to_be_bytes());
            bytes.extend(tx);
        }
        Self { height, timestamp_ms, proposer, txs, hash: keccak256(bytes) }
    }

    fn time(&self) -> Option<Timestamp> {
        timestamp(self.timestamp_ms)
    }

    fn number(&self) -> i64 {
        i64::try_from(self.height).unwrap_or(i64::MAX)
    }

    /// The call that proposes the block.
    pub fn process(&self) -> Request {
        asked(Asked::ProcessProposal(RequestProcessProposal {
            hash: copied(self.hash.as_slice()),
            height: self.number(),
            time: self.time(),
            txs: self.txs.iter().map(|tx| tx.0.clone()).collect(),
            proposer_address: copied(self.proposer.as_slice()),
            ..Default::default()
        }))
    }

    /// The call that decides the block.
    pub fn finalize(&self) -> Request {
        let votes = (0..VALIDATORS)
            .map(|place| VoteInfo { validator: Some(weighed(place)), block_id_flag: BlockIdFlag::Commit.into() });
        asked(Asked::FinalizeBlock(RequestFinalizeBlock {
            hash: copied(self.hash.as_slice()),
            height: self.number(),
            time: self.time(),
            txs: self.txs.iter().map(|tx| tx.0.clone()).collect(),
            proposer_address: copied(self.proposer.as_slice()),
            decided_last_commit: Some(CommitInfo { round: 0, votes: votes.collect() }),
            ..Default::default()
        }))
    }
}

/// CometBFT of one validator, with what it keeps on its disk. It outlives its deaths.
#[derive(Clone, Debug)]
pub struct Comet {
    chain_id: String,
    start_ms: u64,
    blocks: Vec<Block>,
    /// Height and app hash of the saved state.
    state: (u64, B256),
    responses: BTreeMap<u64, proto::ResponseFinalizeBlock>,
    /// Vote extension of this validator for the last decided block.
    extension: prost::bytes::Bytes,
    steps: u64,
    death: Option<u64>,
}

impl Comet {
    /// Creates the validator of a chain that has not begun, and that begins at this time.
    pub fn new(chain_id: &str, start_ms: u64) -> Self {
        let (chain_id, state, extension) = (chain_id.to_owned(), (0, B256::ZERO), Default::default());
        let (blocks, responses) = (Vec::new(), BTreeMap::new());
        Self { chain_id, start_ms, blocks, state, responses, extension, steps: 0, death: None }
    }

    /// Sets the step at which CometBFT dies: before a call, or before a save. `None` for never.
    pub const fn die_at(&mut self, step: Option<u64>) {
        self.death = step;
    }

    /// Number of steps so far.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The saved blocks, by height.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// App hashes that FinalizeBlock has answered, by height.
    pub fn app_hashes(&self) -> Vec<B256> {
        self.responses.values().map(|response| hash_of(&response.app_hash)).collect()
    }

    /// The handshake: replays what the application has missed.
    ///
    /// # Errors
    /// [`Broken`]: a CometBFT would not start.
    pub fn handshake(&mut self, link: &mut impl Link) -> Result<(), Broken> {
        self.step()?;
        let Answer::Info(info) = ask(link, asked(Asked::Info(proto::RequestInfo::default())))? else {
            return Err(unexpected("Info"));
        };
        let height = u64::try_from(info.last_block_height).map_err(|_| Broken::Wrong("a negative height".into()))?;
        let mut app_hash = hash_of(&info.last_block_app_hash);
        if height == 0 {
            app_hash = self.begin(link)?;
        }
        let (store, state) = (self.blocks.len() as u64, self.state.0);
        if height > store {
            return Err(Broken::Wrong(format!(
                "the application is at height {height}, and the newest block is {store}"
            )));
        }
        // Blocks that the state has: only the application replays them.
        for at in height + 1..=state {
            let block = self.block(at);
            app_hash = self.execute(link, &block)?;
            self.commit(link)?;
        }
        if store == state {
            let same = app_hash == self.state.1;
            return if same { Ok(()) } else { Err(Broken::Wrong(format!("two app hashes at height {state}"))) };
        }
        let block = self.block(store);
        if height < store {
            return self.apply(link, &block);
        }
        // The application has committed: its saved answer takes the place of the call.
        let saved = self.responses.get(&store).map(|saved| hash_of(&saved.app_hash));
        let saved = saved.ok_or_else(|| Broken::Wrong(format!("block {store} is committed without a saved answer")))?;
        if saved != app_hash {
            return Err(Broken::Wrong(format!("Info and FinalizeBlock have two app hashes at height {store}")));
        }
        self.state = (store, saved);
        Ok(())
    }

    /// Runs a height: a proposal per round, at least one, of which the last is decided.
    ///
    /// # Errors
    /// [`Broken`]: a CometBFT would not go on. The height is repeated after the next handshake, if its block is not saved.
    pub fn height(&mut self, link: &mut impl Link, proposals: &[Proposal]) -> Result<(), Broken> {
        let height = self.state.0 + 1;
        let mut last = None;
        for (round, proposal) in (0..).zip(proposals) {
            let (block, is_seen) = match proposal {
                Proposal::Own => (Block::new(height, round, self.start_ms, self.prepare(link, height, round)?), true),
                Proposal::Other(txs) => (Block::new(height, round, self.start_ms, txs.clone()), true),
                Proposal::Unseen(txs) => (Block::new(height, round, self.start_ms, txs.clone()), false),
            };
            if is_seen {
                self.step()?;
                let Answer::ProcessProposal(answer) = ask(link, block.process())? else {
                    return Err(unexpected("ProcessProposal"));
                };
                if answer.status != proto::response_process_proposal::ProposalStatus::Accept as i32 {
                    return Err(Broken::Wrong(format!("the proposal of height {height} is rejected")));
                }
            }
            last = Some((block, is_seen));
        }
        let Some((block, is_seen)) = last else { return Ok(()) };
        let extension = if is_seen { self.vote(link, &block)? } else { Default::default() };
        self.step()?;
        self.blocks.push(block.clone());
        self.extension = extension;
        self.apply(link, &block)
    }

    fn step(&mut self) -> Result<(), Broken> {
        self.steps += 1;
        if self.death == Some(self.steps) { Err(Broken::Died) } else { Ok(()) }
    }

    fn block(&self, height: u64) -> Block {
        let place = usize::try_from(height).ok().and_then(|height| height.checked_sub(1));
        place.and_then(|place| self.blocks.get(place)).cloned().unwrap_or_else(|| Block::new(height, 0, 0, Vec::new()))
    }

    fn begin(&mut self, link: &mut impl Link) -> Result<B256, Broken> {
        self.step()?;
        let begin = RequestInitChain {
            time: timestamp(self.start_ms),
            chain_id: self.chain_id.clone(),
            initial_height: 1,
            ..Default::default()
        };
        let Answer::InitChain(begun) = ask(link, asked(Asked::InitChain(begin)))? else {
            return Err(unexpected("InitChain"));
        };
        let app_hash = hash_of(&begun.app_hash);
        if self.state.0 == 0 {
            self.state.1 = app_hash;
        }
        Ok(app_hash)
    }

    fn prepare(&mut self, link: &mut impl Link, height: u64, round: u8) -> Result<Vec<Bytes>, Broken> {
        self.step()?;
        let votes = (0..VALIDATORS).map(|place| ExtendedVoteInfo {
            validator: Some(weighed(place)),
            vote_extension: self.extension.clone(),
            block_id_flag: BlockIdFlag::Commit.into(),
            ..Default::default()
        });
        let empty = Block::new(height, round, self.start_ms, Vec::new());
        let prepare = RequestPrepareProposal {
            max_tx_bytes: 1 << 20,
            local_last_commit: Some(ExtendedCommitInfo { round: 0, votes: votes.collect() }),
            height: empty.number(),
            time: empty.time(),
            proposer_address: copied(empty.proposer.as_slice()),
            ..Default::default()
        };
        let Answer::PrepareProposal(prepared) = ask(link, asked(Asked::PrepareProposal(prepare)))? else {
            return Err(unexpected("PrepareProposal"));
        };
        Ok(prepared.txs.into_iter().map(Bytes).collect())
    }

    /// Votes for a block, and hears of the votes of the other validators, which have the same result.
    fn vote(&mut self, link: &mut impl Link, block: &Block) -> Result<prost::bytes::Bytes, Broken> {
        self.step()?;
        let extend = proto::RequestExtendVote {
            hash: copied(block.hash.as_slice()),
            height: block.number(),
            ..Default::default()
        };
        let Answer::ExtendVote(extended) = ask(link, asked(Asked::ExtendVote(extend)))? else {
            return Err(unexpected("ExtendVote"));
        };
        let extension = extended.vote_extension;
        for place in 1..VALIDATORS {
            self.step()?;
            let verify = verify(block, place, extension.clone());
            let Answer::VerifyVoteExtension(verified) = ask(link, verify)? else {
                return Err(unexpected("VerifyVoteExtension"));
            };
            if verified.status != proto::response_verify_vote_extension::VerifyStatus::Accept as i32 {
                return Err(Broken::Wrong("an honest vote extension is rejected".into()));
            }
        }
        Ok(extension)
    }

    fn apply(&mut self, link: &mut impl Link, block: &Block) -> Result<(), Broken> {
        let app_hash = self.execute(link, block)?;
        self.commit(link)?;
        self.step()?;
        self.state = (block.height, app_hash);
        Ok(())
    }

    /// FinalizeBlock, and the save of its answer, which is compared with an earlier one.
    fn execute(&mut self, link: &mut impl Link, block: &Block) -> Result<B256, Broken> {
        self.step()?;
        let Answer::FinalizeBlock(answer) = ask(link, block.finalize())? else {
            return Err(unexpected("FinalizeBlock"));
        };
        let height = block.height;
        if answer.tx_results.len() != block.txs.len() {
            return Err(Broken::Wrong(format!("block {height} has another number of results than of transactions")));
        }
        let app_hash = hash_of(&answer.app_hash);
        if self.responses.get(&height).is_some_and(|saved| *saved != answer) {
            return Err(Broken::Wrong(format!("FinalizeBlock has two answers at height {height}")));
        }
        self.step()?;
        self.responses.insert(height, answer);
        Ok(app_hash)
    }

    fn commit(&mut self, link: &mut impl Link) -> Result<(), Broken> {
        self.step()?;
        let Answer::Commit(_) = ask(link, asked(Asked::Commit(proto::RequestCommit {})))? else {
            return Err(unexpected("Commit"));
        };
        Ok(())
    }
}

/// The call that reports the vote of a validator for a block.
pub fn verify(block: &Block, place: u8, vote_extension: prost::bytes::Bytes) -> Request {
    asked(Asked::VerifyVoteExtension(RequestVerifyVoteExtension {
        hash: copied(block.hash.as_slice()),
        validator_address: copied(validator(place).as_slice()),
        height: block.number(),
        vote_extension,
    }))
}

/// Address of the validator at a place.
pub const fn validator(place: u8) -> Address {
    Address::repeat_byte(0xa0 + place)
}

/// A request of a kind.
pub const fn asked(value: Asked) -> Request {
    Request { value: Some(value) }
}

fn ask(link: &mut impl Link, request: Request) -> Result<Answer, Broken> {
    link.call(request)?.value.ok_or_else(|| unexpected("the call"))
}

fn unexpected(call: &str) -> Broken {
    Broken::Wrong(format!("{call} is answered by something else"))
}

fn weighed(place: u8) -> Validator {
    Validator { address: copied(validator(place).as_slice()), power: POWER }
}

fn timestamp(ms: u64) -> Option<Timestamp> {
    let seconds = i64::try_from(ms / 1000).ok()?;
    Some(Timestamp { seconds, nanos: i32::try_from(ms % 1000).ok()? * 1_000_000 })
}

fn copied(slice: &[u8]) -> prost::bytes::Bytes {
    prost::bytes::Bytes::copy_from_slice(slice)
}

/// An app hash of this application has 32 bytes; any other is no hash.
fn hash_of(bytes: &[u8]) -> B256 {
    B256::try_from(bytes).unwrap_or_default()
}
