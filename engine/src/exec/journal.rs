//! revm's journal between transactions.

use revm::state::EvmState;

/// Maximum capacity of a map that is cleared; a larger one is dropped, since clearing costs its capacity every time.
const KEPT_STATE_CAPACITY: usize = 1 << 10;

/// Empties the map and keeps its memory, unless a transaction has grown it too far.
pub(crate) fn clear(state: &mut EvmState) {
    if state.capacity() > KEPT_STATE_CAPACITY {
        *state = EvmState::default();
    } else {
        state.clear();
    }
}
