//! Prefetches memory before its use, looks ahead in loops, reuses buffers, and stacks layers: what hot loops of every
//! crate share.
//!
//! ```text
//! lookahead    ──► prefetch     ──► use
//! which item       its cache line   no miss
//!
//! BufferPool ──take──► Pooled ──drop──► cleared, back in the pool
//! ```
//!
//! A block names its transactions and keys in random order of memory, so each access would be a cache miss. A loop that
//! knows its next items prefetches them; [`PrefetchIterator`] keeps that out of the loop's own logic. A block's buffers are
//! megabytes, which the allocator would return to the system and clear anew for every block; [`BufferPool`] keeps them.
//! Blocks beside the chain share what is below them; [`Strata`] keeps their changes searchable.
//! Nothing here changes a result.
//!
//! ```
//! use phalanx_memory::{BufferPool, PrefetchIterator, prefetch};
//!
//! /// Items between the prefetch of a value and its use.
//! const LOOKAHEAD: usize = 8;
//!
//! let values: Vec<u64> = (0..1000).collect();
//! let shuffled: Vec<usize> = (0..1000).map(|at| at * 7 % 1000).collect();
//! let indices = shuffled.iter().prefetched(LOOKAHEAD, |at| prefetch(&values[*at]));
//! assert_eq!(indices.map(|at| values[*at]).sum::<u64>(), 499_500);
//!
//! let pool = BufferPool::<Vec<u64>>::default();
//! let mut buffer = pool.take();
//! buffer.extend(&values);
//! drop(buffer);
//! let again = pool.take();
//! assert!(again.is_empty() && again.capacity() >= 1000);
//! ```

mod lookahead;
mod pool;
mod prefetch;
mod strata;

pub use lookahead::{Ahead, PrefetchIterator, prefetch_ahead};
pub use pool::{BufferPool, Pooled, Reuse};
pub use prefetch::{prefetch, prefetch_all, prefetch_slice, prefetch_write, prefetch_write_all};
pub use strata::{MERGED_LAYERS, Strata};
