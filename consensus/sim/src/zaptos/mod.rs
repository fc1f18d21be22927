//! The experiments of the Zaptos paper (§6): latency of a client, stage by stage, baseline beside optimistic.
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

/// Interval between a validator's batches: "~200 ms" (§6.2).
const BATCH_US: u64 = 200_000;
/// Timeout of a view; Aptos's default.
const TIMEOUT_US: u64 = 1_000_000;
/// Virtual time before the measurement, in µs.
const WARM_UP: u64 = 4_000_000;
/// Virtual time after the measurement, in µs, so that measured transactions also end. Every failing leader adds as
/// much, because all of them may fail in a row. A shorter time would cut off the slowest transactions of the slower
/// mode.
const COOL_DOWN: u64 = 4_000_000;
/// Number of ideal blocks before the measurement, and of measured ones; three times as many follow.
const IDEAL_BLOCKS: u64 = 16;
/// Maximum number of validators of a world.
pub const MAX_VALIDATORS: u32 = 128;

/// Parameters of an experiment of the paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Number of validators.
    pub validators: u32,
    /// Number of fullnodes; clients measure there.
    pub fullnodes: u32,
    /// Latencies between nodes.
    pub topology: Topology,
    /// Load in transactions per second.
    pub tps: u64,
    /// Time between blocks, in µs.
    pub block_us: u64,
    /// Maximum number of transactions in a block.
    pub block_txs: u64,
    /// Execution of a transaction, in ns.
    pub execute_ns_per_tx: u64,
    /// Root computation per transaction, in ns; overlaps with the next block's execution.
    pub root_ns_per_tx: u64,
    /// Writing a block, in µs.
    pub commit_us: u64,
    /// Writing, per transaction, in ns.
    pub commit_ns_per_tx: u64,
    /// Number of leaders that propose different blocks to different validators.
    pub equivocating: u32,
    /// True for the assumptions of the closed formulas.
    pub ideal: bool,
    /// Virtual time that is measured, in µs.
    pub measured_us: u64,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Reason why an experiment cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// Too few or too many validators.
    #[error("validators must be between 4 and {MAX_VALIDATORS}, not {0}")]
    Validators(u32),
    /// No fullnode to measure at, or more than one per validator.
    #[error("fullnodes must be between 1 and the {validators} validators, not {fullnodes}")]
    Fullnodes {
        /// Requested number of fullnodes.
        fullnodes: u32,
        /// Number of validators.
        validators: u32,
    },
    /// More Byzantine validators than the protocol tolerates.
    #[error("at most {most} of {validators} validators may equivocate, not {asked}")]
    Equivocating {
        /// Requested number.
        asked: u32,
        /// Maximum number.
        most: u32,
        /// Number of validators.
        validators: u32,
    },
    /// A value is zero or absurdly large.
    #[error("{what} must be between {low} and {high}, not {found}")]
    Range {
        /// Name of the value, with its unit.
        what: &'static str,
        /// Minimum.
        low: u64,
        /// Maximum.
        high: u64,
        /// Given value.
        found: u64,
    },
    /// A time between blocks with a fraction of a millisecond.
    #[error("the time between blocks must be whole milliseconds, not {0} µs")]
    Fraction(u64),
    /// The closed formulas do not apply.
    #[error("the ideal formulas need {0}")]
    NotIdeal(&'static str),
    /// Nothing was committed in the measured time.
    #[error("no transaction was committed in the measured time: lower the load or measure longer")]
    Nothing,
    /// A machine could not be opened.
    #[error(transparent)]
    Machine(#[from] FatalCause),
    /// An invariant was violated.
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

    /// Checks that the experiment can run.
    ///
    /// # Errors The first parameter that is wrong.
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
            ("the time between blocks, in µs,", self.block_us, 1_000, 60_000_000),
            ("transactions per second", self.tps, 1, 10_000_000),
            ("transactions per block", self.block_txs, 1, 10_000_000),
            ("the cost of execution, in ns per transaction,", self.execute_ns_per_tx, 0, 1_000_000_000),
            ("the cost of roots, in ns per transaction,", self.root_ns_per_tx, 0, 1_000_000_000),
            ("the cost of writing a block, in µs,", self.commit_us, 0, 60_000_000),
            ("the cost of writing a transaction, in ns,", self.commit_ns_per_tx, 0, 1_000_000_000),
            ("the measured time, in µs,", self.measured_us, 1_000_000, Self::MAX_MEASURED_US),
        ];
        if let Some((what, found, low, high)) =
            ranges.into_iter().find(|(_, value, low, high)| !(*low..=*high).contains(value))
        {
            return Err(ExperimentError::Range { what, low, high, found });
        }
        if !self.block_us.is_multiple_of(1000) {
            return Err(ExperimentError::Fraction(self.block_us));
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
            bft: Settings {
                n: self.validators,
                f: (self.validators - 1) / 3,
                term: 1,
                timeout_us: TIMEOUT_US,
                optimistic_proposals: true,
            },
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

    /// Runs the experiment on model engines.
    ///
    /// # Errors Errors of [`Experiment::check`]; [`ExperimentError::Nothing`] if no transaction was committed;
    /// [`ExperimentError::Broken`] if an invariant was violated.
    pub fn run(&self, mode: Mode) -> Result<Report, ExperimentError> {
        self.measure(mode, |setup| Ok(World::new(setup)))
    }

    /// Runs the experiment on other machines: one per validator, then one per fullnode.
    ///
    /// # Errors
    /// Errors of [`Experiment::run`] and of the machines, and [`ExperimentError::Broken`].
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
        // Without random faults all blocks are alike.
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

    /// Closed formula of a mode, from client to client, in µs, given the time from a validator's input to the order.
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
