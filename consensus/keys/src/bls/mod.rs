//! Threshold signatures of groups: BLS over BLS12-381, with signatures in G1, and shares from a dealer or from all members.
//!
//! Shares are combined before they are verified: the group's signature is checked once, and only a wrong one is searched for its
//! liars, by halves. The proof of all replicas is the plain sum of their shares.

mod file;
mod field;
mod scheme;
mod dealing;

pub use dealing::Dealing;
pub use file::{BlsFile, deal_bls};
pub use scheme::Bls;
