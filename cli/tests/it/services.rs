//! The engine behind consensus when its disk fails at any step, and when two processes open one store.

use crate::{command::run, consensus::People};
use alloy_primitives::{B256, keccak256};
use phalanx::{
    RootKind, Service,
    api::{
        BlockEnv, BlockId, Candidate, CommitMeta, EngineEvent, ExecId, ExecutionEngine as _, Failure, Payload,
        Priority, ReadState as _, Ticket, TxPolicy, ViewAt,
    },
    merkle::{
        self, Backend, StoreConfig,
        faults::{Faults, Step, Verdict},
    },
};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Heights of a chain.
const HEIGHT: u64 = 4;
/// Transactions of a block.
const TXS: usize = 3;
/// "No space left on device".
const ENOSPC: i32 = 28;

type Place = fn(PathBuf) -> Backend;

/// Stores on disk of this build.
const PLACES: &[(&str, Place)] = &[
    ("file", Backend::File),
    #[cfg(feature = "rocksdb")]
    ("rocks", Backend::Rocks),
];

/// Failure at a step of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// The disk is full, for this step.
    Full,
    /// The process dies: no later write reaches the disk.
    Die,
}

#[derive(Debug)]
struct Plan {
    how: How,
    /// Step of the failure, from one.
    at: u64,
    steps: AtomicU64,
}

impl Plan {
    fn new(how: How, at: u64) -> Arc<Self> {
        Arc::new(Self { how, at, steps: AtomicU64::new(0) })
    }
}

impl Faults for Plan {
    fn before(&self, _step: Step<'_>) -> Verdict {
        let step = self.steps.fetch_add(1, Relaxed) + 1;
        match self.how {
            How::Full if step == self.at => Verdict::Fail(io::Error::from_raw_os_error(ENOSPC)),
            How::Die if step >= self.at => Verdict::Fail(io::Error::other("dead")),
            _ => Verdict::Go,
        }
    }

    /// A few blocks per segment, so that segments end.
    fn segment_bytes(&self) -> Option<u64> {
        Some(4 << 10)
    }
}

fn candidate(people: &People, parent: ExecId, height: u64, winner: bool) -> Candidate {
    let env = BlockEnv { height, timestamp_ms: height * 1000, gas_limit: u64::MAX, ..BlockEnv::default() };
    // Losers have separate senders.
    let from = if winner { 0 } else { TXS };
    let txs = (from..from + TXS).map(|from| people.tx(from, if winner { height - 1 } else { 0 })).collect();
    Candidate::new(1, parent, env, TxPolicy::Strict, Payload::new(txs).into())
}

fn name(id: ExecId) -> BlockId {
    BlockId(keccak256(id.0))
}

/// Notifications to consensus.
#[derive(Debug, Default)]
struct Told {
    committed: u64,
    /// Height of the last requested commit.
    asked: u64,
    failed: Option<Failure>,
}

impl Told {
    /// Takes notifications; returns true if the engine is still sound. Readers see exactly the committed block.
    fn listen(&mut self, service: &Service, roots: &[B256], what: &str) -> bool {
        service.settle();
        let mut events = Vec::new();
        while service.poll(16, &mut events) > 0 {}
        for event in events {
            match event {
                EngineEvent::Committed { height, .. } => self.committed = height,
                EngineEvent::Failed { why, .. } => self.failed = Some(why),
                _ => {}
            }
        }
        shows(service, self.committed, roots, what);
        self.failed.is_none()
    }
}

/// Checks that status and state agree on a block of the chain.
fn shows(service: &Service, height: u64, roots: &[B256], what: &str) {
    let committed = service.status().committed;
    let view = service.view(ViewAt::Committed).expect("a state");
    assert_eq!((committed.height, view.height(), view.root()), (height, height, committed.state_root), "{what}");
    // The first life records the roots.
    assert!(roots.get(height as usize).is_none_or(|root| *root == view.root()), "{what}: height {height}");
}

/// Makes the chain up to [`HEIGHT`], or until the disk fails; beside every block a loser is staged.
fn live(people: &People, service: &Service, roots: &[B256], what: &str) -> Told {
    let mut tip = service.status().committed;
    let mut told = Told { committed: tip.height, asked: tip.height, failed: None };
    while tip.height < HEIGHT {
        let height = tip.height + 1;
        let (winner, loser) = (candidate(people, tip.exec, height, true), candidate(people, tip.exec, height, false));
        for block in [&loser, &winner] {
            service.submit(Ticket(height), block.clone(), Priority::Speculative).expect("room");
        }
        if !told.listen(service, roots, what) {
            return told;
        }
        for block in [&loser, &winner] {
            service.stage(Ticket(height), block.id()).expect("it has a root");
            if !told.listen(service, roots, what) {
                return told;
            }
        }
        told.asked = height;
        let meta = CommitMeta { block: name(winner.id()), cursor: height, ..CommitMeta::default() };
        service.commit(Ticket(height), winner.id(), meta).expect("it descends from the tip");
        if !told.listen(service, roots, what) {
            return told;
        }
        tip = service.status().committed;
        assert_eq!((tip.height, tip.exec), (height, winner.id()), "{what}");
    }
    told
}

