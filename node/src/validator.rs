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
mod tests {
    use super::*;
    use crate::{
        config::{BlockSource, CometConfig, NodeConfig, StorePlace},
        genesis::{DEV_BALANCE, dev_genesis},
        keys::{DEV_MNEMONIC, dev_accounts},
        metrics::Metrics,
    };
    use alloy_consensus::{SignableTransaction as _, TxEip1559, TxEnvelope, crypto::secp256k1::sign_message};
    use alloy_eips::Encodable2718 as _;
    use alloy_primitives::TxKind;
    use phalanx::{Observer, Stage};
    use phalanx_abci::{
        App,
        conformance::{Broken, Comet, Link, Proposal},
    };
    use std::sync::atomic::AtomicUsize;

    const CHAIN: u64 = 77;

    /// Counts executions.
    #[derive(Debug, Default)]
    struct Count(AtomicUsize);

    impl Observer for Count {
        fn enter(&self, stage: Stage) {
            if stage == Stage::Execute {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }

        fn leave(&self, _stage: Stage) {}
    }

    /// Calls, and the total of executions after each of them.
    struct Watched<'a>(App<Validator>, &'a Count, Vec<(&'static str, usize)>);

    impl Link for Watched<'_> {
        fn call(&mut self, request: phalanx_abci::proto::Request) -> Result<phalanx_abci::proto::Response, Broken> {
            use phalanx_abci::proto::request::Value;
            let name = match &request.value {
                Some(Value::PrepareProposal(_)) => "prepare",
                Some(Value::FinalizeBlock(_)) => "finalize",
                _ => "other",
            };
            let answer = Link::call(&mut self.0, request);
            self.2.push((name, self.1.0.load(Ordering::SeqCst)));
            answer
        }
    }

    fn payment(nonce: u64) -> Bytes {
        signed(0, |tx| tx.nonce = nonce)
    }

    fn signed(payer: usize, change: impl FnOnce(&mut TxEip1559)) -> Bytes {
        let account = dev_accounts(DEV_MNEMONIC, payer + 1).expect("a mnemonic")[payer];
        let mut tx = TxEip1559 {
            chain_id: CHAIN,
            gas_limit: 21_000,
            max_fee_per_gas: 3_000_000_000,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call(Address::repeat_byte(7)),
            ..TxEip1559::default()
        };
        change(&mut tx);
        let signature = sign_message(account.key, tx.signature_hash()).expect("a sound key");
        TxEnvelope::Eip1559(tx.into_signed(signature)).encoded_2718().into()
    }

    /// Inserts one transaction.
    fn insert(validator: &Validator, tx: &Bytes) -> Result<(), Refused> {
        validator.insert(core::slice::from_ref(tx)).pop().expect("a result")
    }

    struct World {
        validator: Validator,
        chain: Arc<Chain>,
        count: Arc<Count>,
        _folder: tempfile::TempDir,
        /// Nothing runs on it: nothing is sent.
        _runtime: tokio::runtime::Runtime,
    }

    fn world() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let place = StorePlace::Folder(folder.path().to_owned());
        let accounts = dev_accounts(DEV_MNEMONIC, 1).expect("a mnemonic");
        let mut config = NodeConfig::new(dev_genesis(CHAIN, &accounts, DEV_BALANCE), place);
        config.source = BlockSource::Comet(CometConfig::default());
        let count = Arc::new(Count::default());
        let opened = Chain::open(&config, Arc::clone(&count) as Arc<dyn Observer>).expect("a chain");
        let (chain, metrics) = (Arc::new(opened.chain), Arc::new(Metrics::new()));
        let (ended, _ends) = crossbeam_channel::bounded(1);
        let healthy = Arc::new(AtomicBool::new(true));
        let decided = Decided { chain: Arc::clone(&chain), metrics };
        let taken = Taken::new(&chain, 0, 0, 0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let relay = Relay::start(runtime.handle(), CometConfig::default().rpc);
        let folder_of = folder.path().to_owned();
        let validator = Validator::new(decided, (taken, relay), folder_of, None, (healthy, ended));
        World { validator, chain, count, _folder: folder, _runtime: runtime }
    }

    /// Makes blocks until nothing waits: the pool follows a moment after a commit.
    fn empty(chain: &Chain, mut height: impl FnMut()) {
        let is_empty = (0..1_000).any(|_| {
            height();
            chain.service.waiting() == 0
        });
        assert!(is_empty, "blocks do not empty the pool");
    }

