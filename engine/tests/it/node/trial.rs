//! A chain from `genesis.json`: signed transactions of types 0 to 4 through pool, builder and header, imported by a second
//! engine, and equal to a loop of stock revm in every result, receipt, account and slot.

use super::{
    after, genesis,
    wallet::{Call, address, authorize, signed},
};
use crate::kit::{Body, Case, Oracle};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Bloom, Bytes, TxKind, U256};
use phalanx::{
    Budget, Builder, CandidateTx, Engine, Executor, Form, GenesisAccount, Hints, RecoveredBlock, RecoveredTx, Recovery,
    Target, Template,
    chain::{Attributes, ChainSpec, transactions_root},
    pool::{Admission, Batch, Fees, Pool, PoolConfig, Settled, Tip},
    revm::primitives::hardfork::SpecId,
};
use rand::{Rng as _, SeedableRng as _};
use std::{collections::HashMap, sync::Arc};

const SENDERS: u64 = 10;

/// Counts its calls in slot 0, logs calldata, and reverts for calldata that begins with a one.
fn probe() -> Vec<u8> {
    let mut code = vec![0x5f, 0x54, 0x60, 1, 0x01, 0x5f, 0x55]; // sstore(0, sload(0) + 1)
    code.extend([0x36, 0x5f, 0x5f, 0x37, 0x36, 0x5f, 0xa0]); // log0(calldata)
    code.extend([0x5f, 0x35, 0x60, 0xf8, 0x1c, 0x60, 1, 0x14]); // eq(1, byte(0, calldata))
    code.extend([0x60, 27, 0x57, 0x00, 0x00, 0x5b, 0x5f, 0x5f, 0xfd]); // jumpi(27) to revert(0, 0)
    code
}

