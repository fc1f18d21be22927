//! The experiments of the Zaptos paper (§6): how long a client waits, stage by stage, baseline beside optimistic.
//!
//! Costs are calibrated once, to the paper's *baseline* on 64 CPUs, and the optimistic figures follow from them
//! (`docs/explanation/0008-consensus-pipeline.md` has the fit).

mod measure;

pub use measure::{Quantiles, Report, Stage};

use crate::{
    bft::Settings,
    ledger::Violation,
    machine::Machine,
    net::{Faults, Topology},
    setup::{Behaviour, Crypto, Load, Setup},
    work::Costs,
    world::World,
};
use phalanx_engine_api::{FatalCause, Limits};
use phalanx_pipeline::Mode;

/// How often a validator makes a batch: "~200 ms" (§6.2).
const BATCH_US: u64 = 200_000;
/// Patience with a leader; Aptos's default.
const TIMEOUT_US: u64 = 1_000_000;
/// Virtual time before anything counts, µs.
const WARM_UP: u64 = 4_000_000;
/// Virtual time after it, so that what was measured also ends, µs; as much again for every leader that fails, because all of
/// them may fail in a row. Cut off too early, the slower mode would lose its slowest transactions.
const COOL_DOWN: u64 = 4_000_000;
/// Ideal blocks before measuring, and measured; three times as many follow.
const IDEAL_BLOCKS: u64 = 16;
/// Most validators a world can have.
pub const MAX_VALIDATORS: u32 = 128;

/// One of the paper's experiments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Validators.
    pub validators: u32,
    /// Fullnodes; clients measure there.
    pub fullnodes: u32,
    /// Distances.
    pub topology: Topology,
    /// Transactions per second.
    pub tps: u64,
    /// Time between blocks, µs.
    pub block_us: u64,
    /// Transactions in a block at most.
    pub block_txs: u64,
    /// Execution of a transaction, ns.
    pub execute_ns_per_tx: u64,
    /// Roots, per transaction, ns; overlaps with the next block's execution.
    pub root_ns_per_tx: u64,
    /// Writing a block, µs.
    pub commit_us: u64,
    /// Writing, per transaction, ns.
    pub commit_ns_per_tx: u64,
    /// Leaders that propose another block to everybody.
    pub equivocating: u32,
    /// The assumptions of the closed formulas.
    pub ideal: bool,
    /// Virtual time that is measured, µs.
    pub measured_us: u64,
    /// Of everything random.
    pub seed: u64,
}

