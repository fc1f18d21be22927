//! The committed state.

mod committed;
mod paged;
mod resident;
mod view;
mod digester;

pub(crate) use resident::MAX_KEYS;

pub(crate) use committed::State;
pub(crate) use digester::Keyed;
pub(crate) use paged::{Arena, Extents, FreshExtents, Keys, Paged, Session, Step, Wait, slot_of};
pub(crate) use resident::{AHEAD, Packed, Part, Resident, Run};
pub(crate) use view::{Base, Ground};
