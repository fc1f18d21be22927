//! State that a block in a given order runs on, and the executor that runs it.

use super::Engine;
use crate::{
    exec::{context::ExecResources, dispatch::Executors},
    model::Executor,
    state::{Foreign, State, StateRef},
};

/// Setting of a block. Together with the engine's own state it says all that differs between runs of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'f> {
    /// Database under the block; `None` for the engine's own state.
    pub(super) foreign: Option<&'f Foreign<'f>>,
    pub(super) executor: Executor,
    /// True if the block's changes are all there is: then the root can be computed beside an execution on a list.
    pub(super) is_complete: bool,
}

impl Setting<'_> {
    /// State under the block.
    pub(super) const fn state<'s>(self, own: &'s State) -> StateRef<'s>
    where
        Self: 's,
    {
        match self.foreign {
            Some(foreign) => StateRef::Foreign(foreign),
            None => StateRef::Own(own),
        }
    }
}

impl Engine {
    /// Setting of a block on the engine's own state.
    pub(super) const fn own_setting(&self) -> Setting<'static> {
        Setting { foreign: None, executor: self.executor, is_complete: true }
    }

    /// Splits the engine like [`Self::split`], for a block in this setting.
    pub(super) fn split_for<'e>(&'e mut self, setting: Setting<'e>) -> (ExecResources<'e>, &'e mut Executors) {
        let (resources, executors) = self.split();
        let state = setting.foreign.map_or(resources.state, StateRef::Foreign);
        // Edits are of the engine's own chain.
        let edits = setting.foreign.map_or(resources.edits, |_| &[]);
        (ExecResources { state, executor: setting.executor, edits, ..resources }, executors)
    }
}
