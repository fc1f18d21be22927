//! Blocks with an access list (EIP-7928): every transaction at once, on what the list says of the ones before it.
//!
//! ```text
//! BlockAccessList ──► Listed ──► ListedState, one per step ──► your EVM, all at once ──► Listed::check, step by step
//!                       │         list above, database below                                │
//!                       └──► Listed::changes: state of the block's end ◄── true if all agree ┘
//! ```
//!
//! A step is a place in the block, named by its block access index. Step 0 is what the protocol does before the transactions,
//! step i + 1 is transaction i, and the last step is what the protocol does behind them.
//!
//! The values that a step is shown come from the list and from the state before the block alone. So its result depends on no
//! thread. The lowest step that departs from the list was shown true values, because all lower steps follow the list.
//! Correctness rests on that, and on [`Listed::check`] letting no difference pass.
//!
//! `run.rs` runs a block on the crate's threads. `check.rs` compares, `left.rs` says what a step left, and `state.rs` shows
//! values. Modules import only modules further down.

mod run;

mod check;

mod left;

mod departure;

mod state;

mod list;

pub use departure::{Departure, How, Place};
pub use list::{Disorder, Listed};
pub use run::{ListedError, Protocol};
pub use state::ListedState;
