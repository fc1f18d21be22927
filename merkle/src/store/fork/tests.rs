//! A rewind that fails changes nothing.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::*;
use crate::types::{
    Backend, StoreConfig,
    faults::{Faults, Step, Verdict},
};

/// Fails all reads while it is switched on.
#[derive(Debug, Default)]
struct NoReads(AtomicBool);

impl Faults for NoReads {
    fn before(&self, step: Step<'_>) -> Verdict {
        match step {
            Step::Read(_) if self.0.load(Ordering::Relaxed) => Verdict::Fail(io::Error::other("told to fail")),
            _ => Verdict::Go,
        }
    }
}

#[test]
fn a_rewind_that_cannot_read_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let faults = Arc::new(NoReads::default());
    let config = StoreConfig::new(Backend::File(dir.path().into()));
    let mut store = Store::open(config.clone().with_faults(Arc::clone(&faults) as _)).expect("a store");
    for height in 0..4u8 {
        let mut delta = Delta::new();
        delta.put(b"key", &[height]);
        let prepared = store.prepare(delta, u64::from(height)).expect("a block").with_payload(vec![height; 3]);
        store.commit(prepared.expect("a short payload")).expect("a commit");
    }
    let mut delta = Delta::new();
    delta.put(b"key", b"held");
    let held = store.prepare_on(store.tip(), delta).expect("a block");
    let held = store.add_fork(held).expect("a held block");
    let before = (store.tip(), store.root(), store.payload().to_vec());

    faults.0.store(true, Ordering::Relaxed);
    assert!(matches!(store.rewind(Some(1)), Err(Error::Io { .. })));
    assert_eq!((store.tip(), store.root(), store.payload().to_vec()), before);
    assert_eq!(store.read().get(b"key"), Some(&[3][..]));
    assert!(store.is_fork(held));

    faults.0.store(false, Ordering::Relaxed);
    store.rewind(Some(1)).expect("it can be read now").write().expect("a write");
    let after = (store.height(), store.root(), store.payload().to_vec());
    assert_eq!((after.0, &after.2[..]), (Some(1), &[1; 3][..]));
    drop(store);
    let store = Store::open(config).expect("the store again");
    assert_eq!((store.height(), store.root(), store.payload().to_vec()), after);
}

/// A block that is committed while its child is a fork, which is committed while its own child is one, and so on.
#[test]
fn committed_blocks_leave_no_layers() {
    let mut store = Store::open(StoreConfig::new(Backend::Mem)).expect("a store");
    let change = |height: u32| {
        let mut delta = Delta::new();
        delta.put(&height.to_be_bytes(), b"value");
        delta
    };
    let mut layers = Vec::new();
    let mut parent = store.tip();
    for height in 0..200 {
        let prepared = store.prepare_on(parent, change(height)).expect("a block");
        let child = store.add_fork(prepared).expect("a fork");
        layers.push(Arc::downgrade(store.forks[&child.0].overlay.own().expect("a layer")));
        if height > 0 {
            store.apply_fork(parent).expect("a block").write().expect("a write");
        }
        parent = child;
    }
    let left = layers.iter().filter(|layer| layer.strong_count() > 0).count();
    assert!(left <= 1 + phalanx_memory::MERGED_LAYERS, "{left} layers for one fork");
}
