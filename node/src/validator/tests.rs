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
    assert_eq!(insert(&validator, &payment(3)), Ok(()), "another validator's, which an earlier CometBFT has gossiped");
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

#[test]
fn signatures_of_a_proposal_are_recovered_at_admission_alone() {
    let World { validator, chain, _folder, _runtime, .. } = world();
    let txs: Vec<Bytes> = (0..5).map(payment).collect();
    assert!(validator.insert(&txs).iter().all(Result::is_ok));
    let mut app = App::new(validator);
    let mut comet = Comet::new("phalanx-77", 1_790_000_000_000);
    comet.handshake(&mut app).expect("sound");
    let before = chain.service.recovered();
    comet.height(&mut app, &[Proposal::Unseen(txs.clone())]).expect("sound");
    assert_eq!(comet.blocks().last().map(|block| block.txs.clone()), Some(txs));
    let after = chain.service.recovered();
    assert_eq!(after.misses, before.misses, "none is recovered again: {before:?} {after:?}");
    assert!(after.hits >= before.hits + 5, "{before:?} {after:?}");
    comet.height(&mut app, &[Proposal::Unseen(vec![payment(5)])]).expect("sound");
    assert!(chain.service.recovered().misses > after.misses, "one that was never admitted is");
}
