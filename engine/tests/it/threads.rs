//! Whoever places threads is told of every one.

use crate::common::{ETHER, builder, call, env, eoa};
use phalanx::{
    BlockLimits, GenesisAccount, Order, ThreadRole,
    merkle::{Backend, StoreConfig},
    revm::primitives::{Address, U256},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

#[test]
fn every_thread_tells_its_role_before_it_has_anything_to_do() {
    for threads in [1, 3] {
        let dir = tempfile::tempdir().expect("a folder");
        let told: Arc<Mutex<HashMap<ThreadRole, Vec<String>>>> = Arc::default();
        let noted = Arc::clone(&told);
        let mut engine = builder()
            .with_threads(threads)
            .with_store(StoreConfig::new(Backend::File(dir.path().to_path_buf())).with_checkpoint_bytes(1 << 16))
            .with_thread_start(move |role| {
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                noted.lock().expect("nobody panics").entry(role).or_default().push(name);
            })
            .build()
            .expect("an engine");
        let workers: Vec<_> =
            (0..threads).map(|index| told.lock().expect("nobody panics")[&ThreadRole::Worker(index)].clone()).collect();
        assert_eq!(workers, (0..threads).map(|index| [format!("phalanx-worker-{index}")]).collect::<Vec<_>>());

        // So many accounts that threads share what becomes of them, and that a checkpoint is due.
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
            engine.commit(merkleized).expect("a commit").ticket.wait().expect("durable");
        }
        drop(engine);
        let told = told.lock().expect("nobody panics");
        assert_eq!(told[&ThreadRole::Writer], ["phalanx-persist"]);
        let helpers = &told[&ThreadRole::Store];
        assert!(helpers.iter().any(|name| name == "phalanx-checkpoint"), "{helpers:?}");
        assert_eq!(told.len(), threads + 2, "{told:?}");
    }
}
