//! A service with whole blocks: hard forks by time, blobs, withdrawals, a driver that panics, and what a commit writes.

use super::{CHAIN, genesis, wallet};
use alloy_eips::{eip1559::BaseFeeParams, eip4895::Withdrawal};
use alloy_genesis::Genesis;
use phalanx::{
    BlockAttributes, Engine, EngineBuilder, Error, SendError, Service, ServiceConfig,
    api::{
        BlockBudget, BlockEnv, BlockId, Build as _, BuildRequest, Candidate, CommitMeta, EngineEvent, ExecId,
        ExecOutcome, ExecutionEngine as _, Failure, FatalCause, InvalidCause, Payload, Priority, ReadState as _,
        Ticket, TxPolicy, TxStatus, ViewAt, Waker,
    },
    chain::{Attributes, ChainSpec, Parameters},
    merkle::{Backend, Durability, StoreConfig},
    paralyze::{Precompile, PrecompileCall, PrecompileState, Refused},
    pool::{Admission, PoolEvent},
    revm::{
        DatabaseRef as _,
        precompile::PrecompileOutput,
        primitives::{Address, B256, Bytes, U256, keccak256},
    },
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use wallet::{Call, address, authorize, signed};

/// A chain in a folder that is on Cancun, from 60 s on Prague and from 100 s on Osaka.
pub(crate) fn forking() -> Genesis {
    let funded: Vec<Address> = (0..16).map(address).collect();
    genesis(&[("shanghai", 0), ("cancun", 0), ("prague", 60), ("osaka", 100)], &funded)
}

pub(crate) fn engine(file: &Genesis, path: &Path, history: usize) -> Result<Engine, Error> {
    let store = StoreConfig::new(Backend::File(path.into())).with_durability(Durability::Block).with_history(history);
    begin(Engine::builder().with_store(store).with_threads(2), file)
}

fn begin(builder: EngineBuilder, file: &Genesis) -> Result<Engine, Error> {
    let mut engine = builder.with_chain(steady(file)).build()?;
    engine.begin(file)?;
    Ok(engine)
}

/// A chain whose base fee does not fall, so that blocks of [`env`] are valid whatever was in their parents.
pub(crate) fn steady(file: &Genesis) -> ChainSpec {
    let base_fee = BaseFeeParams { max_change_denominator: u128::MAX, ..BaseFeeParams::ethereum() };
    let parameters = Parameters { base_fee, ..Parameters::default() };
    ChainSpec::from_genesis(file).expect("a chain").with_parameters(parameters)
}

/// A service on a chain with Ethereum's base fee, which has the header of its genesis.
fn open_ethereum(file: &Genesis, path: &Path) -> Service {
    let store = StoreConfig::new(Backend::File(path.into())).with_durability(Durability::Block);
    let chain = ChainSpec::from_genesis(file).expect("a chain");
    let mut engine = Engine::builder().with_store(store).with_threads(2).with_chain(chain).build().expect("an engine");
    engine.begin(file).expect("a genesis");
    Service::open(engine, ServiceConfig::default()).expect("a service")
}

pub(crate) fn open(file: &Genesis, path: &Path, config: ServiceConfig) -> Service {
    Service::open(engine(file, path, 8).expect("an engine"), config).expect("a service")
}

pub(crate) fn env(height: u64) -> BlockEnv {
    BlockEnv {
        height,
        timestamp_ms: 1000 * (16 + 12 * height) + 500,
        gas_limit: 30_000_000,
        base_fee: 1_000_000_000,
        beneficiary: Address::repeat_byte(0xfe),
        prevrandao: keccak256(height.to_be_bytes()),
    }
}

pub(crate) fn candidate(parent: ExecId, height: u64, txs: Vec<Bytes>, attributes: Bytes) -> Candidate {
    let payload = Payload::with_attributes(txs, attributes);
    Candidate::new(CHAIN, parent, env(height), TxPolicy::SkipInvalid, payload.into())
}

pub(crate) fn events(service: &Service) -> Vec<EngineEvent> {
    service.settle();
    let mut events = Vec::new();
    while service.poll(64, &mut events) > 0 {}
    events
}

pub(crate) fn submit(service: &Service, candidate: &Candidate) -> ExecOutcome {
    service.submit(Ticket(1), candidate.clone(), Priority::Decided).expect("accepted");
    let events = events(service);
    let rooted = events.iter().find_map(|event| match event {
        EngineEvent::Rooted { outcome, .. } if outcome.id == candidate.id() => Some(outcome.clone()),
        _ => None,
    });
    rooted.unwrap_or_else(|| panic!("{events:?}"))
}

pub(crate) fn meta(candidate: &Candidate) -> CommitMeta {
    CommitMeta { block: BlockId(candidate.id().0), cursor: candidate.env().height, ..CommitMeta::default() }
}

pub(crate) fn commit(service: &Service, candidate: &Candidate) {
    service.commit(Ticket(2), candidate.id(), meta(candidate)).expect("accepted");
    let events = events(service);
    assert!(events.iter().any(|event| matches!(event, EngineEvent::Committed { .. })), "{events:?}");
}

/// Transactions of a height: a payment, a delegation, which Prague permits, and a call that Osaka permits.
fn crossing(height: u64) -> Vec<Bytes> {
    let pay = signed(2, &Call::to(0, height - 1, address(1), 7), vec![]);
    // Nonces follow what was executed before: nothing of type 4 until Prague, from 60 s on.
    let delegate = (16 + 12 * height).saturating_sub(60) / 12;
    let set = signed(4, &Call::to(2, delegate, address(3), 0), vec![authorize(4, delegate, address(5))]);
    vec![pay, set]
}

#[test]
fn hard_forks_come_with_their_time_and_not_with_a_restart() {
    let funded: Vec<Address> = (0..16).map(address).collect();
    let times = [("shanghai", 0), ("cancun", 0), ("prague", 60), ("osaka", 100), ("amsterdam", 148)];
    let file = genesis(&times, &funded);
    let folder = crate::kit::folder();
    let run = |name: &str, restarts: bool| -> Vec<ExecOutcome> {
        let path = folder.path().join(name);
        let mut service = open(&file, &path, ServiceConfig::default());
        let mut parent = ExecId::GENESIS;
        let mut outcomes = Vec::new();
        for height in 1..=13 {
            if restarts {
                drop(service);
                service = open(&file, &path, ServiceConfig::default());
            }
            let withdrawal = Withdrawal { index: height, address: address(9), amount: 3, ..Withdrawal::default() };
            let attributes = BlockAttributes {
                withdrawals: vec![withdrawal],
                parent_beacon_block_root: B256::with_last_byte(height as u8),
                slot_number: (16 + 12 * height >= 148).then_some(500 + height),
                ..BlockAttributes::default()
            };
            let block = candidate(parent, height, crossing(height), attributes.encode());
            outcomes.push(submit(&service, &block));
            if restarts && height % 3 == 0 {
                // A staged block is taken up again.
                service.stage(Ticket(3), block.id()).expect("rooted");
                service.settle();
                service.abandon();
                service = open(&file, &path, ServiceConfig::default());
                assert_eq!(&submit(&service, &block), outcomes.last().expect("pushed"));
            }
            commit(&service, &block);
            parent = block.id();
        }
        let state = service.snapshot(ViewAt::Committed).expect("there");
        let paid = state.account(&address(9)).expect("readable").expect("funded").balance;
        let start = U256::from_str_radix("d3c21bcecceda1000000", 16).expect("a number");
        assert_eq!(paid, start + U256::from(39_000_000_000u64), "thirteen withdrawals of three gwei");
        outcomes
    };
    let running = run("running", false);
    assert_eq!(run("restarted", true), running);
    for (height, outcome) in (1u64..).zip(&running) {
        let prague = 16 + 12 * height >= 60;
        let expected = if prague { TxStatus::Succeeded } else { TxStatus::Skipped };
        assert_eq!(*outcome.txs, [TxStatus::Succeeded, expected], "at height {height}");
    }
    // A transfer, a touch, an authorization, a new indicator of 23 bytes or an old one (EIP-2780, 8037).
    assert!(running[11].gas_used < running[9].gas_used, "{} and {}", running[11].gas_used, running[9].gas_used);
    // A slot is not known before its fork.
    let service = open(&file, &folder.path().join("early"), ServiceConfig::default());
    let early = BlockAttributes { slot_number: Some(501), ..BlockAttributes::default() };
    let block = candidate(ExecId::GENESIS, 1, Vec::new(), early.encode());
    service.submit(Ticket(1), block, Priority::Decided).expect("accepted");
    let failed = |event: &EngineEvent| {
        matches!(event, EngineEvent::Failed { why: Failure::Invalid(InvalidCause::Environment), .. })
    };
    assert!(events(&service).iter().any(failed));
}

#[test]
fn the_pool_judges_by_the_fees_of_the_next_block() {
    const LIMIT: u64 = 30_000_000;
    let file = Genesis { gas_limit: LIMIT, base_fee_per_gas: Some(1_142_857_142), ..forking() };
    let folder = crate::kit::folder();
    let path = folder.path().join("store");
    let mut service = open_ethereum(&file, &path);
    let base = |service: &Service| service.with_pool(|pool| pool.fees().base);
    let request = |parent, height, base_fee| {
        let env = BlockEnv { base_fee, gas_limit: LIMIT, ..env(height) };
        BuildRequest { parent, env, budget: BlockBudget::UNLIMITED, forced: Vec::new(), attributes: Bytes::new() }
    };
    let mut parent = ExecId::GENESIS;
    let mut fee = 1_000_000_000;
    assert_eq!(base(&service), fee.into(), "behind the genesis");
    for height in 1..=3 {
        for nonce in 2 * (height - 1)..2 * height {
            let sent = service.send(&signed(2, &Call::to(0, nonce, address(1), 7), vec![]));
            assert!(matches!(sent, Ok(Admission::Admitted { .. })), "{sent:?}");
        }
        let job = service.build(request(parent, height, fee)).expect("accepted");
        service.settle();
        let built = job.finish().expect("a block");
        let used = built.outcome.as_ref().expect("executed").gas_used;
        assert_eq!(used, 42_000);
        submit(&service, &built.candidate);
        commit(&service, &built.candidate);
        parent = built.candidate.id();
        let next =
            alloy_eips::calc_next_block_base_fee(used, LIMIT, fee, alloy_eips::eip1559::BaseFeeParams::ethereum());
        assert!(next < fee, "the block is below its target");
        assert_eq!(base(&service), next.into(), "after block {height}");
        // A build at another price, and one that is not decided, change nothing.
        for (price, is_sound) in [(3 * next, false), (next, true)] {
            let job = service.build(request(parent, height + 1, price));
            service.settle();
            assert_eq!(job.and_then(|job| job.finish()).is_ok(), is_sound);
            assert_eq!(base(&service), next.into(), "after a build that is not decided");
        }
        drop(service);
        service = open_ethereum(&file, &path);
        assert_eq!(base(&service), next.into(), "after a restart");
        fee = next;
    }
}

#[test]
fn no_proposer_chooses_base_fee_gas_limit_or_time() {
    let file = Genesis { gas_limit: 30_000_000, base_fee_per_gas: Some(1_142_857_142), ..forking() };
    let folder = crate::kit::folder();
    let path = folder.path().join("store");
    let mut service = open_ethereum(&file, &path);
    let refused = Failure::Invalid(InvalidCause::Environment);
    let mut parent = ExecId::GENESIS;
    let mut fees = Vec::new();
    for height in 1..=3 {
        let timestamp = 16 + 12 * height;
        let chosen = Attributes {
            timestamp,
            beneficiary: address(3),
            prevrandao: B256::repeat_byte(7),
            ..Attributes::default()
        };
        let sound = service.next_env(parent, &chosen).expect("an environment");
        assert_eq!((sound.height, sound.gas_limit, sound.timestamp_ms), (height, 30_000_000, 1000 * timestamp));
        assert_eq!((sound.beneficiary, sound.prevrandao), (address(3), B256::repeat_byte(7)));
        let broken: [fn(&mut BlockEnv); 7] = [
            |env| env.base_fee = 0,
            |env| env.base_fee += 1,
            |env| env.base_fee = u64::MAX,
            |env| env.gas_limit = u64::MAX,
            |env| env.gas_limit += env.gas_limit / 1024,
            |env| env.gas_limit = 1,
            |env| env.timestamp_ms -= 12_001,
        ];
        for (number, change) in broken.into_iter().enumerate() {
            let mut env = sound;
            change(&mut env);
            let block = Candidate::new(CHAIN, parent, env, TxPolicy::Strict, Payload::new(vec![]).into());
            service.submit(Ticket(9), block, Priority::Decided).expect("accepted");
            let events = events(&service);
            let is_refused = |event: &EngineEvent| matches!(event, EngineEvent::Failed { why, .. } if *why == refused);
            assert!(events.iter().any(is_refused), "change {number} at height {height}: {events:?}");
            let request =
                BuildRequest { parent, env, budget: BlockBudget::UNLIMITED, forced: vec![], attributes: Bytes::new() };
            let refusal = service.build(request).err();
            assert_eq!(refusal, Some(refused.clone()), "change {number} at height {height}");
        }
        let early = Attributes { timestamp: timestamp - 13, ..Attributes::default() };
        assert_eq!(service.next_env(parent, &early), Err(refused.clone()));
        let block = Candidate::new(CHAIN, parent, sound, TxPolicy::Strict, Payload::new(vec![]).into());
        submit(&service, &block);
        commit(&service, &block);
        fees.push(sound.base_fee);
        parent = block.id();
        drop(service);
        service = open_ethereum(&file, &path);
    }
    assert_eq!(fees, [1_000_000_000, 875_000_000, 765_625_000], "an eighth less each time: the blocks are empty");
    let unknown = service.next_env(ExecId(B256::repeat_byte(9)), &Attributes::default());
    assert!(matches!(unknown, Err(Failure::Retry(_))), "{unknown:?}");
}

#[test]
fn a_child_sees_its_parents_through_blockhash_and_the_history_contract() {
    let file = forking();
    let folder = crate::kit::folder();
    let service = open(&file, &folder.path().join("store"), ServiceConfig::default());
    let mut parent = ExecId::GENESIS;
    let mut blocks = Vec::new();
    for height in 1..=6 {
        let block = candidate(parent, height, crossing(height), Bytes::new());
        submit(&service, &block);
        commit(&service, &block);
        parent = block.id();
        blocks.push(block.id());
    }
    let state = service.snapshot(ViewAt::Committed).expect("there");
    let hashes: Vec<B256> =
        blocks.iter().map(|id| service.block_hash(ViewAt::Exec(*id)).expect("in the window")).collect();
    for (height, hash) in (1u64..).zip(&hashes) {
        assert_eq!(state.block_hash_ref(height).expect("readable"), *hash);
    }
    // EIP-2935 stores the hash of the parent from Prague on.
    let word = state.storage(&alloy_eips::eip2935::HISTORY_STORAGE_ADDRESS, &U256::from(5)).expect("readable");
    assert_eq!(word, U256::from_be_bytes(hashes[4].0));
}

#[test]
fn blobs_are_built_and_executed_where_blocks_are_whole() {
    let file = forking();
    let folder = crate::kit::folder();
    let service = open(&file, &folder.path().join("one"), ServiceConfig::default());
    let other = open(&file, &folder.path().join("two"), ServiceConfig::default());
    let mut parent = ExecId::GENESIS;
    // Blobs with cell proofs come with Osaka.
    for height in 1..=10u64 {
        let osaka = height.saturating_sub(7);
        for from in 0..3 {
            let call = Call::to(from, height - 1, address(9), 1);
            let tx = if osaka > 0 && from == 0 { signed(3, &call, vec![]) } else { signed(2, &call, vec![]) };
            let admission = service.send(&tx).expect("a transaction");
            assert!(matches!(admission, Admission::Admitted { is_ready: true, .. }), "{admission:?}");
            assert_eq!(service.next_nonce(&address(from)), Ok(height));
        }
        assert_eq!(service.next_nonce(&address(9)), Ok(0));
        let request = BuildRequest {
            parent,
            env: env(height),
            budget: BlockBudget::UNLIMITED,
            forced: vec![],
            attributes: Bytes::new(),
        };
        let job = service.build(request).expect("a job");
        service.settle();
        let built = job.finish().expect("a block");
        assert_eq!(built.candidate.payload().txs().len(), 3, "at height {height}");
        // The builder's policy is the service's own.
        let outcome = built.outcome.expect("executed");
        assert_eq!(submit(&other, &built.candidate), outcome);
        assert_eq!(submit(&service, &built.candidate), outcome);
        commit(&other, &built.candidate);
        commit(&service, &built.candidate);
        parent = built.candidate.id();
    }
    let events = service.with_pool(|pool| pool.events_after(0));
    let admitted = events.events.iter().filter(|event| matches!(event, PoolEvent::Admitted { .. })).count();
    assert_eq!((admitted, events.events.len(), events.missed), (30, 60, 0));
    assert!(service.with_pool(|pool| pool.events_after(events.next)).events.is_empty());
}

#[test]
fn a_service_without_whole_blocks_refuses_blobs_at_once() {
    let cfg = phalanx::revm::context::CfgEnv::new_with_spec(phalanx::revm::primitives::hardfork::SpecId::OSAKA);
    let mut engine = Engine::builder().with_cfg(cfg.with_chain_id(CHAIN)).build().expect("an engine");
    engine.genesis(phalanx::GenesisAccount::of(&forking())).expect("a sound genesis");
    let service = Service::open(engine, ServiceConfig::default()).expect("a service");
    let refused = service.send(&signed(3, &Call::to(0, 0, address(1), 1), vec![]));
    assert!(matches!(refused, Err(SendError::Blobs)), "{refused:?}");
    assert_eq!(service.waiting(), 0);
    let attributes = BlockAttributes { withdrawals: vec![Withdrawal::default()], ..BlockAttributes::default() };
    let block = candidate(ExecId::GENESIS, 1, vec![], attributes.encode());
    service.submit(Ticket(1), block, Priority::Decided).expect("accepted");
    let events = events(&service);
    assert!(
        events.iter().any(|event| matches!(event, EngineEvent::Failed { why: Failure::Invalid(_), .. })),
        "withdrawals are for whole blocks: {events:?}"
    );
}

#[test]
fn a_chain_that_lacks_a_contract_of_the_protocol_is_refused_at_once() {
    let mut file = genesis(&[("shanghai", 0), ("cancun", 0), ("prague", 0)], &[]);
    file.alloc.clear();
    let engine = begin(Engine::builder(), &file).expect("an engine");
    let error = Service::open(engine, ServiceConfig::default()).expect_err("every block would be invalid");
    assert!(error.to_string().contains("put it into the genesis"), "{error}");
    let chain = ChainSpec::named("London").expect("a fork");
    let mut engine = Engine::builder().with_chain(chain).build().expect("an engine");
    engine.genesis([]).expect("a sound genesis");
    let error = Service::open(engine, ServiceConfig::default()).expect_err("proof of work");
    assert!(error.to_string().contains("proof of stake"), "{error}");
}

/// Panics.
#[derive(Debug)]
struct Broken;

const BROKEN: Address = Address::repeat_byte(0xbb);

impl Precompile for Broken {
    fn address(&self) -> Address {
        BROKEN
    }

    fn call(&self, _: &PrecompileCall<'_>, _: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        panic!("a bug in the chain's precompile")
    }
}

#[test]
fn every_caller_hears_of_a_driver_that_panics() {
    let file = forking();
    let engine = begin(Engine::builder().with_precompile(Arc::new(Broken)), &file).expect("an engine");
    let service = Service::open(engine, ServiceConfig::default()).expect("a service");
    let good = candidate(ExecId::GENESIS, 1, crossing(1), Bytes::new());
    submit(&service, &good);
    commit(&service, &good);
    let wakes = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&wakes);
    service.set_waker(Waker::new(move || _ = count.fetch_add(1, Ordering::Relaxed)));
    let bad = candidate(good.id(), 2, vec![signed(2, &Call::to(1, 0, BROKEN, 0), vec![])], Bytes::new());
    service.submit(Ticket(9), bad.clone(), Priority::Decided).expect("accepted");
    let found = events(&service);
    let stopped = |why: &Failure| match why {
        Failure::Fatal(FatalCause::Stopped(what)) => what.contains("a bug in the chain's precompile"),
        _ => false,
    };
    assert!(
        found.iter().any(|event| matches!(event, EngineEvent::Failed { ticket: Ticket(9), id, why, .. }
            if *id == bad.id() && stopped(why))),
        "{found:?}"
    );
    assert!(wakes.load(Ordering::Relaxed) > 0);
    let again = service.submit(Ticket(10), bad, Priority::Decided).expect_err("stopped");
    assert!(stopped(&again), "{again}");
    assert!(!again.to_string().contains("disk"), "{again}");
    let view = service.view(ViewAt::Committed).expect("states stay readable");
    assert_eq!(view.height(), 1);
    drop(service);
}

