//! Blocks of a chain that CometBFT orders: what the ABCI application needs of the node.

use crate::{chain::Chain, decided::Decided, error::NodeError, raw, relay::Relay, report, taken::Taken};
use crossbeam_channel::Sender;
use phalanx::{
    RecoverError, RootKind, SendError,
    alloy::primitives::{Address, B256, Bytes},
    api::{BlockEnv, Build as _, BuildRequest, BuiltCandidate, Candidate, ExecutionEngine, Failure},
    chain::{Attributes, TxRuleError},
    pool::{Admission, Refusal},
};
use phalanx_abci::{CallError, Halt, Header, Host, Offer, Read, Refused};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Maximum time that a block is built for: CometBFT gives a proposer three seconds by default, its gossip included.
const BUILDING: Duration = Duration::from_secs(2);

/// Minimum number of blocks that CometBFT keeps if the node prunes: a node that was down replays them.
const REPLAYED: u64 = 1024;

/// The node as the ABCI application sees it.
#[derive(Debug)]
pub(crate) struct Validator {
    decided: Decided,
    taken: Taken,
    relay: Relay,
    folder: PathBuf,
    keep: Option<u64>,
    healthy: Arc<AtomicBool>,
    ended: Sender<NodeError>,
}

impl Validator {
    /// Creates it; `healthy` and `ended` tell of its end.
    pub(crate) fn new(
        decided: Decided,
        (taken, relay): (Taken, Relay),
        folder: PathBuf,
        keep: Option<u64>,
        (healthy, ended): (Arc<AtomicBool>, Sender<NodeError>),
    ) -> Self {
        Self { decided, taken, relay, folder, keep, healthy, ended }
    }

    fn chain(&self) -> &Chain {
        &self.decided.chain
    }
}

impl Validator {
    /// Offers transactions to the pool, in order. Each is true if it is new there.
    ///
    /// They pass by the queue of the intake and its bounds. The server of ABCI bounds them: each of few connections offers what its
    /// buffer holds, and reads no further until it has answered.
    fn take(&self, txs: &[Bytes]) -> Vec<Result<bool, Refused>> {
        let admissions = match self.chain().service.send_all(txs) {
            Ok(admissions) => admissions,
            Err(failure) => return txs.iter().map(|_| Err(Refused::Passing(failure.to_string()))).collect(),
        };
        let taken = |admission| match admission {
            Ok(Admission::Admitted { tx, .. }) => {
                self.chain().announce(tx);
                Ok(true)
            }
            Ok(Admission::Refused(Refusal::Known)) => Ok(false),
            Ok(Admission::Refused(refusal)) if is_final(&refusal) => Err(Refused::Final(refusal.to_string())),
            Ok(Admission::Refused(refusal)) => Err(Refused::Passing(refusal.to_string())),
            Err(error) if is_unsound(&error) => Err(Refused::Final(error.to_string())),
            Err(error) => Err(Refused::Passing(error.to_string())),
        };
        admissions.into_iter().map(taken).collect()
    }
}

impl Validator {
    /// The pool's transactions as their senders have encoded them, in order of arrival.
    fn pooled(&self) -> Vec<Bytes> {
        let pooled: Vec<_> = self.chain().service.with_pool(|pool| pool.iter().cloned().collect());
        let encoded = pooled.iter().map(|tx| tx.recovered().pooled_bytes().unwrap_or_else(|| tx.bytes()).clone());
        encoded.collect()
    }
}

/// True if no later state lets the pool admit the transaction.
const fn is_final(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Forced
            | Refusal::TooLong { .. }
            | Refusal::TipAboveCap { .. }
            | Refusal::CostOverflow
            | Refusal::NonceUsed { .. }
    )
}

/// True if the bytes are no transaction of this chain at any hard fork.
const fn is_unsound(error: &SendError) -> bool {
    match error {
        SendError::Recover(RecoverError::Rule(rule)) => matches!(
            rule,
            TxRuleError::ChainId { .. }
                | TxRuleError::HighS
                | TxRuleError::Sidecar
                | TxRuleError::NoAuthorizations
                | TxRuleError::TipAboveFee { .. }
        ),
        SendError::Recover(_) | SendError::Blobs => true,
        _ => false,
    }
}

impl Host for Validator {
    fn engine(&self) -> &dyn ExecutionEngine {
        &*self.chain().service
    }

