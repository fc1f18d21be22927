//! Threads of an engine: every one is reported to the observer, and short blocks run on the caller.

use crate::kit::{ETHER, builder, call, env, eoa};
use phalanx::{
    BlockLimits, Executor, GenesisAccount, Invalid, Order, ThreadRole,
    access::Access,
    merkle::{Backend, StoreConfig},
    paralyze::{Precompile, PrecompileCall, PrecompileState, Refused, StateKey},
    revm::{
        context::TxEnv,
        precompile::PrecompileOutput,
        primitives::{Address, Bytes, U256},
    },
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

#[test]
fn every_thread_reports_its_role_before_its_first_work() {
    for threads in [1, 3] {
        let dir = tempfile::tempdir().expect("a folder");
        let told: Arc<Mutex<HashMap<ThreadRole, Vec<String>>>> = Arc::default();
        let noted = Arc::clone(&told);
        let mut engine = builder()
            .with_threads(threads)
            .with_store(StoreConfig::new(Backend::File(dir.path().to_path_buf())).with_checkpoint_bytes(1 << 16))
            .with_thread_start(move |role| {
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                noted.lock().expect("no thread panics").entry(role).or_default().push(name);
            })
            .build()
            .expect("an engine");
        let workers: Vec<_> = (0..threads)
            .map(|index| told.lock().expect("no thread panics")[&ThreadRole::Worker(index)].clone())
            .collect();
        assert_eq!(workers, (0..threads).map(|index| [format!("phalanx-worker-{index}")]).collect::<Vec<_>>());

        // So many accounts that threads share their work, and that a checkpoint is due.
        let many = (0..60_000u64).map(|rank| GenesisAccount {
            address: Address::left_padding_from(&(1 << 32 | rank).to_be_bytes()),
            balance: U256::from(ETHER),
            ..GenesisAccount::default()
        });
        engine.genesis(many.chain([eoa(1)])).expect("a sound genesis");
        for nonce in 0..3 {
            let (txs, env) = ([call(1, nonce, Address::repeat_byte(2), 1)], env(nonce + 1));
            let limits = BlockLimits { max_txs: 10, max_gas: u64::MAX };
            let block = engine.plan(&txs, Order::Given, limits).next_block(&engine, &env).expect("a block");
            let executed = engine.execute(&env, &txs, block).expect("execution");
            let merkleized = engine.merkleize(executed).expect("a root");
            engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
        }
        drop(engine);
        let told = told.lock().expect("no thread panics");
        assert_eq!(told[&ThreadRole::Writer], ["phalanx-persist"]);
        let helpers = &told[&ThreadRole::Store];
        assert!(helpers.iter().any(|name| name == "phalanx-checkpoint"), "{helpers:?}");
        assert_eq!(told.len(), threads + 2, "{told:?}");
    }
}

const WATCH: Address = Address::repeat_byte(0xba);

/// Records the names of the threads that it runs on.
#[derive(Debug, Default)]
struct Watch(Mutex<Vec<String>>);

impl Precompile for Watch {
    fn address(&self) -> Address {
        WATCH
    }

    fn call(&self, call: &PrecompileCall<'_>, _: &mut dyn PrecompileState) -> Result<PrecompileOutput, Refused> {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().expect("no thread panics").push(name);
        Ok(PrecompileOutput::new(100, Bytes::new(), call.reservoir))
    }

    fn accesses(&self, tx: &TxEnv) -> Option<Vec<(StateKey, Access)>> {
        (&tx.data[..] == TOLD).then(Vec::new)
    }
}

/// Calldata for which the contract declares its accesses.
const TOLD: &[u8] = &[1];

#[test]
fn short_blocks_and_unknown_serial_ones_are_executed_by_the_caller() {
    let here = std::thread::current().name().unwrap_or_default().to_owned();
    let transfers = |count: u64| (0..count).map(|nonce| call(1, nonce, Address::repeat_byte(2), 1));
    let watched = |nonce, gas_limit| TxEnv { gas_limit, ..call(1, nonce, WATCH, 0) };
    let ran = |threads, executor, all_workers, txs: &[TxEnv]| {
        let watch = Arc::new(Watch::default());
        let precompile = Arc::<Watch>::clone(&watch);
        let builder = builder().with_precompile(precompile).with_executor(executor).with_force_parallel(all_workers);
        let mut engine = builder.with_threads(threads).build().expect("an engine");
        engine.genesis([eoa(1)]).expect("a sound genesis");
        let executed = engine.execute_given(&env(1), txs, Invalid::Refuse).expect("execution");
        assert!(executed.block().outcomes().iter().all(|outcome| outcome.result().is_some_and(|ran| ran.is_success())));
        let root = engine.merkleize(executed).expect("a root").state_root();
        let noted = watch.0.lock().expect("no thread panics").clone();
        (noted, root)
    };
    let brief: Vec<_> = transfers(20).chain([watched(20, 60_000)]).collect();
    // No rule predicts that call.
    let heavy: Vec<_> = transfers(20).chain([watched(20, 2_000_000)]).collect();
    for txs in [&brief, &heavy] {
        let (_, truth) = ran(2, Executor::BlockStm, true, txs);
        for executor in [Executor::Dag, Executor::Sequential] {
            assert_eq!(ran(2, executor, false, txs), (vec![here.clone()], truth), "{executor:?}");
        }
    }
    // Nothing can run ahead of a lone transaction, and of a brief block before a worker wakes.
    let lone = [watched(0, 2_000_000)];
    for txs in [&brief[..], &lone] {
        let (_, truth) = ran(2, Executor::BlockStm, true, txs);
        assert_eq!(ran(2, Executor::BlockStm, false, txs), (vec![here.clone()], truth));
    }
    // A predicted block may be worth other threads.
    let told = TxEnv { data: Bytes::from_static(TOLD), ..watched(20, 2_000_000) };
    let known: Vec<_> = transfers(20).chain([told]).collect();
    let long: Vec<_> = transfers(64).chain([watched(64, 60_000)]).collect();
    for (threads, executor, all_workers, txs) in [
        (2, Executor::BlockStm, true, &brief),
        (2, Executor::BlockStm, false, &heavy),
        (2, Executor::Dag, true, &brief),
        (2, Executor::Dag, true, &heavy),
        (1, Executor::Dag, true, &heavy),
        (1, Executor::Sequential, true, &heavy),
        (2, Executor::Dag, false, &known),
        (2, Executor::Dag, false, &long),
    ] {
        let (noted, _) = ran(threads, executor, all_workers, txs);
        assert!(noted.iter().all(|name| name.starts_with("phalanx-worker-")) && !noted.is_empty(), "{noted:?}");
    }
}
