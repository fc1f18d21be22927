//! Validation of ommers: stale headers that a proof-of-work block names.

use super::{header::HeaderError, spec::ChainSpec};
use alloy_consensus::Header;
use alloy_primitives::B256;

/// Maximum number of ommers in a block.
const MAX_OMMERS: usize = 2;
/// Maximum distance of an ommer's sibling among the ancestors, in blocks.
const MAX_DEPTH: usize = 6;

/// Rule that a block's ommers break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OmmerError {
    /// A block names at most two ommers, and none from the merge on.
    #[error("{len} ommers are too many")]
    TooMany {
        /// Number of ommers.
        len: usize,
    },
    /// The block or an ancestor has named the ommer already.
    #[error("ommer {index} has been named before")]
    Duplicate {
        /// Position in the block.
        index: usize,
    },
    /// The ommer is an ancestor of the block.
    #[error("ommer {index} is an ancestor")]
    Ancestor {
        /// Position in the block.
        index: usize,
    },
    /// The ommer's parent is not the parent of one of the six latest ancestors.
    #[error("ommer {index} is no sibling of a recent ancestor")]
    Unrelated {
        /// Position in the block.
        index: usize,
    },
    /// The ommer is no valid header.
    #[error("ommer {index} is invalid: {reason}")]
    Header {
        /// Position in the block.
        index: usize,
        /// Rule that it breaks.
        reason: HeaderError,
    },
}

impl ChainSpec {
    /// Checks a block's ommers. `ancestor` returns the header with a hash, and the hashes of the ommers that it
    /// names. It is called for at most seven blocks, from the parent down; `None` ends the search.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn validate_ommers(
        &self,
        header: &Header,
        ommers: &[Header],
        ancestor: impl Fn(B256) -> Option<(Header, Vec<B256>)>,
    ) -> Result<(), OmmerError> {
        if ommers.is_empty() {
            return Ok(());
        }
        if ommers.len() > MAX_OMMERS || self.is_merged(header) {
            return Err(OmmerError::TooMany { len: ommers.len() });
        }
        // Ancestors from the parent down; the last one only as the parent of an ommer.
        let (mut ancestors, mut named) = (Vec::with_capacity(MAX_DEPTH + 1), Vec::new());
        let mut next = header.parent_hash;
        while ancestors.len() <= MAX_DEPTH
            && let Some((ancestor, its_ommers)) = ancestor(next)
        {
            named.extend(its_ommers);
            let hash = core::mem::replace(&mut next, ancestor.parent_hash);
            ancestors.push((hash, ancestor));
        }
        for (index, ommer) in ommers.iter().enumerate() {
            let hash = ommer.hash_slow();
            if named.contains(&hash) {
                return Err(OmmerError::Duplicate { index });
            }
            named.push(hash);
            if ancestors.iter().any(|(ancestor, _)| *ancestor == hash) {
                return Err(OmmerError::Ancestor { index });
            }
            // A sibling of the block itself is not stale yet.
            let parent = ancestors.iter().skip(1).find(|(ancestor, _)| *ancestor == ommer.parent_hash);
            let (_, parent) = parent.ok_or(OmmerError::Unrelated { index })?;
            self.follows(ommer, parent, false).map_err(|reason| OmmerError::Header { index, reason })?;
        }
        Ok(())
    }
}
