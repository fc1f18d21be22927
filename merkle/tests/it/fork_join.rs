//! The fork-join observer of a store hears every shared part once, and parts of small blocks not at all.

use std::{
    sync::{Arc, Mutex, OnceLock},
    thread::ThreadId,
};

use phalanx_merkle::{Backend, Delta, ForkJoinObserver, Store, StoreConfig};

/// Pieces of parts that have begun; zero for a part that has ended.
#[derive(Default)]
struct Heard(Mutex<Vec<usize>>, OnceLock<ThreadId>);

impl Heard {
    fn hear(&self, pieces: usize) {
        let caller = self.1.get_or_init(|| std::thread::current().id());
        assert_eq!(*caller, std::thread::current().id(), "the thread that calls the store tells");
        self.0.lock().expect("no test panics here").push(pieces);
    }
}

impl ForkJoinObserver for Heard {
    fn fork(&self, pieces: usize) {
        assert!(pieces > 1, "one piece is not shared");
        self.hear(pieces);
    }

    fn join(&self) {
        self.hear(0);
    }
}

#[test]
fn shared_parts_do_not_nest_and_small_blocks_have_none() {
    for threads in [1, 2, 5] {
        let heard = Arc::new(Heard::default());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let config = StoreConfig::new(Backend::Mem).with_fork_join_observer(Arc::clone(&heard) as _);
            let mut store = Store::open(config).unwrap();
            for (height, keys) in [(0u64, 40_000u32), (1, 40_000), (2, 10)] {
                let mut delta = Delta::new();
                (0..keys).for_each(|key| delta.put(&key.to_le_bytes(), &height.to_le_bytes()));
                let prepared = store.prepare(delta, height).unwrap();
                let of_root = core::mem::take(&mut *heard.0.lock().unwrap());
                store.apply(prepared).unwrap().write().unwrap();
                let of_move = core::mem::take(&mut *heard.0.lock().unwrap());
                for heard in [&of_root, &of_move] {
                    assert!(heard.as_chunks::<2>().0.iter().all(|[begun, ended]| *begun > 0 && *ended == 0));
                    assert!(heard.len().is_multiple_of(2));
                }
                // On one thread, too, it hears of what more threads would share.
                let parts = (of_root.len() / 2, of_move.len() / 2);
                assert!(if keys > 10 { parts.0 >= 4 && parts.1 >= 1 } else { parts == (0, 0) }, "{parts:?}");
            }
        });
    }
}