    fn env(&self, header: &Header) -> Result<BlockEnv, String> {
        let Header { height, timestamp_ms, proposer: beneficiary, prevrandao } = *header;
        let (head, timestamp) = (self.chain().head(), timestamp_ms / 1000);
        if head.header.number + 1 != height {
            return Err(format!("height {height} on block {}", head.header.number));
        }
        // Blocks of one second are equally old; CometBFT's own times only grow.
        if timestamp < head.header.timestamp {
            return Err(format!("time {timestamp} is before the parent's, {}", head.header.timestamp));
        }
        let attributes = Attributes { timestamp, beneficiary, prevrandao, ..Attributes::default() };
        let child = self.chain().child(&head, &attributes)?;
        let (gas_limit, base_fee) = (child.gas_limit, child.base_fee_per_gas.unwrap_or_default());
        Ok(BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee })
    }

    fn check(&self, candidate: &Candidate) -> Result<(), (usize, String)> {
        let checked = self.chain().service.check_payload(candidate.env(), candidate.payload().txs());
        checked.map_err(|(place, why)| (place, why.to_string()))
    }

    fn build(&self, request: BuildRequest) -> Result<BuiltCandidate, Failure> {
        let job = self.chain().service.build(request)?;
        // Until the pool is exhausted or the block is full. A driver that has not begun by then gives an empty block.
        job.wait(BUILDING);
        job.finish()
    }

    fn admit(&self, txs: &[Bytes]) -> Vec<Result<(), Refused>> {
        self.take(txs).into_iter().map(|taken| taken.map(drop)).collect()
    }

    fn insert(&self, txs: &[Bytes]) -> Vec<Result<(), Refused>> {
        let forward = |(is_new, tx): (bool, &Bytes)| {
            if is_new {
                self.relay.forward(tx.clone());
            }
        };
        let taken = self.take(txs).into_iter().zip(txs);
        taken.map(|(taken, tx)| taken.map(|is_new| forward((is_new, tx)))).collect()
    }

    fn reap(&self, max_bytes: u64) -> Vec<Bytes> {
        self.relay.reap(max_bytes, || self.pooled(), |tx| self.is_waiting(tx))
    }

    fn is_waiting(&self, tx: &Bytes) -> bool {
        raw::hash_of(tx).is_some_and(|hash| self.chain().service.with_pool(|pool| pool.get(&hash).is_some()))
    }

    fn committed(&self, height: u64) -> Result<u64, String> {
        self.decided.show(height).map_err(|error| error.to_string())?;
        self.taken.committed(self.chain(), height);
        Ok(self.keep.map_or(0, |keep| (height + 1).saturating_sub(keep.max(REPLAYED))))
    }

    fn snapshots(&self) -> Vec<Offer> {
        self.taken.offers()
    }

    fn chunk(&self, height: u64, format: u32, number: u32) -> Option<Bytes> {
        self.taken.chunk(height, format, number)
    }

    fn read(&self, path: &str, data: &Bytes, height: u64, prove: bool) -> Result<Read, String> {
        // 0 stands for the newest block.
        let height = if height == 0 { self.chain().height() } else { height };
        let state = self.chain().state(height).map_err(|error| error.to_string())?;
        if prove && state.root_kind() == RootKind::Ethereum {
            return Err("the chain reports Ethereum's root: eth_getProof proves under it".into());
        }
        let short = || "the data is an address of 20 bytes, and 32 bytes of a slot after it for /storage".to_owned();
        let unread = |error: phalanx::SnapshotError| error.to_string();
        let (address, rest) = data.split_first_chunk::<20>().ok_or_else(short)?;
        let (address, slot) = (Address::from(address), B256::try_from(rest));
        let (value, proof) = match (path.trim_start_matches('/'), slot) {
            ("account", Err(_)) if rest.is_empty() => {
                let account = state.account(&address).map_err(unread)?.unwrap_or_default();
                let nonce = account.nonce.to_be_bytes();
                let value = [&nonce[..], &account.balance.to_be_bytes::<32>(), account.code_hash.as_slice()].concat();
                (value.into(), prove.then(|| state.prove_account(&address)))
            }
            ("storage", Ok(slot)) => {
                let value = state.storage(&address, &slot.into()).map_err(unread)?;
                let value = Bytes::copy_from_slice(&value.to_be_bytes::<32>());
                (value, prove.then(|| state.prove_slot(&address, &slot.into())))
            }
            ("account" | "storage", _) => return Err(short()),
            (path, _) => return Err(format!("path {path:?}: there are /account and /storage")),
        };
        Ok(Read { height, value, proof: proof.transpose().map_err(unread)? })
    }

    fn called(&self, call: &'static str, refused: bool, took: Duration) {
        self.decided.metrics.abci.call(call, refused, took);
    }

    fn rejected(&self, _: &CallError) {
        self.decided.metrics.abci.rejected_proposals.inc();
    }

    fn halted(&self, why: &Halt) {
        self.healthy.store(false, Ordering::Relaxed);
        report::keep(&self.folder, why);
        // An error means that an earlier reason waits.
        let _ = self.ended.try_send(NodeError::Halted(why.clone()));
    }
}

#[cfg(test)]
mod tests;
