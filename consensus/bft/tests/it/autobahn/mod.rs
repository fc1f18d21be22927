//! Autobahn against latencies on paper, every reachable state of a slot, random worlds with faults, and broken rules.

mod attacks;
mod evidence;
mod exhaustive;
mod walks;
mod golden;
mod rejoin;
mod safety;
mod views;

use phalanx_bft::{Domain, Index, Signed, Statement, autobahn::Autobahn};

type World = phalanx_world::World<Autobahn>;

/// A statement with a replica's signature.
fn signed<T: Statement + alloy_rlp::Decodable>(node: usize, body: T) -> Signed<T> {
    phalanx_world::signed(Index(node as u16), body, Domain::default())
}
