//! The committed state: keys, values and key order, resident in memory or paged in from the log, behind one trait.

mod committed;
mod paged;
mod resident;
mod view;
mod digester;

pub(crate) use resident::MAX_KEYS;

pub(crate) use committed::State;
pub(crate) use digester::KeyDigester;
pub(crate) use paged::{
    Ahead, Arena, Extents, Keys, Later, Paged, PositionChange, Reads, Session, SortedKeys, UnwrittenExtents, Wait,
    slot_of,
};
pub(crate) use resident::{KEY_ORDER_LOOKAHEAD, PackedWritten, Part, Resident, Run};
pub(crate) use view::{BaseState, StateView};
