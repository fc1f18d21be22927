//! The engine behind the API of consensus: events, forks, restarts, views and proofs.

mod build;
mod pool;

use crate::kit::{COINBASE, builder, contract};
use alloy_primitives::keccak256;
use phalanx::{
    Error, SendError, Service, ServiceConfig,
    api::{
        AccountView, BlockBudget, BlockEnv, BlockId, Build as _, BuildRequest, Candidate, CommitMeta, EngineEvent,
        ExecId, ExecOutcome, ExecutionEngine as _, Failure, FatalCause, InvalidCause, Limits, Operation, Payload,
        Priority, ProofQuery, Prove as _, ReadState as _, RetryCause, Ticket, TxPolicy, TxStatus, ViewAt,
    },
    merkle::{Backend, Delta, Durability, Params, Store, StoreConfig},
    pool::{Admission, Refusal},
    revm::{
        context::TxEnv,
        primitives::{Address, B256, Bytes, TxKind, U256},
    },
    verify_account, verify_slot, verify_transaction,
};
use phalanx_workloads::{Native, TransferLoad, Workload as _};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

const CHAIN: u64 = 1;
/// `sstore(number - 1, blockhash(number - 1))`.
const REMEMBERS: [u8; 8] = [0x60, 1, 0x43, 0x03, 0x80, 0x40, 0x90, 0x55];
/// Reverts.
const REVERTS: [u8; 3] = [0x5f, 0x5f, 0xfd];

/// A chain in a folder, and its accounts.
struct World {
    load: Native,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let load = TransferLoad { accounts: 16, txs: 1, signatures: true, ..Default::default() };
        Self { load: Native::new(load).expect("a load"), folder: crate::kit::folder() }
    }

    fn open(&self) -> Service {
        self.open_as(&self.folder.path().join("file"), 2, ServiceConfig::default()).expect("a service")
    }

    fn open_as(&self, path: &Path, threads: usize, config: ServiceConfig) -> Result<Service, Error> {
        let store = StoreConfig::new(Backend::File(path.into())).with_durability(Durability::Block);
        let mut engine = builder().with_threads(threads).with_store(store).build()?;
        if engine.state().height().is_none() {
            let accounts = self.load.accounts().addresses().map(|address| phalanx::GenesisAccount {
                address,
                balance: U256::from(10).pow(U256::from(20)),
                ..Default::default()
            });
            engine.genesis(accounts.chain([contract(0xee, &REMEMBERS), contract(0xef, &REVERTS)]))?;
        }
        Service::open(engine, config)
    }

    fn sender(&self, from: usize) -> Address {
        self.load.accounts().address(from)
    }

    fn tx(&self, from: usize, nonce: u64, to: Address, value: u64) -> Bytes {
        let tx = TxEnv {
            tx_type: 2,
            caller: self.sender(from),
            gas_limit: 100_000,
            gas_price: 100,
            gas_priority_fee: Some(3),
            kind: TxKind::Call(to),
            value: U256::from(value),
            nonce,
            chain_id: Some(CHAIN),
            ..Default::default()
        };
        self.load.accounts().sign(&[tx]).expect("a known sender").remove(0)
    }
}

fn candidate(parent: ExecId, height: u64, txs: Vec<Bytes>, policy: TxPolicy) -> Candidate {
    let env = BlockEnv {
        height,
        timestamp_ms: height * 1000,
        gas_limit: 1_000_000,
        base_fee: 7,
        beneficiary: COINBASE,
        ..BlockEnv::default()
    };
    Candidate::new(CHAIN, parent, env, policy, Payload::new(txs).into())
}

fn meta(candidate: &Candidate) -> CommitMeta {
    let block = BlockId(keccak256(candidate.id().0));
    CommitMeta { block, cursor: candidate.env().height, ..CommitMeta::default() }
}

fn events(service: &Service) -> Vec<EngineEvent> {
    service.settle();
    let mut events = Vec::new();
    while service.poll(3, &mut events) > 0 {}
    events
}

fn submit(service: &Service, candidate: &Candidate) -> ExecOutcome {
    service.submit(Ticket(1), candidate.clone(), Priority::Speculative).expect("accepted");
    let events = events(service);
    let rooted = events.iter().find_map(|event| match event {
        EngineEvent::Rooted { outcome, .. } if outcome.id == candidate.id() => Some(outcome.clone()),
        _ => None,
    });
    rooted.unwrap_or_else(|| panic!("{events:?}"))
}

fn commit(service: &Service, candidate: &Candidate) {
    service.commit(Ticket(2), candidate.id(), meta(candidate)).expect("accepted");
    let (tip, height) = (candidate.id(), candidate.env().height);
    let events = events(service);
    assert!(events.contains(&EngineEvent::Committed { ticket: Ticket(2), tip, height }), "{events:?}");
}

