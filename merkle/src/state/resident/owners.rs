//! The owner of each position of a resident state: the id that was written there.

use std::collections::VecDeque;

/// Positions per chunk. Chunks grow without copies.
const CHUNK: u64 = 1 << 14;

/// Marks a position that is known not to be active.
const NO_OWNER: u32 = u32::MAX;

/// Ids of consecutive positions: grows at the end and shrinks at both; four bytes per position.
#[derive(Debug, Default)]
pub(super) struct Owners {
    chunks: VecDeque<Box<[u32]>>,
    /// Number of the first chunk.
    first: u64,
    from: u64,
    next: u64,
}

fn chunk() -> Box<[u32]> {
    vec![NO_OWNER; CHUNK as usize].into()
}

impl Owners {
    #[inline]
    fn cell(&mut self, sn: u64) -> &mut u32 {
        &mut self.chunks[(sn / CHUNK - self.first) as usize][(sn % CHUNK) as usize]
    }

    #[inline]
    pub(super) fn get(&self, sn: u64) -> Option<u32> {
        (self.from..self.next)
            .contains(&sn)
            .then(|| self.chunks[(sn / CHUNK - self.first) as usize][(sn % CHUNK) as usize])
    }

    /// Sets the owner of the next position; `None` if it is not active.
    #[inline]
    pub(super) fn push(&mut self, id: Option<u32>) {
        self.extend(&[id.unwrap_or(NO_OWNER)]);
    }

    /// Sets the owners of the next positions.
    pub(super) fn extend(&mut self, mut ids: &[u32]) {
        if self.chunks.is_empty() {
            self.first = self.next / CHUNK;
        }
        while !ids.is_empty() {
            if self.next / CHUNK - self.first == self.chunks.len() as u64 {
                self.chunks.push_back(chunk());
            }
            let room = &mut self.chunks[(self.next / CHUNK - self.first) as usize][(self.next % CHUNK) as usize..];
            let (now, later) = ids.split_at(ids.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            (self.next, ids) = (self.next + now.len() as u64, later);
        }
    }

    /// Sets the owner of an earlier position.
    pub(super) fn set(&mut self, sn: u64, id: u32) {
        if sn < self.from {
            while sn / CHUNK < self.first {
                self.chunks.push_front(chunk());
                self.first -= 1;
            }
            (sn..self.from).for_each(|sn| *self.cell(sn) = NO_OWNER);
            self.from = sn;
        }
        *self.cell(sn) = id;
    }

    /// Forgets positions below `floor`.
    pub(super) fn raise(&mut self, floor: u64) {
        self.from = self.from.max(floor.min(self.next));
        while self.first < self.from / CHUNK && self.chunks.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Forgets positions from `next_sn` on.
    pub(super) fn truncate(&mut self, next_sn: u64) {
        self.next = next_sn.max(self.from);
        self.chunks.truncate((self.next.div_ceil(CHUNK).saturating_sub(self.first)) as usize);
    }

    /// Makes `sn` the next position; no position may be known.
    pub(super) fn begin_at(&mut self, sn: u64) {
        *self = Self { chunks: VecDeque::new(), first: sn / CHUNK, from: sn, next: sn };
    }

    pub(super) fn memory(&self) -> usize {
        self.chunks.len() * CHUNK as usize * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};
    use std::collections::BTreeMap;

    #[test]
    fn equals_a_map() {
        for seed in 0..6 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut owners, mut model) = (Owners::default(), BTreeMap::new());
            let (mut from, mut next) = (0u64, 0u64);
            if seed % 2 == 1 {
                (from, next) = (CHUNK * 3 - 5, CHUNK * 3 - 5);
                owners.begin_at(next);
            }
            for _ in 0..30 {
                match rng.random_range(0..8) {
                    0 => {
                        from = rng.random_range(from..next + 40).min(next);
                        owners.raise(from);
                        model = model.split_off(&from);
                    }
                    1 => {
                        next = rng.random_range(from.max(next.saturating_sub(3000))..=next);
                        owners.truncate(next);
                        model.split_off(&next);
                    }
                    2 if from < next => {
                        let sn = rng.random_range(from.saturating_sub(2 * CHUNK)..next);
                        owners.set(sn, 7);
                        (sn..from).for_each(|sn| _ = model.insert(sn, NO_OWNER));
                        model.insert(sn, 7);
                        from = from.min(sn);
                    }
                    3 => {
                        let ids: Vec<u32> =
                            (0..rng.random_range(0..3 * CHUNK)).map(|_| rng.random_range(0..1000)).collect();
                        owners.extend(&ids);
                        (next..).zip(&ids).for_each(|(sn, id)| _ = model.insert(sn, *id));
                        next += ids.len() as u64;
                    }
                    _ => {
                        for _ in 0..rng.random_range(0..2 * CHUNK) {
                            let id = rng.random_bool(0.9).then(|| rng.random_range(0..1000));
                            owners.push(id);
                            model.insert(next, id.unwrap_or(NO_OWNER));
                            next += 1;
                        }
                    }
                }
                let probes = [from.wrapping_sub(1), from, next.wrapping_sub(1), next, rng.random_range(0..next + 9)];
                for sn in probes {
                    assert_eq!(owners.get(sn), model.get(&sn).copied(), "seed {seed} position {sn}");
                }
            }
            for sn in from..next {
                assert_eq!(owners.get(sn), model.get(&sn).copied(), "seed {seed} position {sn}");
            }
        }
    }
}
