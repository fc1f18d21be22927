//! A world of tokens and pools, which the loads `amm` and `mixed` share.
//!
//! ```text
//!            hub token (0)                   each account holds the hub and the token of its home pool,
//!            ╱     │     ╲                   has approved that pool for both, and, when a share of the swaps
//!        pool 0  pool 1  pool 2 ..           goes to pool 0, holds and has approved what that one needs
//!          │       │       │
//!       token 1  token 2  token 3 ..
//! ```
//!
//! Every pool starts with the same deep reserves, so that the price of any swap is bounded in any order. See
//! [`Market::proceeds`].

mod build;
mod check;
mod genesis;
mod book;
mod steps;
mod step;
mod world;
mod homes;
mod mix;
mod pools;
mod names;

pub use mix::{Mix, MixError};
pub use names::contract_name;
pub use pools::Pools;

pub(crate) use book::Book;
pub(crate) use homes::Popularity;
pub(crate) use step::{MAX_GAS, SELL_GAS};
pub(crate) use steps::Steps;
pub(crate) use world::Market;
