//! What a disk holds after whatever happened to it.

use super::{Block, Inner, Phase, Row, Staging};
use crate::model::{
    Costs, Disk,
    disk::{Record, Staged},
    state::State,
};
use phalanx_engine_api::{CommitMeta, ExecId, Limits, Priority, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// What a block of a committed path is stored with: the tip's proofs, its own name and cursor.
pub(super) fn own_meta(meta: &CommitMeta, place: usize, length: usize) -> CommitMeta {
    let below = (length - 1).saturating_sub(place) as u64;
    let block = meta.ancestors.get(place).copied().unwrap_or(meta.block);
    CommitMeta { block, ancestors: Vec::new(), cursor: meta.cursor.saturating_sub(below), ..meta.clone() }
}

impl Inner {
    pub(in crate::model) fn open(chain: u64, limits: Limits, costs: Costs, mut disk: Disk) -> Self {
        let genesis = Row { exec: ExecId::GENESIS, state: State::genesis(), meta: CommitMeta::default() };
        let mut rows = BTreeMap::from([(0, genesis)]);
        let mut staged: BTreeMap<ExecId, Staged> = BTreeMap::new();
        let mut finalised = 0;
        for record in disk.replay() {
            match record {
                Record::Staged(block) => drop(staged.insert(block.candidate.id(), (**block).clone())),
                Record::Committed { path, meta } => {
                    for (place, id) in path.iter().enumerate() {
                        if let Some(block) = staged.get(id) {
                            let row =
                                Row { exec: *id, state: block.state.clone(), meta: own_meta(meta, place, path.len()) };
                            rows.insert(block.candidate.env().height, row);
                        }
                    }
                }
                Record::Rewound { height } => {
                    rows.split_off(&(height + 1));
                }
                Record::Finalised { height } => finalised = *height,
            }
        }
        let mut engine = Self {
            chain,
            limits,
            costs,
            disk,
            rows,
            finalised,
            blocks: BTreeMap::new(),
            commit: None,
            busy: [None; 4],
            serial: 0,
            resting: None,
            rest_reported: false,
            events: VecDeque::new(),
            waker: None,
            diverge_at: None,
        };
        engine.readmit(staged.into_values().collect());
        engine
    }

    /// Takes back staged blocks that still build on what is committed, parents first. The rest is garbage.
    fn readmit(&mut self, mut staged: Vec<Staged>) {
        staged.sort_by_key(|block| (block.candidate.env().height, block.candidate.id()));
        for Staged { candidate, state, outcome } in staged {
            if candidate.env().height > self.height() && self.knows(candidate.parent()) {
                let block = Block {
                    priority: Priority::Speculative,
                    ticket: Ticket::default(),
                    arrival: self.next(),
                    phase: Phase::Rooted,
                    result: Some((state, outcome)),
                    staging: Staging::Done,
                    candidate,
                };
                self.blocks.insert(block.candidate.id(), block);
            }
        }
    }
}
