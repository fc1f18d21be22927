//! Kind of code: from its bytes and the block's hard fork alone, also after reopening, and on chains that pass all forks.

use super::*;
use crate::kit::{COINBASE, Case, Hint, Way, deploys};
use alloy_consensus::Header;
use phalanx::{
    Engine, Hints, Invalid,
    chain::ChainSpec,
    merkle::{Backend, StoreConfig},
    revm::{
        bytecode::opcode::{CALL, EXTCODEHASH, EXTCODESIZE},
        context::{BlockEnv, CfgEnv},
        primitives::hardfork::SpecId,
    },
};

/// Hard forks in order. Block `n` of [`ladder`] is under the rules of the n-th.
const FORKS: [SpecId; 13] = [
    SpecId::FRONTIER,
    SpecId::HOMESTEAD,
    SpecId::TANGERINE,
    SpecId::SPURIOUS_DRAGON,
    SpecId::BYZANTIUM,
    SpecId::PETERSBURG,
    SpecId::ISTANBUL,
    SpecId::BERLIN,
    SpecId::LONDON,
    SpecId::SHANGHAI,
    SpecId::CANCUN,
    SpecId::PRAGUE,
    SpecId::OSAKA,
];

const TARGET: u8 = 0xc0;

/// A chain with one block under each hard fork.
fn ladder() -> ChainSpec {
    let config = r#"{"config": {"chainId": 1, "homesteadBlock": 1, "eip150Block": 2, "eip155Block": 3, "eip158Block": 3,
        "byzantiumBlock": 4, "constantinopleBlock": 5, "petersburgBlock": 5, "istanbulBlock": 6, "berlinBlock": 7,
        "londonBlock": 8, "terminalTotalDifficulty": 1, "shanghaiTime": 108, "cancunTime": 120, "pragueTime": 132,
        "osakaTime": 144}, "gasLimit": "0x1", "difficulty": "0x1", "alloc": {}}"#;
    ChainSpec::from_genesis(&serde_json::from_str(config).expect("a genesis")).expect("a schedule")
}

fn header(number: usize) -> Header {
    let from = |spec| FORKS[number] >= spec;
    let merged = from(SpecId::SHANGHAI);
    Header {
        number: number as u64,
        timestamp: number as u64 * 12,
        beneficiary: COINBASE,
        gas_limit: 30_000_000,
        difficulty: word(if merged { 0 } else { 0x20000 }),
        mix_hash: B256::repeat_byte(0x55),
        base_fee_per_gas: from(SpecId::LONDON).then_some(7),
        excess_blob_gas: from(SpecId::CANCUN).then_some(0),
        blob_gas_used: from(SpecId::CANCUN).then_some(0),
        parent_beacon_block_root: from(SpecId::CANCUN).then_some(B256::repeat_byte(0xbe)),
        ..Header::default()
    }
}

/// A chain whose every block deploys `0xef0100 ‖ target`, or tries to, and calls and looks at what earlier blocks deployed.
fn passing_all_forks() -> Case {
    let mut case = Case { rules: ladder(), ..Case::new("Osaka") };
    let probe = Asm::new()
        .call(CALL, at(BOB).create(0), 0, 60_000)
        .store(0)
        .addr(at(BOB).create(0))
        .op(EXTCODESIZE)
        .store(1)
        .addr(at(BOB).create(0))
        .op(EXTCODEHASH)
        .store(2);
    // Before Constantinople there is no EXTCODEHASH.
    let older = Asm::new().call(CALL, at(BOB).create(0), 0, 60_000).store(0);
    case = case
        .with(people())
        .with([code(TARGET, Asm::new().count(3)), code(0xee, probe), code(0xed, older)])
        .with([GenesisAccount { code: Some(designator(at(TARGET))), nonce: 1, ..holder(0xdd, 1 << 60) }]);
    for (number, fork) in FORKS.into_iter().enumerate() {
        let nonce = number as u64;
        let mut txs = vec![
            create(BOB, nonce, deploys(Asm::new(), &designator(at(TARGET)))),
            tx(ALICE, 3 * nonce, at(0xee)),
            tx(ALICE, 3 * nonce + 1, at(0xed)),
            pay(ALICE, 3 * nonce + 2, at(BOB).create(nonce.saturating_sub(1)), 1 << 40),
            tx(CAROL, nonce, at(0xdd)),
        ];
        if fork >= SpecId::PRAGUE {
            txs.push(delegating(tx(4, nonce - 11, at(5)), &[(5, nonce - 11, at(TARGET))]));
            // A delegating account sends transactions, however it came to its code.
            txs.push(TxEnv { gas_limit: 100_000, ..tx(0xdd, nonce - 10, at(TARGET)) });
        }
        case = case.block_with(txs, |body| body.header = header(number));
    }
    case
}

