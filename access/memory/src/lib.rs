#![doc = include_str!("../README.md")]

mod lookahead;
mod pool;
mod prefetch;
mod strata;

pub use lookahead::{Ahead, PrefetchIterator, prefetch_ahead};
pub use pool::{BufferPool, Pooled, Reuse};
pub use prefetch::{prefetch, prefetch_all, prefetch_slice, prefetch_write, prefetch_write_all};
pub use strata::{MERGED_LAYERS, Strata};
