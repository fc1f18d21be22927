//! Rules by which a replica moves, votes and proposes.

use super::{
    block::{Content, Kept, Note, Place},
    replica::{AHEAD, Act, Due, Replica},
};
use alloy_primitives::B256;

/// Number of views ahead of the current one that a leader proposes for.
const OPTIMISM: u64 = 4;

impl<C: Content> Replica<C> {
    /// Does everything that can be done now.
    pub(super) fn advance(&mut self, out: &mut Vec<Act<C>>) {
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
    fn vote(&mut self, out: &mut Vec<Act<C>>) {
        let view = self.view;
        if self.voted.contains_key(&view) || self.gave_up.contains(&view) {
            return;
        }
        let proposals = self.proposals.get(&view).into_iter().flatten();
        let id = proposals.copied().find(|id| self.follows(*id));
        if let Some(block) = id.and_then(|id| self.blocks.get(&id)).cloned() {
            let id = block.id;
            self.voted.insert(view, id);
            out.push(Act::Persist(Kept::Voted(block)));
            out.push(Act::Broadcast(Note::Vote(view, id)));
        }
    }

    /// True if the block builds on a notarised one and all views between are nullified.
    pub(super) fn follows(&self, id: B256) -> bool {
        let Some(block) = self.blocks.get(&id) else { return false };
        let between = (block.place.parent_view + 1..block.place.view).all(|view| self.nullified.contains(&view));
        self.notarised.get(&block.place.parent_view) == Some(&block.place.parent)
            && between
            && self.height(block.place.parent).is_some_and(|height| block.place.height == height + 1)
    }

    fn height(&self, id: B256) -> Option<u64> {
        if id == self.ordered.2 {
            return Some(self.ordered.1);
        }
        self.blocks.get(&id).map(|block| block.place.height)
    }

    /// Sends an order vote for every notarised view that this replica has not given up.
    fn order_vote(&mut self, out: &mut Vec<Act<C>>) {
        let due: Vec<(u64, B256)> = self
            .notarised
            .range(self.ordered.0 + 1..)
            .filter(|(view, _)| !self.order_voted.contains_key(view) && !self.gave_up.contains(view))
            .map(|(view, id)| (*view, *id))
            .collect();
        for (view, id) in due {
            self.order_voted.insert(view, id);
            out.push(Act::Persist(Kept::OrderVoted(view, id)));
            out.push(Act::OrderVoted(id));
            out.push(Act::Broadcast(Note::OrderVote(view, id)));
        }
    }

    /// Requests a block for every view that this replica leads: the current one on a notarised block, later ones on a
    /// seen block.
    fn lead(&mut self, out: &mut Vec<Act<C>>) {
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
        let seen: Vec<(u64, B256)> = self
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
    pub(super) fn notarised_parent(&self) -> Option<(u64, B256)> {
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

    fn ask(&mut self, view: u64, parent_view: u64, parent: B256, out: &mut Vec<Act<C>>) {
        let Some(height) = self.height(parent).map(|height| height + 1) else { return };
        let parents = self.proposed.entry(view).or_default();
        if !parents.insert(parent) {
            return;
        }
        let failed = self
            .blocks
            .values()
            .filter(|b| b.place.parent == parent && b.place.view < view && b.place.height == height);
        let again = failed.max_by_key(|block| block.place.view).cloned();
        let place = Place { view, parent, parent_view, author: self.me, height };
        out.push(Act::Build(Due { place, again }));
    }
}
