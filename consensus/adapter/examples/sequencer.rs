//! Binds a foreign consensus: a sequencer, or any replicated log, that orders transactions first and executes nothing.
//!
//! [`Log`] stands in for the log, with the two calls that Raft, Kafka or a rollup's sequencer have: append, and read
//! from an offset. One entry becomes one block. Invalid transactions are skipped, because they were not checked before
//! the order.
//!
//! `docs/how-to/bind-a-consensus.md` quotes the regions between `[name]` and `[/name]`.
//!
//! Run it: `cargo run --release -p phalanx-adapter --example sequencer`

use alloy_primitives::{Bytes, keccak256};
use phalanx_adapter::{Consensus, Decided, DecidedBlock, Node, OpenError, Standing};
use phalanx_engine_api::{
    BlockEnv, BlockId, CommittedTip, ExecutionEngine as _, FatalCause, Limits, Payload, TxPolicy,
};
use phalanx_pipeline::{BlockMeta, Committee, Config, ConsensusEvent, Effect, OrderVote, PayloadRef, StateRule};
use phalanx_sim::model::{Costs, Disk, ModelEngine, model_tx};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// The foreign system: an ordered log of batches.
#[derive(Clone, Debug, Default)]
pub struct Log(Rc<RefCell<Vec<Vec<Bytes>>>>);

impl Log {
    /// Orders a batch.
    pub fn append(&self, batch: Vec<Bytes>) {
        self.0.borrow_mut().push(batch);
    }

    /// The batch at an offset, if it is ordered.
    pub fn read(&self, offset: u64) -> Option<Vec<Bytes>> {
        self.0.borrow().get(offset as usize).cloned()
    }
}

/// The binding. Blocks are derived from the log, so it needs no log of its own.
#[derive(Debug)]
pub struct Sequencer {
    log: Log,
    /// Offset of the next entry to deliver.
    offset: u64,
    /// Height that the engine has committed.
    committed: u64,
    /// Names of the blocks so far, the genesis block's first.
    names: Vec<BlockId>,
}

impl Sequencer {
    /// Reads `log` from the beginning.
    pub fn new(log: Log) -> Self {
        let mut sequencer = Self { log, offset: 0, committed: 0, names: vec![BlockId::default()] };
        while sequencer.derive(sequencer.names.len() as u64).is_some() {}
        sequencer.offset = sequencer.names.len() as u64 - 1;
        sequencer
    }

    /// Height that the engine has committed.
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    // [derive]
    /// The block of a log entry: a pure function of the entries up to it.
    fn derive(&mut self, height: u64) -> Option<DecidedBlock> {
        let parent = *self.names.get(height.checked_sub(1)? as usize)?;
        let payload = Payload::new(self.log.read(height - 1)?);
        let id = BlockId(keccak256([parent.0.as_slice(), payload.digest().as_slice()].concat()));
        if self.names.len() as u64 == height {
            self.names.push(id);
        }
        let env = BlockEnv { height, timestamp_ms: height, gas_limit: u64::MAX, ..BlockEnv::default() };
        let meta = BlockMeta { id, parent, height };
        Some(DecidedBlock { meta, env, payload: payload.into(), proof: Bytes::new(), certificate: None })
    }
    // [/derive]
}

impl Consensus for Sequencer {
    // [config]
    fn config(&self) -> Config {
        Config {
            // The order is final, states are not voted on, and transactions were not checked before.
            rule: StateRule::Ordered,
            order_vote: OrderVote::None,
            policy: TxPolicy::SkipInvalid,
            ..Config::validator(Committee::equal(1))
        }
    }
    // [/config]

    fn standing(&self) -> Standing {
        let height = self.names.len() as u64 - 1;
        let last = (height > 0).then(|| Decided { height, id: self.names[height as usize] });
        Standing { first: 1, last }
    }

    fn resumed(&mut self, committed: &CommittedTip) {
        self.committed = committed.height;
    }

    fn block(&mut self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        Ok(self.derive(height))
    }

    // [next]
    fn next(&mut self, _now_us: u64) -> Result<Option<ConsensusEvent>, FatalCause> {
        // Ordered at once: the node requests the block itself, with `block`.
        let Some(block) = self.derive(self.offset + 1) else { return Ok(None) };
        self.offset += 1;
        let (tip, height) = (block.meta.id, block.meta.height);
        // Every other block is delivered without a request, which is as legal and saves the request.
        Ok(Some(if height.is_multiple_of(2) {
            ConsensusEvent::Ordered { tip, height, proof: block.proof }
        } else {
            ConsensusEvent::Proposed { meta: block.meta, env: block.env, payload: PayloadRef::Here(block.payload) }
        }))
    }

    fn apply(&mut self, effect: Effect) -> Result<(), FatalCause> {
        if let Effect::Ack { meta, .. } = effect {
            self.committed = meta.height;
        }
        Ok(())
    }
    // [/next]
}

fn main() -> Result<(), OpenError> {
    // [node]
    let engine = Arc::new(ModelEngine::open(1, Limits::default(), Costs::default(), Disk::default()));
    let log = Log::default();
    for number in 0..10u8 {
        log.append(vec![model_tx(1, &[number])]);
    }
    let (mut node, found) = Node::open(engine.clone(), Sequencer::new(log), 0)?;
    let mut now = 0;
    while node.consensus().committed() < 10 {
        engine.run();
        now += 1000;
        node.poll(now)?;
    }
    // [/node]
    println!(
        "{found:?}, then height {} with root {}",
        engine.status().committed.height,
        engine.status().committed.state_root
    );
    Ok(())
}
