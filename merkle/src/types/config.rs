use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use phalanx_merkle_proof::Params;

use super::{
    faults::Faults,
    fork_join::{ForkJoin, ForkJoinObserver},
};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Where the log lives.
    pub backend: Backend,
    /// What a written block survives.
    pub durability: Durability,
    /// What fixes the meaning of roots; must equal what the store was created with.
    pub params: Params,
    /// Keys the index, so that nobody can craft keys that meet in one bucket. Affects no root; may differ per process.
    pub salt: u64,
    /// Refuses to open a store that ends below this height: what consensus remembers as committed.
    pub expected_min_height: Option<u64>,
    /// How many blocks can be taken back, and viewed and proven from while later ones are applied. Takes about 80 bytes per
    /// update of each of these blocks.
    pub history: usize,
    /// What of the state is in memory.
    pub memory: Memory,
    /// Bytes of log after which another checkpoint is made beside the running store, so that opening it reads no more than
    /// about that much; zero for none. They are further apart where a checkpoint takes more than a quarter of it. A store
    /// that is closed without views of it makes a last one, if more than an eighth of these bytes came after the one before.
    pub checkpoint_bytes: u64,
    /// Called on the threads that the store starts.
    pub thread_start: ThreadStart,
    /// Told of what threads share.
    pub fork_join: ForkJoin,
    /// Makes the disk fail, in tests.
    #[doc(hidden)]
    pub faults: Option<Arc<dyn Faults>>,
}

impl Backend {
    /// The directory of the log, if there is one.
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
    /// A store on `backend` with blocks that survive `kill -9` and SHA-256.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            durability: Durability::Async,
            params: Params::default(),
            salt: 0x5bd1_e995_97f4_a7c1,
            expected_min_height: None,
            history: 8,
            memory: Memory::Resident,
            checkpoint_bytes: 256 << 20,
            thread_start: ThreadStart::default(),
            fork_join: ForkJoin::default(),
            faults: None,
        }
    }

    /// Sets after how many bytes of log another checkpoint is made.
    #[must_use]
    pub const fn with_checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.checkpoint_bytes = bytes;
        self
    }

    /// Sets what of the state is in memory.
    #[must_use]
    pub const fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Sets what a written block survives.
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

    /// Sets how many blocks can be taken back.
    #[must_use]
    pub const fn with_history(mut self, blocks: usize) -> Self {
        self.history = blocks;
        self
    }

    /// Sets what is called on every thread that works for the open store, at its start: whoever places threads can place
    /// these, which begin where the thread is that first has a use for them. Threads of RocksDB's own are not told of; they begin
    /// while the store is opened.
    #[must_use]
    pub fn with_thread_start(mut self, start: impl Fn() + Send + Sync + 'static) -> Self {
        self.thread_start = ThreadStart(Some(Arc::new(start)));
        self
    }

    /// Sets who is told which parts of a call threads share.
    #[must_use]
    pub fn with_fork_join_observer(mut self, observer: Arc<dyn ForkJoinObserver>) -> Self {
        self.fork_join = ForkJoin(Some(observer));
        self
    }

    /// Makes the disk fail, in tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Sets the height below which opening fails.
    #[must_use]
    pub const fn with_expected_min_height(mut self, height: u64) -> Self {
        self.expected_min_height = Some(height);
        self
    }
}

/// What is called on every thread that an open store starts; see [`StoreConfig::with_thread_start`]. Default: nothing.
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

/// What of the state is in memory. Affects no root and no byte of the log; may differ each time a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// All of it: nothing is read from the log while blocks are prepared.
    #[default]
    Resident,
    /// An index, about eleven bytes per key, and entries up to a number of bytes; the rest is read from the log when it is
    /// needed. With [`Backend::Mem`], which keeps nothing to be read, the state is resident all the same.
    Cached {
        /// Bytes for entries that were read or written lately, their bookkeeping included.
        bytes: usize,
    },
}

/// Where the log of a store lives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Nowhere: the state ends with the process. What proofs need stays in memory, 64 bytes per position of every twig
    /// that still holds a current value.
    Mem,
    /// An append-only file in this directory.
    File(PathBuf),
    /// A RocksDB database in this directory.
    #[cfg(feature = "rocksdb")]
    Rocks(PathBuf),
}

/// What a block survives once it is written ([`Pending::write`](crate::Pending::write) returned).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The process: no log is kept, the store reopens at the last [`Store::flush`](crate::Store::flush).
    None,
    /// `kill -9`: the block reached the kernel.
    #[default]
    Async,
    /// Power loss: the block was fsynced.
    Block,
}
