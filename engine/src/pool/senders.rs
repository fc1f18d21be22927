//! Queues of all senders, by address and by number.

use super::{
    lane::SenderId,
    queue::{Queue, Seat},
};
use alloy_primitives::{Address, map::AddressMap};
use core::ops::{Index, IndexMut};

/// Non-empty queues. A number is free again when its queue becomes empty, so there are as many slots as there were
/// senders at a time.
#[derive(Debug, Default)]
pub(super) struct Senders {
    ids: AddressMap<SenderId>,
    queues: Vec<Queue>,
    free: Vec<SenderId>,
}

impl Senders {
    pub(super) fn find(&self, address: &Address) -> Option<SenderId> {
        self.ids.get(address).copied()
    }

    pub(super) fn get(&self, address: &Address) -> Option<&Queue> {
        self.find(address).map(|id| &self[id])
    }

    /// Queue of a sender, created from `seat` if there is none.
    pub(super) fn open(&mut self, address: Address, seat: Seat) -> SenderId {
        let Self { ids, queues, free } = self;
        *ids.entry(address).or_insert_with(|| match free.pop() {
            Some(id) => {
                queues[id.index()].reset(address, seat);
                id
            }
            None => {
                queues.push(Queue::new(address, seat));
                SenderId(queues.len() as u32 - 1)
            }
        })
    }

    /// Removes a sender whose queue has become empty.
    pub(super) fn close(&mut self, id: SenderId) {
        if self.ids.remove(self.queues[id.index()].address()).is_some() {
            self.free.push(id);
        }
    }

    /// Iterates over all non-empty queues.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SenderId, &Queue)> {
        let numbered = (0..).map(SenderId).zip(&self.queues);
        numbered.filter(|(_, queue)| !queue.is_empty())
    }
}

impl Index<SenderId> for Senders {
    type Output = Queue;

    fn index(&self, id: SenderId) -> &Queue {
        &self.queues[id.index()]
    }
}

impl IndexMut<SenderId> for Senders {
    fn index_mut(&mut self, id: SenderId) -> &mut Queue {
        &mut self.queues[id.index()]
    }
}