/// Any step of the disk may fail, in staging, committing or opening: no committed block is lost, no staged block is visible,
/// and the chain continues, with either root.
#[test]
fn the_disk_may_fail_at_any_step() {
    let stride = std::env::var("PHALANX_FAULT_STRIDE").map_or(3, |stride| stride.parse().expect("a count of steps"));
    let people = People::new();
    let all = PLACES.iter().flat_map(|place| [RootKind::Twigs, RootKind::Ethereum].map(|root| (place, root)));
    for (number, ((kind, place), root)) in all.enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = |name: &str| StoreConfig::new(place(folder.path().join(name)));
        // A life without faults gives the steps and the roots.
        let plan = Plan::new(How::Full, u64::MAX);
        let service = people.open_with(store("sound").with_faults(Arc::<Plan>::clone(&plan)), root).expect("a service");
        assert_eq!(live(&people, &service, &[], kind).committed, HEIGHT);
        let roots: Vec<B256> = (0..=HEIGHT).map(|at| service.committed_at(at).expect("kept").state_root).collect();
        drop(service);
        let steps = plan.steps.load(Relaxed);
        let (mut fatal, mut refused, mut unheard) = (0, 0, 0);
        for (at, how) in
            (1 + (number % stride) as u64..=steps).step_by(stride).flat_map(|at| [(at, How::Full), (at, How::Die)])
        {
            let (path, what) = (format!("{how:?}-{at}"), format!("{kind}, {root}, {how:?} at step {at} of {steps}"));
            let told = match people.open_with(store(&path).with_faults(Plan::new(how, at)), root) {
                Ok(service) => {
                    let told = live(&people, &service, &roots, &what);
                    service.abandon();
                    told
                }
                Err(_) => {
                    refused += 1;
                    Told::default()
                }
            };
            // A failed write ends the engine: consensus cannot retry.
            assert!(told.failed.as_ref().is_none_or(|why| matches!(why, Failure::Fatal(_))), "{what}: {told:?}");
            fatal += u32::from(told.failed.is_some());
            let service = people.open_with(store(&path), root).unwrap_or_else(|error| panic!("{what}: {error}"));
            let committed = service.status().committed;
            // The last commit may be written without a notification.
            assert!((told.committed..=told.asked).contains(&committed.height), "{what}: {told:?}, then {committed:?}");
            unheard += u32::from(committed.height > told.committed);
            shows(&service, committed.height, &roots, &what);
            let cursor = (committed.height > 0).then_some((committed.height, name(committed.exec)));
            assert_eq!(cursor.unwrap_or_default(), (committed.meta.cursor, committed.meta.block), "{what}");
            assert_eq!(live(&people, &service, &roots, &what).committed, HEIGHT, "{what}");
            drop(service);
            std::fs::remove_dir_all(folder.path().join(&path)).expect("a folder");
        }
        let lives = 2 * (steps - (number % stride) as u64).div_ceil(stride as u64);
        println!(
            "{kind}, {root}: {steps} steps, {fatal} of {lives} lives and {refused} openings ended by them, {unheard} commits unheard of"
        );
        assert!(
            u64::from(fatal + refused) > lives / 2,
            "{kind}, {root}: only {} of {lives} met their fault",
            fatal + refused
        );
    }
}

/// A second service is refused, in this process and in another one, and the first continues.
#[test]
fn a_store_has_one_service() {
    let people = People::new();
    for (kind, place) in PLACES {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let service = people.open(StoreConfig::new(place(path.clone()))).expect("a service");
        let second = people.open(StoreConfig::new(place(path.clone())));
        assert!(matches!(second, Err(phalanx::Error::Store(merkle::Error::Locked { .. }))), "{kind}: {second:?}");
        run(&format!("state prune --db {kind}:{}", path.display())).refused(6, "is open elsewhere");
        assert_eq!(live(&people, &service, &[], kind).committed, HEIGHT);
        let committed = service.status().committed;
        drop(service);
        let second = people.open(StoreConfig::new(place(path))).expect("the store is closed");
        assert_eq!(second.status().committed, committed, "{kind}");
    }
}
