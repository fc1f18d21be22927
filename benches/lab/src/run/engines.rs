//! Engines for blocks in a given order, which replay and the conformance tests share.

use crate::machine::pin::Pinned;
use phalanx::{
    Block, BlockLimits, Engine, EngineBuilder, Error, Executed, Executor, GenesisAccount, Order, Traces, Tuning,
    chain::ChainSpec,
    merkle::StoreConfig,
    revm::{
        context::{BlockEnv, CfgEnv, TxEnv},
        primitives::{Address, B256},
    },
};
use phalanx_workloads::fixtures::{Account, Alloc};

/// Settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Executor.
    pub executor: Executor,
    /// Worker threads.
    pub threads: usize,
    /// Seed of one interleaving of the threads, for tests.
    pub schedule_seed: Option<u64>,
    /// Replay of recorded calls.
    pub traces: Traces,
    /// Workers that take part in a block.
    pub workers: Take,
}

/// Workers that take part in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// As many as make it faster; none if the calling thread is as fast.
    AsFast,
    /// All workers, so that short tests reach the parallel code.
    All,
}

impl Setup {
    /// Sequential revm.
    pub const ORACLE: Self = Self {
        executor: Executor::Sequential,
        threads: 1,
        schedule_seed: None,
        traces: Traces::Off,
        workers: Take::AsFast,
    };

    fn builder(&self) -> EngineBuilder {
        Engine::builder()
            .with_executor(self.executor)
            .with_threads(self.threads)
            .with_schedule_seed(self.schedule_seed)
            .with_force_parallel(self.workers == Take::All)
            // These engines see one block, or learn on request.
            .with_tuning(Tuning::new().with_traces(self.traces).with_learning(false))
    }

    /// An engine for whole blocks of `chain` on the state `alloc`.
    ///
    /// # Errors
    /// If the rules are not supported, or the genesis is invalid.
    pub fn chain(&self, chain: ChainSpec, alloc: &Alloc) -> Result<Engine, Error> {
        begin(self.builder().with_chain(chain), alloc)
    }

    /// [`Self::chain`] on a store without a chain, with pinned workers.
    ///
    /// # Errors
    /// As [`Self::chain`], and if the store cannot be opened.
    pub fn chain_on(
        &self,
        store: StoreConfig,
        chain: ChainSpec,
        alloc: &Alloc,
        pinned: &Pinned,
    ) -> Result<Engine, Error> {
        begin(pinned.place(self.builder().with_store(store).with_chain(chain)), alloc)
    }

    /// [`Self::chain`] with an access list for every block.
    ///
    /// # Errors
    /// As [`Self::chain`].
    pub fn listing_chain(&self, chain: ChainSpec, alloc: &Alloc) -> Result<Engine, Error> {
        begin(self.builder().with_chain(chain).with_access_lists(true), alloc)
    }

    /// An engine for single transactions by the rules of `cfg` on the state `alloc`.
    ///
    /// # Errors
    /// As [`Self::chain`].
    pub fn plain(&self, cfg: CfgEnv, alloc: &Alloc) -> Result<Engine, Error> {
        begin(self.builder().with_cfg(cfg), alloc)
    }
}

fn begin(builder: EngineBuilder, alloc: &Alloc) -> Result<Engine, Error> {
    let mut engine = builder.build()?;
    engine.genesis(alloc.iter().map(|(address, account)| to_genesis(*address, account)))?;
    Ok(engine)
}

/// Executes one transaction as a block.
///
/// # Errors
/// If the engine fails.
pub fn execute_one(engine: &mut Engine, executor: Executor, env: &BlockEnv, tx: &TxEnv) -> Result<Executed, Error> {
    let txs = core::slice::from_ref(tx);
    let limits = BlockLimits { max_txs: 1, max_gas: u64::MAX };
    // Only the DAG uses predictions.
    let planned =
        (executor == Executor::Dag).then(|| engine.plan(txs, Order::Given, limits).next_block(engine, env)).flatten();
    engine.execute(env, txs, planned.unwrap_or_else(|| Block::unpredicted(vec![0])))
}

/// Commits `executed`.
///
/// # Errors
/// If the store fails.
pub fn commit(engine: &mut Engine, executed: Executed) -> Result<(), Error> {
    let merkleized = engine.merkleize(executed)?;
    engine.commit(merkleized).map(drop)
}

/// Dumps the whole state.
///
/// # Errors
/// If the store fails.
pub fn dump(engine: &Engine) -> Result<Alloc, Error> {
    let accounts = engine.state().dump()?;
    Ok(accounts.into_iter().map(|(address, account)| (address, from_genesis(account))).collect())
}

fn to_genesis(address: Address, account: &Account) -> GenesisAccount {
    GenesisAccount {
        address,
        balance: account.balance,
        nonce: account.nonce,
        code: (!account.code.is_empty()).then(|| account.code.clone()),
        storage: account.storage.iter().map(|(slot, value)| (*slot, *value)).collect(),
    }
}

fn from_genesis(account: GenesisAccount) -> Account {
    Account {
        balance: account.balance,
        nonce: account.nonce,
        code: account.code.unwrap_or_default(),
        storage: account.storage.into_iter().collect(),
    }
}

/// Number of ancestors that BLOCKHASH knows.
pub const BLOCK_HASHES: u64 = 256;

/// Hashes of the ancestors of block `number` that BLOCKHASH knows, by a function of their number.
pub fn ancestors(number: u64, hash: impl Fn(u64) -> B256) -> phalanx::Ancestors {
    (number.saturating_sub(BLOCK_HASHES)..number).map(|number| (number, hash(number))).collect()
}
