//! Decides which branch wins, and drops the others.

use super::state::{Pipeline, bounded};
use crate::event::Effect;
use alloy_primitives::Bytes;
use phalanx_engine_api::{BlockId, ExecId, FatalCause};
use std::collections::BTreeSet;

impl Pipeline {
    /// Marks a block and its ancestors as decided.
    pub(super) fn order(&mut self, id: BlockId, height: u64, proof: Option<Bytes>, out: &mut Vec<Effect>) {
        if height <= self.committed.height {
            // A repetition; or a fork, if another block is known at this height.
            if self.recent.iter().any(|recent| recent.height == height && recent.id != id) {
                self.fork(height, id, out);
            }
            return;
        }
        self.announce(height);
        let Some(block) = self.blocks.get_mut(&id) else {
            if let Some(proof) = proof {
                bounded(&mut self.early.orders, id, (height, proof));
            }
            return;
        };
        if block.order_proof.is_none() {
            block.order_proof = proof;
        }
        if !block.decided {
            self.unlinked.insert(id, height);
            self.link(out);
        }
    }

    /// Follows decided blocks down to the committed one. Blocks with gaps below stay in `unlinked`.
    pub(super) fn link(&mut self, out: &mut Vec<Effect>) {
        let mut waiting: Vec<(u64, BlockId)> = self.unlinked.iter().map(|(id, height)| (*height, *id)).collect();
        waiting.sort_unstable();
        for (_, id) in waiting {
            let Some(path) = self.path_to(id, out) else { continue };
            self.unlinked.remove(&id);
            for id in path {
                let Some(block) = self.blocks.get_mut(&id) else { continue };
                block.decided = true;
                let height = block.meta.height;
                let rival = self.blocks.values().any(|b| b.meta.height == height && b.decided && b.meta.id != id);
                if rival {
                    self.fork(height, id, out);
                    return;
                }
                if self.decided.is_none_or(|(highest, _)| height > highest) {
                    self.decided = Some((height, id));
                }
            }
            self.drop_losers(out);
        }
    }

    /// Path from `id` down to the first block that is decided already or builds on the committed one.
    fn path_to(&mut self, id: BlockId, out: &mut Vec<Effect>) -> Option<Vec<BlockId>> {
        let mut path = Vec::new();
        let mut at = id;
        loop {
            let block = self.blocks.get(&at)?;
            if block.decided {
                return Some(path);
            }
            path.push(at);
            if block.meta.parent == self.committed.block && block.meta.height == self.committed.height + 1 {
                return Some(path);
            }
            if block.meta.height <= self.committed.height + 1 {
                let height = block.meta.height;
                self.fork(height, at, out);
                return None;
            }
            at = block.meta.parent;
        }
    }

    /// Drops the blocks that neither lead to the newest decided block nor build on it, here and in the engine.
    fn drop_losers(&mut self, out: &mut Vec<Effect>) {
        let Some((_, tip)) = self.decided else { return };
        let mut alive: BTreeSet<BlockId> = BTreeSet::new();
        let mut at = tip;
        while let Some(block) = self.blocks.get(&at) {
            alive.insert(at);
            at = block.meta.parent;
        }
        let decided = self.blocks.get(&tip).map_or(0, |block| block.meta.height);
        for (height, id) in &self.by_height {
            // Above the tip, a block that cannot be linked yet may still belong to the winning branch.
            let Some(block) = self.blocks.get(id) else { continue };
            let orphan = !self.blocks.contains_key(&block.meta.parent);
            if *height > decided && (alive.contains(&block.meta.parent) || (orphan && *height > decided + 1)) {
                alive.insert(*id);
            }
        }
        self.forget(|id| !alive.contains(id), out);
    }

    /// Drops a block and its descendants: consensus proves that they cannot win.
    pub(super) fn abandon(&mut self, id: BlockId, out: &mut Vec<Effect>) {
        let Some(block) = self.blocks.get(&id) else { return };
        if block.decided || self.unlinked.contains_key(&id) || block.certificate.is_some() {
            let height = block.meta.height;
            self.halt(FatalCause::Contradiction { height }, Some(id), None, out);
            return;
        }
        let mut lost = BTreeSet::from([id]);
        for (_, id) in &self.by_height {
            if self.blocks.get(id).is_some_and(|block| lost.contains(&block.meta.parent)) {
                lost.insert(*id);
            }
        }
        self.forget(|id| lost.contains(id), out);
    }

    /// Stops tracking blocks. The engine is told what to keep if it still works on an execution that no block needs.
    pub(super) fn forget(&mut self, lost: impl Fn(&BlockId) -> bool, out: &mut Vec<Effect>) {
        let gone: Vec<BlockId> = self.blocks.keys().filter(|id| lost(id)).copied().collect();
        if gone.is_empty() {
            return;
        }
        for id in &gone {
            if let Some(block) = self.blocks.remove(id) {
                self.by_height.remove(&(block.meta.height, *id));
                self.unlinked.remove(id);
            }
        }
        if self.sweep() {
            let ticket = self.next();
            let leaves: Vec<ExecId> = self.works.iter().filter(|(_, work)| work.is_live()).map(|(id, _)| *id).collect();
            out.push(Effect::KeepOnly(ticket, leaves));
        }
    }

    /// Drops executions and payloads that no block needs. Returns true if the engine held one of the executions.
    pub(super) fn sweep(&mut self) -> bool {
        let execs: BTreeSet<ExecId> = self.blocks.values().filter_map(|block| block.exec).collect();
        let payloads: BTreeSet<_> = self.blocks.values().map(|block| block.payload).collect();
        let mut live = false;
        self.works.retain(|id, work| {
            let keep = execs.contains(id);
            live |= !keep && work.is_live();
            keep
        });
        self.payloads.retain(|digest, _| payloads.contains(digest));
        self.requested.payloads.retain(|digest| payloads.contains(digest));
        live
    }
}
