//! Outputs of a host: records and other actions leave at once, effects and events once the records before them are durable.

use crate::{
    action::{Action, HostTimer},
    frame::Frame,
    record::HostRecord,
};
use phalanx_bft::{Micros, Out, Protocol, To};
use phalanx_pipeline::ConsensusEvent;
use std::collections::VecDeque;

pub(super) struct Outbox<P: Protocol> {
    actions: Vec<Action<P>>,
    /// Effects and events, each with the record that it waits for.
    effects: VecDeque<(u64, Out<P>)>,
    events: VecDeque<(u64, ConsensusEvent)>,
    appended: u64,
    durable: u64,
}

impl<P: Protocol> Default for Outbox<P> {
    fn default() -> Self {
        let (effects, events) = (VecDeque::new(), VecDeque::new());
        Self { actions: Vec::new(), effects, events, appended: 0, durable: 0 }
    }
}

impl<P: Protocol> Outbox<P> {
    pub(super) fn act(&mut self, action: Action<P>) {
        self.actions.push(action);
    }

    pub(super) fn send(&mut self, to: To, frame: Frame<P::Msg>) {
        self.act(Action::Send(to, frame));
    }

    pub(super) fn set(&mut self, timer: HostTimer<P::Timer>, after: Micros) {
        self.act(Action::Timer(timer, after));
    }

    pub(super) fn cancel(&mut self, timer: HostTimer<P::Timer>) {
        self.act(Action::Cancel(timer));
    }

    /// Appends a record, which effects and events after it wait for.
    pub(super) fn append(&mut self, record: HostRecord<P::Record>) {
        self.appended += 1;
        self.act(Action::Append(self.appended, record));
    }

    pub(super) fn defer(&mut self, effect: Out<P>) {
        self.effects.push_back((self.appended, effect));
    }

    pub(super) fn notify(&mut self, event: ConsensusEvent) {
        self.events.push_back((self.appended, event));
    }

    /// Number of the last record.
    pub(super) const fn appended(&self) -> u64 {
        self.appended
    }

    /// Every record up to this number is durable.
    pub(super) fn note_durable(&mut self, number: u64) {
        self.durable = self.durable.max(number);
    }

    /// The next effect whose record is durable.
    pub(super) fn next_effect(&mut self) -> Option<Out<P>> {
        self.effects.pop_front_if(|(after, _)| *after <= self.durable).map(|(_, effect)| effect)
    }

    /// The next event whose record is durable.
    pub(super) fn next_event(&mut self) -> Option<ConsensusEvent> {
        self.events.pop_front_if(|(after, _)| *after <= self.durable).map(|(_, event)| event)
    }

    pub(super) fn take(&mut self) -> Vec<Action<P>> {
        core::mem::take(&mut self.actions)
    }
}