fn transfers(world: &World, height: u64, value: u64) -> Vec<Bytes> {
    (0..8).map(|from| world.tx(from, height - 1, world.sender(from + 8), value)).collect()
}

#[test]
fn blocks_are_executed_before_they_are_decided_and_one_wins() {
    let world = World::new();
    let service = world.open();
    let genesis = service.status().committed;
    assert_eq!((genesis.height, genesis.exec), (0, ExecId::GENESIS));
    let strict = |parent, height, value| candidate(parent, height, transfers(&world, height, value), TxPolicy::Strict);
    let (winner, loser) = (strict(ExecId::GENESIS, 1, 5), strict(ExecId::GENESIS, 1, 6));
    let (child, orphan) = (strict(winner.id(), 2, 5), strict(loser.id(), 2, 5));
    for block in [&winner, &loser, &child, &orphan] {
        service.submit(Ticket(7), block.clone(), Priority::Speculative).expect("accepted");
    }
    let found = events(&service);
    for block in [&winner, &loser, &child, &orphan] {
        let at = |wanted: &dyn Fn(&EngineEvent) -> bool| found.iter().position(wanted).expect("it happened");
        let executed = at(&|e| matches!(e, EngineEvent::Executed { id, .. } if *id == block.id()));
        let rooted = at(&|e| matches!(e, EngineEvent::Rooted { outcome, .. } if outcome.id == block.id()));
        assert!(executed < rooted);
    }
    assert_eq!(found.len(), 8, "{found:?}");
    assert_eq!(service.status().committed, genesis, "still invisible");
    service.stage(Ticket(8), loser.id()).expect("rooted");
    service.stage(Ticket(8), orphan.id()).expect("the parent is in flight");
    commit(&service, &child);
    let status = service.status();
    assert_eq!((status.committed.height, status.committed.exec), (2, child.id()));
    assert!(status.staged.is_empty());
    assert_eq!(service.committed_at(1).expect("in the window").exec, winner.id());
    let account = |at| service.view(at).expect("there").account(world.sender(8)).expect("readable").expect("funded");
    let ether = U256::from(10).pow(U256::from(20));
    assert_eq!(account(ViewAt::Committed).balance, ether + U256::from(10));
    assert_eq!(account(ViewAt::Exec(winner.id())).balance, ether + U256::from(5));
    assert!(service.view(ViewAt::Exec(loser.id())).is_err());
    let late = service.submit(Ticket(9), loser, Priority::Decided);
    assert_eq!(late, Err(Failure::Superseded));
    service.rewind(Ticket(10), winner.id()).expect("in the history");
    assert_eq!(account(ViewAt::Committed).balance, ether + U256::from(5));
    assert_eq!(submit(&service, &child).id, child.id());
}

#[test]
fn an_execution_depends_only_on_its_block_and_parent() {
    let worlds = [World::new(), World::new()];
    let roots = [1, 4].map(|threads| {
        let world = &worlds[threads / 4];
        let path = world.folder.path().join("other");
        let service = world.open_as(&path, threads, ServiceConfig::default()).expect("a service");
        let mut parent = ExecId::GENESIS;
        let mut outcomes = Vec::new();
        for height in 1..=5 {
            if threads == 4 {
                let noise = candidate(parent, height, transfers(world, height, 99), TxPolicy::Strict);
                submit(&service, &noise);
            }
            let mut txs = transfers(world, height, height);
            txs.push(world.tx(9, height - 1, Address::repeat_byte(0xee), 0));
            let block = candidate(parent, height, txs, TxPolicy::Strict);
            outcomes.push(submit(&service, &block));
            if height % 2 == 0 {
                commit(&service, &block);
            }
            parent = block.id();
        }
        // BLOCKHASH returns the names of blocks.
        let view = service.view(ViewAt::Exec(parent)).expect("executed");
        for (height, outcome) in (1..).zip(&outcomes[..4]) {
            let word = view.storage(Address::repeat_byte(0xee), B256::with_last_byte(height)).expect("readable");
            assert_eq!(word, outcome.id.0);
        }
        outcomes
    });
    assert_eq!(roots[0], roots[1]);
}

