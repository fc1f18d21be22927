//! Whole blocks on foreign databases: recorded states, snapshots of another engine, databases that fail.

use crate::kit::{Asked, Asm, Body, Case, Fails, World, bundle_difference, recorded, stateless, stock};
use alloy_consensus::Header;
use phalanx::{
    BlockError, Engine, Error, Executor, ForeignError, ForeignItem, GenesisAccount, Hints, Invalid, Outcome,
    RecoveredBlock, SnapshotAt,
    chain::ChainSpec,
    revm::{
        bytecode::opcode::{BLOCKHASH, SSTORE},
        context::TxEnv,
        primitives::{Address, B256, TxKind, U256},
    },
};
use std::collections::{BTreeMap, BTreeSet};

const EXECUTORS: [Executor; 3] = [Executor::Sequential, Executor::Dag, Executor::BlockStm];

/// All recorded blocks where fixtures are required, as in CI; else some of them.
pub(crate) fn some_blocks() -> Vec<phalanx_workloads::fixtures::RealBlock> {
    let blocks = crate::mainnet::blocks();
    let all = std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_some();
    let step = if all { 1 } else { blocks.len().div_ceil(8) };
    blocks.into_iter().step_by(step).collect()
}

pub(crate) fn body_of(block: &phalanx_workloads::fixtures::RealBlock) -> (Body, World) {
    let unknown = Header { beneficiary: block.header.beneficiary, ..Header::default() };
    recorded(&ChainSpec::mainnet(), block, vec![unknown; block.uncles])
}

#[test]
fn real_blocks_on_their_recorded_state_give_what_revm_gives() {
    let rules = ChainSpec::mainnet();
    let mut engines = Vec::new();
    for executor in EXECUTORS {
        for threads in [1, 2, 4] {
            engines.push((executor, threads, stateless(&rules, executor, threads)));
        }
    }
    for block in some_blocks() {
        let number = block.header.number;
        let (body, world) = body_of(&block);
        let reads = Asked::new(&world);
        let (results, bundle) = stock(&rules, &reads, &body);
        let results: Vec<_> = results.into_iter().map(Outcome::Executed).collect();
        for (executor, threads, engine) in &mut engines {
            let ours = engine.execute_on(&Asked::new(&world), &body.payload(), Hints::Predict).expect("a valid block");
            let what = format!("{number}: {executor:?}, {threads} threads");
            assert!(ours.block.outcomes() == results, "{what}");
            if let Some(difference) = bundle_difference(&ours.bundle, &bundle) {
                panic!("{what}: {difference}");
            }
            if let Some(root) = block.index.as_ref().and_then(|index| index.computed_receipts_root) {
                assert_eq!(ours.block.receipts_root().unwrap_or(root), root, "{what}");
            }
        }
    }
}

#[test]
fn a_state_that_holds_what_the_block_reads_is_enough() {
    let rules = ChainSpec::mainnet();
    for block in some_blocks().into_iter().take(4) {
        let (body, world) = body_of(&block);
        let asked = Asked::new(&world);
        let mut engine = stateless(&rules, Executor::Sequential, 1);
        let truth = engine.execute_on(&asked, &body.payload(), Hints::None).expect("a valid block");
        let reads = asked.reads.into_inner().expect("no panic");
        let known: BTreeSet<_> = reads.iter().copied().collect();
        assert_eq!(reads.len(), known.len(), "each item is read once");
        for executor in EXECUTORS {
            let mut engine = stateless(&rules, executor, 2);
            for hints in [Hints::None, Hints::Predict] {
                let asked = Asked::knowing(&world, known.clone());
                let ours = engine.execute_on(&asked, &body.payload(), hints).expect("a valid block");
                assert!(ours.block.outcomes() == truth.block.outcomes() && ours.bundle == truth.bundle);
            }
        }
    }
}

/// Calls a contract that stores the hashes of the parent, of an earlier block, and of one that is too far away; pays
/// another account.
fn asks_for_hashes() -> (Case, World) {
    let asks = Asm::new();
    let asks = [299u64, 290, 44, 43].into_iter().fold(asks, |asks, number| {
        let number = U256::from(number);
        asks.push(number).op(BLOCKHASH).push(number).op(SSTORE)
    });
    let contract = Address::repeat_byte(0xee);
    let rich = |byte: u8| GenesisAccount {
        address: Address::repeat_byte(byte),
        balance: U256::from(u64::MAX),
        ..GenesisAccount::default()
    };
    let mut case = Case::new("Osaka").with([crate::kit::contract(0xee, &asks.bytes())]).with((1..=9).map(rich));
    let tx = |from: u8| TxEnv {
        tx_type: 2,
        caller: Address::repeat_byte(from),
        kind: TxKind::Call(if from.is_multiple_of(2) { contract } else { Address::repeat_byte(9 - from) }),
        value: U256::from(from % 2),
        gas_limit: 300_000,
        gas_price: 100,
        gas_priority_fee: Some(3),
        ..TxEnv::default()
    };
    case = case.block_with((1..=8).map(tx), |body| body.header.number = 300);
    case.ancestors = (43..300).map(|number| (number, B256::with_last_byte(number as u8 | 1))).collect();
    let header = &mut case.blocks[0].header;
    header.parent_hash = case.ancestors[&299];
    let world = World::new(&case.genesis, &case.ancestors, case.rules.spec(&case.blocks[0].header));
    (case, world)
}

