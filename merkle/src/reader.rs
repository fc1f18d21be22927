use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use phalanx_merkle_proof::{Hash, Params, Shape};

use crate::{
    BlockId, Error, Locator,
    core::Core,
    ground::Ground as _,
    overlay::{Over, Overlay},
    resident::Lookup,
};

/// The state after a block, to be read by any number of threads.
///
/// Holds a lock: while a reader is around no block is applied, so keep it no longer than a few reads take.
#[derive(Debug)]
pub struct Reader<'s> {
    pub(crate) core: RwLockReadGuard<'s, Core>,
    pub(crate) at: At<'s>,
}

/// Which state a reader reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'s> {
    Tip,
    /// So many blocks before the tip.
    Past(usize),
    /// A block that is not committed.
    Branch(&'s Overlay),
}

impl Reader<'_> {
    /// The value of a key. At the tip: expected O(1), two cache misses. On a speculative block: the same and one probe,
    /// however many uncommitted blocks there are below. Of an earlier block: a probe per block since.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match self.at {
            At::Tip => self.core.state.find(key).map(|id| self.core.state.entry(id).1),
            At::Past(depth) => self.core.find_past(key, depth).map(|was| was.value),
            At::Branch(overlay) => {
                let over = Over { state: &self.core.state, overlay };
                over.find(key).map(|id| over.entry(id).1)
            }
        }
    }

    /// A fast name for a key that exists, to read it again and to change it. Keys that only an uncommitted or an earlier
    /// block holds have none.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Option<Locator> {
        let id = self.core.state.find(key)?;
        let there = match self.at {
            At::Tip => true,
            At::Past(_) | At::Branch(_) => self.get(key).is_some(),
        };
        there.then(|| self.core.state.locator(id))
    }

    /// Locates many keys with their cache misses overlapped, several times faster than one by one. Appends one element
    /// per key to `out`, in order.
    pub fn locate_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut Vec<Option<Locator>>) {
        out.reserve(keys.len());
        let state = &self.core.state;
        match self.at {
            At::Tip => {
                let lookups = keys.iter().map(|key| Lookup::Key(key.as_ref()));
                state.find_many::<false>(lookups, |id| out.push(id.map(|id| state.locator(id))));
            }
            At::Past(_) | At::Branch(_) => out.extend(keys.iter().map(|key| self.locate(key.as_ref()))),
        }
    }

    /// The value of a located key; `None` if the key was deleted since.
    #[inline]
    pub fn value(&self, locator: Locator) -> Option<&[u8]> {
        let id = self.core.state.live(locator)?;
        let (key, value) = self.core.state.entry(id);
        match self.at {
            At::Tip => Some(value),
            At::Past(_) | At::Branch(_) => self.get(key),
        }
    }

    /// Asks the cache for a located key's value, for a caller that reads it shortly.
    #[inline]
    pub fn prefetch(&self, locator: Locator) {
        self.core.state.prefetch_located(locator);
    }

    /// All keys of the committed state with their values, in no order that means anything, whatever block the reader is
    /// at.
    pub fn committed(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.core.state.iter()
    }

    /// What fixes the meaning of roots.
    pub fn params(&self) -> &Params {
        &self.core.params
    }

    /// The block's height; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        match self.at {
            At::Tip => self.core.height(),
            At::Past(depth) => self.core.chain.iter().rev().nth(depth).map(|block| block.height),
            At::Branch(overlay) => {
                let above = overlay.layers.iter().rev().take_while(|layer| layer.id != self.core.tip_id()).count();
                Some(self.core.height().map_or(0, |height| height + 1) + above as u64 - 1)
            }
        }
    }

    /// The root of the state.
    pub fn root(&self) -> Hash {
        match self.at {
            At::Tip => self.core.root(),
            At::Past(depth) => self.past(depth).1,
            At::Branch(overlay) => overlay.own().map_or_else(|| self.core.root(), |layer| layer.tree.root),
        }
    }

    /// What the root says of the log besides its content.
    pub fn shape(&self) -> Shape {
        match self.at {
            At::Tip => *self.core.tree.shape(),
            At::Past(depth) => self.past(depth).0,
            At::Branch(overlay) => overlay.own().map_or_else(|| *self.core.tree.shape(), |layer| layer.tree.shape),
        }
    }

    fn past(&self, depth: usize) -> (Shape, Hash) {
        let undo = depth.checked_sub(1).and_then(|depth| self.core.history.iter().rev().nth(depth));
        undo.map_or_else(|| (*self.core.tree.shape(), self.core.root()), |undo| (undo.tree.shape, undo.tree.root))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        match self.at {
            At::Tip => self.core.state.len(),
            At::Past(_) => (self.shape().active - self.core.params.sentinels.count()) as usize,
            At::Branch(overlay) => Over { state: &self.core.state, overlay }.len(),
        }
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The state after one block, wherever the chain goes: stays readable from any thread while later blocks are applied, for
/// as many of them as the store can undo.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) core: Arc<RwLock<Core>>,
    pub(crate) id: u64,
    /// Of a block that was not committed when the view was made.
    pub(crate) overlay: Option<Arc<Overlay>>,
}

impl View {
    /// The block.
    pub const fn block(&self) -> BlockId {
        BlockId(self.id)
    }

    /// Reads the state.
    ///
    /// # Errors
    /// [`Error::Gone`] if the block was discarded, taken back, or lies too far behind the tip.
    pub fn read(&self) -> Result<Reader<'_>, Error> {
        let core = self.core.read_recursive();
        let tip = core.tip_id();
        let at = if tip == self.id {
            At::Tip
        } else if let Some(depth) = core.depth_of(self.id) {
            At::Past(depth)
        } else {
            let overlay = self.overlay.as_deref().filter(|overlay| overlay.stands_on(tip));
            At::Branch(overlay.ok_or(Error::Gone { block: BlockId(self.id) })?)
        };
        Ok(Reader { core, at })
    }
}
