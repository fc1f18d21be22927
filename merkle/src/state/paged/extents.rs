//! The place in the log of every position: six bytes per extent of up to 32 positions.

use std::collections::VecDeque;

use super::page::count_below;
use crate::log::{EXTENT_ENTRIES, Spot};

/// Maximum number of extents in a run.
const RUN: usize = 1024;

/// Consecutive extents, as small differences.
#[derive(Clone, Debug)]
struct Run {
    first_sn: u64,
    first_place: u64,
    /// First position and place of each extent, less those of the run: 16 bits and 32 bits.
    extents: Vec<[u16; 3]>,
}

impl Run {
    fn difference(&self, sn: u64, place: u64) -> Option<[u16; 3]> {
        let sn = u16::try_from(sn.checked_sub(self.first_sn)?).ok()?;
        let place = u32::try_from(place.checked_sub(self.first_place)?).ok()?;
        (self.extents.len() < RUN).then_some([sn, (place >> 16) as u16, place as u16])
    }

    /// Likely index of the extent behind that of a position so far into the run: most extents are full.
    const fn guess(&self, into: u64) -> usize {
        (into / EXTENT_ENTRIES as u64) as usize + 1
    }

    fn get(&self, at: usize) -> (u64, u64) {
        let [sn, high, low] = self.extents[at];
        let place = u32::from(high) << 16 | u32::from(low);
        (self.first_sn + u64::from(sn), self.first_place + u64::from(place))
    }
}

/// Position and place of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first_sn: u64,
    /// First position of the next extent, if there is one.
    pub(crate) end_sn: u64,
    pub(crate) spot: Spot,
}

/// Places of the chain's extents in the log, by first position.
///
/// # Invariants
/// Positions and places ascend from each extent to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    runs: VecDeque<Run>,
    /// Position below which the log may have been pruned.
    pruned: u64,
}

impl Extents {
    /// Decodes extents; `None` if they are not in order, or not below `next_sn`.
    pub(crate) fn decode(places: impl Iterator<Item = (u64, u64)>, next_sn: u64) -> Option<Self> {
        let (mut extents, mut last) = (Self::default(), None);
        for (first_sn, place) in places {
            let follows = last.is_none_or(|(sn, before)| sn < first_sn && before < place);
            if !follows || first_sn >= next_sn {
                return None;
            }
            extents.push(first_sn, place);
            last = Some((first_sn, place));
        }
        Some(extents)
    }

    /// First position that can be read; `None` if there is none.
    pub(crate) fn first_sn(&self) -> Option<u64> {
        self.runs.front().map(|run| run.first_sn.max(self.pruned))
    }

    /// Appends an extent.
    pub(crate) fn push(&mut self, first_sn: u64, place: u64) {
        if let Some(run) = self.runs.back_mut() {
            if let Some(difference) = run.difference(first_sn, place) {
                run.extents.push(difference);
                return;
            }
            run.extents.shrink_to_fit();
        }
        self.runs.push_back(Run { first_sn, first_place: place, extents: vec![[0; 3]] });
    }

    /// Extent of a position, if there is one.
    pub(crate) fn find(&self, sn: u64) -> Option<Extent> {
        let next = count_below(self.runs.len(), self.guess(sn)?, 1, |at| self.runs[at].first_sn <= sn);
        let run = &self.runs[next.checked_sub(1)?];
        let into = sn - run.first_sn;
        let at = count_below(run.extents.len(), run.guess(into), 2, |at| u64::from(run.extents[at][0]) <= into);
        let (first_sn, place) = run.get(at.checked_sub(1)?);
        let (end_sn, most) = if at < run.extents.len() {
            let (end_sn, end) = run.get(at);
            (end_sn, end - place)
        } else {
            (self.runs.get(next).map_or(u64::MAX, |run| run.first_sn), u64::MAX)
        };
        Some(Extent { first_sn, end_sn, spot: Spot { place, most } })
    }

    /// Likely index of the run behind a position's: runs have about as many positions each.
    fn guess(&self, sn: u64) -> Option<usize> {
        let (first, last) = (self.runs.front()?.first_sn, self.runs.back()?.first_sn);
        let into = u128::from(sn.clamp(first, last) - first) * (self.runs.len() - 1) as u128;
        Some((into / u128::from(last - first).max(1)) as usize + 1)
    }

