//! Engines that live on: chains of random blocks on engines that keep what they have learned, are reopened and rewound at
//! random, hold and drop forks, and get hints and access lists that are true, false or broken. Every engine must end each
//! block as stock revm does.

use super::world::{self, World};
use crate::kit::{Asm, Body, Case, Hint, Oracle};
use alloy_rlp::Decodable as _;
use phalanx::{
    BlockError, Done, Engine, Executor, GenesisAccount, Hints, Outcome, Traces, Tuning,
    access::AccessSets,
    eip7928::AccountChanges,
    merkle::{Backend, BlockId, StoreConfig},
    paralyze::StateKey,
    revm::{
        bytecode::opcode::{AND, BALANCE, CALLER, COINBASE, CREATE, MSTORE, POP, PUSH1, REVERT, SELFDESTRUCT, STOP},
        context::TxEnv,
        primitives::{Address, B256, Bytes, TxKind, U256, keccak256},
    },
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, sync::mpsc};

const HOT: Address = Address::repeat_byte(0xb0);
const MORTAL: Address = Address::repeat_byte(0xb1);

/// Numbers of what a run did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) blocks: usize,
    executions: usize,
    invalid: usize,
    forks: usize,
    lies: usize,
    rewinds: usize,
    reopened: usize,
}

/// An engine of one kind, and the folder of its store.
struct Alive {
    name: String,
    executor: Executor,
    threads: usize,
    lists: bool,
    all_workers: bool,
    seed: Option<u64>,
    dir: Option<tempfile::TempDir>,
    engine: Option<Engine>,
    /// Blocks on top of each other that are executed and not committed yet; the engine stands on the last.
    pending: Vec<BlockId>,
}

/// Results, state and access list of a valid block.
type Ended = (Vec<Outcome>, BTreeMap<Address, GenesisAccount>, Bytes);

/// Truth about one block.
struct Truth {
    body: Body,
    /// Result of a valid block, or the reason why it is invalid.
    verdict: Result<Ended, String>,
    sets: Option<AccessSets<StateKey>>,
    exceptions: Vec<u8>,
    /// Another block on the same parent.
    beside: Body,
}

impl Alive {
    fn new(rng: &mut ChaCha8Rng, number: usize, case: &Case) -> Self {
        let threads = [1, 1, 2, 4, 2, 3, 8][number % 7];
        let executor = match number % 7 {
            0 => Executor::Sequential,
            4 | 5 => Executor::BlockStm,
            _ => Executor::Dag,
        };
        let (lists, all_workers) = (matches!(number % 7, 0 | 3), rng.random_bool(0.7));
        let seed = rng.random_bool(0.5).then(|| rng.random());
        let dir = rng.random_bool(0.5).then(crate::kit::folder);
        let name = format!("{executor:?} on {threads} threads, lists {lists}, seed {seed:?}, file {}", dir.is_some());
        let mut alive =
            Self { name, executor, threads, lists, all_workers, seed, dir, engine: None, pending: Vec::new() };
        let mut engine = alive.open(case);
        engine.genesis(case.genesis.iter().cloned()).expect("a sound genesis");
        alive.engine = Some(engine);
        alive
    }

    /// Opens the engine on what its store holds.
    fn open(&self, case: &Case) -> Engine {
        let backend = self.dir.as_ref().map_or(Backend::Mem, |dir| Backend::File(dir.path().into()));
        let mut engine = Engine::builder()
            .with_store(StoreConfig::new(backend))
            .with_chain(case.rules.clone())
            .with_force_parallel(self.all_workers)
            .with_tuning(Tuning::new().with_traces(Traces::Checked))
            .with_executor(self.executor)
            .with_threads(self.threads)
            .with_schedule_seed(self.seed)
            .with_access_lists(self.lists)
            .build()
            .expect("an engine");
        engine.set_ancestors(case.ancestors.clone());
        engine
    }

