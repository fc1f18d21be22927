//! The three-round protocol: proposal, vote, order vote.
//!
//! The protocol is shaped like PBFT and chained like Simplex. In view `v` the leader proposes a block on a notarised
//! parent. Replicas **vote** once per view; a quorum notarises. A replica that sees the quorum sends an **order
//! vote**, unless it gave the view up before; a quorum orders the block and its ancestors. A replica whose timeout
//! expires gives the view up (**nullify**), unless it sent an order vote before; a quorum ends the view without a
//! block.
//!
//! Two facts carry safety. A replica never sends both an order vote and a nullify for one view, so an ordered view is never
//! nullified: of q order votes q-f are honest, which leaves n-q+f < q for nullifying. And a block is voted for only if every view
//! between it and its parent is nullified, so no later block bypasses an ordered view, in which only one block is notarised.
//! So f+1 honest order votes promise the order (Zaptos, Corollary 4.1), and state votes may leave with them.
//!
//! The next leader proposes as soon as it has seen the block before, on top of it (Moonshot's optimistic proposal):
//! blocks come one network delay apart instead of two. If that view fails, the leader proposes again on a notarised
//! block. It reuses the content of the failed block, so that no block is executed twice.
//!
//! [`Replica`] has the votes alone. It knows no signatures: it takes votes and certificates that its caller has verified, and blocks
//! of any [`Content`]. Its caller is the simulator of the Zaptos pipeline, which shows the pipeline every fork.

mod replica;
mod rules;
mod block;

pub use block::{Block, Cert, CertKind, Content, Kept, Note, Place};
pub use replica::{Act, Due, Replica, Settings};