/// Bytes of the files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("readable").metadata().expect("readable").len()).sum()
}

/// Commits blocks and returns the bytes and the time of each of the last half, after `history` blocks at least.
fn cost(folder: &Path, history: usize, blocks: u64) -> (u64, u128) {
    let file = forking();
    let path = folder.join(format!("history-{history}"));
    let store = StoreConfig::new(Backend::File(path.clone())).with_durability(Durability::Async).with_history(history);
    let engine = begin(Engine::builder().with_store(store), &file).expect("an engine");
    let service = Service::open(engine, ServiceConfig::default()).expect("a service");
    let (mut parent, mut names, mut begun) = (ExecId::GENESIS, Vec::new(), None);
    for height in 1..=blocks {
        if height == blocks / 2 + 1 {
            begun = Some((bytes_in(&path), std::time::Instant::now()));
        }
        let block =
            candidate(parent, height, vec![signed(2, &Call::to(0, height - 1, address(1), 1), vec![])], Bytes::new());
        submit(&service, &block);
        commit(&service, &block);
        parent = block.id();
        names.push(parent);
    }
    let (bytes, begun) = begun.expect("half of the blocks");
    let (each, time) = ((bytes_in(&path) - bytes) / (blocks / 2), begun.elapsed().as_micros() / u128::from(blocks / 2));
    let before: Vec<_> = (0..=blocks).map(|height| service.committed_at(height)).collect();
    drop(service);
    let reopened = std::time::Instant::now();
    let service = Service::open(self::engine(&file, &path, history).expect("an engine"), ServiceConfig::default())
        .expect("a service");
    println!("history {history}: {each} B and {time} µs per commit, reopened in {:?}", reopened.elapsed());
    for (height, before) in (0..=blocks).zip(before) {
        assert_eq!(service.committed_at(height), before, "height {height} with history {history}");
    }
    (each, time)
}

