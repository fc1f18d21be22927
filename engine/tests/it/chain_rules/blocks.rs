//! Whole blocks of a chain with rules of its own: access lists, hints, limits, and a builder.

use super::{COUNTER, FEES, READER, TREASURY, rules, transactions};
use crate::kit::{Case, call, deploys, env, eoa, header};
use alloy_consensus::Header;
use alloy_primitives::keccak256;
use alloy_rlp::{Decodable as _, Encodable as _};
use phalanx::{
    BlockError, Budget, Builder, CandidateTx, Engine, Executor, ForcedTx, GenesisAccount, Hints, Invalid,
    RecoveredBlock, Target, Template,
    chain::ChainSpec,
    eip7928::AccountChanges,
    revm::{
        context::{BlockEnv, CfgEnv, TxEnv},
        primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId},
    },
};

/// A chain of Osaka's rules with limits of its own.
fn chain() -> (ChainSpec, Vec<GenesisAccount>, CfgEnv) {
    let case = Case::new("Osaka").with(super::genesis());
    let mut cfg = CfgEnv::new_with_spec(SpecId::OSAKA);
    cfg.chain_id = case.rules.chain_id();
    cfg.limit_contract_code_size = Some(100);
    cfg.tx_gas_limit_cap = Some(500_000);
    (case.rules, case.genesis, cfg)
}

fn engine(executor: Executor, threads: usize) -> Engine {
    let (spec, genesis, cfg) = chain();
    let builder = crate::kit::builder().with_chain(spec).with_cfg(cfg).with_rules(rules(FEES));
    let builder = builder.with_access_lists(true).with_executor(executor).with_threads(threads);
    let mut engine = builder.build().expect("an engine in memory");
    engine.genesis(genesis).expect("a sound genesis");
    engine
}

/// Transactions that are valid in their order.
fn valid(seed: u64) -> Vec<TxEnv> {
    let (spec, genesis, cfg) = chain();
    let txs = transactions(seed, 90, 15);
    let block = (spec.env(&header(&spec, 10)), txs.clone());
    let ran = super::stock::run(&genesis, &cfg, FEES, &[block]);
    txs.into_iter().zip(&ran.outcomes).filter(|(_, outcome)| outcome.result().is_some()).map(|(tx, _)| tx).collect()
}

const fn payload<'a>(header: &'a Header, txs: &'a [TxEnv]) -> RecoveredBlock<'a> {
    RecoveredBlock { header, txs, ommers: &[], withdrawals: None }
}

fn commit(engine: &mut Engine, payload: &RecoveredBlock<'_>, hints: Hints<'_>) -> Result<(B256, Bytes), BlockError> {
    let executed = engine.execute_block(payload, hints)?;
    let list = executed.block().access_list().expect("the engine keeps them").rlp().clone();
    let merkleized = engine.merkleize(executed).expect("a root");
    Ok((engine.commit(merkleized).expect("a commit").state_root, list))
}

#[test]
fn access_lists_hold_every_payment_and_a_lie_about_one_is_refused() {
    let (spec, ..) = chain();
    let header = header(&spec, 10);
    let txs = valid(31);
    let payload = payload(&header, &txs);
    let (root, list) = commit(&mut engine(Executor::Sequential, 1), &payload, Hints::Predict).expect("a valid block");
    let (_, genesis, cfg) = chain();
    let truth = super::stock::run(&genesis, &cfg, FEES, &[(spec.env(&header), txs.clone())]);
    let mut accounts = Vec::<AccountChanges>::decode(&mut &list[..]).expect("a list");
    let place = accounts.iter().position(|account| account.address == TREASURY).expect("it is paid");
    let mut known = eoa(0x28).balance;
    let mut expected = Vec::new();
    for (index, balance) in (1u64..).zip(&truth.treasury) {
        if *balance != known {
            expected.push((index, *balance));
            known = *balance;
        }
    }
    let listed: Vec<_> = accounts[place]
        .balance_changes
        .iter()
        .map(|change| (change.block_access_index.get(), change.post_balance))
        .collect();
    assert_eq!(listed, expected, "every change of the treasury");
    let sets = engine(Executor::Dag, 2).true_sets(&payload).expect("true sets");
    let exceptions = engine(Executor::Dag, 2).exceptions(&payload).expect("exceptions");
    let hash = keccak256(&list);
    for threads in [1, 2, 4] {
        for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
            let lists = Hints::AccessList { rlp: &list, hash };
            for hints in [Hints::Predict, Hints::None, Hints::Sets(&sets), Hints::Exceptions(&exceptions), lists] {
                let ours = commit(&mut engine(executor, threads), &payload, hints).expect("a valid block");
                assert_eq!(ours, (root, list.clone()), "{executor:?}, {threads} threads, {hints:?}");
            }
        }
    }
    accounts[place].balance_changes[3].post_balance += U256::ONE;
    let mut lie = Vec::new();
    accounts.encode(&mut lie);
    for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
        let hints = Hints::AccessList { rlp: &lie, hash: keccak256(&lie) };
        let error = commit(&mut engine(executor, 2), &payload, hints).expect_err("a lie");
        assert!(matches!(error, BlockError::AccessList { .. }), "{error}");
    }
}

