//! The trie of a store that is opened: made anew from the state of its oldest block that can be read, then block by block.

use super::{Commitment, changes, changes::Gathered, failure, versions::Versions};
use crate::{
    model::{Error, RootKind},
    state::{State, StateError, StateSnapshot},
};
use phalanx_merkle::BlockId;
use rayon::prelude::*;
use std::{collections::HashSet, sync::Arc};

/// Keys of the state that one thread hashes together.
const PART: usize = 1 << 14;

/// Keys with their values, `None` for deleted ones, one after the other.
#[derive(Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    /// Lengths of a key and its value.
    lens: Vec<(u8, Option<u16>)>,
}

impl Keys {
    fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.lens.push((key.len() as u8, value.map(|value| value.len() as u16)));
    }

    fn gathered(&self) -> Result<Gathered, StateError> {
        Gathered::all(|visit| {
            let mut rest = &self.bytes[..];
            for (key_len, value_len) in &self.lens {
                let (key, after) = rest.split_at(usize::from(*key_len));
                let (value, after) = after.split_at(usize::from(value_len.unwrap_or_default()));
                visit(key, value_len.map(|_| value));
                rest = after;
            }
        })
    }
}

impl State {
    /// Takes up the roots of this kind: those of the committed blocks that can be read, and of forks. In the current rayon pool.
    /// With the root of the twigs nothing is to be done; Ethereum's trie is made anew, in O(state).
    ///
    /// # Errors
    /// A stored value is not of the engine's format, or cannot be read.
    pub(crate) fn take_up_roots(&mut self, kind: RootKind) -> Result<(), Error> {
        if kind == RootKind::Twigs {
            return Ok(());
        }
        let Some(tip) = self.height() else {
            self.commitment = Commitment::Ethereum(Versions::empty(&self.store));
            return Ok(());
        };
        let oldest = self.store.snapshot(self.store.tip())?.oldest_height().unwrap_or(tip);
        let chain: Vec<BlockId> = (oldest..=tip).filter_map(|height| self.store.block_at(height)).collect();
        let [oldest, later @ ..] = &chain[..] else {
            return Err(phalanx_merkle::Error::Gone { block: self.store.tip() }.into());
        };
        let values = self.snapshot(*oldest)?;
        let contents = changes::of_state(self.contents_at(&values, later)?);
        let versions = Versions::new(*oldest, &contents, &values)?;
        drop(contents);
        for (parent, block) in chain.iter().zip(later) {
            self.replay(&versions, *parent, *block)?;
            versions.commit(*block);
        }
        // Parents come before their children.
        for fork in self.store.forks() {
            self.replay(&versions, fork.parent, fork.block)?;
        }
        self.commitment = Commitment::Ethereum(versions);
        Ok(())
    }

    /// Makes the version of a block that the store has.
    fn replay(&self, versions: &Arc<Versions>, parent: BlockId, block: BlockId) -> Result<(), Error> {
        let (mut keys, before) = (Keys::default(), self.snapshot(parent)?);
        self.store.changes_of(block, |key, value| {
            keys.push(key, value);
            Ok::<_, Error>(())
        })?;
        let mut gathered = keys.gathered()?;
        gathered.empty(&before)?;
        let changes = changes::of_block(vec![gathered]);
        versions.keep(versions.update(parent, &changes, &before)?, block);
        Ok(())
    }

    /// All keys of the state of `oldest`: those of the committed one, but for keys that the blocks `later` have changed.
    fn contents_at(&self, oldest: &StateSnapshot, later: &[BlockId]) -> Result<Vec<Gathered>, Error> {
        let mut changed: HashSet<Vec<u8>> = HashSet::new();
        for block in later {
            self.store.changes_of(*block, |key, _| {
                changed.insert(key.to_vec());
                Ok::<_, Error>(())
            })?;
        }
        let (mut parts, mut last) = (Vec::new(), Keys::default());
        let mut push = |key: &[u8], value: &[u8]| {
            last.push(key, Some(value));
            if last.lens.len() == PART {
                parts.push(core::mem::take(&mut last));
            }
        };
        self.store.read().each_committed(|key, value| {
            if changed.is_empty() || !changed.contains(key) {
                push(key, value);
            }
        })?;
        for key in &changed {
            if let Some(value) = oldest.value(key).map_err(failure)? {
                push(key, &value);
            }
        }
        parts.push(last);
        Ok(parts.par_iter().map(Keys::gathered).collect::<Result<_, _>>()?)
    }
}
