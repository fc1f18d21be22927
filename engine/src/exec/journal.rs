//! revm's journal between transactions.

use revm::state::EvmState;

/// A map that grew beyond this is dropped rather than cleared: clearing costs its capacity, every time.
const KEPT_STATE_CAPACITY: usize = 1 << 10;

/// Empties the map and keeps its memory, unless one transaction has blown it up.
pub(crate) fn clear(state: &mut EvmState) {
    if state.capacity() > KEPT_STATE_CAPACITY {
        *state = EvmState::default();
    } else {
        state.clear();
    }
}
