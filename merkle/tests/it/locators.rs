//! A locator names a key of its store or is stale, wherever it comes from.

use phalanx_merkle::{Backend, Delta, Error, Memory, Params, Sentinels, Store, StoreConfig};

use crate::common::{chain_ops, plain};

fn key(number: u64) -> [u8; 20] {
    let mut key = [9; 20];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn commit(store: &mut Store, delta: Delta) {
    let prepared = store.prepare(delta, store.height().map_or(0, |height| height + 1)).expect("a block");
    store.commit(prepared).expect("a block");
}

fn filled(config: StoreConfig, keys: u64) -> Store {
    let mut store = Store::open(config).expect("a store");
    let mut delta = Delta::new();
    (0..keys).for_each(|number| delta.put(&key(number), b"first"));
    commit(&mut store, delta);
    store
}

/// A store's places of keys are another store's places of sentinels, which no delta may change.
#[test]
fn no_locator_names_a_sentinel() {
    let with = |bits: u8| {
        let params = Params { sentinels: Sentinels::new(bits).expect("so many"), ..Params::default() };
        StoreConfig::new(Backend::Mem).with_params(params)
    };
    let (few, many) = (filled(with(2), 200), filled(with(6), 200));
    let (root, mut named) = (many.root(), 0);
    for number in 0..200 {
        let locator = few.read().locate(&key(number)).expect("a key");
        let mut delta = Delta::new();
        delta.put_at(locator, b"another");
        match many.prepare(delta, 1) {
            // The locator names some key.
            Ok(_) => {
                assert_eq!(many.read().value(locator), Some(&b"first"[..]));
                named += 1;
            }
            Err(Error::StaleLocator) => assert_eq!(many.read().value(locator), None),
            Err(other) => panic!("{other}"),
        }
    }
    // Places of 64 sentinels, of which four are sentinels in both.
    assert_eq!((named, many.root()), (140, root));
}

/// A declared change is not looked up, and is checked all the same on every state: the tip, in memory or on disk, and a
/// fork. A delta that is wrong about one key of many changes nothing.
#[test]
fn a_declared_change_is_checked() {
    let dir = crate::common::folder();
    let on_disk =
        StoreConfig::new(Backend::File(dir.path().to_path_buf())).with_memory(Memory::Cached { bytes: 1 << 16 });
    for (config, keys) in
        [(StoreConfig::new(Backend::Mem), 300), (StoreConfig::new(Backend::Mem), 20_000), (on_disk, 300)]
    {
        let mut store = filled(config, keys);
        let at: Vec<_> = (0..keys).map(|number| store.read().locate(&key(number)).expect("a key")).collect();
        let change = |spoilt: Option<u64>| {
            let mut delta = Delta::new();
            for number in 0..keys {
                let value = if spoilt == Some(number) { b"first" } else { b"other" };
                delta.change_at(at[number as usize], value);
            }
            delta
        };
        let mut named = Delta::new();
        (0..keys).for_each(|number| named.put(&key(number), b"other"));
        let root = store.prepare(named, 1).expect("a block").root();
        assert_eq!(store.prepare(change(None), 1).expect("a block").root(), root);
        for spoilt in [0, keys / 2, keys - 1] {
            assert!(matches!(store.prepare(change(Some(spoilt)), 1), Err(Error::Unchanged)));
        }

        // The last operation on a key counts, whatever the earlier ones declared.
        let mut delta = change(Some(3));
        delta.put(&key(3), b"other");
        assert_eq!(store.prepare(delta, 1).expect("a block").root(), root);
        let mut delta = change(None);
        delta.change_at(at[3], b"first");
        assert!(matches!(store.prepare(delta, 1), Err(Error::Unchanged)));

        // On a fork the key has that block's value.
        let mut delta = Delta::new();
        delta.put(&key(5), b"other");
        let beside = store.prepare(delta, 1).expect("a block");
        let parent = store.add_fork(beside).expect("a block beside the chain");
        let on_parent = |value: &[u8]| {
            let mut delta = Delta::new();
            delta.change_at(at[5], value);
            store.prepare_on(parent, delta)
        };
        assert!(matches!(on_parent(b"other"), Err(Error::Unchanged)));
        assert!(on_parent(b"first").is_ok());
        let mut delta = Delta::new();
        delta.change_at(at[5], b"other");
        delta.put(&key(5), b"third");
        assert!(store.prepare_on(parent, delta).is_ok());

        // Another key takes the place, then none.
        let mut delta = Delta::new();
        delta.delete(&key(7));
        commit(&mut store, delta);
        let stale = |store: &Store| {
            matches!(store.prepare(change(None), store.height().unwrap_or_default() + 1), Err(Error::StaleLocator))
        };
        assert!(stale(&store));
        let mut delta = Delta::new();
        delta.put(&key(keys), b"first");
        commit(&mut store, delta);
        assert!(stale(&store));
        store.check().expect("a sound store");
    }
}

/// A locator of another store may have the place and generation of a key here, but not its hash.
#[test]
fn a_foreign_locator_changes_nothing() {
    let own = filled(StoreConfig::new(Backend::Mem), 100);
    let mut foreign = Store::open(StoreConfig::new(Backend::Mem)).expect("a store");
    let mut delta = Delta::new();
    (1000..1100).for_each(|number| delta.put(&key(number), b"first"));
    commit(&mut foreign, delta);
    let mut named = 0;
    for number in 1000..1100 {
        let locator = foreign.read().locate(&key(number)).expect("a key");
        named += usize::from(own.read().value(locator).is_some());
        let mut delta = Delta::new();
        delta.change_at(locator, b"other");
        assert!(matches!(own.prepare(delta, 1), Err(Error::StaleLocator)));
    }
    assert_eq!(named, 100, "each is some key's by place and generation");
}

/// On disk a locator is a position. A position that was never used, or that the log has dropped, is stale; reading it
/// does not end the store.
fn positions_out_of_range_are_stale(kind: fn(std::path::PathBuf) -> Backend) {
    let dir = crate::common::folder();
    let memory = Memory::Cached { bytes: 1 << 16 };
    let config = |name: &str| StoreConfig::new(kind(dir.path().join(name))).with_memory(memory).with_history(1);
    let other = filled(config("other"), 9000);
    let mut store = filled(config("own"), 100);
    let beyond: Vec<_> =
        [200, 5000, 8999].map(|number| other.read().locate(&key(number))).into_iter().flatten().collect();
    let is_stale = |store: &Store, locator| {
        assert_eq!(store.read().value(locator), None);
        let mut delta = Delta::new();
        delta.put_at(locator, b"another");
        let prepared = store.prepare(delta, store.height().map_or(0, |height| height + 1));
        assert!(matches!(prepared, Err(Error::StaleLocator)), "{prepared:?}");
        assert!(store.read().check().is_ok() && store.flush().is_ok(), "the store goes on");
    };
    let next_sn = store.shape().next_sn;
    let last = other.read().locate(&key(8999)).expect("a key");
    assert!(other.shape().next_sn > next_sn + 5000, "{last:?}");
    let stale = beyond.iter().filter(|locator| store.read().value(**locator).is_none()).count();
    assert!(stale > 1, "most are beyond the end");
    beyond.iter().filter(|locator| store.read().value(**locator).is_none()).for_each(|at| is_stale(&store, *at));
    // The first positions are dropped in the end.
    let old = store.read().locate(&key(3)).expect("a key");
    let mut pruned = 0;
    for height in 1..8u64 {
        let mut delta = plain(&chain_ops(90, height));
        (0..4500).for_each(|number| delta.put(&key(number), &vec![height as u8; 16_000]));
        commit(&mut store, delta);
        pruned += store.prune().expect("a pruned store");
    }
    assert!(pruned > 0);
    is_stale(&store, old);
    drop(store);
    // A foreign locator of such a position does not harm a store that was opened later.
    let store = Store::open(config("own")).expect("a store");
    is_stale(&store, old);
    assert_eq!(store.read().get(&key(3)), Some(&vec![7; 16_000][..]));
    store.check().expect("a sound store");
}

#[test]
fn positions_out_of_range_are_stale_in_a_file() {
    positions_out_of_range_are_stale(Backend::File);
}

#[cfg(feature = "rocksdb")]
#[test]
fn positions_out_of_range_are_stale_in_a_database() {
    positions_out_of_range_are_stale(Backend::Rocks);
}
