//! Displacement of transactions between two orders.

/// Distances that transactions moved between the order of arrival and the order of execution.
///
/// A framer trades order for parallelism, within a bound. A frame leaves at the latest
/// [`max_age`](phalanx_paraframer::FramerConfig::max_age) pushes after its first member came. So on one stream no
/// transaction moves further than that in either direction, at any price and under any flood. Escaped transactions
/// are requeued on top of that, bounded in blocks. This type measures the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fairness {
    /// Number of transactions counted.
    pub txs: usize,
    /// Maximum displacement in either direction, in places.
    pub max_displacement: usize,
    /// Median displacement, in places.
    pub p50: usize,
    /// Displacement that 99 of 100 do not exceed, in places.
    pub p99: usize,
    /// Maximum delay, in places: so many later transactions at most went before an earlier one.
    pub max_delay: usize,
    /// Maximum number of blocks that a transaction ran later than in the order of arrival, cut into blocks of the
    /// same sizes.
    pub max_wait: usize,
}

impl Fairness {
    /// Measures an order, block by block. Each transaction is given by its rank in the order of arrival: its index in
    /// the planner's input, or its rank in the pool. Ranks are distinct and may have gaps; transactions in no block
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
        // Block of every place.
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
