//! From cuts to blocks: slots in order, lanes by number, cars by position.

use super::{replica::Autobahn, state::Planned};
use crate::{
    core::{Index, Out, Outs, Slot, View},
    lanes::{Car, Missing, Tip, blocks},
};
use alloy_primitives::B256;

impl Autobahn {
    /// Turns decided cuts into blocks as far as their cars are here, and foresees those of proposals.
    pub(super) fn advance(&mut self, out: &mut Outs<Self>) {
        self.foresee(out);
        while let Some(planned) = self.plan.first() {
            let decided = self.slots.get(&planned.slot).and_then(|state| state.instance.committed.as_ref());
            if decided.is_none_or(|qc| qc.digest != planned.digest) {
                break;
            }
            let Planned { slot, first, blocks, frontier, .. } = self.plan.remove(0);
            for (height, block) in (first..).zip(blocks) {
                self.height = height;
                out.push(Out::Decided { slot: height, batch: Some(block) });
            }
            for (lane, tip) in (0..).map(Index).zip(frontier) {
                self.lanes.commit(lane, tip);
            }
            self.done = slot;
            self.pass(slot, out);
            for lane in self.config.quorums.replicas() {
                let taken = self.lanes.follow(lane);
                self.on_taken(lane, taken, None, out);
            }
        }
    }

    /// The value that a slot has or probably gets, and the view of this replica's order vote on it.
    fn foreseen(&self, slot: Slot) -> Option<(B256, bool, Option<View>)> {
        let instance = &self.slots.get(&slot)?.instance;
        let acked = |digest| instance.locked.as_ref().filter(|qc| qc.digest == digest).and(instance.acked);
        match &instance.committed {
            Some(qc) => Some((qc.digest, true, acked(qc.digest))),
            None => instance.vote().get().map(|(_, digest)| (digest, false, acked(digest))),
        }
    }

    fn foresee(&mut self, out: &mut Outs<Self>) {
        let mut frontier = self.lanes.frontier();
        let mut height = self.height;
        let mut slot = self.done + 1;
        let mut at = 0;
        while let Some((digest, decided, acked)) = self.foreseen(slot) {
            if self.plan.get(at).is_some_and(|planned| planned.digest != digest) {
                self.plan.truncate(at);
            }
            if self.plan.len() == at {
                let Some(cut) = self.slots.get(&slot).and_then(|state| state.cuts.get(&digest)).cloned() else { break };
                let gathered = match self.gather(&frontier, &cut) {
                    Ok(cars) => Ok(blocks(cars, self.config.block_bytes)),
                    Err(missing) => Err(missing),
                };
                match gathered {
                    Ok(blocks) => {
                        let after = frontier
                            .iter()
                            .zip(&cut)
                            .map(|(known, tip)| if tip.position > known.position { *tip } else { *known });
                        let frontier = after.collect();
                        let view = self.view_of(slot);
                        for (height, block) in (height + 1..).zip(&blocks) {
                            out.push(Out::Proposed { slot: height, view, batch: Some(block.clone()) });
                        }
                        self.plan.push(Planned { slot, digest, first: height + 1, blocks, frontier, voted: None });
                    }
                    Err(missing) => {
                        // Missing data of a cut that is certified is fetched beside the agreement.
                        if decided || self.slots.get(&slot).is_some_and(|state| !state.instance.is_open(&self.config)) {
                            missing.into_iter().for_each(|missing| self.ask(missing, None, out));
                        }
                        break;
                    }
                }
            }
            let Some(planned) = self.plan.get_mut(at) else { break };
            if let Some(view) = acked.filter(|view| planned.voted != Some(*view)) {
                planned.voted = Some(view);
                let heights = planned.first..planned.first + planned.blocks.len() as u64;
                out.extend(heights.map(|slot| Out::OrderVoted { slot, view }));
            }
            height += planned.blocks.len() as u64;
            frontier.clone_from(&planned.frontier);
            (slot, at) = (slot + 1, at + 1);
        }
    }

    /// New cars of a cut above a frontier, in their order.
    fn gather(&self, frontier: &[Tip], cut: &[Tip]) -> Result<Vec<&Car>, Vec<Missing>> {
        let mut cars = Vec::new();
        let mut missing = Vec::new();
        #[cfg_attr(not(feature = "mutations"), expect(unused_mut, reason = "a mutation reorders"))]
        let mut lanes: Vec<Index> = self.config.quorums.replicas().collect();
        #[cfg(feature = "mutations")]
        if self.config.breaks(super::config::Mutation::OwnLaneFirst) {
            lanes.rotate_left(usize::from(self.me.0));
        }
        for lane in lanes {
            let (Some(known), Some(tip)) = (frontier.get(usize::from(lane.0)), cut.get(usize::from(lane.0))) else {
                continue;
            };
            if tip.position <= known.position {
                continue;
            }
            match self.lanes.walk(lane, *tip, known.position) {
                Ok(new) => cars.extend(new),
                Err(lacks) => missing.push(lacks),
            }
        }
        if missing.is_empty() { Ok(cars) } else { Err(missing) }
    }
}
