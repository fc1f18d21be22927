//! The content of a checkpoint, and how a store was opened.

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

/// Way in which a store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opened {
    /// The log was read from its beginning.
    Replayed {
        /// Reason why a checkpoint was ignored; `None` if there was none.
        ignored: Option<Ignored>,
    },
    /// The state came from a checkpoint, and the log was read from there on.
    Checkpoint {
        /// Height of the checkpoint's block.
        height: u64,
    },
}

/// Reason why a checkpoint was ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ignored {
    /// The checkpoint is damaged or could not be read.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(String),
    /// The checkpoint belongs to another store.
    #[error("the checkpoint is of another store")]
    Foreign,
    /// The checkpoint belongs to a store with other genesis parameters.
    #[error("the checkpoint is of other parameters")]
    Parameters,
    /// The checkpoint's block does not lead to the tip, or the log ends before it.
    #[error("the checkpoint's block is not in the chain")]
    NotInChain,
    /// The log was pruned after the checkpoint, and lacks entries that were current there.
    #[error("the log no longer has all entries of the checkpoint")]
    Pruned,
    /// Fewer blocks follow the checkpoint than the store must be able to rewind.
    #[error("the checkpoint is too close to the tip for the blocks that must be taken back")]
    TooRecent,
}

/// Block of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointBlock {
    pub(crate) id: u64,
    pub(crate) height: u64,
    pub(crate) root: Hash,
    pub(crate) shape: Shape,
}

/// State after one block.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) of: CheckpointBlock,
    pub(crate) tree: TreeImage,
    /// Present for a paged state.
    pub(crate) index: Option<(Keys, Extents)>,
}

/// Content of a checkpoint.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) params: Params,
    pub(crate) image: Image,
    pub(crate) note: LogIndex,
}
