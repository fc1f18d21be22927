//! The load of the kernels: access sets, their digests, and blocks of them.

use super::sets;
use crate::{bench::input, config::LoadConfig, machine::memory, ui::Ui};
use phalanx::{
    BlockLimits,
    access::{Access, AccessSets, Interner, Key as _, KeyId, Salt},
    paraframer::{BlockFormer, Formed, Framer, FramerConfig},
    paralyze::StateKey,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Bytes per transaction: transaction, access set, digests, ids and DAG node, at their peak.
const TX_BYTES: u64 = 1000;

/// Access sets of the load.
pub(super) struct Load {
    pub(super) sets: AccessSets<StateKey>,
    /// Digests of the sets' keys.
    pub(super) flat: Vec<(u64, Access)>,
    pub(super) salt: Salt,
}

impl Load {
    pub(super) fn new(load: &LoadConfig, ui: &Ui) -> anyhow::Result<Self> {
        let left = memory::memory_beside(load.txs.saturating_mul(TX_BYTES))?;
        let transfers = phalanx_workloads::TransferLoad { memory_limit: Some(left), ..load.transfers() };
        let workload = load.workload(transfers, &|_| ())?;
        let txs = input::transactions(&*workload, load.txs, ui)?;
        let salt = Salt::new(load.seed);
        let sets = sets::access_sets(&txs);
        let flat = sets.iter().flatten().map(|(key, access)| (key.digest(&salt), *access)).collect();
        Ok(Self { sets, flat, salt })
    }
}

/// Parallelism of an order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Parallelism {
    /// Transactions ÷ frames.
    pub(super) tlp_frames: f64,
    /// Transactions ÷ critical path.
    pub(super) tlp_dag: f64,
}

impl Parallelism {
    pub(super) fn new(txs: usize, frames: usize, critical_path: usize) -> Self {
        let over = |count: usize| txs as f64 / count.max(1) as f64;
        Self { tlp_frames: over(frames), tlp_dag: over(critical_path) }
    }
}

/// Transactions of each block that the framer makes, and the number of all frames.
pub(super) fn frame(
    sets: &AccessSets<StateKey>,
    digests: &[(u64, Access)],
    limits: BlockLimits,
) -> (Vec<Vec<u32>>, usize) {
    let mut framer = Framer::new(FramerConfig::default());
    let mut former = BlockFormer::new(limits);
    let (mut blocks, mut frames) = (Vec::new(), 0);
    let mut collect = |formed: Formed<'_, u32>| {
        if let Formed::Block(block) = formed {
            blocks.push(block.txs.to_vec());
        }
    };
    for tx in 0..sets.len() {
        let keys = &digests[sets.range(tx)];
        framer.push(tx as u32, keys[0].0, 0, keys, &mut |frame| {
            frames += 1;
            former.push(&frame, |_| 0, &mut collect);
        });
    }
    framer.flush(&mut |frame| {
        frames += 1;
        former.push(&frame, |_| 0, &mut collect);
    });
    former.flush(&mut collect);
    (blocks, frames)
}

/// Access sets of some transactions over dense ids.
pub(super) fn intern(
    interner: &mut Interner<StateKey>,
    sets: &AccessSets<StateKey>,
    digests: &[(u64, Access)],
    order: &[u32],
) -> AccessSets<KeyId> {
    let mut ids = AccessSets::new();
    for tx in order {
        let range = sets.range(*tx as usize);
        for ((key, access), (digest, _)) in sets.entries()[range.clone()].iter().zip(&digests[range]) {
            ids.add(interner.intern_digested(key, *digest), *access);
        }
        ids.close();
    }
    ids
}
