//! A consensus of one validator.

use crate::{
    consensus::{Consensus, DecidedBlock, Standing},
    journal::{self, Journal},
};
use alloy_primitives::{Address, Bytes, keccak256};
use phalanx_engine_api::{BlockEnv, BlockId, CommittedTip, FatalCause, Payload};
use phalanx_pipeline::{BlockMeta, Committee, Config, ConsensusEvent, Effect, PayloadRef};
use std::collections::VecDeque;

/// A node that makes a block whenever one is due: for development, for tests, and as the smallest example.
///
/// A block is decided once it is written to the journal; the node's own state vote is the certificate.
#[derive(Debug)]
pub struct Solo<J> {
    journal: J,
    interval_us: u64,
    /// Time at which the next block is due, in µs.
    due: u64,
    pool: VecDeque<Bytes>,
    events: VecDeque<ConsensusEvent>,
    hold: bool,
}

impl<J: Journal> Solo<J> {
    /// Continues at the end of the journal. Blocks come at least `interval_us` apart.
    #[must_use]
    pub const fn new(journal: J, interval_us: u64) -> Self {
        Self { journal, interval_us, due: 0, pool: VecDeque::new(), events: VecDeque::new(), hold: false }
    }

    /// Adds a transaction to the next block.
    pub fn send(&mut self, tx: Bytes) {
        self.pool.push_back(tx);
    }

    /// Returns the journal, to open it again after a restart.
    #[must_use]
    pub fn into_journal(self) -> J {
        self.journal
    }

    fn decide(&mut self, now_us: u64) -> Result<(), FatalCause> {
        let (height, parent) = journal::tip(&self.journal);
        let height = height + 1;
        let env = BlockEnv {
            height,
            timestamp_ms: now_us / 1000,
            beneficiary: Address::ZERO,
            gas_limit: u64::MAX,
            ..BlockEnv::default()
        };
        let payload = Payload::new(self.pool.drain(..).collect());
        let mut name = parent.0.to_vec();
        name.extend_from_slice(&env.timestamp_ms.to_be_bytes());
        name.extend_from_slice(payload.digest().as_slice());
        let meta = BlockMeta { id: BlockId(keccak256(name)), parent, height };
        let block = DecidedBlock { meta, env, payload: payload.into(), proof: Bytes::new(), certificate: None };
        let payload = PayloadRef::Here(block.payload.clone());
        // The journal comes first: a block that the engine receives must survive a crash.
        self.journal.append(block)?;
        self.events.push_back(ConsensusEvent::Proposed { meta, env, payload });
        self.events.push_back(ConsensusEvent::Ordered { tip: meta.id, height, proof: Bytes::new() });
        Ok(())
    }
}

impl<J: Journal> Consensus for Solo<J> {
    fn config(&self) -> Config {
        Config::validator(Committee::equal(1))
    }

    fn standing(&self) -> Standing {
        journal::standing(&self.journal)
    }

    // The pipeline is notified of new blocks and requests missing ones.
    fn resumed(&mut self, _committed: &CommittedTip) {}

    fn block(&mut self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        self.journal.block(height)
    }

    fn next(&mut self, now_us: u64) -> Result<Option<ConsensusEvent>, FatalCause> {
        if self.events.is_empty() && !self.hold && now_us >= self.due {
            self.due = now_us + self.interval_us;
            self.decide(now_us)?;
        }
        Ok(self.events.pop_front())
    }

    fn apply(&mut self, effect: Effect) -> Result<(), FatalCause> {
        match effect {
            Effect::StateVote { meta, digest, .. } => {
                let (id, signature) = (meta.id, Bytes::new());
                self.events.push_back(ConsensusEvent::StateVote { from: 0, id, digest, signature });
            }
            Effect::Pressure(pressure) => self.hold = pressure.hold_votes,
            _ => {}
        }
        Ok(())
    }
}
