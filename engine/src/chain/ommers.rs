//! Which stale headers a block of proof of work may name.

use super::{header::HeaderError, spec::ChainSpec};
use alloy_consensus::Header;
use alloy_primitives::B256;

/// A block names at most this many.
const MAX_OMMERS: usize = 2;
/// An ommer is a sibling of one of this many latest ancestors.
const MAX_DEPTH: usize = 6;

/// The rule that a block's ommers break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OmmerError {
    /// At most two, none from the merge on.
    #[error("{len} ommers are too many")]
    TooMany {
        /// How many there are.
        len: usize,
    },
    /// The block or one of its ancestors has named it already.
    #[error("ommer {index} has been named before")]
    Duplicate {
        /// Position in the block.
        index: usize,
    },
    /// It is an ancestor of the block.
    #[error("ommer {index} is an ancestor")]
    Ancestor {
        /// Position in the block.
        index: usize,
    },
    /// Its parent is not the parent of one of the six latest ancestors.
    #[error("ommer {index} is no sibling of a recent ancestor")]
    Unrelated {
        /// Position in the block.
        index: usize,
    },
    /// It is not a valid header.
    #[error("ommer {index} is invalid: {reason}")]
    Header {
        /// Position in the block.
        index: usize,
        /// The rule it breaks.
        reason: HeaderError,
    },
}

impl ChainSpec {
    /// Checks a block's ommers. `ancestor` gives the header with a hash and the hashes of the ommers it names; it is asked
    /// for at most seven blocks, from the parent down, and ends the search by `None`.
    ///
    /// # Errors
    /// The first rule broken.
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
        // Ancestors from the parent down; the last is only the parent of an ommer.
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