#[test]
fn hashes_of_ancestors_come_from_the_database() {
    let (case, world) = asks_for_hashes();
    let body = &case.blocks[0];
    let (results, bundle) = stock(&case.rules, &Asked::new(&world), body);
    assert!(results.iter().all(|result| result.is_success()));
    let results: Vec<_> = results.into_iter().map(Outcome::Executed).collect();
    for executor in EXECUTORS {
        for threads in [1, 2, 4] {
            let asked = Asked::new(&world);
            let mut engine = stateless(&case.rules, executor, threads);
            let ours = engine.execute_on(&asked, &body.payload(), Hints::None).expect("a valid block");
            assert!(ours.block.outcomes() == results, "{executor:?}, {threads}");
            assert_eq!(bundle_difference(&ours.bundle, &bundle), None, "{executor:?}, {threads}");
            let reads = asked.reads.into_inner().expect("no panic");
            let hashes: BTreeSet<_> = reads.iter().filter(|item| matches!(item, ForeignItem::BlockHash(_))).collect();
            let asked_for = [ForeignItem::BlockHash(44), ForeignItem::BlockHash(290)];
            assert_eq!(hashes, asked_for.iter().collect(), "the header names the parent, and 43 is too far away");
        }
    }
}

#[test]
fn a_database_that_fails_is_an_error_of_the_block_and_names_the_item() {
    let (case, world) = asks_for_hashes();
    let body = &case.blocks[0];
    let asked = Asked::new(&world);
    _ = stock(&case.rules, &asked, body);
    let needed: BTreeSet<_> = asked.reads.into_inner().expect("no panic").into_iter().collect();
    let mut seen = BTreeMap::<&str, usize>::new();
    for executor in EXECUTORS {
        let mut engine = stateless(&case.rules, executor, 2);
        let truth = engine.execute_on(&Asked::new(&world), &body.payload(), Hints::None).expect("a valid block");
        for item in &needed {
            let kind = match item {
                ForeignItem::Account(_) => "account",
                ForeignItem::Code(_) => "code",
                ForeignItem::Slot(..) => "slot",
                // The header names the parent.
                ForeignItem::BlockHash(299) => continue,
                _ => "hash",
            };
            *seen.entry(kind).or_default() += 1;
            for fails in [Fails::Error, Fails::Panic, Fails::OtherCode] {
                if fails == Fails::OtherCode && kind != "code" {
                    continue;
                }
                // A table of code that engines share would hide the failure.
                let mut engine = stateless(&case.rules, executor, 2);
                let broken = Asked::failing(&world, |asked| if asked == *item { fails } else { Fails::No });
                let error = engine.execute_on(&broken, &body.payload(), Hints::None).expect_err("a needed item");
                let BlockError::Engine(Error::Foreign(ForeignError { item: named, source })) = &error else {
                    panic!("{executor:?}, {item}: {error:?}")
                };
                assert_eq!(named, item, "{executor:?}: {error}");
                let text = source.to_string();
                let expected = match fails {
                    Fails::Panic => "the database panicked: no memory for",
                    Fails::OtherCode => "the bytes that it gives have hash",
                    _ => "no disk for",
                };
                assert!(text.starts_with(expected), "{text}");
                // The next block is none the worse.
                let again = engine.execute_on(&Asked::new(&world), &body.payload(), Hints::None).expect("a block");
                assert!(again.bundle == truth.bundle);
            }
        }
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn an_invalid_block_is_as_invalid_as_on_the_own_state() {
    let (mut case, world) = asks_for_hashes();
    case.blocks[0].txs[3].nonce = 5;
    for executor in EXECUTORS {
        let mut engine = stateless(&case.rules, executor, 2);
        let error = engine.execute_on(&Asked::new(&world), &case.blocks[0].payload(), Hints::None).expect_err("nonce");
        assert!(matches!(error, BlockError::InvalidTransaction { index: 3, .. }), "{error}");
    }
}

#[test]
fn a_block_is_built_on_a_foreign_state_by_leaving_out_what_is_invalid() {
    let (mut case, world) = asks_for_hashes();
    let mut engine = stateless(&case.rules, Executor::Sequential, 1);
    // A nonce that is too high, one that the transaction before has used, a fee below the base fee, more value than there is.
    type Change = fn(&mut TxEnv);
    let changes: [(usize, Change); 4] = [
        (0, |tx| tx.nonce = 5),
        (3, |tx| tx.caller = Address::repeat_byte(5)),
        (5, |tx| tx.gas_price = 1),
        (6, |tx| tx.value = U256::MAX),
    ];
    case.blocks[0].header.base_fee_per_gas = Some(7);
    for (at, change) in changes {
        change(&mut case.blocks[0].txs[at]);
    }
    let offered = case.blocks[0].clone();
    let mut kept = offered.clone();
    let skipped = [0, 4, 5, 6];
    kept.txs = (0..).zip(&offered.txs).filter(|(at, _)| !skipped.contains(at)).map(|(_, tx)| tx.clone()).collect();
    let (results, bundle) = stock(&case.rules, &Asked::new(&world), &kept);
    let results: Vec<_> = results.into_iter().map(Outcome::Executed).collect();
    for executor in EXECUTORS {
        for threads in [1, 2, 4] {
            let mut builder = stateless(&case.rules, executor, threads);
            let (asked, payload) = (Asked::new(&world), offered.payload());
            let built = builder.execute_on_by(&asked, &payload, Hints::Predict, Invalid::Skip).expect("a block");
            let outcomes = built.block.outcomes();
            let left_out = outcomes.iter().enumerate().filter(|(_, outcome)| matches!(outcome, Outcome::Skipped(_)));
            assert_eq!(left_out.map(|(at, _)| at).collect::<Vec<_>>(), skipped, "{executor:?}, {threads}");
            let executed: Vec<_> =
                outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::Skipped(_))).cloned().collect();
            assert!(executed == results, "{executor:?}, {threads}");
            assert_eq!(bundle_difference(&built.bundle, &bundle), None, "{executor:?}, {threads}");
            // A validator that takes no invalid transaction finds what the header says.
            let mut header = kept.header.clone();
            built.outcome(B256::repeat_byte(1)).write_to(&mut header);
            let validated =
                engine.execute_on(&Asked::new(&world), &kept.payload(), Hints::None).expect("a valid block");
            case.rules.check_outcome(&header, &validated.outcome(B256::repeat_byte(1))).expect("the same outcome");
            let refused = engine.execute_on(&Asked::new(&world), &payload, Hints::None).expect_err("as it was offered");
            assert!(matches!(refused, BlockError::InvalidTransaction { index: 0, .. }), "{refused}");
        }
    }
}

