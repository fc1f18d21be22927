//! A resident state equals a map, and one that is loaded equals one that is built key by key.

use phalanx_merkle_proof::{Entry, Params};
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;

use super::{Resident, Run};
use crate::{
    parallel::Par,
    types::{Links, Locator, Lookup, Written},
};

#[test]
fn equals_a_map_and_detects_stale_locators() {
    for seed in 0..8 {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut resident = Resident::new(seed, &Params::default());
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut stale: Vec<Locator> = Vec::new();
        for step in 0..4000u64 {
            // Lengths whose key and value are in the record, beside it, and elsewhere.
            let key = vec![rng.random_range(0..60u8); [0, 20, 52, 58, 59, 62, 180][rng.random_range(0..7)]];
            let most = [4, 45, 200][rng.random_range(0..3)];
            let value = vec![step as u8; rng.random_range(0..most)];
            let links = Links { hash: Params::default().hash.key(&key), next: [0; 32] };
            let written = Written::new(step, None, 0);
            match (resident.find(&key), rng.random_bool(0.3)) {
                (Some(id), true) => {
                    stale.push(resident.locator(id));
                    resident.remove(id);
                    model.remove(&key);
                }
                (Some(id), false) => {
                    resident.replace(id, &value);
                    model.insert(key, value);
                }
                (None, _) => {
                    let ids =
                        resident.insert_all([(&key[..], &value[..], links, written)].into_iter(), Par::UNOBSERVED);
                    resident.own(&ids);
                    model.insert(key, value);
                }
            }
            assert_eq!(resident.len(), model.len(), "seed {seed} step {step}");
        }
        for (key, value) in &model {
            let id = resident.find(key).expect("a key of the model");
            assert_eq!(resident.entry(id), (&key[..], &value[..]), "seed {seed}");
            assert_eq!(resident.live(resident.locator(id)), Some(id));
        }
        assert!(stale.iter().all(|locator| resident.live(*locator).is_none()), "seed {seed}");
        let keys: Vec<_> = model.keys().collect();
        let mut at = 0;
        resident.find_many(keys.iter().map(|key| Lookup::Key(key)), |id| {
            assert_eq!(id, resident.find(keys[at]), "seed {seed}");
            at += 1;
        });
        assert_eq!(at, keys.len());
    }
}

#[test]
fn survives_growth_of_the_index() {
    let mut resident = Resident::new(3, &Params::default());
    let keys: Vec<[u8; 8]> = (0..40_000u64).map(u64::to_le_bytes).collect();
    // One by one at first, then more and more at a time.
    let mut inserted = 0;
    while inserted < keys.len() {
        let some = &keys[inserted..keys.len().min(inserted + 1 + inserted / 3)];
        let mut some_by_hash: Vec<_> = some.iter().map(|key| (Params::default().hash.key(key), key)).collect();
        some_by_hash.sort_unstable();
        let new = some_by_hash.iter().map(|(hash, key)| {
            let (links, sn) = (Links { hash: *hash, next: [0; 32] }, u64::from_le_bytes(**key));
            (&key[..], &b"v"[..], links, Written::new(sn, None, 0))
        });
        let ids = resident.insert_all(new, Par::UNOBSERVED);
        resident.own(&ids);
        inserted += some.len();
    }
    for key in 0..40_000u64 {
        let id = resident.find(&key.to_le_bytes()).expect("an inserted key");
        assert_eq!(resident.written(id).sn, key);
    }
    assert_eq!(resident.find(&40_000u64.to_le_bytes()), None);
}

/// Positions of a log with their entries.
struct SegmentPart {
    first_sn: u64,
    entries: Vec<(bool, Vec<u8>, Vec<u8>)>,
}

impl Run for SegmentPart {
    fn first_sn(&self) -> u64 {
        self.first_sn
    }

    fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    fn each<'s>(&'s self, visit: &mut dyn FnMut(Entry<'s>)) {
        for (at, (sentinel, key, value)) in self.entries.iter().enumerate() {
            let (height, previous) = (self.first_sn + at as u64, (at % 3 == 0).then_some(at as u64));
            visit(Entry { sentinel: *sentinel, key, value, next: [at as u8; 32], previous, height });
        }
    }
}

#[test]
fn loaded_equals_inserted() {
    for seed in 0..4 {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let params = Params::default();
        let count = params.sentinels.count();
        // Some sentinels are among the entries, and some entries are not current.
        let (mut sn, mut runs, mut active) = (count, Vec::new(), Vec::new());
        for _ in 0..[1, 40, 900, 1500][seed as usize] {
            let entries: Vec<_> = (0..rng.random_range(0..33u64))
                .map(|at| {
                    let sentinel = rng.random_range(0..2000u64) < count && active.len().is_multiple_of(7);
                    let mut key = vec![seed as u8; [8, 20, 52, 62, 180][rng.random_range(0..5)]];
                    key[..8].copy_from_slice(&(sn + at).to_be_bytes());
                    let value = vec![at as u8; rng.random_range(0..90)];
                    let name = params.sentinels.name(rng.random_range(0..count)).to_vec();
                    if sentinel { (true, name, Vec::new()) } else { (false, key, value) }
                })
                .collect();
            active.extend(entries.iter().map(|_| rng.random_bool(0.5)));
            let first_sn = sn;
            sn += entries.len() as u64;
            runs.push(SegmentPart { first_sn, entries });
        }
        let is_active = |sn: u64| sn >= count && active[(sn - count) as usize];
        let mut loaded = Resident::new(seed, &params);
        for runs in runs.chunks(700) {
            assert!(loaded.load(runs, is_active), "seed {seed}");
        }
        loaded.index_all();
        assert!(loaded.link_all(), "seed {seed}");

        let mut model = Resident::new(seed, &params);
        for run in &runs {
            let mut sn = run.first_sn;
            run.each(&mut |entry| {
                let written = Written::new(sn, entry.previous, entry.height);
                match model.sentinel(entry.key).filter(|_| entry.sentinel) {
                    _ if !is_active(sn) => model.owners.push(None),
                    Some(id) => {
                        model.set_next(id, &entry.next);
                        model.write(id, written);
                    }
                    None => {
                        let links = Links { hash: entry.key_hash(params.hash), next: entry.next };
                        let new = [(entry.key, entry.value, links, written)];
                        let ids = model.insert_all(new.into_iter(), Par::UNOBSERVED);
                        model.own(&ids);
                    }
                }
                sn += 1;
            });
        }
        let all = |state: &Resident| -> Vec<_> {
            let ids = state.in_key_order(&[0; 32]).collect::<Vec<_>>();
            let of = |id: &u32| (state.hash(*id), state.written(*id), format!("{:?}", state.committed(*id)));
            ids.iter().map(of).collect()
        };
        assert_eq!(loaded.len(), model.len());
        assert_eq!(all(&loaded), all(&model), "seed {seed}");
        for at in 0..sn {
            assert_eq!(loaded.owner(at).is_some(), model.owner(at).is_some(), "seed {seed} position {at}");
            let written = |state: &Resident| state.owner(at).filter(|id| *id != u32::MAX).map(|id| state.hash(id));
            assert_eq!(written(&loaded), written(&model), "seed {seed} position {at}");
        }
        for (key, value) in model.iter() {
            let id = loaded.find(key).expect("a key of the model");
            assert_eq!(loaded.entry(id), (key, value), "seed {seed}");
        }
        // The first key a second time is refused.
        if let Some((key, _)) = model.iter().next() {
            let again = SegmentPart { first_sn: sn, entries: vec![(false, key.to_vec(), Vec::new())] };
            assert!(loaded.load(&[again], |_| true) && !loaded.link_all(), "seed {seed}");
        }
    }
}
