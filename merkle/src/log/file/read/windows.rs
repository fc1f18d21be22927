//! Windows: the parts of files that are read, aligned as direct reads must be. Neighbouring extents share a window.

use super::job::{FIRST, PAGE, WINDOW, Window};
use crate::log::{
    backend::{Spot, Target},
    file::state::unpack,
};

const _: () = assert!(FIRST + PAGE <= WINDOW as u64 && (WINDOW as u64).is_multiple_of(PAGE));

/// Covers spots with windows of whole units, a power of two up to [`PAGE`], in order. Spots and targets ascend.
pub(in crate::log::file) fn windows(spots: &[Spot], targets: &[Target], unit: u64) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::with_capacity(spots.len());
    let mut target = 0;
    for (at, spot) in spots.iter().enumerate() {
        let (number, offset) = unpack(spot.place);
        target += targets[target..].partition_point(|target| target.number < number);
        let (begin, end) = (offset / unit * unit, (offset + spot.most.min(FIRST)).next_multiple_of(unit));
        if let Some(last) = windows.last_mut().filter(|last| last.target == target) {
            // Across a page's bytes that are not needed, too: that is cheaper than another read.
            let near = (last.begin..=last.begin + last.len as u64 + PAGE).contains(&begin);
            let len = end.max(last.begin + last.len as u64) - last.begin;
            if near && len <= WINDOW as u64 {
                (last.len, last.end) = (len as usize, at + 1);
                continue;
            }
        }
        windows.push(Window { target, begin, len: (end - begin) as usize, first: at, end: at + 1 });
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::{super::job::SECTOR, *};
    use crate::log::file::state::pack;
    use rand::{Rng as _, SeedableRng as _};
    use std::sync::Arc;

    fn target(number: u32) -> Target {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        Target { number, cached: file, direct: None, path: "x".into() }
    }

    #[test]
    fn neighbours_share_a_window() {
        let spot = |number, offset, most| Spot { place: pack((number, offset)), most };
        let spots = [spot(1, 5000, 3000), spot(1, 8000, 3000), spot(1, 90_000, u64::MAX), spot(2, 90_000, 1)];
        let found = windows(&spots, &[target(1), target(2)], PAGE);
        let found: Vec<_> = found.iter().map(|at| (at.target, at.begin, at.len, at.first..at.end)).collect();
        assert_eq!(found, [(0, 4096, 8192, 0..2), (0, 86_016, 12_288, 2..3), (1, 86_016, 4096, 3..4)]);
    }

    #[test]
    fn a_window_of_sectors_is_shorter_than_one_of_pages() {
        let spots = [Spot { place: pack((1, 7000)), most: 2600 }, Spot { place: pack((1, 40_000)), most: 2600 }];
        let lens = |unit| windows(&spots, &[target(1)], unit).iter().map(|at| (at.begin, at.len)).collect::<Vec<_>>();
        assert_eq!(lens(PAGE), [(4096, 8192), (36_864, 8192)]);
        assert_eq!(lens(SECTOR), [(6656, 3072), (39_936, 3072)]);
    }

    #[test]
    fn every_spot_is_covered_once() {
        for seed in 0..50 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let targets: Vec<Target> = (3..6).map(target).collect();
            let mut spots = Vec::new();
            for number in 3..6 {
                let mut offset = rng.random_range(0..9000);
                for _ in 0..rng.random_range(1..60) {
                    let most = rng.random_range(1..20_000);
                    spots.push(Spot { place: pack((number, offset)), most });
                    offset += most + if rng.random() { 0 } else { rng.random_range(0..40_000) };
                }
            }
            let unit = SECTOR << rng.random_range(0..4);
            let windows = windows(&spots, &targets, unit);
            let mut next = 0;
            for window in &windows {
                assert_eq!(window.first, next, "seed {seed}");
                next = window.end;
                assert!(
                    window.len <= WINDOW
                        && (window.len as u64).is_multiple_of(unit)
                        && window.begin.is_multiple_of(unit)
                );
                for spot in &spots[window.first..window.end] {
                    let (number, offset) = unpack(spot.place);
                    assert_eq!(number, targets[window.target].number);
                    let end = offset + spot.most.min(FIRST);
                    assert!(window.begin <= offset && end <= window.begin + window.len as u64, "seed {seed}");
                }
            }
            assert_eq!(next, spots.len());
        }
    }
}
