//! Block access lists: their contents, and that a block runs on its true list and on no other.
//!
//! All blocks of the kit require that every executor produces the same list and that every block replays with it
//! (`Ended::access_list`, `Hint::AccessList`); the oracle is `kit/reference.rs`.

mod content;
mod exceptions;
mod foreign;
mod length;
mod lies;
mod real;

use crate::kit::{Body, Case, Way};
use alloy_rlp::Decodable as _;
use phalanx::{
    BlockError, Executed, Hints,
    eip7928::AccountChanges,
    revm::primitives::{B256, Bytes, keccak256},
};

/// Executes the first block of a case with the list that it commits to.
fn execute(case: &Case, body: &Body, way: &Way, rlp: &[u8], hash: B256) -> Result<Executed, BlockError> {
    case.engine(way).execute_block(&body.payload(), Hints::AccessList { rlp, hash })
}

/// Access list of the first block, if that is valid.
fn list(case: &Case) -> Option<Vec<AccountChanges>> {
    let mut engine = case.engine(&Way::sequential());
    let executed = engine.execute_block(&case.blocks[0].payload(), Hints::None).ok()?;
    let list = executed.block().access_list().expect("the engine produces lists");
    assert_eq!(keccak256(list.rlp()), list.hash());
    assert_eq!(Vec::<AccountChanges>::decode(&mut &list.rlp()[..]).as_deref(), Ok(list.accounts()));
    Some(list.accounts().to_vec())
}

fn encode(list: &[AccountChanges]) -> Bytes {
    let mut out = Vec::new();
    alloy_rlp::encode_list(list, &mut out);
    out.into()
}
