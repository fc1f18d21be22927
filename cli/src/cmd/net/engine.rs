//! The engine of a replica: opened in its folder, begun from the accounts of the configuration.

use super::{
    file::{EngineSection, Execution},
    snapshot::States,
};
use alloy_primitives::{B256, Bytes, U256};
use phalanx::{
    Engine, Executor, GenesisAccount, Service, ServiceConfig, SteppedService,
    merkle::{Backend, Durability, StoreConfig},
    pool,
};
use phalanx_lab::error::Usage;
use phalanx_net::{
    Admission, Admit, Beginning, Content, Doorbell, Genesis, Machine, NetConfig, Replica, ReplicaError, ReplicaKeys,
    Snapshots, Step,
};
use phalanx_workloads::{Native, TransferLoad, Workload as _};
use std::{path::Path, sync::Arc};

impl EngineSection {
    /// The load whose accounts the genesis funds.
    pub(crate) fn load(&self, chain: u64) -> Result<Native, Usage> {
        let load = TransferLoad {
            accounts: self.accounts,
            txs: self.txs,
            seed: self.seed,
            chain_id: chain,
            signatures: true,
            ..TransferLoad::default()
        };
        Native::new(load).map_err(|error| Usage(error.to_string()))
    }
}

/// Store of the state of a replica.
pub(super) fn store(dir: &Path, network: &NetConfig) -> StoreConfig {
    let durability = match network.durability {
        phalanx_net::Durability::None => Durability::Async,
        phalanx_net::Durability::Group | phalanx_net::Durability::Each => Durability::Block,
    };
    StoreConfig::new(Backend::File(dir.join("state"))).with_durability(durability)
}

/// An engine with the accounts of `load`, in memory or in a store.
pub(crate) fn open(
    load: &Native,
    store: Option<StoreConfig>,
    executor: Executor,
    threads: usize,
) -> Result<Engine, phalanx::Error> {
    let mut builder = Engine::builder().with_threads(threads).with_executor(executor);
    if let Some(store) = store {
        builder = builder.with_store(store);
    }
    let mut engine = builder.build()?;
    if engine.state().height().is_none() {
        let accounts = load.genesis().accounts;
        let funded = accounts.iter().map(|account| GenesisAccount {
            address: account.address,
            balance: U256::from(account.balance),
            ..Default::default()
        });
        engine.genesis(funded)?;
    }
    Ok(engine)
}

/// Starts a replica on an engine in `dir`. One that executes on its worker makes no snapshots.
pub(crate) fn start(
    network: &NetConfig,
    section: &EngineSection,
    keys: ReplicaKeys,
    dir: &Path,
    beginning: Beginning,
) -> anyhow::Result<Replica> {
    let (load, genesis) = (section.load(network.chain)?, section.genesis());
    std::fs::create_dir_all(dir)?;
    let engine = open(&load, Some(store(dir, network)), Executor::Dag, section.threads)?;
    let started: Result<Replica, ReplicaError> = match section.execution {
        Execution::Decoupled => {
            let service = Arc::new(Service::open(engine, ServiceConfig::default())?);
            let pool = Arc::clone(&service);
            // The pool's rules are those of a node: a sender who cannot pay fills no blocks. It also keeps the recovered sender, so that
            // execution does not recover it again. A transaction that it knows may be unknown to the replica.
            let fate = |admitted| match admitted {
                Ok(pool::Admission::Admitted { .. } | pool::Admission::Refused(pool::Refusal::Known)) => {
                    Admission::Ordered
                }
                _ => Admission::Refused,
            };
            let admit: Admit = Arc::new(move |txs| match pool.send_all(txs) {
                Ok(admitted) => admitted.into_iter().map(fate).collect(),
                Err(_) => vec![Admission::Refused; txs.len()],
            });
            let states = Some(Arc::new(States::new(Arc::clone(&service))) as Arc<dyn Snapshots>);
            let machine = Machine { snapshots: states, ..machine(service, genesis, admit, None) };
            Replica::start(network, keys, dir, machine, beginning)
        }
        Execution::Worker => {
            let service = Arc::new(SteppedService::open(engine, ServiceConfig::default())?);
            let stepped = Arc::clone(&service);
            let step = move || {
                let jobs = stepped.start();
                let any = !jobs.is_empty();
                for job in jobs {
                    let performed = stepped.perform(job);
                    stepped.complete(performed);
                }
                any
            };
            let fate = |tx: &Bytes| if phalanx::recover(tx).is_ok() { Admission::Ordered } else { Admission::Refused };
            let admit: Admit = Arc::new(move |txs| txs.iter().map(fate).collect());
            Replica::start(network, keys, dir, machine(service, genesis, admit, Some(Box::new(step))), beginning)
        }
    };
    Ok(started?)
}

/// A replica that is no part of another program, on a state without a time.
fn machine<E>(engine: Arc<E>, digest: B256, admit: Admit, step: Option<Step>) -> Machine<E> {
    let (genesis, content) = (Genesis { digest, timestamp_ms: 0 }, Content::new(phalanx::is_transaction));
    let doorbell = Doorbell::default();
    Machine { engine, genesis, admit, content, step, embedder: Box::new(()), doorbell, snapshots: None }
}