    const fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is open")
    }

    fn height(&self) -> u64 {
        self.engine.as_ref().and_then(|engine| engine.state().height()).expect("a genesis")
    }

    /// Executes the block, with some hints, and compares what it says.
    fn execute(
        &mut self,
        rng: &mut ChaCha8Rng,
        truth: &Truth,
        tally: &mut Tally,
    ) -> Result<Option<phalanx::Executed>, String> {
        let sets = truth.sets.as_ref();
        let hint = match rng.random_range(0..9) {
            0 => Hint::None,
            1 | 2 => Hint::Perfect,
            3 => Hint::Lies { seed: rng.random() },
            4 => Hint::Wrong { percent: rng.random_range(1..100), seed: rng.random() },
            5 => Hint::Exceptions,
            6 => Hint::Everything,
            7 if self.lists => Hint::AccessList,
            _ => Hint::Predict,
        };
        let derived = sets.and_then(|sets| hint.sets(sets));
        let mut exceptions = truth.exceptions.clone();
        if rng.random_bool(0.3) && !exceptions.is_empty() {
            // Exceptions that lie, or are no exceptions at all.
            let at = rng.random_range(0..exceptions.len());
            exceptions[at] ^= 1 << rng.random_range(0..8);
            tally.lies += 1;
        }
        let list = truth.verdict.as_ref().ok().map(|(_, _, list)| list);
        let hints = match (&hint, list) {
            (Hint::AccessList, Some(rlp)) => Hints::AccessList { rlp, hash: keccak256(rlp) },
            (Hint::Exceptions, _) => Hints::Exceptions(&exceptions),
            (Hint::Predict, _) => Hints::Predict,
            _ => derived.as_ref().map_or(Hints::None, Hints::Sets),
        };
        let executed = self.engine().execute_block(&truth.body.payload(), hints);
        tally.executions += 1;
        let named = |what: &str| format!("{} with {hint:?}: {what}", self.name);
        match (executed, &truth.verdict) {
            (Err(BlockError::Engine(error)), _) => Err(named(&format!("the engine failed: {error}"))),
            (Err(ours), Err(reason)) if format!("{ours:?}") == *reason => Ok(None),
            (Ok(executed), Ok((outcomes, ..))) => {
                let ours = executed.block().outcomes();
                match ours.iter().zip(outcomes).position(|(ours, truth)| ours != truth) {
                    Some(at) => Err(named(&format!("transaction {at}: {:?}\n  revm: {:?}", ours[at], outcomes[at]))),
                    None => Ok(Some(executed)),
                }
            }
            (Ok(_), Err(reason)) => Err(named(&format!("it is valid, and revm says {reason}"))),
            (Err(ours), Ok(_)) => Err(named(&format!("{ours:?}, and revm says that it is valid"))),
            (Err(ours), Err(reason)) => Err(named(&format!("{ours:?}, and revm says {reason}"))),
        }
    }

    /// Feeds what must leave no trace: lists that are not the block's, and blocks that are dropped.
    fn disturb(&mut self, rng: &mut ChaCha8Rng, truth: &Truth, tally: &mut Tally) -> Result<(), String> {
        if self.lists
            && rng.random_bool(0.3)
            && let Ok((_, _, list)) = &truth.verdict
        {
            let mut wrong = list.to_vec();
            let at = rng.random_range(0..wrong.len());
            wrong[at] ^= 1 << rng.random_range(0..8);
            let hints = Hints::AccessList { rlp: &wrong, hash: keccak256(&wrong) };
            tally.lies += 1;
            match self.engine().execute_block(&truth.body.payload(), hints) {
                Err(BlockError::Engine(error)) => return Err(format!("{}: {error}", self.name)),
                Ok(_) => return Err(format!("{} takes a wrong list: byte {at}", self.name)),
                Err(_) => {}
            }
        }
        if rng.random_bool(0.3) {
            let at = self.engine().position();
            let beside = truth.beside.payload();
            let Ok(executed) = self.engine().execute_block(&beside, Hints::Predict) else { return Ok(()) };
            let merkleized = self.engine().merkleize(executed).expect("a root");
            let (fork, _) = self.engine().add_fork(merkleized, Vec::new()).expect("room");
            tally.forks += 1;
            if rng.random_bool(0.5) {
                // A child of it, which goes with it. Its block is valid there or not.
                self.engine().checkout(fork).expect("it is there");
                if let Ok(executed) = self.engine().execute_block(&truth.body.payload(), Hints::Predict) {
                    let merkleized = self.engine().merkleize(executed).expect("a root");
                    self.engine().add_fork(merkleized, Vec::new()).expect("room");
                }
            }
            self.engine().discard(fork).expect("it is there");
            self.engine().checkout(at).expect("it is there");
        }
        Ok(())
    }

    /// Commits a block, or holds it until later ones are there; returns the root.
    fn commit(&mut self, rng: &mut ChaCha8Rng, executed: phalanx::Executed, tally: &mut Tally) -> B256 {
        let merkleized = self.engine().merkleize(executed).expect("a root");
        let root = merkleized.state_root();
        let holds = self.executor != Executor::Sequential && rng.random_bool(0.4);
        if !holds && self.pending.is_empty() {
            self.engine().commit(merkleized).expect("a commit").write.wait().expect("written");
            return root;
        }
        let (fork, _) = self.engine().add_fork(merkleized, Vec::new()).expect("room");
        tally.forks += 1;
        self.engine().checkout(fork).expect("it is there");
        self.pending.push(fork);
        if !holds || self.pending.len() > 5 {
            self.flush();
        }
        root
    }

    /// Commits all pending blocks.
    fn flush(&mut self) {
        for fork in core::mem::take(&mut self.pending) {
            let wait = |act: &mut dyn FnMut(Done)| {
                let (done, end) = mpsc::channel();
                act(Box::new(move |result| done.send(result).expect("the test waits")));
                end.recv().expect("called").expect("written");
            };
            wait(&mut |done| self.engine().stage(fork, done).expect("its parent is committed"));
            wait(&mut |done| self.engine().promote(fork, Vec::new(), done).expect("it is staged"));
        }
    }

    /// Does the block in all its ways, and ends after it.
    fn block(&mut self, rng: &mut ChaCha8Rng, case: &Case, truth: &Truth, tally: &mut Tally) -> Result<(), String> {
        if self.dir.is_some() && rng.random_bool(0.1) {
            self.flush();
            self.engine = None;
            self.engine = Some(self.open(case));
            tally.reopened += 1;
        }
        self.disturb(rng, truth, tally)?;
        let before = self.height();
        let mut executed = self.execute(rng, truth, tally)?;
        if rng.random_bool(0.15)
            && self.pending.is_empty()
            && let Some(block) = executed.take()
        {
            let merkleized = self.engine().merkleize(block).expect("a root");
            self.engine().commit(merkleized).expect("a commit").write.wait().expect("written");
            self.engine().rewind(before, Vec::new()).expect("within the history");
            tally.rewinds += 1;
            executed = self.execute(rng, truth, tally)?;
        }
        let Some(executed) = executed else { return Ok(()) };
        let list = executed.block().access_list().map(|list| list.rlp().clone());
        let root = self.commit(rng, executed, tally);
        let Ok((_, state, expected)) = &truth.verdict else { return Ok(()) };
        if let Some(list) = list.filter(|list| list != expected) {
            let what = unlike(&list, expected);
            return Err(format!("{}: another access list than by brute force: {what}", self.name));
        }
        if self.engine().state().root() != root {
            return Err(format!("{}: the root after the block is another than before", self.name));
        }
        if !self.pending.is_empty() {
            // Only the committed state can be listed; the root tells the rest.
            return Ok(());
        }
        let ours = self.engine().state().dump().expect("a sound state");
        if ours != *state {
            let accounts = ours.keys().chain(state.keys()).filter(|address| ours.get(*address) != state.get(*address));
            let first = accounts.min().expect("they differ");
            let (ours, revm) = (ours.get(first), state.get(first));
            return Err(format!("{}: account {first}: {ours:?}\n  revm: {revm:?}", self.name));
        }
        Ok(())
    }
}

