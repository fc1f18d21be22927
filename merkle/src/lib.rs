//! Commits state block by block under one root, and proves it.
//!
//! The current state is in memory, or paged in from the append-only log, from which all of memory can be recovered. Every
//! changed key appends an entry at the next position. 2048 neighbouring positions are a twig, whose active bits mark the
//! current entries. Deleting or overwriting a key clears a bit and rewrites nothing.
//!
//! ```text
//!  Delta ──prepare──► Prepared ──apply──► Pending ──write──► log (extents, then block record)
//!  any order          root known          in memory          survives what Durability says
//!
//!          keys by hash ─► entries ─► leaves ─► twigs ─► upper levels ─► root
//! ```
//!
//! The root depends only on the parent and the block's final changes, not on the order of the delta, the number of threads
//! or the backend. Hashing rules and the verifier are in [`phalanx_merkle_proof`].
//!
//! ```
//! use phalanx_merkle::{Backend, Delta, Store, StoreConfig, verify_inclusion};
//!
//! let mut store = Store::open(StoreConfig::new(Backend::Mem))?;
//! let mut genesis = Delta::new();
//! genesis.put(b"alice", b"10");
//! genesis.put(b"bob", b"5");
//! let block = store.prepare(genesis, 0)?;
//! let root = block.root();
//! store.commit(block)?;
//!
//! assert_eq!(store.root(), root);
//! assert_eq!(store.read().get(b"alice"), Some(&b"10"[..]));
//! let proof = store.read().prove(b"bob")?.expect("bob exists");
//! let entry = verify_inclusion(store.params(), &root, &proof)?;
//! assert_eq!((entry.key, entry.value), (&b"bob"[..], &b"5"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod store;

pub mod snapshot;

mod recovery;

mod commit;

mod state;

mod tree;

mod log;

mod parallel;

mod types;

mod metrics;

pub use log::{Identity, Pending};
pub use phalanx_merkle_proof::{
    Change, Compaction, Entry, Hash, HashFn, MAX_KEY_LEN, MAX_VALUE_LEN, Params, ProofError, Proven, ProvenFate,
    Sentinels, Shape, prove_fate, verify_exclusion, verify_fate, verify_inclusion, verify_keys, verify_range,
    verify_transition, verify_version,
};
pub use recovery::{Ignored, Opened};
pub use store::{
    Background, EXPORT_HEAD_LEN, Exporter, Fork, Prefetcher, Prepared, ProvenTwigs, Reader, Restore, Snapshot, Store,
    discard_import, export_params, interrupted_import,
};
#[doc(hidden)]
pub use types::faults;
pub use types::{
    Access, Backend, BlockId, CacheUse, CodeRule, Contents, Delta, Durability, Error, ForkJoin, ForkJoinObserver,
    Locator, Lost, Memory, MemoryUse, ReadUse, Reading, StoreConfig, Tail, ThreadStart, Torn,
};