#[test]
fn snapshots_of_an_engine_are_foreign_states_of_another_and_of_itself() {
    let (case, _) = asks_for_hashes();
    let body = &case.blocks[0];
    let mut owner =
        Engine::builder().with_chain(case.rules.clone()).with_threads(2).build().expect("an engine in memory");
    owner.genesis(case.genesis.iter().cloned()).expect("a genesis");
    owner.set_ancestors(case.ancestors.clone());
    let snapshot = owner.snapshot(SnapshotAt::Committed).expect("a state");
    let root = owner.state().root();
    // A snapshot knows the hashes that the store knows, which is none here.
    let mut payload_body = body.clone();
    payload_body.txs.retain(|tx| tx.kind != TxKind::Call(Address::repeat_byte(0xee)));
    let payload = payload_body.payload();
    let mut bundles = Vec::new();
    for executor in EXECUTORS {
        let mut engine = stateless(&case.rules, executor, 2);
        bundles.push(engine.execute_on(&snapshot, &payload, Hints::Predict).expect("a valid block").bundle);
    }
    bundles.push(owner.execute_on(&snapshot, &payload, Hints::Predict).expect("a valid block").bundle);
    assert!(bundles.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(owner.state().root(), root, "the own state is as it was");

    // The bundle holds what the engine itself commits.
    let executed = owner.execute_block(&payload, Hints::Predict).expect("a valid block");
    let merkleized = owner.merkleize(executed).expect("a root");
    _ = owner.commit(merkleized).expect("a commit");
    for (address, account) in &bundles[0].state {
        let info = account.info.as_ref().expect("nothing is destroyed");
        let held = owner.state().account(address).expect("readable").expect("it is there");
        assert_eq!((held.nonce, held.balance), (info.nonce, info.balance), "{address}");
    }
    // And the state after it can be the next foreign state.
    let next = owner.snapshot(SnapshotAt::Committed).expect("a state");
    let error = owner.execute_on(&next, &RecoveredBlock { ..payload }, Hints::None).expect_err("the nonces are used");
    assert!(matches!(error, BlockError::InvalidTransaction { index: 0, .. }), "{error}");
}

#[test]
fn a_foreign_block_is_not_merkleized_by_accident() {
    // There is no way from a `ForeignBlock` to a root: it holds no `Executed`. What it holds is the caller's.
    let (case, world) = asks_for_hashes();
    let mut engine = stateless(&case.rules, Executor::Dag, 2);
    let ours = engine.execute_on(&Asked::new(&world), &case.blocks[0].payload(), Hints::None).expect("a block");
    assert_eq!(engine.state().height(), None, "the engine's own store is empty");
    assert_eq!(ours.bundle.reverts.len(), 1);
    let contract = ours.bundle.state.get(&Address::repeat_byte(0xee)).expect("it was called");
    assert_eq!(contract.storage.len(), 3, "43 is too far away, so its slot stays zero");
}