/// First account in which two block access lists differ, as they have it.
fn unlike(ours: &[u8], truth: &[u8]) -> String {
    let accounts = |mut rlp: &[u8]| Vec::<AccountChanges>::decode(&mut rlp).expect("a list");
    let (ours, truth) = (accounts(ours), accounts(truth));
    let at = ours.iter().zip(&truth).position(|(ours, truth)| ours != truth).unwrap_or(ours.len().min(truth.len()));
    format!("{:?}\n  by brute force: {:?}", ours.get(at), truth.get(at))
}

/// Contract that most transactions of a hot block call, so that its calls are learned and recorded: it goes several ways
/// by its input and by its storage, and one of them clears a slot and reverts.
fn hot_contract() -> GenesisAccount {
    let code =
        Asm::new().input().push(U256::from(2)).op(AND).when(|code| code.set(2, 0).ops(&[PUSH1, 0, PUSH1, 0, REVERT]));
    let code = code.input().push(U256::ONE).op(AND).when(|code| code.count(0));
    let code = code.load(0).push(U256::ONE).op(AND).when(|code| code.count(4));
    // Creates an account that destroys itself at once.
    let mut init = [0; 32];
    init[..2].copy_from_slice(&[CALLER, SELFDESTRUCT]);
    let create = |code: Asm| {
        let code = code.push(U256::from_be_bytes(init)).push(U256::ZERO).op(MSTORE);
        code.push(U256::from(2)).push(U256::ZERO).push(U256::ZERO).ops(&[CREATE, POP])
    };
    let code = code.input().push(U256::from(16)).op(AND).when(create);
    let code = code.input().push(U256::from(8)).op(AND).when(|code| code.op(COINBASE).op(BALANCE).store(5));
    let code = code.input().push(U256::from(4)).op(AND).when(|code| code.set(3, 0)).load(0).store(3).op(STOP).build();
    let storage = [(U256::from(2), U256::from(7)), (U256::from(3), U256::from(7))].to_vec();
    GenesisAccount { address: HOT, nonce: 1, code: Some(code.into()), storage, ..GenesisAccount::default() }
}

