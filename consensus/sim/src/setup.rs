//! Parameters of a simulated world.

use crate::{
    bft::Settings,
    net::{Faults, Topology},
    work::Costs,
};
use phalanx_engine_api::Limits;
use phalanx_pipeline::Mode;

/// Behaviour of a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Follows the protocol.
    Honest,
    /// Follows the protocol, but as leader sends this many different blocks to different validators.
    Equivocate(u32),
    /// Behaves as `Equivocate(2)`, votes for every block it sees, gives up every view, and certifies wrong states.
    Traitor,
    /// Sends its proposals to this many validators only.
    Withhold(u32),
    /// Sends nothing.
    Silent,
    /// Follows the protocol, but its engine computes wrong roots from this height on. The node must stop itself.
    Diverge(u64),
}

/// A power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// At a time.
    At {
        /// Index of the node.
        node: u32,
        /// Time of the cut, in µs.
        at: u64,
        /// Time of the restart, in µs.
        back: u64,
    },
    /// Between a write and its report: after this many stagings and commits, the last of them unreported.
    Write {
        /// Index of the node.
        node: u32,
        /// Number of writes before the cut.
        write: u64,
        /// Time until the restart, in µs.
        pause: u64,
    },
    /// Between two steps: after this many actions of consensus, pipeline and engine of the node.
    Step {
        /// Index of the node.
        node: u32,
        /// Number of actions before the cut.
        step: u64,
        /// Time until the restart, in µs.
        pause: u64,
    },
}

/// Cost of cryptography per message, in µs. The defaults are round figures of current machines, not measured here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crypto {
    /// Cost before a message leaves.
    pub sign_us: u64,
    /// Cost after a message arrives.
    pub verify_us: u64,
}

impl Crypto {
    /// No cost.
    pub const FREE: Self = Self { sign_us: 0, verify_us: 0 };
    /// BLS multi-signatures: one pairing per aggregate.
    pub const BLS: Self = Self { sign_us: 300, verify_us: 1_200 };
}

/// Source of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Leaders invent this many transactions of weight one per block.
    Invented(u32),
    /// A single transaction of this weight per block, present when the leader proposes.
    Instant(u32),
    /// Clients send transactions at a constant rate to all validators, which broadcast them in batches.
    Batches {
        /// Load of all clients, in transactions per second.
        tps: u64,
        /// Interval between a validator's batches, in µs.
        interval_us: u64,
        /// Maximum number of transactions in a block.
        block_txs: u64,
    },
}

/// Parameters of a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Validators and protocol.
    pub bft: Settings,
    /// Number of fullnodes, spread over the validators.
    pub fullnodes: u32,
    /// Latencies between nodes.
    pub topology: Topology,
    /// Faults of links.
    pub faults: Faults,
    /// Power cuts.
    pub crashes: Vec<Crash>,
    /// Behaviour of the first validators; the others are honest.
    pub behaviours: Vec<Behaviour>,
    /// Schedule of the stages.
    pub mode: Mode,
    /// Costs of the engines.
    pub costs: Costs,
    /// Costs of signatures.
    pub crypto: Crypto,
    /// Time between proposals, in µs; a multiple of 1000.
    pub interval_us: u64,
    /// Source of transactions.
    pub load: Load,
    /// Bounds of speculation.
    pub limits: Limits,
    /// True if stages are timed.
    pub timed: bool,
}

impl Setup {
    /// A small world without faults: `n` validators 10 ms apart, blocks every 20 ms, engines that cost next to nothing.
    #[must_use]
    pub fn small(seed: u64, n: u32) -> Self {
        Self {
            seed,
            bft: Settings { n, f: n.saturating_sub(1) / 3, term: 1, timeout_us: 200_000, optimistic_proposals: true },
            fullnodes: 0,
            topology: Topology::Uniform { validators: 10_000, client: 1_000, fullnode: 1_000 },
            faults: Faults::default(),
            crashes: Vec::new(),
            behaviours: Vec::new(),
            mode: Mode::Optimistic,
            costs: Costs { execute_us: 3_000, stage_us: 2_000, flip_us: 500, ..Costs::default() },
            crypto: Crypto::FREE,
            interval_us: 20_000,
            load: Load::Invented(2),
            limits: Limits::default(),
            timed: false,
        }
    }

    /// Number of validators and fullnodes.
    #[must_use]
    pub const fn nodes(&self) -> u32 {
        self.bft.n + self.fullnodes
    }

    /// Behaviour of a validator.
    #[must_use]
    pub fn behaviour(&self, node: u32) -> Behaviour {
        self.behaviours.get(node as usize).copied().unwrap_or(Behaviour::Honest)
    }
}
