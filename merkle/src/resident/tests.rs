use super::*;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;

#[test]
fn equals_a_map_and_detects_stale_locators() {
    for seed in 0..8 {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut resident = Resident::new(seed, &Params::default());
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut stale: Vec<Locator> = Vec::new();
        for step in 0..4000u64 {
            let key = vec![rng.random_range(0..60u8); rng.random_range(0..4usize) * 60];
            let value = vec![step as u8; rng.random_range(0..200)];
            let mut hash = [7; 32];
            hash[..8].copy_from_slice(&(1 << 60 | step).to_be_bytes());
            let links = Links { hash, next: [0; 32] };
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
                    resident.insert(&key, &value, links, written);
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
        resident.find_many::<false>(keys.iter().map(|key| Lookup::Key(key)), |id| {
            assert_eq!(id, resident.find(keys[at]), "seed {seed}");
            at += 1;
        });
        assert_eq!(at, keys.len());
    }
}

#[test]
fn survives_growth_of_the_index() {
    let mut resident = Resident::new(3, &Params::default());
    for key in 0..40_000u64 {
        let mut hash = [0; 32];
        hash[24..].copy_from_slice(&(key + 1).to_be_bytes());
        resident.insert(&key.to_le_bytes(), b"v", Links { hash, next: [0; 32] }, Written::new(key, None, 0));
    }
    for key in 0..40_000u64 {
        let id = resident.find(&key.to_le_bytes()).expect("an inserted key");
        assert_eq!(resident.written(id).sn, key);
    }
    assert_eq!(resident.find(&40_000u64.to_le_bytes()), None);
}
