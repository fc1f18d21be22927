//! Packs transactions into frames whose members never conflict, and cuts the stream of frames into blocks.
//!
//! This is FAFO's ParaFramer and ParaBloom (section 2.4), with commutative credits and with every sender's nonce order
//! kept. It knows keys, not transactions: a transaction is whatever `T` the caller pushes, usually an index.
//!
//! ```text
//!                     ParaBloom: word i = bit i of 64 frames
//!  (tx, sender, gas,  ┌───────────────┬───────────────┐
//!      keys) ───────► │ reads∪writes  │ credits∪writes│ ─► which frames conflict
//!                     └───────────────┴───────────────┘            │
//!                     Precedence: which frames leave first ────────┤
//!                                                                  ▼
//!                     64 open frames ──► Frame ──► BlockFormer ──► Block
//! ```
//!
//! Everything is a pure function of the calls: no thread, no clock, no randomness. Frames decide order, and so speed, never
//! validity: no other crate may rely on the members of a frame not to conflict.
//!
//! ```
//! use phalanx_access::{Access::{Credit, Write}, Key, Salt};
//! use phalanx_paraframer::{BlockFormer, BlockLimits, Formed, Framer};
//!
//! let salt = Salt::new(7); // random in production: an attacker that knows it can craft colliding keys
//! let [alice, bob, carol] = [1u64, 2, 3].map(|account| account.digest(&salt));
//! let payments = [(alice, carol), (bob, carol), (alice, bob)];
//!
//! let mut framer = Framer::default();
//! let mut former = BlockFormer::new(BlockLimits { max_txs: 10_000, max_gas: 30_000_000 });
//! let mut blocks = Vec::new();
//! let mut on_block = |formed: Formed<'_, usize>| match formed {
//!     Formed::Block(block) => blocks.push((block.txs.to_vec(), block.frames)),
//!     Formed::Rejected(too_large) => panic!("{too_large}"),
//! };
//! for (index, (from, to)) in payments.into_iter().enumerate() {
//!     framer.push(index, from, 21_000, &[(from, Write), (to, Credit)], &mut |frame| {
//!         former.push(&frame, |_| 21_000, &mut on_block);
//!     });
//! }
//! framer.flush(&mut |frame| former.push(&frame, |_| 21_000, &mut on_block));
//! former.flush(&mut on_block);
//!
//! // Two credits of Carol share a frame; Alice's second payment comes after her first.
//! assert_eq!(blocks, [(vec![0, 1, 2], 2)]);
//! ```

mod block;

mod framer;

mod frame;

mod order;

mod bloom;

mod slot;

pub use block::{Block, BlockFormer, BlockLimits, Formed, TooLarge};
pub use bloom::{BITS, HASHES, ParaBloom, Seen};
pub use frame::{Cause, Frame, FramerConfig};
pub use framer::Framer;
pub use slot::{FRAMES, Slot};