/// Contract that destroys itself at every other call.
fn mortal_contract() -> GenesisAccount {
    let code = Asm::new().input().push(U256::ONE).op(AND).when(|code| code.ops(&[CALLER, SELFDESTRUCT])).count(0);
    let code = Some(code.op(STOP).build().into());
    GenesisAccount { address: MORTAL, nonce: 1, code, ..GenesisAccount::default() }
}

/// A block of calls to the hot contract.
fn hot_block(rng: &mut ChaCha8Rng, case: &Case, world: &World, mut oracle: Oracle, number: u64) -> Body {
    let mut body = world::empty(rng, case, world, number);
    let mortal = rng.random_bool(0.15);
    if mortal {
        body.header.beneficiary = MORTAL;
    } else if rng.random_bool(0.3) {
        // The next account that the contract creates.
        body.header.beneficiary = HOT.create(oracle.account(&HOT).0);
    }
    oracle.begin(&body.header);
    for _ in 0..rng.random_range(4..24) {
        let caller = world.senders[rng.random_range(0..world.senders.len())];
        let (nonce, _) = oracle.account(&caller);
        let gas_price = u128::from(body.header.base_fee_per_gas.unwrap_or_default()) + rng.random_range(0..3);
        let data = U256::from(rng.random_range(0..32u64)).to_be_bytes_vec().into();
        let to = if mortal && rng.random_bool(0.3) { MORTAL } else { HOT };
        let (kind, chain_id) = (TxKind::Call(to), Some(1));
        let tx = TxEnv { caller, nonce, gas_price, data, kind, chain_id, gas_limit: 150_000, ..TxEnv::default() };
        if oracle.transact(&tx).is_ok() {
            body.txs.push(tx);
        }
    }
    body
}

