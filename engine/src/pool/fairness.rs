//! How far an order has moved transactions from where they stood.

/// How far transactions moved between the order in which they were handed in and the one in which they run.
///
/// A framer trades order for parallelism, and what it may take from a single transaction is bounded: a frame leaves at the
/// latest [`max_age`](phalanx_paraframer::FramerConfig::max_age) pushes after its first member came, so on one stream nobody
/// moves further than that in either direction, whoever pays or floods. What leaves a block to be run again comes on top,
/// and is bounded in blocks. This measures what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fairness {
    /// Transactions counted.
    pub txs: usize,
    /// Furthest that one was moved, in either direction, in places.
    pub max_displacement: usize,
    /// Half of all were moved no further.
    pub p50: usize,
    /// 99 of 100 were moved no further.
    pub p99: usize,
    /// Furthest that one was moved back, in places: so many of those that came later went before it, at most.
    pub max_delay: usize,
    /// Most blocks that one ran later than it would have in the order handed in, cut into blocks of the same sizes.
    pub max_wait: usize,
}

impl Fairness {
    /// Measures an order, block by block. Each transaction is given by its rank in the order handed in: its index in the
    /// planner's input, or its rank in the pool. Ranks differ and need not be without gaps; those that are not in any block
    /// do not count.
    ///
    /// O(n log n).
    ///
    /// ```
    /// use phalanx::pool::Fairness;
    ///
    /// // The first one was overtaken by three, and missed its block.
    /// let fairness = Fairness::measure([[1u32, 2], [3, 0]]);
    /// assert_eq!((fairness.max_displacement, fairness.p50), (3, 1));
    /// assert_eq!((fairness.max_delay, fairness.max_wait), (3, 1));
    /// assert_eq!(Fairness::measure([[1u32, 2, 3]]).max_displacement, 0);
    /// ```
    pub fn measure<B>(blocks: impl IntoIterator<Item = B>) -> Self
    where
        B: IntoIterator<Item: Into<u64>>,
    {
        let mut ranks: Vec<(u64, usize)> = Vec::new();
        // The block of every place.
        let mut block_of: Vec<usize> = Vec::new();
        for (block, members) in blocks.into_iter().enumerate() {
            for rank in members {
                ranks.push((rank.into(), ranks.len()));
                block_of.push(block);
            }
        }
        ranks.sort_unstable();
        let mut fairness = Self { txs: ranks.len(), ..Self::default() };
        let mut displacements = Vec::with_capacity(ranks.len());
        for (before, (_, after)) in ranks.iter().enumerate() {
            displacements.push(before.abs_diff(*after));
            fairness.max_delay = fairness.max_delay.max(after.saturating_sub(before));
            let wait = block_of[*after].saturating_sub(block_of[before]);
            fairness.max_wait = fairness.max_wait.max(wait);
        }
        displacements.sort_unstable();
        let at_most = |percent: usize| {
            let count = (displacements.len() * percent).div_ceil(100);
            count.checked_sub(1).map_or(0, |last| displacements[last])
        };
        (fairness.p50, fairness.p99, fairness.max_displacement) = (at_most(50), at_most(99), at_most(100));
        fairness
    }
}
