//! Experiments on the real engine: all machines of all runs.

use super::{RealMachine, clients::Clients, workshop::Charge};
use crate::cmd::simulate::{args::ClockKind, point::name};
use phalanx::api::FatalCause;
use phalanx_lab::{config::Store, error::Usage};
use phalanx_pipeline::Mode;
use phalanx_sim::{
    Setup,
    zaptos::{Experiment, ExperimentError, Report},
};
use std::{path::Path, sync::Arc};

/// Maximum number of nodes: their states share the memory of one process, and their work one thread.
const MAX_NODES: u32 = 16;

/// Stores and clients of the nodes of an experiment.
#[derive(Debug)]
pub(crate) struct Plant {
    store: Store,
    clients: Arc<Clients>,
    clock: ClockKind,
}

impl Plant {
    /// Derives the keys of all clients.
    ///
    /// # Errors
    /// If there are too many nodes, the folder is not empty, or this build lacks the backend.
    pub(crate) fn new(store: Store, clock: ClockKind, experiment: &Experiment) -> Result<Self, Usage> {
        let nodes = experiment.validators + experiment.fullnodes;
        if nodes > MAX_NODES {
            let hint = "try --validators 4 --fullnodes 4";
            return Err(Usage(format!("--engine real takes at most {MAX_NODES} nodes, not {nodes}: {hint}")));
        }
        store.backend()?;
        if let Some(path) = store.path()
            && path.read_dir().is_ok_and(|mut entries| entries.next().is_some())
        {
            return Err(Usage(format!("{} is not empty: the nodes need empty stores", path.display())));
        }
        let clients = Clients::new(experiment.validators, experiment.seed).map_err(|error| Usage(error.to_string()))?;
        Ok(Self { store, clients: Arc::new(clients), clock })
    }

    /// Runs an experiment. Costs are measured, unless it is ideal.
    pub(crate) fn run(&self, experiment: &Experiment, mode: Mode) -> Result<Report, ExperimentError> {
        let measured = Charge::Measured(self.clock);
        let charge = |setup: &Setup| if experiment.ideal { Charge::Given(setup.costs) } else { measured };
        experiment.run_on(mode, |node, setup| self.machine(name(mode), node, setup, charge(setup)))
    }

    fn machine(&self, run: &str, node: u32, setup: &Setup, charge: Charge) -> Result<RealMachine, FatalCause> {
        RealMachine::new(&store_of(&self.store, run, node), setup, &self.clients, charge)
    }
}

/// Store of a node, in a subfolder.
pub(super) fn store_of(store: &Store, run: &str, node: u32) -> Store {
    store.at(store.path().unwrap_or(Path::new("")).join(run).join(format!("node-{node}")))
}