#[test]
fn a_restart_recovers_committed_and_staged_blocks() {
    let world = World::new();
    let mut service = world.open();
    let mut parent = ExecId::GENESIS;
    let mut blocks = Vec::new();
    for height in 1..=4 {
        let block = candidate(parent, height, transfers(&world, height, 5), TxPolicy::Strict);
        let outcome = submit(&service, &block);
        parent = block.id();
        blocks.push((block, outcome));
    }
    commit(&service, &blocks[1].0);
    service.finalise(Ticket(0), 1).expect("committed");
    commit(&service, &blocks[2].0);
    service.stage(Ticket(3), blocks[3].0.id()).expect("rooted");
    service.settle();
    for abandoned in [false, true] {
        let before = (service.status().committed, service.committed_at(1), service.committed_at(2));
        if abandoned {
            service.abandon()
        } else {
            drop(service)
        };
        service = world.open();
        assert_eq!((service.status().committed, service.committed_at(1), service.committed_at(2)), before);
        let status = service.status();
        assert_eq!((status.finalised, status.staged), (1, vec![(4, blocks[3].0.id())]));
    }
    assert_eq!(submit(&service, &blocks[3].0), blocks[3].1);
    commit(&service, &blocks[3].0);
    assert_eq!(service.status().committed.state_root, blocks[3].1.state_root);
    let back = service.rewind(Ticket(1), ExecId::GENESIS);
    assert_eq!(back, Err(Failure::Fatal(FatalCause::Fork { height: 0 })), "below the finalised height");
}

#[test]
fn invalid_transactions_are_refused_or_skipped() {
    let world = World::new();
    let service = world.open();
    let to = world.sender(9);
    let good = |from| world.tx(from, 0, to, 1);
    let bad: [(Bytes, u32); 3] =
        [(world.tx(1, 5, to, 1), 1), (Bytes::from_static(b"no transaction"), 1), (world.tx(0, 0, to, 1), 1)];
    for (tx, index) in bad {
        let txs = vec![good(0), tx, world.tx(2, 0, Address::repeat_byte(0xef), 0)];
        let strict = candidate(ExecId::GENESIS, 1, txs.clone(), TxPolicy::Strict);
        service.submit(Ticket(1), strict.clone(), Priority::Speculative).expect("accepted");
        let failed = EngineEvent::Failed {
            ticket: Ticket(1),
            id: strict.id(),
            operation: Operation::Submit,
            why: Failure::Invalid(InvalidCause::Transaction { index }),
        };
        let found = events(&service);
        assert!(found.contains(&failed), "{found:?}");
        let lenient = submit(&service, &candidate(ExecId::GENESIS, 1, txs, TxPolicy::SkipInvalid));
        assert_eq!(*lenient.txs, [TxStatus::Succeeded, TxStatus::Skipped, TxStatus::Reverted]);
    }
    // Eleven of 100,000 gas, where ten fit.
    let txs: Vec<_> = (0..11).map(good).collect();
    let outcome = submit(&service, &candidate(ExecId::GENESIS, 1, txs, TxPolicy::SkipInvalid));
    assert_eq!(outcome.txs.iter().position(|status| *status == TxStatus::Skipped), Some(10));
    let wrong = candidate(ExecId::GENESIS, 3, vec![], TxPolicy::Strict);
    let refused = service.submit(Ticket(1), wrong, Priority::Speculative);
    assert_eq!(refused, Err(Failure::Invalid(InvalidCause::Height { says: 3, expected: 1 })));
}

#[test]
fn clients_can_verify_proofs_of_committed_state() {
    let world = World::new();
    let service = world.open();
    let mut txs = vec![Bytes::from_static(b"skipped")];
    txs.extend((0..5).map(|from| world.tx(from, 0, world.sender(9), 1)));
    txs.push(world.tx(5, 0, Address::repeat_byte(0xef), 0));
    txs.push(world.tx(6, 0, Address::repeat_byte(0xee), 0));
    let block = candidate(ExecId::GENESIS, 1, txs, TxPolicy::SkipInvalid);
    let outcome = submit(&service, &block);
    commit(&service, &block);
    let (params, root) = (Params::default(), outcome.state_root);
    let view = service.view(ViewAt::Committed).expect("there");
    for address in [world.sender(0), world.sender(9), Address::repeat_byte(0xee), Address::repeat_byte(0x77)] {
        let proof = service.prove(ProofQuery::Account(address)).expect("a proof");
        assert_eq!(proof.root, root);
        let proven: Option<AccountView> = verify_account(&params, root, address, &proof.bytes).expect("proven");
        assert_eq!(proven, view.account(address).expect("readable"));
        assert!(verify_account(&params, root, Address::repeat_byte(1), &proof.bytes).is_err());
        assert!(verify_account(&params, B256::ZERO, address, &proof.bytes).is_err());
        for slot in [B256::ZERO, B256::with_last_byte(7)] {
            let proof = service.prove(ProofQuery::Slot(address, slot)).expect("a proof");
            let proven = verify_slot(&params, root, address, slot, &proof.bytes).expect("proven");
            assert_eq!(proven, view.storage(address, slot).expect("readable"));
            let mut other = proof.bytes.to_vec();
            other[3] ^= 1;
            assert!(verify_slot(&params, root, address, slot, &other).is_err(), "of another incarnation");
        }
    }
    let mut place = 0;
    for (index, status) in (0..).zip(outcome.txs.iter()) {
        let proof = service.prove(ProofQuery::Transaction { height: 1, index });
        if *status == TxStatus::Skipped {
            assert!(matches!(proof, Err(Failure::Retry(RetryCause::NotReady(_)))));
            continue;
        }
        let proof = proof.expect("a proof");
        assert_eq!(proof.root, outcome.receipts_root);
        assert_eq!(verify_transaction(proof.root, place, &proof.bytes), Ok(*status));
        assert!(verify_transaction(proof.root, place + 1, &proof.bytes).is_err());
        place += 1;
    }
    assert_eq!(place, outcome.txs.len() - 1);
}

