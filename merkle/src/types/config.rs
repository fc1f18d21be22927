//! The configuration of a store: where its log is, what a written block survives, and what is in memory.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use phalanx_merkle_proof::Params;

use super::{
    contents::Contents,
    faults::Faults,
    fork_join::{ForkJoin, ForkJoinObserver},
};

/// Configuration to open a store with.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Backend of the log.
    pub backend: Backend,
    /// Durability of a written block.
    pub durability: Durability,
    /// Genesis parameters, which fix the meaning of roots; must equal those that the store was created with.
    pub params: Params,
    /// Secret that the index hashes keys with, so that keys cannot be crafted to collide in it. Affects no root; may
    /// differ per process.
    pub salt: u64,
    /// Height that consensus remembers as committed: a store that ends below it is not opened.
    pub expected_min_height: Option<u64>,
    /// Height of the first block, which must equal that which the store was created with; `None` for that, and for 0 in a new store.
    pub first_height: Option<u64>,
    /// Number of blocks that can be rewound, and read and proven from while later ones are applied.
    ///
    /// Takes about 80 bytes per update of each of these blocks.
    pub history: usize,
    /// Part of the state that is in memory.
    pub memory: Memory,
    /// Way in which values are read from the log, if [`Memory::Cached`] keeps them there and the log is in files.
    pub reading: Reading,
    /// Right that the store is opened with.
    pub access: Access,
    /// Bytes of log between two checkpoints, which bounds what opening reads; zero for no checkpoints.
    ///
    /// The distance grows where a checkpoint takes more than a quarter of it. A store that is closed without snapshots
    /// of it makes a last checkpoint if more than an eighth of these bytes followed the one before.
    pub checkpoint_bytes: u64,
    /// Rules of what the application stores.
    pub contents: Contents,
    /// Callback that runs first on every thread that the store starts.
    pub thread_start: ThreadStart,
    /// Observer of fork-join work.
    pub fork_join: ForkJoin,
    /// Injects disk faults, in tests.
    #[doc(hidden)]
    pub faults: Option<Arc<dyn Faults>>,
}

impl Backend {
    /// Name of the backend: `mem`, `file` or `rocks`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Mem => "mem",
            Self::File(_) => "file",
            #[cfg(feature = "rocksdb")]
            Self::Rocks(_) => "rocks",
        }
    }

    /// Directory of the log; `None` in memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Mem => None,
            Self::File(path) => Some(path),
            #[cfg(feature = "rocksdb")]
            Self::Rocks(path) => Some(path),
        }
    }
}

impl StoreConfig {
    /// Creates a configuration for `backend`: SHA-256, and blocks that survive `kill -9`.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            durability: Durability::Async,
            params: Params::default(),
            salt: 0x5bd1_e995_97f4_a7c1,
            expected_min_height: None,
            first_height: None,
            history: 8,
            memory: Memory::Resident,
            reading: Reading::default(),
            access: Access::Create,
            checkpoint_bytes: 256 << 20,
            contents: Contents::default(),
            thread_start: ThreadStart::default(),
            fork_join: ForkJoin::default(),
            faults: None,
        }
    }

    /// Sets the rules of what the application stores.
    #[must_use]
    pub const fn with_contents(mut self, contents: Contents) -> Self {
        self.contents = contents;
        self
    }

    /// Sets the bytes of log between two checkpoints.
    #[must_use]
    pub const fn with_checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.checkpoint_bytes = bytes;
        self
    }

    /// Sets the part of the state that is in memory.
    #[must_use]
    pub const fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the way in which values are read from the log.
    #[must_use]
    pub const fn with_reading(mut self, reading: Reading) -> Self {
        self.reading = reading;
        self
    }

    /// Sets the right that the store is opened with.
    #[must_use]
    pub const fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the durability of a written block.
    #[must_use]
    pub const fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the genesis parameters.
    #[must_use]
    pub const fn with_params(mut self, params: Params) -> Self {
        self.params = params;
        self
    }

    /// Sets the salt of the index.
    #[must_use]
    pub const fn with_salt(mut self, salt: u64) -> Self {
        self.salt = salt;
        self
    }

    /// Sets the number of blocks that can be rewound.
    #[must_use]
    pub const fn with_history(mut self, blocks: usize) -> Self {
        self.history = blocks;
        self
    }

    /// Sets the callback that runs first on every thread that works for the open store.
    ///
    /// The callback can pin the thread, which begins on the core of the thread that first needs it. RocksDB's own threads begin
    /// while the store is opened and do not call it.
    #[must_use]
    pub fn with_thread_start(mut self, start: impl Fn() + Send + Sync + 'static) -> Self {
        self.thread_start = ThreadStart(Some(Arc::new(start)));
        self
    }

    /// Sets the observer of the parts of a call that threads share.
    #[must_use]
    pub fn with_fork_join_observer(mut self, observer: Arc<dyn ForkJoinObserver>) -> Self {
        self.fork_join = ForkJoin(Some(observer));
        self
    }

    /// Injects disk faults, in tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Sets the minimum height: a store that ends below it is not opened.
    #[must_use]
    pub const fn with_expected_min_height(mut self, height: u64) -> Self {
        self.expected_min_height = Some(height);
        self
    }

    /// Sets the height of the first block, for a chain that goes on from another's block. Default: the one that the store has, 0
    /// in a new one.
    #[must_use]
    pub const fn with_first_height(mut self, height: u64) -> Self {
        self.first_height = Some(height);
        self
    }
}

