//! A stack of layers that costs what its newest layer does: copies share what is below.

use std::sync::Arc;

/// A new layer is merged with layers below it as long as they weigh no more than this many times its own weight, and
/// [`FLOOR`]. More makes searches shorter and layers dearer.
const FACTOR: usize = 16;

/// Weight up to which layers are merged whatever the newest one weighs.
const FLOOR: usize = 1024;

/// Maximum number of layers that are merged: what is below [`Strata::trim`] stays with the layers it is merged with.
pub const MERGED_LAYERS: usize = 16;

/// Layers on top of each other, oldest first, of which some neighbours are merged into one stratum.
///
/// A search asks the strata one by one, the newest first: ten or so for 64 layers, whatever they weigh. Adding a
/// layer takes time and memory in proportion to the layer, and a copy in proportion to the number of strata.
///
/// ```
/// use phalanx_memory::Strata;
/// use std::collections::HashMap;
///
/// let layer = |key: u32, value: u32| HashMap::from([(key, value)]);
/// let mut stack = Strata::default();
/// stack.push(layer(1, 10), 1, |older: &mut HashMap<u32, u32>, newer| older.extend(newer));
/// let below = stack.clone();
/// stack.push(layer(1, 11), 1, |older, newer| older.extend(newer));
/// let find = |stack: &Strata<HashMap<u32, u32>>| stack.newest_first().find_map(|layer| layer.get(&1).copied());
/// assert_eq!((find(&below), find(&stack)), (Some(10), Some(11)));
/// ```
#[derive(Debug)]
pub struct Strata<R> {
    /// Oldest first.
    strata: Vec<Arc<Stratum<R>>>,
}

#[derive(Debug)]
struct Stratum<R> {
    data: R,
    weight: usize,
    layers: usize,
}

impl<R> Default for Strata<R> {
    fn default() -> Self {
        Self { strata: Vec::new() }
    }
}

impl<R> Clone for Strata<R> {
    fn clone(&self) -> Self {
        Self { strata: self.strata.clone() }
    }
}

impl<R: Clone> Strata<R> {
    /// Adds the newest layer. `merge` adds a newer layer to an older one; its cost per unit of weight should be constant.
    pub fn push(&mut self, layer: R, weight: usize, mut merge: impl FnMut(&mut R, &R)) {
        let most = weight.saturating_mul(FACTOR).saturating_add(FLOOR);
        let (mut from, mut total, mut layers) = (self.strata.len(), weight, 1);
        while let Some(below) = from.checked_sub(1).map(|at| &self.strata[at]) {
            if total.saturating_add(below.weight) > most || layers + below.layers > MERGED_LAYERS {
                break;
            }
            (from, total, layers) = (from - 1, total + below.weight, layers + below.layers);
        }
        let merged = self.strata.get(from).map(|oldest| {
            let mut data = oldest.data.clone();
            self.strata[from + 1..].iter().for_each(|newer| merge(&mut data, &newer.data));
            merge(&mut data, &layer);
            data
        });
        self.strata.truncate(from);
        self.strata.push(Arc::new(Stratum { data: merged.unwrap_or(layer), weight: total, layers }));
    }
}

impl<R> Strata<R> {
    /// Strata from the newest to the oldest.
    pub fn newest_first(&self) -> impl Iterator<Item = &R> {
        self.strata.iter().rev().map(|stratum| &stratum.data)
    }

    /// Drops strata below the newest `layers` layers and returns the number of layers in them. Older layers that are
    /// merged with one of these stay, at most [`MERGED_LAYERS`].
    pub fn trim(&mut self, layers: usize) -> usize {
        let mut above: usize = self.strata.iter().map(|stratum| stratum.layers).sum();
        let mut gone = 0;
        let old = self.strata.iter().take_while(|stratum| {
            above -= stratum.layers;
            let old = above >= layers;
            gone += if old { stratum.layers } else { 0 };
            old
        });
        let old = old.count();
        self.strata.drain(..old);
        gone
    }

    /// Number of strata: the most that a search asks.
    pub const fn len(&self) -> usize {
        self.strata.len()
    }

    /// True if there is no layer.
    pub const fn is_empty(&self) -> bool {
        self.strata.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Layer = BTreeMap<u32, usize>;

    /// A stack of layers that hold `sizes` keys; returns it and the total weight of the merged layers.
    fn stack(sizes: &[usize]) -> (Strata<Layer>, usize) {
        let (mut stack, mut work) = (Strata::default(), 0);
        for (number, size) in sizes.iter().enumerate() {
            let layer = (0..*size as u32).map(|key| (key, number)).collect();
            let before = work;
            stack.push(layer, *size, |older: &mut Layer, newer| {
                work += newer.len();
                older.extend(newer);
            });
            assert!(work - before <= size * FACTOR + FLOOR, "layer {number} of {sizes:?}");
        }
        (stack, work)
    }

    /// Numbers from a fixed sequence (SplitMix64), for sizes of layers.
    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ *seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    }

    #[test]
    fn the_newest_layer_counts() {
        let mut seed = 40;
        for _ in 0..20 {
            let sizes: Vec<usize> = (0..40).map(|_| 1usize << (random(&mut seed) % 12)).collect();
            let (stack, _) = stack(&sizes);
            for key in 0..2048u32 {
                let found = stack.newest_first().find_map(|layer| layer.get(&key).copied());
                assert_eq!(found, sizes.iter().rposition(|size| key < *size as u32), "{sizes:?}");
            }
        }
    }

    #[test]
    fn searches_are_short_whatever_the_layers_weigh() {
        let mut seed = 41;
        let mut most = 0;
        let mut check = |sizes: Vec<usize>| {
            let mut stack = Strata::default();
            for (number, size) in sizes.iter().enumerate() {
                stack.push((), *size, |(), ()| ());
                assert!(stack.len() <= 24, "{} strata for {:?}", stack.len(), &sizes[..=number]);
                most = most.max(stack.len());
            }
        };
        check(vec![1; 64]);
        check(vec![5_000; 64]);
        check((0..64).map(|layer| 1 << (40 - layer.min(40))).collect());
        check((0..64).map(|layer| if layer % 2 == 0 { 1_000_000 } else { 1 }).collect());
        // Each layer is the heaviest that is not merged with the last stratum, or the lightest that is.
        for divisor in [7, 8, 6, 14] {
            let (mut sizes, mut at) = (Vec::new(), 100_000_000usize);
            while sizes.len() < 64 {
                sizes.push(at.max(1));
                at = if sizes.len() % divisor == 0 { at / divisor } else { at * 8 / 7 };
            }
            check(sizes);
        }
        for _ in 0..2_000 {
            let wide = random(&mut seed) % 30 + 1;
            check((0..64).map(|_| (random(&mut seed) >> (64 - random(&mut seed) % wide - 1)) as usize).collect());
        }
        assert!(most >= 5, "the bound is a bound of something: {most}");
    }

    #[test]
    fn trimming_keeps_the_newest_layers() {
        let (full, _) = stack(&[3_000; 40]);
        for keep in 0..=40 {
            let mut trimmed = full.clone();
            let gone = trimmed.trim(keep);
            let left: usize = trimmed.strata.iter().map(|stratum| stratum.layers).sum();
            assert_eq!(left + gone, 40);
            assert!(left >= keep && left < keep + MERGED_LAYERS, "{left} of {keep}");
        }
    }
}
