//! The engine of a replica: opened in its folder, begun from the accounts of the configuration.

use super::file::{EngineSection, Execution};
use alloy_primitives::{B256, U256};
use phalanx::{
    Engine, Executor, GenesisAccount, Service, ServiceConfig, SteppedService,
    merkle::{Backend, Durability, StoreConfig},
    pool,
};
use phalanx_lab::error::Usage;
use phalanx_net::{
    Admission, Admit, Beginning, Doorbell, Genesis, Machine, NetConfig, Replica, ReplicaError, ReplicaKeys, Step,
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

/// An engine with the accounts of `load`, in memory or in the folder of a store.
pub(crate) fn open(
    load: &Native,
    place: Option<(&Path, Durability)>,
    executor: Executor,
    threads: usize,
) -> Result<Engine, phalanx::Error> {
    let mut builder = Engine::builder().with_threads(threads).with_executor(executor);
    if let Some((path, durability)) = place {
        let store = StoreConfig::new(Backend::File(path.into())).with_durability(durability);
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

/// Starts a replica on an engine in `dir`.
pub(crate) fn start(
    network: &NetConfig,
    section: &EngineSection,
    keys: ReplicaKeys,
    dir: &Path,
    beginning: Beginning,
) -> anyhow::Result<Replica> {
    let (load, genesis) = (section.load(network.chain)?, section.genesis());
    std::fs::create_dir_all(dir)?;
    let durability = match network.durability {
        phalanx_net::Durability::None => Durability::Async,
        phalanx_net::Durability::Group | phalanx_net::Durability::Each => Durability::Block,
    };
    let engine = open(&load, Some((&dir.join("state"), durability)), Executor::Dag, section.threads)?;
    let started: Result<Replica, ReplicaError> = match section.execution {
        Execution::Decoupled => {
            let service = Arc::new(Service::open(engine, ServiceConfig::default())?);
            let pool = Arc::clone(&service);
            // The pool's rules are those of a node: a sender who cannot pay fills no blocks. It also keeps the recovered sender, so that
            // execution does not recover it again. A transaction that it knows may be unknown to the replica.
            let admit: Admit = Arc::new(move |tx| match pool.send(tx) {
                Ok(pool::Admission::Admitted { .. } | pool::Admission::Refused(pool::Refusal::Known)) => {
                    Admission::Ordered
                }
                _ => Admission::Refused,
            });
            Replica::start(network, keys, dir, machine(service, genesis, admit, None), beginning)
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
            let admit: Admit = Arc::new(|tx| match phalanx::recover(tx) {
                Ok(_) => Admission::Ordered,
                Err(_) => Admission::Refused,
            });
            Replica::start(network, keys, dir, machine(service, genesis, admit, Some(Box::new(step))), beginning)
        }
    };
    Ok(started?)
}

/// A replica that is no part of another program, on a state without a time.
fn machine<E>(engine: Arc<E>, digest: B256, admit: Admit, step: Option<Step>) -> Machine<E> {
    let genesis = Genesis { digest, timestamp_ms: 0 };
    Machine { engine, genesis, admit, step, embedder: Box::new(()), doorbell: Doorbell::default() }
}
