//! A replica of a world: its protocol, its log, and its host's part.

use crate::{
    facts::Facts,
    outbox::{Commit, Outbox},
    timers::Timers,
};
use alloy_primitives::B256;
use phalanx_bft::{Base, Batch, NULL, Protocol, Slot};
use std::collections::{BTreeMap, VecDeque};

pub(crate) struct Replica<P: Protocol> {
    /// `None` while the power is cut.
    pub(crate) protocol: Option<P>,
    /// Number of power cuts so far.
    pub(crate) epoch: u64,
    /// Log that a restart reads, and every record that was ever durable.
    pub(crate) durable: Vec<P::Record>,
    pub(crate) written: Vec<P::Record>,
    pub(crate) outbox: Outbox<P>,
    /// True while effects are performed.
    pub(crate) busy: bool,
    pub(crate) timers: Timers<P::Timer>,
    /// Decided batches that wait for execution, those that are executed, and the outcomes.
    pub(crate) decided: BTreeMap<Slot, Option<Batch>>,
    pub(crate) contents: BTreeMap<Slot, Option<Batch>>,
    pub(crate) outcomes: BTreeMap<Slot, B256>,
    pub(crate) executing: bool,
    /// Batches that clients want, by arrival.
    pub(crate) pool: VecDeque<(u64, Batch)>,
    pub(crate) arrived: u64,
}

impl<P: Facts> Replica<P> {
    pub(crate) const fn new() -> Self {
        Self {
            protocol: None,
            epoch: 0,
            durable: Vec::new(),
            written: Vec::new(),
            outbox: Outbox::new(Commit::Single),
            busy: false,
            timers: Timers::new(),
            decided: BTreeMap::new(),
            contents: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            executing: false,
            pool: VecDeque::new(),
            arrived: 0,
        }
    }

    /// The last executed slot.
    pub(crate) fn base(&self) -> Base {
        self.outcomes
            .last_key_value()
            .map_or_else(Base::default, |(slot, digest)| Base { slot: *slot, digest: *digest })
    }

    /// Loses what is not durable.
    pub(crate) fn cut(&mut self) {
        self.protocol = None;
        self.epoch += 1;
        self.outbox.clear();
        self.timers.clear();
        self.decided.clear();
        self.executing = false;
    }

    /// Makes a record durable, as a log gives it back.
    pub(crate) fn write(&mut self, record: &P::Record) {
        let record = through_bytes(record);
        self.durable.push(record.clone());
        self.written.push(record);
    }

    /// Replaces the log by the journal of the present state, which includes the records that still wait, as a host does.
    pub(crate) fn compact(&mut self) {
        let Some(protocol) = &self.protocol else { return };
        self.durable = protocol.journal().iter().map(through_bytes).collect();
        self.written.extend(self.outbox.unwritten());
    }

    /// A client's batch arrives.
    pub(crate) fn take(&mut self, batch: Batch) {
        self.pool.push_back((self.arrived, batch));
        self.arrived += 1;
    }

    /// Batch to propose now. A protocol whose replicas have requests of their own keeps it; for others it stays in the pool.
    pub(crate) fn proposal(&mut self) -> Option<Batch> {
        let protocol = self.protocol.as_ref().filter(|protocol| protocol.room() > 0)?;
        if P::OWN_REQUESTS {
            return if self.outbox.is_empty() { self.pool.pop_front().map(|(_, batch)| batch) } else { None };
        }
        let fresh = self.pool.iter().find(|(_, batch)| !protocol.is_in_flight(batch.digest()));
        fresh.map(|(_, batch)| batch.clone())
    }

    /// Number of the oldest request without a place in the decided prefix. One that has a place waits for execution only.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let prefix = self.protocol.as_ref().map_or(0, Facts::decided);
        let ordered: Vec<&Batch> = self.decided.range(..=prefix).filter_map(|(_, batch)| batch.as_ref()).collect();
        self.pool.iter().find(|(_, batch)| !ordered.contains(&batch)).map(|(number, _)| *number)
    }

    /// Content of a slot, if it is decided and the next one to execute.
    pub(crate) fn executable(&mut self, slot: Slot) -> Option<Option<Batch>> {
        let batch = self.decided.remove(&slot)?;
        (slot == self.base().slot + 1).then_some(batch)
    }

    /// Has executed a slot.
    pub(crate) fn keep(&mut self, slot: Slot, batch: Option<Batch>, digest: B256) {
        self.outcomes.insert(slot, digest);
        self.pool.retain(|(_, waiting)| Some(waiting) != batch.as_ref());
        self.contents.insert(slot, batch);
    }

    /// Outcomes and contents up to a slot, for a replica that is behind.
    pub(crate) fn state(&self, slot: Slot) -> (BTreeMap<Slot, B256>, BTreeMap<Slot, Option<Batch>>) {
        let outcomes = self.outcomes.range(..=slot).map(|(at, digest)| (*at, *digest));
        let contents = self.contents.range(..=slot).map(|(at, batch)| (*at, batch.clone()));
        (outcomes.collect(), contents.collect())
    }

    /// Takes over the state at a slot.
    pub(crate) fn install(
        &mut self,
        slot: Slot,
        outcomes: BTreeMap<Slot, B256>,
        contents: BTreeMap<Slot, Option<Batch>>,
    ) {
        self.pool.retain(|(_, batch)| !contents.values().any(|content| content.as_ref() == Some(batch)));
        self.contents.extend(contents);
        self.outcomes.extend(outcomes);
        self.decided = self.decided.split_off(&(slot + 1));
    }
}

/// Digest of a slot's content.
pub(crate) fn content(batch: Option<&Batch>) -> B256 {
    batch.map_or(NULL, Batch::digest)
}

/// A record as a log gives it back.
fn through_bytes<R: PartialEq + alloy_rlp::Encodable + alloy_rlp::Decodable>(record: &R) -> R {
    let bytes = alloy_rlp::encode(record);
    let decoded = R::decode(&mut bytes.as_slice()).expect("encoded records decode");
    assert!(*record == decoded, "a record changes in the log");
    decoded
}
