//! What it shows.

use super::{Inner, Phase, Staging};
use crate::model::state::State;
use alloy_primitives::{Address, B256};
use phalanx_engine_api::{Budget, Committed, EngineStatus, Failure, Pressure, RetryCause, ViewAt};
use std::collections::BTreeMap;

impl Inner {
    pub(in crate::model) fn status(&self) -> EngineStatus {
        let (height, row) = self.tip();
        let committed = row.committed(height);
        let mut staged: Vec<_> = self
            .blocks
            .iter()
            .filter(|(_, block)| block.staging == Staging::Done)
            .map(|(id, block)| (block.candidate.env().height, *id))
            .collect();
        staged.sort_unstable();
        EngineStatus { chain: self.chain, committed, finalised: self.finalised, staged }
    }

    pub(in crate::model) fn pressure(&self) -> Pressure {
        let unexecuted = self.blocks.values().filter(|block| block.phase < Phase::Executed).count() as u32;
        let uncommitted = self.blocks.len() as u32 - unexecuted;
        Pressure { unexecuted, uncommitted, propose: Budget::UNLIMITED }
    }

    pub(in crate::model) fn committed_at(&self, height: u64) -> Option<Committed> {
        self.rows.get(&height).map(|row| row.committed(height))
    }

    /// Height, root and counters of a state.
    pub(in crate::model) fn accounts(&self, at: ViewAt) -> Result<(u64, B256, BTreeMap<Address, u64>), Failure> {
        let path = match at {
            ViewAt::Committed => Vec::new(),
            ViewAt::Exec(id) if id == self.tip().1.exec => Vec::new(),
            ViewAt::Exec(id) => self.path(id)?,
        };
        let mut accounts = BTreeMap::new();
        let mut apply = |state: &State| {
            for (address, count) in &state.writes {
                *accounts.entry(*address).or_insert(0) += count;
            }
        };
        self.rows.values().for_each(|row| apply(&row.state));
        let mut root = self.tip().1.state.root;
        for id in &path {
            let result = self.blocks.get(id).and_then(|block| block.result.as_ref());
            let (state, _) = result.ok_or(Failure::Retry(RetryCause::NotReady(*id)))?;
            apply(state);
            root = state.root;
        }
        Ok((self.height() + path.len() as u64, root, accounts))
    }
}