#[test]
fn a_chain_that_passes_all_forks_keeps_its_code_and_changes_its_kind() {
    let case = passing_all_forks();
    assert!((0..FORKS.len()).all(|number| case.rules.spec(&header(number)) == FORKS[number]));
    let proof = case.prove();
    let deployed = |nonce| {
        proof.account(at(BOB).create(nonce)).is_some_and(|account| account.code == Some(designator(at(TARGET))))
    };
    let london = FORKS.iter().position(|spec| *spec == SpecId::LONDON).expect("a fork");
    assert!((0..london as u64).all(deployed), "EIP-3541 came with London");
    assert!(!(london as u64..FORKS.len() as u64).any(deployed));
    // From Prague on the code that Frontier's block deployed runs its target's, in the caller's storage.
    assert_eq!(proof.slot(at(0xee), 0), word(1), "the call succeeds in the end");
    assert_eq!(proof.slot(at(BOB).create(0), 3), word(4), "two calls a block, in two blocks");
    assert_eq!(proof.slot(at(0xdd), 3), word(2));
    for (number, fork) in FORKS.into_iter().enumerate() {
        let called = proof.block(number).outcomes[4].is_success();
        assert_eq!(called, fork >= SpecId::PRAGUE, "{fork:?}");
    }

    // The same chain on stores that are reopened after every block, or in between.
    for (way, every) in
        [(Way::sequential(), 1), (Way::dag(2, Hint::None), 1), (Way::stm(2, None), 1), (Way::dag(4, Hint::None), 3)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            let store = StoreConfig::new(Backend::File(folder.path().into()));
            let builder = Engine::builder().with_chain(case.rules.clone()).with_store(store).with_force_parallel(true);
            builder.with_executor(way.executor).with_threads(way.threads).build().expect("a sound store")
        };
        let mut engine = open();
        engine.genesis(case.genesis.iter().cloned()).expect("a sound genesis");
        for (number, body) in case.blocks.iter().enumerate() {
            if number % every == 0 {
                drop(engine);
                engine = open();
            }
            let list = proof.block(number).access_list.clone().expect("a list");
            let hints = match number % 2 {
                0 => Hints::AccessList { rlp: &list, hash: phalanx::revm::primitives::keccak256(&list) },
                _ => Hints::Predict,
            };
            let executed = engine.execute_block(&body.payload(), hints).expect("a valid block");
            let committed = engine.merkleize(executed).and_then(|block| engine.commit(block)).expect("a commit");
            assert_eq!(committed.state_root, proof.block(number).root, "{way:?}, {:?}", FORKS[number]);
            committed.write.wait().expect("durable");
        }
    }
}

#[test]
fn reopening_changes_no_kind_under_any_fork() {
    let env = |number: u64| BlockEnv {
        number: word(number),
        gas_limit: 30_000_000,
        prevrandao: Some(B256::ZERO),
        ..BlockEnv::default()
    };
    for spec in FORKS {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            let store = StoreConfig::new(Backend::File(folder.path().into()));
            Engine::builder().with_cfg(CfgEnv::new_with_spec(spec)).with_store(store).build().expect("a sound store")
        };
        let mut engine = open();
        engine.genesis(people().into_iter().chain([code(TARGET, Asm::new().count(3))])).expect("a sound genesis");
        let deploy = create(ALICE, 0, deploys(Asm::new(), &designator(at(TARGET))));
        let deploy = TxEnv { gas_price: 1, ..deploy };
        let executed = engine.execute_given(&env(1), &[deploy], Invalid::Refuse).expect("a valid block");
        assert_eq!(executed.block().outcomes()[0].is_success(), spec < SpecId::LONDON, "{spec:?}");
        let merkleized = engine.merkleize(executed).expect("a root");
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
        let call = [TxEnv { gas_price: 1, ..tx(ALICE, 1, at(ALICE).create(0)) }];
        let run = |engine: &mut Engine| {
            let executed = engine.execute_given(&env(2), &call, Invalid::Refuse).expect("a valid block");
            let ended = (executed.block().outcomes()[0].is_success(), executed.block().gas_used());
            (ended, engine.merkleize(executed).expect("a root").state_root())
        };
        let before = run(&mut engine);
        drop(engine);
        assert_eq!(run(&mut open()), before, "{spec:?}");
        assert_eq!(before.0.0, spec >= SpecId::LONDON, "{spec:?}: the code fails where it exists");
    }
}
