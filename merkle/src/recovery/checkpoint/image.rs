//! What saves reading the log when a store is opened: the tree, and where the state is on disk the index, as they were
//! after some block. The log from there on does the rest.
//!
//! ```text
//! checkpoint = head, noted*, twigs*, young, slots*, extents*, end          frames as in `record`, each with a checksum
//! head       = "PHXC" || params || block id || height || root || shape || whether slots are there
//! end        = number of frames before it
//! ```
//!
//! It is written beside the running store from a copy that shares the index's pages, after the block and everything before
//! it is durable, to a file of its own that takes the name `checkpoint` once as many blocks follow as the store can take
//! back. It says nothing that the log does not say, so one that is torn, damaged or of another log is passed over.

use phalanx_merkle_proof::{Hash, Params, Shape};

use crate::{
    log::LogIndex,
    state::{Extents, Keys},
    tree::TreeImage,
};

/// Name of the file, in the store's directory.
pub(crate) const NAME: &str = "checkpoint";

/// Name of the file while it is written, and until enough blocks follow.
pub(crate) const NEW_NAME: &str = "checkpoint.new";

/// How a store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opened {
    /// By reading the log from its beginning.
    Replayed {
        /// Why a checkpoint was passed over; `None` if there was none.
        ignored: Option<Ignored>,
    },
    /// From the state after the block of this height, and the log from there on.
    Checkpoint {
        /// The height.
        height: u64,
    },
}

/// Why a checkpoint was passed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ignored {
    /// It is not what was written, or could not be read.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(String),
    /// It is of a store with other genesis parameters.
    #[error("the checkpoint is of other parameters")]
    Parameters,
    /// Its block is not one that leads to the tip, or the log ends before it.
    #[error("the checkpoint's block is not in the chain")]
    NotInChain,
    /// Fewer blocks follow than the store is to be able to take back.
    #[error("the checkpoint is too close to the tip for the blocks that must be taken back")]
    TooRecent,
}

/// Which block a checkpoint is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointBlock {
    pub(crate) id: u64,
    pub(crate) height: u64,
    pub(crate) root: Hash,
    pub(crate) shape: Shape,
}

/// A state at one block.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) of: CheckpointBlock,
    pub(crate) tree: TreeImage,
    /// Where the state is on disk.
    pub(crate) index: Option<(Keys, Extents)>,
}

/// What a checkpoint holds.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) params: Params,
    pub(crate) image: Image,
    pub(crate) note: LogIndex,
}
