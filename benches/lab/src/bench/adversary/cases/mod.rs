//! Lists of transactions that are made to cost an engine more than they pay for.
//!
//! Each fills the gas of a block of any size, and no gas limit is above that of EIP-7825. `docs/reference/bounds-of-work.md`
//! says which bound each case tries.

mod unpaid;
mod codes;
mod conflicts;
mod declared;
mod calls;
mod hinted;
mod code;
mod case;

pub(crate) use case::{Case, Given, Lie, Size};

/// Makes a case of a size.
type Make = fn(Size) -> Case;

/// All cases by name. The first two are honest.
pub(super) const ALL: [(&str, Make); 35] = [
    ("transfers", calls::transfers),
    ("calls", calls::calls),
    ("swept", unpaid::swept),
    ("drained", unpaid::drained),
    ("drained-one-code", unpaid::drained_one_code),
    ("offered", unpaid::offered),
    ("gapped", unpaid::gapped),
    ("unfunded", unpaid::unfunded),
    ("invalid-last", unpaid::invalid_last),
    ("invalid-creations", unpaid::invalid_creations),
    ("cold-each", codes::cold_each),
    ("cold-many", codes::cold_many),
    ("delegations", codes::delegations),
    ("creations", codes::creations),
    ("hot-slot", conflicts::hot_slot),
    ("counted-slot", conflicts::counted_slot),
    ("counted-slot-late", conflicts::counted_slot_late),
    ("counted-account", conflicts::counted_account),
    ("declared-slots", declared::slots),
    ("declared-once", declared::once),
    ("declared-accounts", declared::accounts),
    ("calldata", declared::calldata),
    ("lone-transfers", calls::lone_transfers),
    ("lone-calls", calls::lone_calls),
    ("reverts", calls::reverts),
    ("deep-calls", calls::deep_calls),
    ("deep-reverts", calls::deep_reverts),
    ("parting-traces", calls::parting_traces),
    ("hash-chain", calls::hash_chain),
    ("mapping-slots", calls::mapping_slots),
    ("selectors", calls::selectors),
    ("false-sets", hinted::sets),
    ("false-exceptions", hinted::exceptions),
    ("false-list", hinted::last_change),
    ("list-of-codes", hinted::codes),
];

/// Honest blocks that use all their gas: the measure for what one block may cost.
pub(super) fn full(size: Size) -> Case {
    calls::calls(size)
}
