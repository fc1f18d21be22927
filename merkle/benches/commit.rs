//! Blocks of 100,000 updates against a million keys: `cargo bench -p phalanx-merkle`.
//!
//! Time is the wall clock from building the delta to the end of the commit; on one thread that is microseconds of a
//! core. Finding the keys is measured separately, because an engine has located them during execution.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use phalanx_merkle::{Backend, Delta, Locator, Store, StoreConfig};
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Allocator of programs that commit at this rate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEYS: usize = 1 << 20;
const UPDATES: usize = 100_000;

/// Root after genesis and one block, on which the next block is built.
const FIRST_BLOCK: &str = "2024e6a9b2634bd0";

fn keys() -> Vec<[u8; 20]> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    (0..KEYS)
        .map(|_| {
            let mut key = [0; 20];
            rng.fill_bytes(&mut key);
            key
        })
        .collect()
}

/// Balance and nonce, about as long as an account's.
fn value(number: u64) -> [u8; 24] {
    let mut value = [0; 24];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

struct Chain {
    store: Store,
    located: Vec<Locator>,
    rng: ChaCha8Rng,
    height: u64,
}

impl Chain {
    fn new(backend: Backend, keys: &[[u8; 20]]) -> Self {
        let mut store = Store::open(StoreConfig::new(backend)).expect("a store");
        let mut genesis = Delta::with_capacity(KEYS);
        keys.iter().for_each(|key| genesis.put(key, &value(0)));
        let prepared = store.prepare(genesis, 0).expect("genesis");
        store.commit(prepared).expect("genesis");
        let mut located = Vec::new();
        let names = keys.iter().map(<[u8; 20]>::as_slice);
        store.read().get_many(names, |found| located.push(found.and_then(|(_, at)| at).expect("a key of genesis")));
        let mut chain = Self { store, located, rng: ChaCha8Rng::seed_from_u64(2), height: 0 };
        chain.block();
        let root: String = chain.store.root()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(root, FIRST_BLOCK, "the root of the first block");
        chain
    }

    /// Commits a block of distinct random keys, nine in ten of which get another value.
    fn block(&mut self) -> Duration {
        let updates: Vec<Locator> = (0..UPDATES)
            .map(|at| {
                let pick = self.rng.random_range(at..KEYS);
                self.located.swap(at, pick);
                self.located[at]
            })
            .collect();
        self.height += 1;
        let begin = Instant::now();
        let mut delta = Delta::with_capacity(UPDATES);
        for (i, at) in updates.iter().enumerate() {
            delta.put_at(*at, &value(if i % 10 == 0 { 0 } else { self.height }));
        }
        let prepared = self.store.prepare(delta, self.height).expect("a block");
        self.store.commit(prepared).expect("a block");
        begin.elapsed()
    }
}

fn commit(criterion: &mut Criterion) {
    let keys = keys();
    let mut group = criterion.benchmark_group("commit");
    group.throughput(Throughput::Elements(UPDATES as u64)).sample_size(10).warm_up_time(Duration::from_millis(500));
    let dir = tempfile::tempdir().expect("a directory");
    let backends = [
        ("mem", Backend::Mem),
        ("file", Backend::File(dir.path().join("file"))),
        #[cfg(feature = "rocksdb")]
        ("rocks", Backend::Rocks(dir.path().join("rocks"))),
    ];
    for (name, backend) in backends {
        let mut chain = Chain::new(backend, &keys);
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            group.bench_function(format!("keys={KEYS} updates={UPDATES} log={name} threads={threads}"), |bencher| {
                bencher.iter_custom(|blocks| pool.install(|| (0..blocks).map(|_| chain.block()).sum()));
            });
        }
    }
    group.finish();
}

fn locate(criterion: &mut Criterion) {
    let keys = keys();
    let chain = Chain::new(Backend::Mem, &keys);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let wanted: Vec<[u8; 20]> = (0..UPDATES).map(|_| keys[rng.random_range(0..KEYS)]).collect();
    let mut group = criterion.benchmark_group("get");
    group.throughput(Throughput::Elements(UPDATES as u64));
    group.bench_function(format!("keys={KEYS} batched"), |bencher| {
        bencher.iter(|| {
            let mut sum = 0;
            let names = wanted.iter().map(<[u8; 20]>::as_slice);
            chain.store.read().get_many(names, |found| sum += found.map_or(0, |(value, _)| u64::from(value[0])));
            sum
        });
    });
    group.bench_function(format!("keys={KEYS} one by one"), |bencher| {
        bencher.iter(|| {
            let reader = chain.store.read();
            wanted.iter().filter_map(|key| reader.get(key)).map(|value| u64::from(value[0])).sum::<u64>()
        });
    });
    group.finish();
}

fn reopen(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let backend = Backend::File(dir.path().to_path_buf());
    let root = Chain::new(backend.clone(), &keys()).store.root();
    let mut group = criterion.benchmark_group("reopen");
    group.throughput(Throughput::Elements((KEYS + UPDATES) as u64)).sample_size(10);
    group.bench_function(format!("keys={KEYS} log=file"), |bencher| {
        bencher.iter(|| assert_eq!(Store::open(StoreConfig::new(backend.clone())).expect("a store").root(), root));
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    commit(&mut criterion);
    locate(&mut criterion);
    reopen(&mut criterion);
    criterion.final_summary();
}
