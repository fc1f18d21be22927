//! The host as the consensus of a node: handshake and replay, events for the pipeline, and the pipeline's effects.

use super::Host;
use crate::{
    action::Action,
    chain::{Block, decode_outcome},
};
use alloy_primitives::B256;
use phalanx_adapter::{Consensus, Decided, DecidedBlock, Standing};
use phalanx_bft::{Input, Protocol, Slot};
use phalanx_engine_api::{CommittedTip, FatalCause};
use phalanx_pipeline::{Config, ConsensusEvent, Effect};
use std::sync::Arc;

impl<P: Protocol> Consensus for Host<P> {
    fn config(&self) -> Config {
        self.config.pipeline.clone()
    }

    fn standing(&self) -> Standing {
        // A replica that joined by a snapshot has no block of its own yet.
        let (base, last) = (self.chain.base(), self.chain.block(self.chain.decided()));
        let last = last.map(Block::tip).or((base.slot > 0).then_some(base));
        let last = last.map(|tip| Decided { height: tip.slot, id: tip.id });
        Standing { first: base.slot + 1, last }
    }

    fn adopt(&mut self, committed: &CommittedTip) -> Result<bool, FatalCause> {
        Ok(self.adopt_undecided(committed))
    }

    fn resumed(&mut self, committed: &CommittedTip) {
        let records = core::mem::take(&mut self.records);
        self.committed = committed.height;
        let outcomes = self.chain.from(0).take_while(|(slot, _)| **slot <= committed.height);
        let outcomes = outcomes.filter_map(|(slot, block)| Some((*slot, decode_outcome(block.outcome.as_ref()?)?.1)));
        let outcomes: Vec<(Slot, B256)> = outcomes.collect();
        let outcome = self.chain.outcome(committed.height).and_then(|outcome| decode_outcome(outcome));
        let digest = outcome.map_or(B256::ZERO, |(_, digest)| digest);
        let base = self.base_of(committed.height, digest);
        let mut out = Vec::new();
        let protocol = P::open(self.me, Arc::clone(&self.protocol_config), base, &records, &mut out);
        self.requests.view = protocol.view();
        self.protocol = Some(protocol);
        // Transactions of the log are known: a client that repeats one gets no second block.
        for (slot, block) in self.chain.from(0).take_while(|(slot, _)| **slot <= self.chain.decided()) {
            self.pool.order(*slot, block.payload.txs());
        }
        self.enqueue(out);
        // A crash may have come between a commit and the announcement of its checkpoint.
        for (slot, digest) in outcomes {
            self.tell_committed(slot, digest);
        }
        if let Some(end) = self.find_end(committed.meta.state_certificate.as_ref()) {
            self.repeat_final(end);
        }
        // The blocks up to the one that begins the epoch come from any member of it.
        if let Some((base, proof)) = self.missing_beginning() {
            self.want(base, proof);
        }
        self.tell_pending();
        self.ask_reach();
        self.perform();
    }

    fn block(&mut self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        // Certificates follow as events, once the own result is in the log.
        let block = self.chain.block(height).filter(|_| height <= self.chain.decided());
        Ok(block.map(Block::decided))
    }

    fn next(&mut self, now_us: u64) -> Result<Option<ConsensusEvent>, FatalCause> {
        self.now = now_us;
        if let Some(cause) = self.fatal.take() {
            return Err(cause);
        }
        self.perform();
        Ok(self.outbox.next_event())
    }

    fn apply(&mut self, effect: Effect) -> Result<(), FatalCause> {
        match effect {
            Effect::StateVote { meta, result, .. } => self.computed(meta, &result),
            Effect::Ack { meta, outcome } => self.committed(meta, outcome),
            Effect::Pressure(pressure) => {
                let (now, hold) = (self.now, pressure.hold_votes);
                self.call(|protocol, out| protocol.on_input(now, Input::Hold(hold), out));
            }
            Effect::Halt(incident) => self.outbox.act(Action::Halted(incident)),
            // Payloads come with their batches, certificates are formed here, transactions wait in the pool.
            _ => {}
        }
        self.perform();
        Ok(())
    }
}