#[test]
fn signed_transactions_of_every_type_give_what_stock_revm_gives() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(38);
    println!("PHALANX_SEED={seed}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let funded: Vec<_> = (0..SENDERS).map(address).collect();
    let mut file = genesis(&[("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0)], &funded);
    let contract = alloy_primitives::Address::repeat_byte(0x77);
    file.alloc.insert(
        contract,
        alloy_genesis::GenesisAccount { code: Some(probe().into()), nonce: Some(1), ..Default::default() },
    );
    let chain = ChainSpec::from_genesis(&file).expect("a chain");
    let [mut producer, mut importer] = [Executor::Dag, Executor::BlockStm].map(|executor| {
        let builder = Engine::builder().with_chain(chain.clone()).with_executor(executor).with_threads(2);
        builder.build().expect("an engine")
    });
    let mut parent = producer.begin(&file).expect("a genesis");
    assert_eq!(importer.begin(&file).expect("a genesis"), parent);
    let accounts: Vec<_> = GenesisAccount::of(&file).collect();
    let case = Case { rules: chain.clone(), genesis: accounts, ancestors: Default::default(), blocks: Vec::new() };
    let mut oracle = Oracle::new(&case);
    let recovery = Recovery::new(chain.clone(), SpecId::OSAKA);
    let mut pool = Pool::new(PoolConfig::default());
    let mut builder = Builder::new(&producer);
    let (mut nonces, mut total, mut types) = ([0u64; SENDERS as usize], 0, [0u32; 5]);
    let mut delegations = 0;
    for number in 1..=16u64 {
        let withdrawal = Withdrawal { index: number, address: contract, amount: number, ..Default::default() };
        let attributes = Attributes { withdrawals: vec![withdrawal], ..after(&parent) };
        let header = chain.child_header(&parent, &attributes).expect("a child");
        let fees = Fees { base: header.base_fee_per_gas.unwrap_or_default().into(), blob: 1 };
        pool.advance(&Tip { now: number, fees, changed: funded.clone() }, producer.state()).expect("readable");
        let mut blobs = 0;
        for count in 0..37u64 {
            let from = rng.random_range(0..SENDERS);
            let mut tx_type = ((count + number) % 5) as u8;
            // Six blobs are the target, nine the maximum; a delegated sender is no test of this.
            if tx_type == 3 && blobs == 6 {
                tx_type = 2;
            }
            blobs += u64::from(tx_type == 3);
            let data = (0..rng.random_range(0..40)).map(|_| rng.random_range(0..3)).collect::<Vec<u8>>();
            let init = Bytes::from_static(&[0x60, 0x01, 0x5f, 0x55, 0x60, 0x01, 0x5f, 0xf3]);
            let (to, data) = match rng.random_range(0..4) {
                0 if tx_type < 3 => (TxKind::Create, init),
                1 => (TxKind::Call(address(rng.random_range(0..SENDERS))), Bytes::new()),
                _ => (TxKind::Call(contract), data.into()),
            };
            // Authorities are no senders, so that their nonces are known.
            let authorized = if tx_type == 4 {
                delegations += 1;
                vec![authorize(100 + delegations, 0, contract)]
            } else {
                vec![]
            };
            let nonce = &mut nonces[from as usize];
            let call = Call { from, nonce: *nonce, to, value: rng.random_range(0..9), data };
            let tx = recovery.recover(Form::Pooled, &signed(tx_type, &call, authorized)).expect("a transaction");
            let admission = pool.add(tx, producer.state()).expect("readable");
            assert!(matches!(admission, Admission::Admitted { is_ready: true, .. }), "{admission:?}");
            *nonce += 1;
            types[usize::from(tx_type)] += 1;
        }
        let template = Template { header, ommers: vec![], withdrawals: Some(attributes.withdrawals.clone()) };
        let mut offered: HashMap<u64, Arc<RecoveredTx>> = HashMap::new();
        let mut job =
            builder.open(&mut producer, Target::Whole(Box::new(template)), Budget::default(), []).expect("a block");
        loop {
            let taken = pool.take(&Batch::default());
            if taken.is_empty() {
                break;
            }
            offered.extend(taken.iter().map(|tx| (tx.rank(), Arc::clone(tx.recovered()))));
            let candidates =
                taken.iter().map(|tx| CandidateTx { tx: Arc::clone(tx.recovered()) as _, rank: tx.rank() });
            job.extend(candidates.collect::<Vec<_>>(), &|| false).expect("it runs");
        }
        let built = job.finish();
        assert!(built.failure.is_none() && built.dropped.is_empty(), "{:?} {:?}", built.failure, built.dropped);
        pool.settle(built.txs.iter().map(|candidate| (candidate.rank, Settled::Included)));
        // The bytes of a built block come with its candidates.
        let bytes: Vec<Bytes> = built.txs.iter().filter_map(|candidate| candidate.tx.bytes().cloned()).collect();
        assert_eq!(bytes.len(), 37);
        let mut header = built.header.clone().expect("a whole block");
        let merkleized = producer.merkleize(built.executed).expect("a root");
        merkleized.outcome().write_to(&mut header);
        header.transactions_root = transactions_root(&bytes);
        assert_eq!(chain.validate_header(&header, &parent, None), Ok(()), "{number}");

        // The second engine imports the block.
        let txs: Vec<_> = recovery
            .recover_batch(importer.workers(), Form::Block, &bytes)
            .into_iter()
            .map(|tx| tx.expect("a transaction").tx().clone())
            .collect();
        let withdrawals = Some(&attributes.withdrawals[..]);
        let payload = RecoveredBlock { header: &header, txs: &txs, ommers: &[], withdrawals };
        let executed = importer.execute_block(&payload, Hints::Predict).expect("valid");
        let imported = importer.merkleize(executed).expect("a root");
        assert_eq!(chain.check_outcome(&header, &imported.outcome()), Ok(()), "{number}");
        assert_eq!(imported.block().receipts(), merkleized.block().receipts());

        // Stock revm, one transaction after the other.
        let body = Body { header: header.clone(), txs, ommers: vec![], withdrawals: Some(attributes.withdrawals) };
        let (results, state, _) = oracle.block(&body).expect("valid");
        let ours: Vec<_> = imported.block().outcomes().iter().filter_map(|outcome| outcome.result()).collect();
        assert!(results.iter().eq(ours), "results of block {number}");
        let receipts = imported.block().receipts();
        assert_eq!(header.gas_used, results.iter().map(|result| result.tx_gas_used()).sum::<u64>());
        let bloom = receipts.iter().fold(Bloom::ZERO, |bloom, receipt| bloom | *receipt.logs_bloom());
        assert_eq!(header.logs_bloom, bloom);
        let root = alloy_consensus::proofs::calculate_receipt_root(&receipts);
        assert_eq!(header.receipts_root, root);
        total += results.len();
        producer.commit(merkleized).expect("a commit").write.wait().expect("durable");
        importer.commit(imported).expect("a commit").write.wait().expect("durable");
        assert_eq!(importer.state().dump().expect("sound"), state, "state after block {number}");
        parent = header;
    }
    assert!(total >= 590 && types.iter().all(|count| *count > 80), "{total}: {types:?}");
    assert!(importer.state().storage(&contract, &U256::ZERO).expect("a word") > U256::from(100));
    assert_eq!(producer.state().root(), importer.state().root());
}
