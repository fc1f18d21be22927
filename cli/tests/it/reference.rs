//! Reference: the same load in this process, planned by the engine and executed by sequential revm, with every root.

use phalanx::{
    Block, BlockLimits, Engine, EngineBuilder, Executor, GenesisAccount, Order,
    merkle::{Backend, StoreConfig},
    revm::{context::TxEnv, primitives::B256},
};
use phalanx_workloads::{HotSide, Native, TransferLoad, Workload};
use serde_json::Value;
use std::path::Path;

/// A native load, as flags and as a library call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) accounts: u64,
    pub(crate) txs: u64,
    pub(crate) block_txs: usize,
    pub(crate) seed: u64,
}

const ALPHA: f64 = 0.5;
const GAMMA: u64 = 10;
const HOT: HotSide = HotSide::Both;

/// A chain and the root after each block, genesis first.
#[derive(Debug)]
pub(crate) struct Reference {
    workload: Native,
    txs: Vec<TxEnv>,
    orders: Vec<Vec<u32>>,
    roots: Vec<B256>,
}

impl Load {
    /// Flags of `bench run`.
    pub(crate) fn flags(&self) -> String {
        let Self { accounts, txs, block_txs, seed } = self;
        format!(
            "--workload native --accounts {accounts} --txs {txs} --block-txs {block_txs} --seed {seed} \
             --alpha {ALPHA} --gamma {GAMMA} --hot {HOT}"
        )
    }

    /// Runs the load.
    pub(crate) fn reference(&self) -> Reference {
        let Self { accounts, txs, block_txs, seed } = *self;
        let load = TransferLoad { accounts, txs, seed, alpha: ALPHA, gamma: GAMMA, hot: HOT, ..Default::default() };
        let workload = Native::new(load).expect("a sound load");
        let txs: Vec<_> = workload.transactions().collect();
        let mut engine = Engine::builder().with_executor(Executor::Sequential).build().expect("an engine in memory");
        let mut roots = vec![engine.genesis(genesis(&workload)).expect("a sound genesis")];
        let mut orders = Vec::new();
        let mut planner = engine.plan(&txs, Order::Free, BlockLimits { max_txs: block_txs, max_gas: 30_000_000_000 });
        while let Some(block) = planner.next_block(&engine, &workload.block_env(roots.len() as u64)) {
            orders.push(block.order().to_vec());
            roots.push(commit(&mut engine, &workload, &txs, block));
        }
        drop(planner);
        Reference { workload, txs, orders, roots }
    }
}

impl Reference {
    /// Height of the last block.
    pub(crate) const fn tip(&self) -> u64 {
        self.roots.len() as u64 - 1
    }

    /// Checks that `state info --json` shows one of this chain's blocks; returns its height, `None` before genesis.
    #[track_caller]
    pub(crate) fn holds(&self, info: &Value) -> Option<u64> {
        let height = info["height"].as_u64();
        match height {
            None => assert!(info["height"].is_null() && info["keys"] == 0, "{info}"),
            Some(height) => {
                let root = self.roots.get(height as usize).unwrap_or_else(|| panic!("no such height: {info}"));
                assert_eq!(info["state_root"], root.to_string(), "{info}");
            }
        }
        height
    }

    /// Continues the chain in `store` to its end, so that the state below the root is checked, too. Every root must be this
    /// chain's, including the roots before the store was reopened.
    #[track_caller]
    pub(crate) fn finish(&self, store: StoreConfig) {
        let mut engine = builder(store).build().expect("a sound store");
        if engine.state().height().is_none() {
            assert_eq!(engine.genesis(genesis(&self.workload)).expect("an empty store"), self.roots[0]);
        }
        let height = engine.state().height().expect("a genesis") as usize;
        for (order, root) in self.orders.iter().zip(&self.roots[1..]).skip(height) {
            let block = Block::unpredicted(order.clone());
            assert_eq!(commit(&mut engine, &self.workload, &self.txs, block), *root);
        }
        let gas = self.txs.len() as u64 * Native::GAS;
        self.workload
            .check(&self.workload.full_ledger(), gas, engine.state())
            .expect("the arithmetic of the final state");
    }

    /// Compares every root that the store in `config` remembers.
    #[track_caller]
    pub(crate) fn remembers(&self, config: StoreConfig) {
        let store = phalanx::merkle::Store::open(config).expect("a sound store");
        for height in 0..store.height().map_or(0, |height| height + 1) {
            assert_eq!(
                store.root_at(height).map(B256::new),
                self.roots.get(height as usize).copied(),
                "height {height}"
            );
        }
    }
}

/// Configuration of the store `kind:path` of `--store`.
pub(crate) fn store(kind: &str, path: &Path) -> StoreConfig {
    let backend = match kind {
        "file" => Backend::File(path.to_path_buf()),
        #[cfg(feature = "rocksdb")]
        "rocks" => Backend::Rocks(path.to_path_buf()),
        _ => panic!("no store is called {kind}"),
    };
    StoreConfig::new(backend)
}

fn builder(store: StoreConfig) -> EngineBuilder {
    Engine::builder().with_store(store).with_executor(Executor::Sequential)
}

fn genesis(workload: &Native) -> impl Iterator<Item = GenesisAccount> {
    workload.genesis().accounts.into_iter().map(|account| {
        let phalanx_workloads::GenesisAccount { address, balance, nonce, code, storage } = account;
        GenesisAccount { address, balance, nonce, code, storage }
    })
}

fn commit(engine: &mut Engine, workload: &Native, txs: &[TxEnv], block: Block) -> B256 {
    let height = engine.state().height().expect("a genesis") + 1;
    let executed = engine.execute(&workload.block_env(height), txs, block).expect("execution");
    assert!(executed.block().outcomes().iter().all(phalanx::Outcome::is_success), "block {height}");
    let merkleized = engine.merkleize(executed).expect("a root");
    let committed = engine.commit(merkleized).expect("a commit");
    committed.write.wait().expect("a written block");
    committed.state_root
}
