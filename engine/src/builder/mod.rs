//! Building of blocks: a job improves its block until it is stopped, at any time.
//!
//! ```text
//!  candidates ─► analyse ─► frame ─► batches ─► wave ─► … ─► wave ─► seal        one session, see `exec/session`
//!                   └─ ahead of the slot ─┘       ▲       │
//!                                                 └───────┘ escaped: simulated on the newer state, then serial
//! ```
//!
//! The block is executed while it is built, so a sealed one needs no second execution. At any moment the transactions
//! that ran so far are a valid block. The limits are kept in final order before a batch runs, and invalid
//! transactions leave no trace. The steps before and after are the functions that validate a block.

mod job;
mod intake;
mod peek;
mod result;
mod target;
mod budget;
mod dropped;

use crate::model::CandidateTx;
use crate::state::StateRef;
use crate::{
    engine::Engine,
    model::{BlockError, Stage, observe},
};
pub use budget::Budget;
use budget::GasCounts;
pub use dropped::{Dropped, Reason};
use intake::{Intake, Room};
pub use job::{BuildJob, Progress};
use phalanx_paralyze::ParaLyze;
pub use result::Built;
use std::collections::VecDeque;
pub use target::{Target, Template};

/// Builds one block after the other. It keeps the templates of contracts, and the frames of prepared candidates.
///
/// ```
/// use phalanx::revm::{context::{BlockEnv, TxEnv}, primitives::{Address, TxKind, U256}};
/// use phalanx::{Budget, Builder, CandidateTx, Engine, GenesisAccount, Target};
///
/// let (alice, bob) = (Address::repeat_byte(1), Address::repeat_byte(2));
/// let mut engine = Engine::builder().with_threads(2).build()?;
/// engine.genesis([GenesisAccount { address: alice, balance: U256::from(10), ..Default::default() }])?;
/// let (kind, value) = (TxKind::Call(bob), U256::from(3));
/// let pay = |nonce| TxEnv { caller: alice, kind, value, nonce, gas_limit: 21_000, ..Default::default() };
///
/// let mut builder = Builder::new(&engine);
/// let env = BlockEnv { number: U256::from(1), ..Default::default() };
/// let mut job = builder.open(&mut engine, Target::Plain(env.into()), Budget::default(), [])?;
/// job.extend([CandidateTx::new(pay(0), 0), CandidateTx::new(pay(7), 1)], &|| false)?; // the closure says when to stop
/// let built = job.finish();
/// assert_eq!((built.txs.len(), built.dropped.len()), (1, 1)); // nonce 7 has no place here
///
/// let merkleized = engine.merkleize(built.executed)?; // as any executed block
/// engine.commit(merkleized)?.write.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    paralyze: ParaLyze,
    /// Candidates that were analysed and framed before their slot.
    ahead: Intake,
    gas_counts: GasCounts,
}

impl Builder {
    /// Creates a builder of blocks for `engine`.
    pub fn new(engine: &Engine) -> Self {
        let paralyze = ParaLyze::new(engine.salt, engine.cfg.clone());
        Self { paralyze, ahead: Intake::new(engine.salt), gas_counts: GasCounts::Used }
    }

    /// Counts each transaction with its gas limit. Without it, a block may hold transactions whose gas limits add up to more than
    /// the block's, as Ethereum permits.
    ///
    /// Chains need it on which gas limits decide before execution which transactions of a block run, as with
    /// [`TxPolicy::SkipInvalid`](phalanx_engine_api::TxPolicy::SkipInvalid): there the others skip what finds no room.
    #[must_use]
    pub const fn with_limits_reserved(mut self) -> Self {
        self.gas_counts = GasCounts::Limit;
        self
    }

    /// Analyses and frames candidates on the committed state, before the slot in which they may be built opens.
    /// Nothing is executed; values on disk are read meanwhile. The candidates come first in the next job, in the order of its
    /// frames. If the state moves on first, their predictions may be wrong, which costs time and no result.
    ///
    /// Takes time linear in the candidates, plus the analysis of as many as fit into one block by their gas limits; a job
    /// analyses the others when it has room for them.
    pub fn prepare(&mut self, engine: &Engine, target: &Target, candidates: impl IntoIterator<Item = CandidateTx>) {
        let (cfg, env) = target.rules(engine);
        self.paralyze.set_cfg(cfg);
        let gas = target.limits(engine, &env).gas;
        let (Self { paralyze, ahead, .. }, state) = (self, StateRef::Own(engine.state()));
        ahead.offer(candidates);
        let room = Room { gas, dry_gas: gas, requeued: &VecDeque::new() };
        observe(engine.observer(), Stage::Analyse, || {
            engine.workers().install(|| ahead.analyse(paralyze, &state, &env, room));
        });
        engine.state().announce(ahead.last_analysed());
        observe(engine.observer(), Stage::Frame, || ahead.frame());
    }

    /// Number of candidates prepared for the next job.
    pub fn prepared(&self) -> usize {
        self.ahead.len() + self.ahead.offered().len()
    }

    /// Opens a block on the committed state. `forced` come first, in this order and beyond the budget, as far as the
    /// rules of the block allow; they run serially.
    ///
    /// # Errors
    /// If no valid block has this target, not even an empty one, or if the engine failed. The prepared candidates are
    /// kept.
    pub fn open<'e>(
        &'e mut self,
        engine: &'e mut Engine,
        target: Target,
        budget: Budget,
        forced: impl IntoIterator<Item = CandidateTx>,
    ) -> Result<BuildJob<'e>, BlockError> {
        let env = target.open(engine)?;
        self.paralyze.set_cfg(engine.cfg.clone());
        let salt = engine.salt;
        let mut job = BuildJob::new(engine, &mut self.paralyze, target, env, (budget, self.gas_counts))?;
        job.begin(core::mem::replace(&mut self.ahead, Intake::new(salt)), forced);
        Ok(job)
    }
}
