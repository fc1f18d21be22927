//! Announces a whole block that is executed later, for a validator whose state is larger than memory.

use super::Engine;
use crate::{
    bal::List,
    model::{Hints, RecoveredBlock},
};

impl Engine {
    /// Announces a block that is executed after others: if the engine's state is on disk, the values that the hints name, or the
    /// transactions themselves where there are none, are read meanwhile. Returns at once; no result depends on it, and for a
    /// resident state it does nothing.
    ///
    /// At most [`Tuning::read_ahead`](crate::Tuning::read_ahead) bytes of values are read ahead. Decoding an access list takes
    /// time in proportion to its length.
    pub fn announce_block(&self, payload: &RecoveredBlock<'_>, hints: Hints<'_>) {
        let state = &self.state;
        if !state.reads_ahead() {
            return;
        }
        match hints {
            // A list that is malformed names nothing; the block is refused when its turn comes.
            Hints::AccessList { rlp, hash } => {
                let list = List::decode(rlp, hash, payload, self.rules.chain.spec(payload.header));
                list.into_iter().for_each(|list| state.announce(&list.names()));
            }
            Hints::Sets(sets) => state.announce(sets.entries().iter().map(|(key, _)| key)),
            Hints::Predict | Hints::None | Hints::Exceptions(_) => state.announce_named(payload.txs.iter()),
        }
    }
}
