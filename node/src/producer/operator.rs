//! Orders of the operator of a chain for development, as the producer carries them out.

use super::{Empty, Producer};
use crate::{
    error::NodeError,
    next::{Said, is_of_edits},
    orders::{Asked, MOST_BLOCKS, Order, Pace},
    steps::Missed,
};
use phalanx::{
    BlockAttributes, Edit,
    alloy::primitives::Bytes,
    api::{Candidate, ExecId, ExecutionEngine as _, Payload, Priority, TxPolicy},
    pool::PooledTx,
};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

/// Maximum number of snapshots; the oldest goes for a further one.
const MOST_SNAPSHOTS: usize = 4_096;

/// A state of the chain that its operator may go back to.
#[derive(Clone, Debug)]
struct Snapshot {
    block: ExecId,
    height: u64,
    said: Said,
    pace: Pace,
    /// Transactions that waited.
    pool: Vec<Bytes>,
}

/// Snapshots by number, oldest first. The store's history bounds how far they reach back.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    taken: BTreeMap<u64, Snapshot>,
    last: u64,
}

impl Producer {
    /// Obeys an order and replies.
    ///
    /// # Errors
    /// The engine has ended.
    pub(super) fn obey(&mut self, Asked { order, reply }: Asked) -> Result<(), NodeError> {
        let said = match order {
            Order::Mine { blocks, first, interval } => self.mine(blocks, first, interval),
            Order::Edit(edits) => self.edit(edits),
            Order::Snapshot => Ok(self.snapshot()),
            Order::Revert(number) => self.revert(number),
            Order::Rewind(height) => self.rewind_to(height),
            Order::SetPace { is_instant, period } => {
                let Pace { is_instant: now, period: every } = self.pace;
                self.set_pace(Pace { is_instant: is_instant.unwrap_or(now), period: period.unwrap_or(every) });
                Ok(0)
            }
        };
        let said = match said {
            Ok(number) => Ok(number),
            Err(Missed::Final(error)) => return Err(error),
            Err(Missed::Invalid(failure)) => Err(failure.to_string()),
            Err(Missed::Passing(why)) => Err(why),
        };
        // An error means that the caller has gone.
        let _ = reply.send(said);
        Ok(())
    }

    fn mine(&mut self, blocks: u64, first: Option<u64>, interval: Option<u64>) -> Result<u64, Missed> {
        if blocks > MOST_BLOCKS {
            return Err(Missed::Passing(format!("{blocks} blocks at once: {MOST_BLOCKS} are the most")));
        }
        for place in 0..blocks {
            let parent = self.chain.head().header.timestamp;
            let time = match place {
                0 => first,
                _ => interval.map(|interval| parent.saturating_add(interval.max(1))),
            };
            if time.is_some() {
                self.next.say(|said| said.time = time);
            }
            self.produce(Empty::Made)?;
            self.land()?;
        }
        Ok(blocks)
    }

    /// Makes a block of edits. It has its parent's time, and leaves alone what was said for the next block.
    fn edit(&mut self, edits: Vec<Edit>) -> Result<u64, Missed> {
        let begun = Instant::now();
        self.steps.clear()?;
        let head = self.parent()?;
        let mut plan = self.next.plan(&head);
        plan.attributes.timestamp = head.header.timestamp;
        plan.attributes.gas_limit = None;
        plan.base_fee = is_of_edits(&head).then_some(head.header.base_fee_per_gas).flatten();
        let env = self.env(&head, &plan)?;
        let attributes = BlockAttributes { edits: Some(edits), ..BlockAttributes::default() };
        let payload = Payload::with_attributes(Vec::new(), attributes.encode());
        let parent = ExecId(head.exec);
        let chain = self.chain.spec.chain_id();
        self.commit(Candidate::new(chain, parent, env, TxPolicy::Strict, payload.into()), Priority::Build, begun)?;
        self.land()?;
        Ok(env.height)
    }

    fn snapshot(&mut self) -> u64 {
        let tip = self.chain.service.status().committed;
        let pool = self.waiting();
        let taken = Snapshot { block: tip.exec, height: tip.height, said: self.next.said(), pace: self.pace, pool };
        let Snapshots { taken: all, last } = &mut self.snapshots;
        *last += 1;
        all.insert(*last, taken);
        if all.len() > MOST_SNAPSHOTS {
            all.pop_first();
        }
        *last
    }

    fn revert(&mut self, number: u64) -> Result<u64, Missed> {
        let Some(snapshot) = self.snapshots.taken.get(&number).cloned() else { return Ok(0) };
        self.rewind(snapshot.block, snapshot.height)?;
        drop(self.snapshots.taken.split_off(&number));
        self.next.say(|said| *said = snapshot.said);
        self.set_pace(snapshot.pace);
        self.empty_pool();
        // What waited then waits again. What is refused now is no transaction that waits.
        let recovered = self.chain.service.recover(&snapshot.pool);
        let _ = self.chain.service.admit(recovered);
        Ok(1)
    }

    fn rewind_to(&mut self, height: u64) -> Result<u64, Missed> {
        let block = self.chain.service.committed_at(height).map(|committed| committed.exec);
        let gone = || Missed::Passing(format!("block {height} is no longer kept: raise --history"));
        self.rewind(block.ok_or_else(gone)?, height)?;
        self.snapshots.taken.clear();
        self.empty_pool();
        Ok(height)
    }

    fn rewind(&mut self, block: ExecId, height: u64) -> Result<(), Missed> {
        if self.chain.service.status().committed.exec == block {
            return Ok(());
        }
        let removed = self.chain.above(height).map_err(|error| Missed::Final(error.into()))?;
        self.steps.clear()?;
        self.steps.rewind(block)?;
        self.chain.rewound(height, removed).map_err(|error| Missed::Final(error.into()))
    }

    /// Transactions that wait, best first and those of a sender in order.
    fn waiting(&self) -> Vec<Bytes> {
        self.chain.service.with_pool(|pool| {
            let mut all: Vec<_> = pool.iter().map(Arc::clone).collect();
            all.sort_unstable_by_key(|tx| tx.rank());
            let bytes = |tx: &Arc<PooledTx>| tx.recovered().pooled_bytes().unwrap_or_else(|| tx.bytes()).clone();
            all.iter().map(bytes).collect()
        })
    }

    fn empty_pool(&self) {
        let all: Vec<_> = self.chain.service.with_pool(|pool| pool.iter().map(|tx| *tx.hash()).collect());
        all.iter().for_each(|hash| _ = self.chain.service.forget(hash));
    }
}