/// Why an experiment cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// Too few or too many validators.
    #[error("validators must be between 4 and {MAX_VALIDATORS}, not {0}")]
    Validators(u32),
    /// Nobody to measure at, or more than one per validator.
    #[error("fullnodes must be between 1 and the {validators} validators, not {fullnodes}")]
    Fullnodes {
        /// Fullnodes asked for.
        fullnodes: u32,
        /// Validators.
        validators: u32,
    },
    /// More Byzantine validators than the protocol stands.
    #[error("at most {most} of {validators} validators may equivocate, not {asked}")]
    Equivocating {
        /// Asked for.
        asked: u32,
        /// Possible.
        most: u32,
        /// Validators.
        validators: u32,
    },
    /// Something must not be zero, or is absurdly large.
    #[error("{0} is out of range")]
    Range(&'static str),
    /// The closed formulas do not hold.
    #[error("the ideal formulas need {0}")]
    NotIdeal(&'static str),
    /// Nothing was committed in the measured time.
    #[error("no transaction was committed in the measured time: lower the load or measure longer")]
    Nothing,
    /// A machine could not be opened.
    #[error(transparent)]
    Machine(#[from] FatalCause),
    /// A promise was broken.
    #[error(transparent)]
    Broken(Violation),
}

impl Experiment {
    /// The longest virtual time that can be measured, µs.
    pub const MAX_MEASURED_US: u64 = 600_000_000;

    /// The paper's set-up: 100 validators and 30 fullnodes in ten regions, 64 CPUs, 10,000 transactions per second.
    #[must_use]
    pub const fn paper() -> Self {
        Self {
            validators: 100,
            fullnodes: 30,
            topology: Topology::Aptos10,
            tps: 10_000,
            block_us: 150_000,
            block_txs: 3_300,
            execute_ns_per_tx: 45_000,
            root_ns_per_tx: 20_000,
            commit_us: 13_000,
            commit_ns_per_tx: 3_000,
            equivocating: 0,
            ideal: false,
            measured_us: 20_000_000,
            seed: 1,
        }
    }

    /// Execution of one ideal block, µs.
    #[must_use]
    pub fn ideal_execute_us(&self) -> u64 {
        u64::from(self.ideal_block_txs()) * self.execute_ns_per_tx / 1000
    }

    fn ideal_block_txs(&self) -> u32 {
        u32::try_from(self.tps * self.block_us / 1_000_000).unwrap_or(u32::MAX)
    }

    /// Whether it can be made.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let Self { validators, fullnodes, equivocating, .. } = *self;
        if !(4..=MAX_VALIDATORS).contains(&validators) {
            return Err(ExperimentError::Validators(validators));
        }
        if fullnodes == 0 || fullnodes > validators {
            return Err(ExperimentError::Fullnodes { fullnodes, validators });
        }
        let most = (validators - 1) / 3;
        if equivocating > most {
            return Err(ExperimentError::Equivocating { asked: equivocating, most, validators });
        }
        let ranges = [
            ("the time between blocks", self.block_us, 1_000, 60_000_000),
            ("transactions per second", self.tps, 1, 10_000_000),
            ("transactions per block", self.block_txs, 1, 10_000_000),
            ("the cost of execution", self.execute_ns_per_tx, 0, 1_000_000_000),
            ("the cost of roots", self.root_ns_per_tx, 0, 1_000_000_000),
            ("the cost of writing", self.commit_us, 0, 60_000_000),
            ("the cost of writing a transaction", self.commit_ns_per_tx, 0, 1_000_000_000),
            ("the measured time", self.measured_us, 1_000_000, Self::MAX_MEASURED_US),
        ];
        if let Some((what, ..)) = ranges.iter().find(|(_, value, low, high)| !(*low..=*high).contains(value)) {
            return Err(ExperimentError::Range(what));
        }
        if !self.block_us.is_multiple_of(1000) {
            return Err(ExperimentError::Range("the time between blocks, whole milliseconds,"));
        }
        if self.ideal { self.check_ideal() } else { Ok(()) }
    }

    fn check_ideal(&self) -> Result<(), ExperimentError> {
        let Topology::Uniform { validators, .. } = self.topology else {
            return Err(ExperimentError::NotIdeal("a uniform topology"));
        };
        if self.equivocating > 0 {
            return Err(ExperimentError::NotIdeal("honest leaders"));
        }
        if self.fullnodes == self.validators {
            return Err(ExperimentError::NotIdeal("a leader without a fullnode: fewer fullnodes than validators"));
        }
        if self.block_us < validators {
            return Err(ExperimentError::NotIdeal("blocks at least one network delay apart"));
        }
        if self.ideal_execute_us() > self.block_us || self.commit_us > self.block_us {
            return Err(ExperimentError::NotIdeal("execution and writing within the block interval"));
        }
        if self.ideal_block_txs() == 0 {
            return Err(ExperimentError::NotIdeal("a transaction per block"));
        }
        Ok(())
    }

    fn setup(&self, mode: Mode) -> Setup {
        let mut costs = Costs {
            execute_ns_per_tx: self.execute_ns_per_tx,
            execute_us: 0,
            root_ns_per_tx: self.root_ns_per_tx,
            stage_us: self.commit_us,
            stage_ns_per_tx: self.commit_ns_per_tx,
            // "Only a minimal update" (§4.2): one synced write on a network disk.
            flip_us: 1_000,
        };
        let mut setup = Setup {
            seed: self.seed,
            bft: Settings { n: self.validators, term: 1, timeout_us: TIMEOUT_US, optimistic_proposals: true },
            fullnodes: self.fullnodes,
            topology: self.topology,
            faults: Faults::default(),
            crashes: Vec::new(),
            behaviours: vec![Behaviour::Equivocate(self.validators); self.equivocating as usize],
            mode,
            costs,
            crypto: Crypto::BLS,
            interval_us: self.block_us,
            load: Load::Batches { tps: self.tps, interval_us: BATCH_US, block_txs: self.block_txs },
            limits: Limits::default(),
            timed: true,
        };
        if self.ideal {
            costs = Costs { root_ns_per_tx: 0, stage_ns_per_tx: 0, flip_us: 0, ..costs };
            setup.costs = costs;
            setup.bft.term = u64::MAX;
            setup.bft.timeout_us = 3_600_000_000;
            setup.crypto = Crypto::FREE;
            setup.load = Load::Instant(self.ideal_block_txs());
        }
        setup
    }

    /// Makes it.
    ///
    /// # Errors
    /// What [`Experiment::check`] finds; [`ExperimentError::Nothing`] if the system never got anywhere;
    /// [`ExperimentError::Broken`] if it did wrong.
    pub fn run(&self, mode: Mode) -> Result<Report, ExperimentError> {
        self.measure(mode, |setup| Ok(World::new(setup)))
    }

    /// Makes it on other machines: one per validator, then one per fullnode.
    ///
    /// # Errors
    /// Those of [`Experiment::run`] and of the machines, and [`ExperimentError::Broken`].
    pub fn run_on<M: Machine>(
        &self,
        mode: Mode,
        machine: impl FnMut(u32, &Setup) -> Result<M, FatalCause>,
    ) -> Result<Report, ExperimentError> {
        self.measure(mode, |setup| World::on(setup, machine))
    }

    fn measure<M: Machine>(
        &self,
        mode: Mode,
        world: impl FnOnce(Setup) -> Result<World<M>, FatalCause>,
    ) -> Result<Report, ExperimentError> {
        self.check()?;
        // Without chance one block is like the other.
        let (warm_up, measured, cool_down) = if self.ideal {
            (IDEAL_BLOCKS * self.block_us, IDEAL_BLOCKS * self.block_us, 3 * IDEAL_BLOCKS * self.block_us)
        } else {
            (WARM_UP, self.measured_us, COOL_DOWN * (1 + u64::from(self.equivocating)))
        };
        let window = warm_up..warm_up + measured;
        let mut world = world(self.setup(mode))?;
        world.run_until(window.end + cool_down);
        if let Some(violation) = world.ledger().violations.first() {
            return Err(ExperimentError::Broken(violation.clone()));
        }
        measure::report(self, mode, &world, window).ok_or(ExperimentError::Nothing)
    }

    /// What the closed formula of a mode says, µs from client to client, given the time from a validator's input to the
    /// order.
    ///
    /// Baseline: Theorem 4.3 (1). Optimistic: the exact critical path of Algorithm 2, which is never above (2).
    #[must_use]
    pub fn formula(&self, mode: Mode, consensus_us: u64) -> u64 {
        let (client, fullnode) = (self.topology.client(), self.topology.fullnode());
        let delay = self.topology.between(0, 1);
        let (execute, commit) = (self.ideal_execute_us(), self.commit_us);
        let base = 2 * client + 2 * fullnode + consensus_us;
        match mode {
            Mode::Baseline => base + delay + 2 * execute + 2 * commit,
            Mode::Optimistic => base + execute.saturating_sub(delay).max((execute + commit).saturating_sub(2 * delay)),
        }
    }

    /// Theorem 4.3 (2): an upper bound of the optimistic latency, which counts the fullnode's share twice.
    #[must_use]
    pub fn upper_bound(&self, consensus_us: u64) -> u64 {
        let (client, fullnode) = (self.topology.client(), self.topology.fullnode());
        let delay = self.topology.between(0, 1);
        let (execute, commit) = (self.ideal_execute_us(), self.commit_us);
        2 * client
            + 2 * fullnode
            + consensus_us
            + (execute + commit).saturating_sub(2 * delay)
            + execute.saturating_sub(delay)
            + commit.saturating_sub(delay)
    }
}
