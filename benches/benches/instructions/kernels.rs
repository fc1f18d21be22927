//! The counted kernels. Each is one call on one thread, on input that `setup` made and a first run warmed up.

use gungraun::{Callgrind, EntryPoint, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use phalanx::{
    Block, Executed, Executor,
    access::{AccessSets, Interner, KeyId},
    merkle::{Backend, Delta, HashFn, Params, Pending, Prepared, Store, StoreConfig},
    paraframer::{Framer, FramerConfig},
    paralyze::StateKey,
    parascheduler::{Dag, DagBuilder, Workers},
    revm::primitives::B256,
};
use phalanx_benches::{Case, Chain, Kind, Transfers, Truth};
use phalanx_hash_lanes::keccak256_many;
use phalanx_recovery::{Signature, recover_batch};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of accounts. Small, as valgrind is fifty times slower than the processor and runs all of `setup` too; large
/// enough that most keys are distinct and only the kernel shows.
const ACCOUNTS: u64 = 1 << 13;
const TXS: u64 = 4096;

/// Runs `work`. Instructions are counted between entry and exit of this function, by its name, on the calling thread:
/// the benchmark function itself would be the wrong thread for an engine's work.
#[inline(never)]
fn counted<R>(work: impl FnOnce() -> R) -> R {
    black_box(work())
}

/// Counts inside of [`counted`] only. Caches are not simulated: that takes as long again, and the gate compares
/// instructions. The allocator returns pages by the clock unless told not to, which would move counts by half a per
/// cent.
fn config() -> LibraryBenchmarkConfig {
    let callgrind =
        Callgrind::with_args(["--cache-sim=no"]).entry_point(EntryPoint::Custom("*::kernels::counted*".into())).clone();
    LibraryBenchmarkConfig::default().tool(callgrind).env("MIMALLOC_PURGE_DELAY", "-1").clone()
}

fn transfers() -> Transfers {
    Transfers::new("uniform", Kind::Native.load(ACCOUNTS, TXS)).expect("a load")
}

fn frame_all(framer: &mut Framer<u32>, transfers: &Transfers) -> usize {
    let mut framed = 0;
    for (tx, keys) in (0..).zip(transfers.digests.iter()) {
        framer.push(tx, keys[0].0, 21_000, keys, &mut |frame| framed += frame.txs.len());
    }
    framer.flush(&mut |frame| framed += frame.txs.len());
    framed
}

fn framer() -> (Framer<u32>, Transfers) {
    let (mut framer, transfers) = (Framer::new(FramerConfig::default()), transfers());
    assert_eq!(frame_all(&mut framer, &transfers), transfers.len());
    (framer, transfers)
}

#[library_benchmark(setup = framer)]
fn frame((mut framer, transfers): (Framer<u32>, Transfers)) -> usize {
    counted(|| frame_all(&mut framer, black_box(&transfers)))
}

fn intern_all(interner: &mut Interner<StateKey>, transfers: &Transfers) -> usize {
    interner.clear();
    for (keys, digests) in transfers.sets.iter().zip(transfers.digests.iter()) {
        for ((key, _), (digest, _)) in keys.iter().zip(digests) {
            black_box(interner.intern_digested(key, *digest));
        }
    }
    interner.len()
}

fn interner() -> (Interner<StateKey>, Transfers) {
    let transfers = transfers();
    let mut interner = Interner::new(transfers.salt());
    assert_eq!(intern_all(&mut interner, &transfers), transfers.block(transfers.len()).1);
    (interner, transfers)
}

#[library_benchmark(setup = interner)]
fn intern((mut interner, transfers): (Interner<StateKey>, Transfers)) -> usize {
    counted(|| intern_all(&mut interner, black_box(&transfers)))
}

/// A builder and its DAG, both with room, and their input.
type Graph = (DagBuilder, Dag, AccessSets<KeyId>, usize);

fn builder() -> Graph {
    let transfers = transfers();
    let (sets, keys) = transfers.block(transfers.len());
    let (mut builder, mut dag) = (DagBuilder::new(), Dag::default());
    builder.build(&sets, keys, &mut dag);
    assert_eq!(dag.len(), sets.len());
    (builder, dag, sets, keys)
}

#[library_benchmark(setup = builder)]
fn graph((mut builder, mut dag, sets, keys): Graph) -> Dag {
    counted(|| builder.build(black_box(&sets), keys, &mut dag));
    dag
}

fn messages() -> Vec<[u8; 64]> {
    // As long as the preimage of a mapping's slot.
    (0..TXS).map(|i| core::array::from_fn(|at| (i >> (at % 8)) as u8)).collect()
}

#[library_benchmark(setup = messages)]
fn keccak(messages: Vec<[u8; 64]>) -> Vec<B256> {
    let mut hashes = Vec::with_capacity(messages.len());
    counted(|| keccak256_many(black_box(&messages).iter().map(|message| message.as_slice()), &mut hashes));
    hashes
}

/// Signatures of which about half have a key: lanes do the same work for the others. The generator's table is built.
fn signatures() -> Vec<(B256, Signature)> {
    let bytes = |i: u64, at: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * at as u32) >> 32) as u8;
    let signature = |i| core::array::from_fn(|at| if at == 64 { i as u8 & 1 } else { bytes(i, at) });
    let signatures: Vec<_> =
        (1..=64).map(|i| (B256::from(core::array::from_fn(|at| bytes(!i, at))), signature(i))).collect();
    let found = recover_batch(&signatures).into_iter().filter(Result::is_ok).count();
    assert!((16..=48).contains(&found), "{found} of {} have a key", signatures.len());
    signatures
}