#[test]
fn limits_of_the_chain_hold_in_whole_blocks() {
    let (spec, ..) = chain();
    let header = header(&spec, 10);
    let create = |nonce, len| TxEnv {
        kind: TxKind::Create,
        data: deploys(crate::kit::Asm::new(), &vec![0; len]),
        ..call(1, nonce, COUNTER, 0)
    };
    let fits = [create(0, 100), create(1, 101)];
    let over = [TxEnv { gas_limit: 500_001, ..call(1, 0, COUNTER, 0) }];
    for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
        let executed = engine(executor, 2).execute_block(&payload(&header, &fits), Hints::Predict).expect("valid");
        let succeeded: Vec<_> = executed.block().outcomes().iter().map(|outcome| outcome.is_success()).collect();
        assert_eq!(succeeded, [true, false], "{executor:?}");
        let error = engine(executor, 2).execute_block(&payload(&header, &over), Hints::Predict).expect_err("too much");
        assert!(matches!(error, BlockError::InvalidTransaction { index: 0, .. }), "{error}");
    }
}

/// Forced transactions first, then those of a pool: what a builder makes is valid for every validator.
#[test]
fn a_builder_makes_blocks_that_validate() {
    let (spec, genesis, cfg) = chain();
    for threads in [1, 2, 4] {
        let mut maker = engine(Executor::Dag, threads);
        let mut builder = Builder::new(&maker);
        let mint = |byte: u8| ForcedTx { from: Address::repeat_byte(byte), mint: 10, ..ForcedTx::default() };
        let forced = [
            mint(0x70).env(),
            ForcedTx { kind: TxKind::Call(COUNTER), gas_limit: 100_000, ..mint(0x71) }.env(),
            ForcedTx { gas_limit: 20_000, ..mint(0x72) }.env(),
        ];
        let reads = |from| TxEnv { data: Bytes::from_static(&[7; 32]), ..call(from, 0, READER, 0) };
        let others = (1..=20).map(|from| call(from, 0, COUNTER, 0)).chain([reads(21), call(0x28, 0, READER, 0)]);
        let offered = |txs: Vec<TxEnv>| (0..).zip(txs).map(|(rank, tx)| CandidateTx::new(tx, rank)).collect::<Vec<_>>();
        let template = Template { header: header(&spec, 10), ..Template::default() };
        let target = Target::Whole(Box::new(template));
        let mut job = builder.open(&mut maker, target, Budget::default(), offered(forced.to_vec())).expect("a block");
        job.extend(offered(others.collect()), &|| false).expect("execution");
        job.extend(offered((22..=39).map(|from| call(from, 0, COUNTER, 0)).collect()), &|| false).expect("execution");
        let built = job.finish();
        assert!(built.failure.is_none() && built.dropped.is_empty(), "{:?}", built.dropped);
        let (header, txs) = (built.header.clone().expect("a whole block"), built.txs);
        let txs: Vec<TxEnv> = txs.iter().map(|candidate| candidate.tx.env().clone()).collect();
        assert_eq!((txs.len(), &txs[..3]), (43, &forced[..]), "forced transactions come first");
        let list = built.executed.block().access_list().expect("the engine keeps them").rlp().clone();
        let merkleized = maker.merkleize(built.executed).expect("a root");
        let root = merkleized.state_root();
        for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
            let ours = commit(&mut engine(executor, threads), &payload(&header, &txs), Hints::Predict);
            assert_eq!(ours.expect("a valid block"), (root, list.clone()), "{executor:?}, {threads} threads");
        }
        let truth = super::stock::run(&genesis, &cfg, FEES, &[(spec.env(&header), txs)]);
        let _committed = maker.commit(merkleized).expect("a commit");
        super::compare(&maker, &truth, &format!("{threads} threads"));
    }
}

/// The type of a forced transaction stands before its receipt.
#[test]
fn receipts_carry_the_type() {
    let tx = ForcedTx { mint: 1, from: TREASURY, ..ForcedTx::default() }.env();
    let mut engine = engine(Executor::Dag, 1);
    let env = BlockEnv { gas_limit: 30_000_000, ..env(1) };
    let executed = engine.execute_given(&env, &[tx], Invalid::Skip).expect("execution");
    let receipt = &executed.block().receipts()[0];
    let mut bytes = vec![ForcedTx::TYPE];
    let untyped = receipt.as_receipt_with_bloom().expect("a receipt");
    untyped.encode(&mut bytes);
    let root = alloy_trie::root::ordered_trie_root_encoded(&[bytes]);
    assert_eq!(executed.block().receipts_root(), Some(root));
}
