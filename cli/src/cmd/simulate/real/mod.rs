//! The real engine in the simulator's loop: real transactions are executed and written; time is virtual, the cost of work is
//! measured.

mod clients;
mod plant;
#[cfg(test)]
mod tests;
mod workshop;

pub(crate) use plant::Plant;

use clients::Clients;
use workshop::{Charge, RealWorkshop};

use alloy_primitives::{Bytes, U256};
use phalanx::{
    Engine, GenesisAccount, ServiceConfig, SteppedService,
    api::{FatalCause, Limits},
    merkle::{Durability, StoreConfig},
};
use phalanx_lab::config::Store;
use phalanx_sim::{Batch, Machine, Rng, Sent, Setup};
use std::sync::Arc;

/// Decimal exponent of every account's wei at genesis: a million of the most expensive transactions.
const FUNDS_EXPONENT: u32 = 24;

/// A node's folder, and the clients of all nodes.
#[derive(Debug)]
pub(crate) struct RealMachine {
    clients: Arc<Clients>,
    store: StoreConfig,
    limits: Limits,
    charge: Charge,
}

impl RealMachine {
    /// Machine of a node with the store `store`, empty the first time. Blocks are synced before a commit returns.
    pub(crate) fn new(
        store: &Store,
        setup: &Setup,
        clients: &Arc<Clients>,
        charge: Charge,
    ) -> Result<Self, FatalCause> {
        let backend = store.backend().map_err(|error| FatalCause::Io(error.to_string()))?;
        let store = StoreConfig::new(backend).with_durability(Durability::Block);
        Ok(Self { clients: Arc::clone(clients), store, limits: setup.limits, charge })
    }

    fn service(&self) -> Result<SteppedService, phalanx::Error> {
        let mut engine = Engine::builder().with_store(self.store.clone()).build()?;
        if engine.state().height().is_none() {
            let balance = U256::from(10).pow(U256::from(FUNDS_EXPONENT));
            let funded = |address| GenesisAccount { address, balance, ..Default::default() };
            engine.genesis(self.clients.accounts().addresses().map(funded))?;
        }
        SteppedService::open(engine, ServiceConfig::default().with_limits(self.limits))
    }
}

impl Machine for RealMachine {
    type Workshop = RealWorkshop;

    fn open(&mut self) -> Result<RealWorkshop, FatalCause> {
        let service = self.service().map_err(|error| FatalCause::Io(error.to_string()))?;
        Ok(RealWorkshop::new(service, self.charge))
    }

    /// Cuts the power; written data stays. Torn writes are tested with the store.
    fn cut(&mut self, workshop: RealWorkshop, _rng: &mut Rng) {
        workshop.abandon();
    }

    fn transactions(&mut self, engine: &SteppedService, sent: &Sent) -> Vec<Bytes> {
        self.clients.transactions(engine, sent)
    }

    fn batch_of(&self, tx: &Bytes) -> Option<Batch> {
        Clients::batch_of(tx)
    }

    fn weight(&self, _tx: &Bytes) -> u64 {
        1
    }
}