#[library_benchmark(setup = signatures)]
fn recover(signatures: Vec<(B256, Signature)>) -> usize {
    counted(|| recover_batch(black_box(&signatures))).len()
}

/// A chain that has run its block once, with its buffers at full size and the root of sequential revm.
fn chain(kind: Kind) -> Chain<'static> {
    // Leaked: the process counts one kernel and ends.
    let truth: &'static Truth = Box::leak(Box::new(Truth::new(kind.load(ACCOUNTS, TXS), kind).expect("a sound load")));
    let case = Case { workload: kind, executor: Executor::Dag, threads: 1 };
    let mut chain = truth.chain(case).expect("an engine in memory");
    assert_eq!(chain.run().expect("a block").state_root(), truth.state_root());
    chain
}

fn planned(kind: Kind) -> (Chain<'static>, Block) {
    let chain = chain(kind);
    let block = chain.plan().expect("a block");
    (chain, block)
}

/// Runs a step of the chain on the engine's thread: from outside, the waiting thread would be counted.
fn on_its_thread<R: Send>(
    mut chain: Chain<'static>,
    step: impl FnOnce(&mut Chain<'static>) -> Result<R, phalanx_benches::Error> + Send,
) -> (Chain<'static>, R) {
    chain.workers().install(move || {
        let done = counted(|| step(&mut chain)).expect("a step that went well before");
        (chain, done)
    })
}

#[library_benchmark(setup = chain)]
#[bench::native(Kind::Native)]
#[bench::erc20(Kind::Erc20)]
fn plan(chain: Chain<'static>) -> (Chain<'static>, Block) {
    on_its_thread(chain, |chain| chain.plan())
}

#[library_benchmark(setup = planned)]
#[bench::native(Kind::Native)]
#[bench::erc20(Kind::Erc20)]
fn execute((chain, block): (Chain<'static>, Block)) -> (Chain<'static>, Executed) {
    on_its_thread(chain, |chain| chain.execute(block))
}

/// A store of `TXS` keys, with the last of three blocks that give each a value, and the thread to work on.
///
/// The store hashes with BLAKE3: SHA-256 in software would be nine tenths of the count.
fn updated() -> (Workers, Store, Delta) {
    let params = Params { hash: HashFn::Blake3, ..Params::default() };
    let mut store = Store::open(StoreConfig::new(Backend::Mem).with_params(params)).expect("a store in memory");
    let block = |height: u8| {
        let mut delta = Delta::new();
        (0..TXS).for_each(|key| delta.put(&key.to_be_bytes(), &[height; 24]));
        delta
    };
    for height in 0..2 {
        let prepared = store.prepare(block(height), height.into()).expect("a block");
        store.commit(prepared).expect("a block");
    }
    // With rayon's own pool a store would use every thread, and only one would be counted.
    (Workers::new(1).expect("a thread"), store, block(2))
}

fn prepared() -> (Workers, Store, Prepared) {
    let (workers, store, delta) = updated();
    let prepared = workers.install(|| store.prepare(delta, 2)).expect("a block");
    assert_eq!(prepared.puts(), TXS as usize);
    (workers, store, prepared)
}

#[library_benchmark(setup = updated)]
fn prepare((workers, store, delta): (Workers, Store, Delta)) -> (Store, Prepared) {
    let prepared = workers.install(|| counted(|| store.prepare(delta, 2))).expect("a block");
    (store, prepared)
}

#[library_benchmark(setup = prepared)]
fn apply((workers, mut store, prepared): (Workers, Store, Prepared)) -> (Store, Pending) {
    let pending = workers.install(|| counted(|| store.apply(prepared))).expect("a block");
    (store, pending)
}

library_benchmark_group!(
    name = hot,
    benchmarks = [frame, intern, graph, keccak, recover, plan, execute, prepare, apply]
);

main!(config = config(), library_benchmark_groups = hot);

/// Entry point that gungraun generates.
pub(crate) fn run() {
    main();
}