#[test]
fn bytes_of_a_commit_do_not_depend_on_the_history() {
    let folder = crate::kit::folder();
    let long = std::env::var("PHALANX_HISTORY").ok().and_then(|value| value.parse().ok()).unwrap_or(64);
    let (short, _) = cost(folder.path(), 8, 200);
    let (long, _) = cost(folder.path(), long, 3 * long as u64);
    assert!(long <= short + short / 5, "{long} B with a long history, {short} B with a short one");
}

#[test]
fn an_unstaged_block_is_promoted_on_no_backend() {
    let folder = crate::kit::folder();
    let file = forking();
    for backend in [Backend::Mem, Backend::File(folder.path().join("store"))] {
        let mut engine = begin(Engine::builder().with_store(StoreConfig::new(backend)), &file).expect("an engine");
        let parent = engine.begin(&file).expect("the genesis");
        let header = engine.chain().child_header(&parent, &super::after(&parent)).expect("a child");
        let payload = phalanx::RecoveredBlock { header: &header, txs: &[], ommers: &[], withdrawals: Some(&[]) };
        let executed = engine.execute_block(&payload, phalanx::Hints::None).expect("valid");
        let merkleized = engine.merkleize(executed).expect("a root");
        let (block, _) = engine.add_fork(merkleized, Vec::new()).expect("a fork");
        for note in [vec![], vec![1]] {
            let refused = engine.promote(block, note, Box::new(drop)).expect_err("not staged");
            assert!(matches!(refused, Error::NotStaged), "{refused}");
        }
        let (done, written) = std::sync::mpsc::channel();
        engine.stage(block, Box::new(move |result| done.send(result).expect("awaited"))).expect("a fork");
        written.recv().expect("an answer").expect("written");
        engine.promote(block, vec![1], Box::new(drop)).expect("staged");
        assert_eq!(engine.state().height(), Some(1));
    }
}