#[test]
fn a_full_disk_only_delays_commits() {
    let world = World::new();
    let room = Arc::new(AtomicU64::new(0));
    let asked = Arc::clone(&room);
    let config =
        ServiceConfig::default().with_limits(Limits::default()).with_disk_room(move || asked.load(Ordering::Relaxed));
    let service = world.open_as(&world.folder.path().join("full"), 1, config).expect("a service");
    let block = candidate(ExecId::GENESIS, 1, transfers(&world, 1, 1), TxPolicy::Strict);
    submit(&service, &block);
    service.commit(Ticket(4), block.id(), meta(&block)).expect("accepted");
    let failed = |operation| EngineEvent::Failed {
        ticket: Ticket(4),
        id: block.id(),
        operation,
        why: Failure::Retry(RetryCause::DiskFull),
    };
    let found = events(&service);
    assert!(found.contains(&failed(Operation::Stage)) && found.contains(&failed(Operation::Commit)), "{found:?}");
    assert_eq!(service.status().committed.height, 0);
    room.store(u64::MAX, Ordering::Relaxed);
    commit(&service, &block);
}

#[test]
fn a_store_without_a_chain_or_with_another_note_is_refused() {
    let engine = builder().build().expect("an engine in memory");
    assert!(matches!(Service::open(engine, ServiceConfig::default()), Err(Error::Genesis { .. })));
    let mut engine = builder().build().expect("an engine in memory");
    engine.genesis([]).expect("a sound genesis");
    engine.annotate(b"another chain's".to_vec()).expect("written");
    assert!(matches!(Service::open(engine, ServiceConfig::default()), Err(Error::Corrupt { .. })));
}

/// Commits a block as services did before their states held the gas of the last block: its name alone.
fn commit_as_before(path: &Path, height: u64, used: Option<()>) {
    let mut store = Store::open(StoreConfig::new(Backend::File(path.into()))).expect("a store");
    let mut delta = Delta::new();
    let name = [&height.to_be_bytes()[..], B256::repeat_byte(9).as_slice()].concat();
    delta.put(&[&b"name"[..], &[height as u8]].concat(), &name);
    if used.is_none() {
        delta.delete(b"used");
    }
    let prepared = store.prepare(delta, height).expect("the next block");
    store.commit(prepared).expect("written");
}

#[test]
fn a_state_of_an_earlier_version_is_refused_and_left_alone() {
    let world = World::new();
    // The one was never opened by this version; the other was, and by the earlier version again.
    for used in [None, Some(())] {
        let path = world.folder.path().join(format!("{used:?}"));
        let service = world.open_as(&path, 1, ServiceConfig::default()).expect("a service");
        let block = candidate(ExecId::GENESIS, 1, transfers(&world, 1, 1), TxPolicy::Strict);
        submit(&service, &block);
        commit(&service, &block);
        drop(service);
        drop(world.open_as(&path, 1, ServiceConfig::default()).expect("a state of this version"));
        commit_as_before(&path, 2, used);
        for _ in 0..2 {
            let refused = world.open_as(&path, 1, ServiceConfig::default()).expect_err("an earlier version's state");
            assert!(matches!(refused, Error::Outdated { height: 2 }), "{refused}");
            assert!(refused.to_string().contains("begin the chain anew"), "{refused}");
        }
        let store = Store::open(StoreConfig::new(Backend::File(path))).expect("a store");
        assert_eq!(store.height(), Some(2));
    }
}

/// A service keeps the recovered transactions of the newest 256 blocks, however few of them it can go back.
#[test]
fn recovered_transactions_go_with_their_blocks() {
    let world = World::new();
    let service = world.open();
    let mut parent = ExecId::GENESIS;
    for height in 1..=260 {
        let block = candidate(parent, height, transfers(&world, height, 5), TxPolicy::Strict);
        submit(&service, &block);
        commit(&service, &block);
        parent = block.id();
        if let 8 | 256 | 258 = height {
            assert_eq!(service.recovered().entries as u64, 8 * height.min(256), "{height}");
        }
    }
}
