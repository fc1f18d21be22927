//! Power cuts, between any two steps and behind any write.

use super::state::Node;
use crate::{
    machine::Machine,
    setup::Crash,
    shared::{Event, Shared},
};
use phalanx_engine_api::desk::JobKind;

impl<M: Machine> Node<M> {
    /// Cuts the power. A suffix of the unsynced data may be lost.
    pub(crate) fn cut(&mut self, pause: u64, shared: &mut Shared) {
        let Some(workshop) = self.workshop.take() else { return };
        self.epoch += 1;
        self.todo.clear();
        self.machine.cut(workshop, &mut shared.rng);
        let keep = self.synced + shared.rng.below((self.log.len() - self.synced) as u64 + 1) as usize;
        self.log.truncate(keep);
        self.synced = self.log.len();
        shared.queue.after(pause.max(1), Event::Up(self.index));
    }

    /// Returns true if the power is cut here, between two steps.
    pub(super) fn step(&mut self, shared: &mut Shared) -> bool {
        self.steps += 1;
        let steps = self.steps;
        self.cut_if(shared, |crash| match *crash {
            Crash::Step { node, step, pause } if step == steps => Some((node, pause)),
            _ => None,
        })
    }

    /// Returns true if the power is cut here, after a write that was not reported.
    pub(super) fn written(&mut self, kind: JobKind, shared: &mut Shared) -> bool {
        if !matches!(kind, JobKind::Stage | JobKind::Commit) {
            return false;
        }
        self.writes += 1;
        let writes = self.writes;
        self.cut_if(shared, |crash| match *crash {
            Crash::Write { node, write, pause } if write == writes => Some((node, pause)),
            _ => None,
        })
    }

    /// Cuts the power if one of the crashes is due. `due` gives the node and the pause.
    fn cut_if(&mut self, shared: &mut Shared, due: impl Fn(&Crash) -> Option<(u32, u64)>) -> bool {
        let here = |crash: &Crash| due(crash).filter(|(node, _)| *node == self.index).map(|(_, pause)| pause);
        let pause = shared.setup.crashes.iter().find_map(here);
        if let Some(pause) = pause {
            self.cut(pause, shared);
        }
        pause.is_some()
    }
}