    pub(crate) fn memory(&self) -> usize {
        let extents: usize = self.runs.iter().map(|run| run.extents.capacity() * size_of::<[u16; 3]>()).sum();
        extents + self.runs.capacity() * size_of::<Run>()
    }

    /// All extents, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().flat_map(|run| (0..run.extents.len()).map(|at| run.get(at)))
    }

    /// Forgets most extents that end at or before `first_sn`: the log may not have them any more.
    pub(crate) fn prune(&mut self, first_sn: u64) {
        self.pruned = self.pruned.max(first_sn);
        while self.runs.get(1).is_some_and(|run| run.first_sn <= first_sn) {
            self.runs.pop_front();
        }
    }

    /// Forgets extents that begin at `next_sn` or above.
    pub(crate) fn truncate(&mut self, next_sn: u64) {
        while let Some(run) = self.runs.back_mut() {
            let first = run.first_sn;
            run.extents.truncate(run.extents.partition_point(|[sn, ..]| first + u64::from(*sn) < next_sn));
            if !run.extents.is_empty() {
                return;
            }
            self.runs.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};
    use std::collections::BTreeMap;

    #[test]
    fn only_ascending_extents_are_decoded() {
        let decode = |places: &[(u64, u64)]| Extents::decode(places.iter().copied(), 500);
        let places = [(10, 1000), (42, 3000), (74, 3001), (90, 1 << 40)];
        let extents = decode(&places).expect("they are in order");
        assert_eq!(extents.iter().collect::<Vec<_>>(), places);
        assert_eq!(extents.first_sn(), Some(10));
        assert_eq!(decode(&[]).map(|extents| extents.first_sn()), Some(None));
        for at in 1..places.len() {
            let with = |place| {
                let mut places = places;
                places[at] = place;
                decode(&places).is_some()
            };
            let ((sn, place), (first_sn, own)) = (places[at - 1], places[at]);
            assert!(!with((sn, own)) && !with((sn - 1, own)), "a position is there twice, or goes back");
            assert!(!with((first_sn, place)) && !with((first_sn, place - 1)), "so is a place, or goes back");
            assert!(!with((500, own)), "there is no such position");
        }
    }

    #[test]
    fn equals_a_map() {
        for seed in 0..5 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut extents, mut model) = (Extents::default(), BTreeMap::new());
            let (mut sn, mut place) = (rng.random_range(0..1000), rng.random_range(0..1000u64));
            for _ in 0..9000 {
                extents.push(sn, place);
                model.insert(sn, place);
                sn += rng.random_range(1..33) * if rng.random_bool(0.001) { 5000 } else { 1 };
                place += rng.random_range(1..6000) + if rng.random_bool(0.01) { 1 << 40 } else { 0 };
                if rng.random_bool(0.001) {
                    let to = sn.saturating_sub(rng.random_range(0..20_000));
                    extents.truncate(to);
                    model.retain(|sn, _| *sn < to);
                }
            }
            assert_eq!(extents.iter().collect::<BTreeMap<_, _>>(), model, "seed {seed}");
            let floor = sn / 3;
            for pruned in [false, true] {
                for _ in 0..3000 {
                    let sn = rng.random_range(if pruned { floor } else { 0 }..sn + 10);
                    let expected = model.range(..=sn).next_back().map(|(sn, place)| (*sn, *place));
                    let next = model.range(sn + 1..).next().map(|(sn, place)| (*sn, *place));
                    let found = extents.find(sn);
                    assert_eq!(found.map(|found| (found.first_sn, found.spot.place)), expected, "seed {seed}");
                    let Some(Extent { end_sn, spot: Spot { place, most }, .. }) = found else { continue };
                    assert_eq!(end_sn, next.map_or(u64::MAX, |(sn, _)| sn), "seed {seed}");
                    assert!(most == u64::MAX || next.is_some_and(|(_, end)| end == place + most), "seed {seed}");
                }
                extents.prune(floor);
            }
        }
    }
}