/// Next block, with revm's verdict on it.
fn truth(
    rng: &mut ChaCha8Rng,
    case: &Case,
    world: &World,
    oracle: &mut Oracle,
    number: u64,
    helper: &mut Alive,
) -> Truth {
    let (beside, _) = world::next(rng, case, world, &mut oracle.clone(), number);
    let body = match world.contracts.contains(&HOT) && rng.random_bool(0.7) {
        true => hot_block(rng, case, world, oracle.clone(), number),
        false => world::next(rng, case, world, &mut oracle.clone(), number).0,
    };
    let mut after = oracle.clone();
    let verdict = after.block(&body);
    if verdict.is_ok() {
        *oracle = after;
    }
    let payload = body.payload();
    let sets = helper.engine().true_sets(&payload).ok();
    let exceptions = helper.engine().exceptions(&payload).unwrap_or_default();
    let verdict =
        verdict.map(|(results, state, list)| (results.into_iter().map(Outcome::Executed).collect(), state, list));
    Truth { verdict, sets, exceptions, beside, body }
}

/// Runs one chain on engines of several kinds.
///
/// # Errors
/// The first difference.
pub(super) fn chain(seed: u64, blocks: u64, tally: &mut Tally) -> Result<(), String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6c61_7374);
    let (mut case, mut world) = world::found(&mut rng);
    if rng.random_bool(0.6) {
        case.genesis.extend([hot_contract(), mortal_contract()]);
        world.contracts.push(HOT);
        world.all.extend([HOT, MORTAL]);
    }
    let mut oracle = Oracle::new(&case);
    let mut engines: Vec<Alive> = (0..7).map(|number| Alive::new(&mut rng, number, &case)).collect();
    // An invalid block leaves its number to the next.
    let mut height = 10;
    for number in 0..blocks {
        let truth = truth(&mut rng, &case, &world, &mut oracle, height, &mut engines[0]);
        height += u64::from(truth.verdict.is_ok());
        for alive in &mut engines {
            alive
                .block(&mut rng, &case, &truth, tally)
                .map_err(|what| format!("seed {seed}, block {number}: {what}"))?;
        }
        let roots: Vec<B256> = engines.iter_mut().map(|alive| alive.engine().state().root()).collect();
        if roots.iter().any(|root| *root != roots[0]) {
            return Err(format!("seed {seed}, block {number}: roots {roots:?}"));
        }
        tally.blocks += 1;
        tally.invalid += usize::from(truth.verdict.is_err());
    }
    Ok(())
}

#[test]
fn engines_that_live_on_end_every_block_as_revm_does() {
    let mut tally = Tally::default();
    super::for_seeds(8, |seed| {
        chain(seed, 14, &mut tally).unwrap_or_else(|what| panic!("{what}"));
    });
    println!("{tally:?}");
    assert!(tally.lies * tally.forks * tally.rewinds * tally.reopened * tally.invalid > 0, "{tally:?}");
}

/// Every fault is found within a minute. Run alone: a fault is in all engines of the process.
#[cfg(feature = "seeded-faults")]
#[test]
fn seeded_faults_are_found() {
    use phalanx::Fault;
    use std::time::{Duration, Instant};
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        Fault::seed(Some(fault));
        let (start, mut seed) = (Instant::now(), 1);
        let mut found = None;
        while found.is_none() && start.elapsed() < Duration::from_secs(60) {
            let caught = std::panic::catch_unwind(|| chain(seed, 14, &mut Tally::default()));
            // An assertion of the engine finds it, too.
            found = caught.map_or_else(|_| Some("a panic".to_owned()), Result::err);
            seed += 1;
        }
        match found {
            Some(what) => {
                let line = what.lines().next().unwrap_or_default().chars().take(160).collect::<String>();
                println!(
                    "{fault:?} found after {:.1} s and {} chains: {line}",
                    start.elapsed().as_secs_f64(),
                    seed - 1
                );
            }
            None => missed.push(fault),
        }
    }
    Fault::seed(None);
    assert!(missed.is_empty(), "not found: {missed:?}");
}