/// Callback that runs first on every thread of an open store; see [`StoreConfig::with_thread_start`]. Default: none.
#[derive(Clone, Default)]
pub struct ThreadStart(Option<Arc<dyn Fn() + Send + Sync>>);

impl ThreadStart {
    pub(crate) fn call(&self) {
        if let Some(start) = &self.0 {
            start();
        }
    }
}

impl core::fmt::Debug for ThreadStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.0.is_some() { "ThreadStart(..)" } else { "ThreadStart" })
    }
}

/// Part of the state that is in memory. Affects no root and no byte of the log; may differ each time a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// All of the state: preparing a block reads nothing from the log.
    #[default]
    Resident,
    /// An index of about eleven bytes per key and a cache of entries; other entries are read from the log.
    ///
    /// With [`Backend::Mem`], which keeps no entries, the state is resident all the same.
    Cached {
        /// Size of the cache of entries, bookkeeping included, in bytes.
        bytes: usize,
    },
}

impl Memory {
    /// Maximum number of keys of a state: 2^29 if it is resident, because its index names records in 32 bits with a tag; otherwise
    /// 2^38, far more than any machine has the eleven bytes each for.
    pub const fn max_keys(self) -> u64 {
        match self {
            Self::Resident => 1 << 29,
            Self::Cached { .. } => 1 << 38,
        }
    }
}

/// Right that a store is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reads a store as it is: takes no lock and writes no byte.
    ///
    /// Works beside a running node, on a read-only mount, and for a user that may only read. The store stays at the block
    /// that was its tip when it was opened; whatever would change it returns
    /// [`Error::ReadOnly`](crate::Error::ReadOnly).
    Read,
    /// Reads and writes a store that is there.
    Write,
    /// Like `Write`; an absent or empty directory becomes a new store.
    #[default]
    Create,
}

/// Backend of a store's log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// No log: the state ends with the process.
    ///
    /// Memory holds what proofs need, 64 bytes per position of every twig with a current value.
    Mem,
    /// Append-only files in this directory.
    File(PathBuf),
    /// RocksDB database in this directory.
    #[cfg(feature = "rocksdb")]
    Rocks(PathBuf),
}

/// Way in which values are read from the log in files. Where a system lacks one, the next one is taken. At most 24 rings of reads in
/// flight, of 2 MiB and one open file each, stay open with the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Many reads in flight per thread (io_uring), past the page cache: memory is what the cache of values takes, and the disk is read
    /// as fast as it can be. For states that are larger than memory.
    #[default]
    Direct,
    /// Many reads in flight per thread, through the page cache: faster if the system has so much free memory that it keeps
    /// most of the log.
    Buffered,
    /// One read in flight per thread, on sixteen threads, through the page cache.
    Threads,
}

/// Durability of a block once [`Pending::write`](crate::Pending::write) has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the store: no log is kept, and the store reopens at the last [`Store::flush`](crate::Store::flush).
    None,
    /// Survives `kill -9`: the block reached the kernel.
    #[default]
    Async,
    /// Survives power loss: the block is fsynced.
    Block,
}
