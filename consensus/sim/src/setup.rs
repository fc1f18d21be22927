//! What a simulated world is like.

use crate::{
    bft::Settings,
    net::{Faults, Topology},
    work::Costs,
};
use phalanx_engine_api::Limits;
use phalanx_pipeline::Mode;

/// How a validator behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// By the rules.
    Honest,
    /// By the rules, but as leader it sends so many different blocks to different validators.
    Equivocate(u32),
    /// As `Equivocate(2)`, and it votes for everything it sees, gives up every view as well, and certifies wrong states.
    Traitor,
    /// Sends its proposals to this many validators only.
    Withhold(u32),
    /// Says nothing.
    Silent,
    /// By the rules, but its engine computes wrong roots from this height on. It must stop itself.
    Diverge(u64),
}

/// A power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// At a time, µs.
    At {
        /// Who.
        node: u32,
        /// When.
        at: u64,
        /// When it is back.
        back: u64,
    },
    /// Between a write and the word of it: when so many blocks have been staged or committed, and of the last nobody has
    /// heard.
    Write {
        /// Who.
        node: u32,
        /// After how many writes.
        write: u64,
        /// How much later it is back, µs.
        pause: u64,
    },
    /// Between two steps: after so many actions of consensus, pipeline and engine of that node.
    Step {
        /// Who.
        node: u32,
        /// After how many actions.
        step: u64,
        /// How much later it is back, µs.
        pause: u64,
    },
}

/// What cryptography costs on the way of a message, µs. The defaults are round figures of current machines, not measured
/// here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crypto {
    /// Before a message leaves.
    pub sign_us: u64,
    /// After it has come.
    pub verify_us: u64,
}

impl Crypto {
    /// None.
    pub const FREE: Self = Self { sign_us: 0, verify_us: 0 };
    /// Ed25519, one signature at a time.
    pub const ED25519: Self = Self { sign_us: 20, verify_us: 50 };
    /// BLS multi-signatures: one pairing per aggregate.
    pub const BLS: Self = Self { sign_us: 300, verify_us: 1_200 };
}

/// Where transactions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Leaders invent them: so many units of weight one per block.
    Invented(u32),
    /// One transaction of this weight per block, there the moment the leader proposes.
    Instant(u32),
    /// Clients send them at a constant rate to all validators, which broadcast them in batches.
    Batches {
        /// Transactions per second of all clients.
        tps: u64,
        /// How often a validator makes a batch, µs.
        interval_us: u64,
        /// Transactions in a block.
        block_txs: u64,
    },
}

/// A world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of everything that is random.
    pub seed: u64,
    /// Validators and protocol.
    pub bft: Settings,
    /// Fullnodes, spread over the validators.
    pub fullnodes: u32,
    /// Distances.
    pub topology: Topology,
    /// What goes wrong on links.
    pub faults: Faults,
    /// What goes wrong with power.
    pub crashes: Vec<Crash>,
    /// Misbehaviour of the first validators; the others are honest.
    pub behaviours: Vec<Behaviour>,
    /// When stages run.
    pub mode: Mode,
    /// What engines cost.
    pub costs: Costs,
    /// What signatures cost.
    pub crypto: Crypto,
    /// Time between proposals, µs; a multiple of 1000.
    pub interval_us: u64,
    /// Where transactions come from.
    pub load: Load,
    /// Bounds of speculation.
    pub limits: Limits,
    /// Whether stages are timed.
    pub timed: bool,
}

impl Setup {
    /// A small world without faults: `n` validators 10 ms apart, blocks every 20 ms, engines that cost next to nothing.
    #[must_use]
    pub fn small(seed: u64, n: u32) -> Self {
        Self {
            seed,
            bft: Settings { n, term: 1, timeout_us: 200_000, optimistic_proposals: true },
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

    /// Validators and fullnodes.
    #[must_use]
    pub const fn nodes(&self) -> u32 {
        self.bft.n + self.fullnodes
    }

    /// How a validator behaves.
    #[must_use]
    pub fn behaviour(&self, node: u32) -> Behaviour {
        self.behaviours.get(node as usize).copied().unwrap_or(Behaviour::Honest)
    }
}
