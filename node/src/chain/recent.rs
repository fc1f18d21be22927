//! The newest stored blocks, as they were stored: what shows a block need not read it back.

use crate::store::Block;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// Maximum number of blocks that stay.
const RECENT: usize = 32;

/// Maximum number of transactions of all but the newest two blocks: that which is shown, and that which is written.
const RECENT_TXS: usize = 1 << 15;

/// The newest stored blocks, in order of height. Not all of them need be committed.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Arc<Block>>>);

impl Recent {
    /// Adds a block in place of those at its height and above.
    pub(super) fn put(&self, block: Arc<Block>) {
        let blocks = &mut *self.0.lock();
        cut(blocks, block.height());
        if blocks.back().is_some_and(|last| last.height() + 1 != block.height()) {
            blocks.clear();
        }
        blocks.push_back(block);
        let txs = |blocks: &VecDeque<Arc<Block>>| blocks.iter().map(|block| block.entries.len()).sum::<usize>();
        while blocks.len() > RECENT || blocks.len() > 2 && txs(blocks) > RECENT_TXS {
            blocks.pop_front();
        }
    }

    /// Removes the blocks above a height.
    pub(super) fn cut_above(&self, height: u64) {
        cut(&mut self.0.lock(), height.saturating_add(1));
    }

    pub(super) fn get(&self, height: u64) -> Option<Arc<Block>> {
        let blocks = self.0.lock();
        let place = height.checked_sub(blocks.front()?.height())?;
        blocks.get(usize::try_from(place).ok()?).cloned()
    }
}

/// Removes the blocks from a height on.
fn cut(blocks: &mut VecDeque<Arc<Block>>, from: u64) {
    while blocks.pop_back_if(|block| block.height() >= from).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::alloy::primitives::B256;

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
}