    #[test]
    fn refusals_are_final_only_if_no_later_state_can_lift_them() {
        let World { validator, chain, _folder, _runtime, .. } = world();
        assert_eq!(insert(&validator, &payment(0)), Ok(()));
        assert_eq!(insert(&validator, &payment(0)), Ok(()), "it is there");
        let never = [
            Bytes::from_static(b"junk"),
            Bytes::new(),
            signed(0, |tx| tx.chain_id = CHAIN + 1),
            signed(0, |tx| tx.max_priority_fee_per_gas = tx.max_fee_per_gas + 1),
            signed(0, |tx| (tx.nonce, tx.input) = (1, vec![1; 1 << 20].into())),
        ];
        for (place, tx) in never.iter().enumerate() {
            let refused = insert(&validator, tx);
            assert!(matches!(refused, Err(Refused::Final(_))), "{place}: {refused:?}");
        }
        let later = [
            payment(1 << 20),
            signed(1, |_| ()),
            signed(0, |tx| {
                tx.value = phalanx::alloy::primitives::U256::from(10).pow(phalanx::alloy::primitives::U256::from(30))
            }),
            signed(0, |tx| tx.max_fee_per_gas += 1),
            signed(0, |tx| (tx.nonce, tx.gas_limit) = (1, 1 << 40)),
        ];
        for (place, tx) in later.iter().enumerate() {
            let refused = insert(&validator, tx);
            assert!(matches!(refused, Err(Refused::Passing(_))), "{place}: {refused:?}");
        }
        let mut app = App::new(validator);
        let mut comet = Comet::new("phalanx-77", 1_790_000_000_000);
        comet.handshake(&mut app).expect("sound");
        empty(&chain, || comet.height(&mut app, &[Proposal::Own]).expect("sound"));
        let insert = |tx: Bytes| {
            let asked = phalanx_abci::MempoolRequest {
                insert_tx: Some(phalanx_abci::RequestInsertTx { tx: tx.0 }),
                reap_txs: None,
            };
            app.mempool(asked).expect("no halt").insert_tx.expect("an answer").code
        };
        assert_eq!(insert(signed(0, |tx| tx.gas_limit += 1)), 1, "its nonce is used");
        assert_eq!([payment(1), payment(1 << 20)].map(insert), [0, 32_000]);
    }

    #[test]
    fn a_cometbft_that_fetches_gets_what_was_accepted_before_its_first_question() {
        let World { validator, chain, _folder, _runtime, .. } = world();
        for nonce in 0..3 {
            let admitted = chain.service.send(&payment(nonce)).expect("a sound transaction");
            assert!(matches!(admitted, Admission::Admitted { .. }), "{admitted:?}");
        }
        assert_eq!(
            insert(&validator, &payment(3)),
            Ok(()),
            "another validator's, which an earlier CometBFT has gossiped"
        );
        assert_eq!(validator.reap(u64::MAX), [payment(0), payment(1), payment(2), payment(3)]);
        assert!(validator.reap(u64::MAX).is_empty());
        assert_eq!(insert(&validator, &payment(4)), Ok(()));
        assert_eq!(validator.reap(u64::MAX), [payment(4)]);
        // One that a block has taken meanwhile is not offered.
        assert_eq!(insert(&validator, &payment(5)), Ok(()));
        let mut app = App::new(validator);
        let mut comet = Comet::new("phalanx-77", 1_790_000_000_000);
        comet.handshake(&mut app).expect("sound");
        // On a busy machine the time of a proposal may end before its building begins, or has taken all.
        let takes = |_| {
            comet.height(&mut app, &[Proposal::Own]).expect("sound");
            comet.blocks().iter().map(|block| block.txs.len()).sum::<usize>() == 6
        };
        assert!((0..20).any(takes), "no blocks take the transactions");
        empty(&chain, || comet.height(&mut app, &[Proposal::Own]).expect("sound"));
        let asked = phalanx_abci::MempoolRequest {
            insert_tx: None,
            reap_txs: Some(phalanx_abci::RequestReapTxs { max_bytes: 0, max_gas: 0 }),
        };
        assert!(app.mempool(asked).expect("no halt").reap_txs.expect("an answer").txs.is_empty());
    }

    #[test]
    fn an_own_block_is_executed_while_it_is_built_and_never_again() {
        let World { validator, chain, count, _folder, _runtime } = world();
        let app = App::new(validator);
        let mut link = Watched(app, &count, Vec::new());
        let mut comet = Comet::new("phalanx-77", 1_790_000_000_000);
        comet.handshake(&mut link).expect("sound");
        for nonce in 0..3 {
            let admitted = chain.service.send(&payment(nonce)).expect("a sound transaction");
            assert!(matches!(admitted, Admission::Admitted { .. }), "{admitted:?}");
            let mut before = 0;
            // On a busy machine the time of a proposal may end before its building begins.
            let taken = (0..20).any(|_| {
                link.2.clear();
                before = count.0.load(Ordering::SeqCst);
                comet.height(&mut link, &[Proposal::Own]).expect("sound");
                comet.blocks().last().is_some_and(|block| block.txs == [payment(nonce)])
            });
            assert!(taken, "no block takes transaction {nonce}");
            let prepared = link.2.iter().find(|call| call.0 == "prepare").expect("a call").1;
            assert!(prepared > before, "{before}: {:?}", link.2);
            // Executions between two calls count as well.
            assert_eq!(count.0.load(Ordering::SeqCst), prepared, "{:?}", link.2);
        }
        link.2.clear();
        let before = count.0.load(Ordering::SeqCst);
        comet.height(&mut link, &[Proposal::Unseen(vec![payment(3)])]).expect("sound");
        assert!(count.0.load(Ordering::SeqCst) > before, "the count sees executions: {:?}", link.2);
    }
}
