//! Rules by which a validator moves, votes and proposes.

use super::{Msg, Out, Record, Replica, Slot, replica::AHEAD};
use phalanx_engine_api::BlockId;

/// Number of views ahead of the current one that a leader proposes for.
const OPTIMISM: u64 = 4;

impl Replica {
    /// Does everything that can be done now.
    pub(super) fn advance(&mut self, out: &mut Vec<Out>) {
        loop {
            self.vote(out);
            let done = self.notarised.contains_key(&self.view) || self.nullified.contains(&self.view);
            if !done {
                break;
            }
            self.enter(self.view + 1, out);
        }
        self.order_vote(out);
        self.lead(out);
    }

    /// Votes once per view, for the first block that follows a notarised one.
    fn vote(&mut self, out: &mut Vec<Out>) {
        let view = self.view;
        if self.voted.contains_key(&view) || self.gave_up.contains(&view) {
            return;
        }
        let proposals = self.proposals.get(&view).into_iter().flatten();
        let id = proposals.copied().find(|id| self.follows(*id));
        if let Some(block) = id.and_then(|id| self.blocks.get(&id)).cloned() {
            let id = block.id;
            self.voted.insert(view, id);
            out.push(Out::Persist(Record::Voted(block)));
            out.push(Out::Broadcast(Msg::Vote(view, id)));
        }
    }

    /// True if the block builds on a notarised one and all views between are nullified.
    fn follows(&self, id: BlockId) -> bool {
        let Some(block) = self.blocks.get(&id) else { return false };
        let between = (block.parent_view + 1..block.view).all(|view| self.nullified.contains(&view));
        self.notarised.get(&block.parent_view) == Some(&block.parent)
            && between
            && self.height(block.parent).is_some_and(|height| block.env.height == height + 1)
    }

    fn height(&self, id: BlockId) -> Option<u64> {
        if id == self.ordered.2 {
            return Some(self.ordered.1);
        }
        self.blocks.get(&id).map(|block| block.env.height)
    }

    /// Sends an order vote for every notarised view that this validator has not given up.
    fn order_vote(&mut self, out: &mut Vec<Out>) {
        let due: Vec<(u64, BlockId)> = self
            .notarised
            .range(self.ordered.0 + 1..)
            .filter(|(view, _)| !self.order_voted.contains_key(view) && !self.gave_up.contains(view))
            .map(|(view, id)| (*view, *id))
            .collect();
        for (view, id) in due {
            self.order_voted.insert(view, id);
            out.push(Out::Persist(Record::OrderVoted(view, id)));
            out.push(Out::OrderVoted(id));
            out.push(Out::Broadcast(Msg::OrderVote(view, id)));
        }
    }

    /// Requests a block for every view that this validator leads: the current one on a notarised block, later ones on a
    /// seen block.
    fn lead(&mut self, out: &mut Vec<Out>) {
        let settings = self.settings;
        if settings.leader(self.view) == self.me
            && !self.voted.contains_key(&self.view)
            && !self.gave_up.contains(&self.view)
            && let Some((parent_view, parent)) = self.notarised_parent()
        {
            self.ask(self.view, parent_view, parent, out);
        }
        if !settings.optimistic_proposals {
            return;
        }
        let seen: Vec<(u64, BlockId)> = self
            .proposals
            .range(self.view..=self.view + OPTIMISM.min(AHEAD))
            .filter(|(view, _)| settings.leader(**view + 1) == self.me)
            .filter_map(|(view, ids)| ids.first().map(|id| (*view, *id)))
            .collect();
        for (view, id) in seen {
            // Only the first time: after a failure, blocks build on a notarised one.
            if self.proposed.get(&(view + 1)).is_none_or(|parents| parents.is_empty()) {
                self.ask(view + 1, view, id, out);
            }
        }
    }

    /// Notarised block behind nothing but nullified views.
    fn notarised_parent(&self) -> Option<(u64, BlockId)> {
        let mut view = self.view;
        while view > 0 {
            view -= 1;
            if let Some(id) = self.notarised.get(&view) {
                return Some((view, *id));
            }
            if !self.nullified.contains(&view) {
                return None;
            }
        }
        None
    }

    fn ask(&mut self, view: u64, parent_view: u64, parent: BlockId, out: &mut Vec<Out>) {
        let Some(height) = self.height(parent).map(|height| height + 1) else { return };
        let parents = self.proposed.entry(view).or_default();
        if !parents.insert(parent) {
            return;
        }
        let failed = self.blocks.values().filter(|b| b.parent == parent && b.view < view && b.env.height == height);
        let again = failed.max_by_key(|block| block.view).cloned();
        out.push(Out::Build(Slot { view, parent, parent_view, height, again }));
    }
}
