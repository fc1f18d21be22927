//! The newest stored blocks, as they were stored: what shows a block or a transaction of one need not read it back.

use super::awaited::Placed;
use crate::store::Block;
use parking_lot::Mutex;
use phalanx::alloy::primitives::B256;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// Maximum number of blocks that stay.
const RECENT: usize = 32;

/// Maximum number of transactions of all but the newest two blocks: that which is shown, and that which is written.
const RECENT_TXS: usize = 1 << 15;

/// A block, and the places of its transactions by hash.
#[derive(Debug)]
struct Stored {
    block: Arc<Block>,
    places: HashMap<B256, usize>,
}

impl Stored {
    fn height(&self) -> u64 {
        self.block.height()
    }
}

/// The newest stored blocks, in order of height. Not all of them need be committed.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Stored>>);

impl Recent {
    /// Adds a block in place of those at its height and above.
    pub(super) fn put(&self, block: Arc<Block>) {
        // Readers wait for none of this.
        let places = block.entries.iter().map(|entry| entry.hash).zip(0..).collect();
        // What goes is freed behind the lock, which is declared after it.
        let mut gone = VecDeque::new();
        let blocks = &mut *self.0.lock();
        gone.append(&mut cut(blocks, block.height()));
        if blocks.back().is_some_and(|last| last.height() + 1 != block.height()) {
            gone.append(blocks);
        }
        blocks.push_back(Stored { block, places });
        let txs = |blocks: &VecDeque<Stored>| blocks.iter().map(|stored| stored.block.entries.len()).sum::<usize>();
        while blocks.len() > RECENT || blocks.len() > 2 && txs(blocks) > RECENT_TXS {
            gone.extend(blocks.pop_front());
        }
    }

    /// Removes the blocks above a height.
    pub(super) fn cut_above(&self, height: u64) {
        let gone = cut(&mut self.0.lock(), height.saturating_add(1));
        // Behind the lock.
        drop(gone);
    }

    pub(super) fn get(&self, height: u64) -> Option<Arc<Block>> {
        let blocks = self.0.lock();
        let place = height.checked_sub(blocks.front()?.height())?;
        blocks.get(usize::try_from(place).ok()?).map(|stored| Arc::clone(&stored.block))
    }

    /// The block with a hash. O(blocks).
    pub(super) fn named(&self, hash: &B256) -> Option<Arc<Block>> {
        let blocks = self.0.lock();
        blocks.iter().rev().map(|stored| &stored.block).find(|block| block.head.hash == *hash).map(Arc::clone)
    }

    /// A transaction at its place in the newest block that holds it. O(blocks).
    pub(super) fn transaction(&self, hash: &B256) -> Option<Placed> {
        let blocks = self.0.lock();
        blocks.iter().rev().find_map(|Stored { block, places }| {
            places.get(hash).map(|index| Placed { block: Arc::clone(block), index: *index })
        })
    }
}

/// Removes the blocks from a height on. The caller frees them.
fn cut(blocks: &mut VecDeque<Stored>, from: u64) -> VecDeque<Stored> {
    blocks.split_off(blocks.partition_point(|stored| stored.height() < from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64, name: u8) -> Arc<Block> {
        Arc::new(Block::of(number, B256::repeat_byte(name), (0, 0)))
    }

    fn full(number: u64, txs: usize) -> Arc<Block> {
        Arc::new(Block::of(number, B256::ZERO, (txs, 0)))
    }

    #[test]
    fn few_large_blocks_stay() {
        let recent = Recent::default();
        (1..6).for_each(|height| recent.put(full(height, RECENT_TXS / 2)));
        assert_eq!([3, 4, 5].map(|height| recent.get(height).is_some()), [false, true, true]);
        (6..9).for_each(|height| recent.put(full(height, 2 * RECENT_TXS)));
        assert_eq!([6, 7, 8].map(|height| recent.get(height).is_some()), [false, true, true], "two stay");
        (9..12).for_each(|height| recent.put(full(height, 1)));
        assert_eq!([8, 9, 11].map(|height| recent.get(height).is_some()), [false, true, true]);
    }

    fn name(recent: &Recent, height: u64) -> Option<u8> {
        recent.get(height).map(|block| block.head.hash.0[0])
    }

    #[test]
    fn the_newest_blocks_stay_and_replaced_ones_go() {
        let recent = Recent::default();
        assert_eq!(name(&recent, 0), None);
        (5..50).for_each(|height| recent.put(block(height, height as u8)));
        assert_eq!([4, 17, 18, 49, 50].map(|height| name(&recent, height)), [None, None, Some(18), Some(49), None]);
        recent.put(block(47, 200));
        assert_eq!([46, 47, 48].map(|height| name(&recent, height)), [Some(46), Some(200), None]);
        recent.cut_above(46);
        assert_eq!([46, 47].map(|height| name(&recent, height)), [Some(46), None]);
        // A gap: nothing below is known to belong to it.
        recent.put(block(60, 60));
        assert_eq!([46, 59, 60].map(|height| name(&recent, height)), [None, None, Some(60)]);
        recent.cut_above(0);
        assert_eq!(name(&recent, 60), None);
    }

    #[test]
    fn blocks_and_transactions_are_found_by_hash_as_long_as_they_stay() {
        let (recent, hash) = (Recent::default(), B256::repeat_byte);
        let of = |height: u64, txs: &[u8]| {
            let mut block = Block::of(height, hash(100 + height as u8), (txs.len(), 0));
            block.entries.iter_mut().zip(txs).for_each(|(entry, name)| entry.hash = hash(*name));
            recent.put(Arc::new(block));
        };
        let found = |name: u8| recent.transaction(&hash(name)).map(|placed| (placed.block.height(), placed.index));
        of(1, &[1, 2]);
        of(2, &[3, 2]);
        assert_eq!([1, 2, 3, 4].map(found), [Some((1, 0)), Some((2, 1)), Some((2, 0)), None]);
        assert_eq!(recent.named(&hash(101)).map(|block| block.height()), Some(1));
        of(2, &[4]);
        assert_eq!([2, 3, 4].map(found), [Some((1, 1)), None, Some((2, 0))], "the replaced block is gone");
        recent.cut_above(1);
        assert_eq!((found(4), found(1)), (None, Some((1, 0))));
        (2..40).for_each(|height| of(height, &[]));
        assert_eq!((found(1), recent.named(&hash(101)).is_none()), (None, true));
    }
}
