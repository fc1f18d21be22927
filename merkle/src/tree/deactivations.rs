//! Positions that a block deactivates, sorted by the region of their bits: threads share the twigs, and each clears the
//! bits of its own.

use phalanx_merkle_proof::Shape;

use super::twig::twig_of;

/// Maximum number of regions that the twigs are divided into.
pub(crate) const REGIONS: usize = 64;

/// Threads below which one region is as fast: the driving thread clears all bits while the others seal receipts.
const WORTH_REGIONS: usize = 4;

/// Division of the twigs in use into regions of neighbouring twigs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regions {
    first: u64,
    end: u64,
    /// Twigs per region, as a power of two.
    shift: u32,
}

impl Regions {
    /// Divides all twigs of `shape` for this many threads. The result of a block does not depend on it.
    pub(crate) const fn of(shape: &Shape, threads: usize) -> Self {
        let (first, end) = (shape.first_twig(), shape.twigs());
        let count = if threads < WORTH_REGIONS { 1 } else { REGIONS };
        let each = (end - first).div_ceil(count as u64);
        Self { first, end, shift: each.next_power_of_two().ilog2() }
    }

    /// Number of regions that are not empty.
    pub(crate) const fn count(&self) -> usize {
        (self.end - self.first).div_ceil(1 << self.shift) as usize
    }

    /// Twigs of a region; the last regions may be empty.
    pub(crate) fn twigs(&self, region: usize) -> core::ops::Range<u64> {
        let begin = |region: usize| self.end.min(self.first + ((region as u64) << self.shift));
        begin(region)..begin(region + 1)
    }

    #[inline]
    const fn region(&self, sn: u64) -> usize {
        ((twig_of(sn) - self.first) >> self.shift) as usize
    }
}

/// Deactivated positions by region.
#[derive(Debug)]
pub(crate) struct Deactivations {
    sns: Vec<u64>,
    ends: [u32; REGIONS],
}

impl Deactivations {
    /// Sorts positions, all in twigs of `regions`, by region.
    pub(crate) fn new(regions: &Regions, sns: Vec<u64>) -> Self {
        if regions.count() <= 1 {
            return Self { ends: [sns.len() as u32; REGIONS], sns };
        }
        let mut ends = [0; REGIONS];
        sns.iter().for_each(|sn| ends[regions.region(*sn)] += 1);
        let mut begin = 0;
        for end in &mut ends {
            (*end, begin) = (begin, begin + *end);
        }
        let mut sorted = vec![0; sns.len()];
        for sn in sns {
            let end = &mut ends[regions.region(sn)];
            sorted[*end as usize] = sn;
            *end += 1;
        }
        Self { sns: sorted, ends }
    }

    /// Number of positions.
    pub(crate) const fn len(&self) -> usize {
        self.sns.len()
    }

    /// Positions of one region.
    pub(crate) fn region(&self, region: usize) -> &[u64] {
        let begin = if region == 0 { 0 } else { self.ends[region - 1] };
        &self.sns[begin as usize..self.ends[region] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_merkle_proof::TWIG_LEAVES;

    #[test]
    fn every_position_is_in_its_twigs_region() {
        const LEAVES: u64 = TWIG_LEAVES as u64;
        for (first, twigs) in [(0, 1), (0, 63), (5, 64), (7, 65), (3, 1000)] {
            let shape = Shape { next_sn: (first + twigs) * LEAVES - 3, floor: first * LEAVES + 1, active: 0 };
            for threads in [1, WORTH_REGIONS] {
                let regions = Regions::of(&shape, threads);
                assert!(regions.count() <= REGIONS && (threads > 1 || regions.count() == 1));
                let all: Vec<u64> = (0..regions.count()).flat_map(|region| regions.twigs(region)).collect();
                assert_eq!(all, (first..first + twigs).collect::<Vec<_>>());
                let sns: Vec<u64> = (shape.floor..shape.next_sn).rev().step_by(701).collect();
                let off = Deactivations::new(&regions, sns.clone());
                assert_eq!(off.len(), sns.len());
                let mut seen = Vec::new();
                for region in 0..regions.count() {
                    assert!(off.region(region).iter().all(|sn| regions.twigs(region).contains(&twig_of(*sn))));
                    seen.extend_from_slice(off.region(region));
                }
                seen.sort_unstable_by_key(|sn| core::cmp::Reverse(*sn));
                assert_eq!(seen, sns);
            }
        }
    }
}
