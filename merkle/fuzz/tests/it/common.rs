//! Runs a target.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::Hasher as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use phalanx_merkle::{Backend, Compaction, Delta, HashFn, Params, Sentinels, Store, StoreConfig};
use phalanx_merkle_fuzz::Fuzzer;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Returns the committed inputs of a target.
pub(crate) fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// True if the corpus is made anew.
pub(crate) fn writes_corpus() -> bool {
    number("PHALANX_WRITE_CORPUS").is_some()
}

/// Runs `target` on its corpus and on `runs` inputs made from it, or for as long as the environment says. `honest`
/// makes the corpus, `target` returns its behaviour.
pub(crate) fn fuzz(name: &str, runs: u64, honest: impl FnOnce() -> Vec<Vec<u8>>, mut target: impl FnMut(&[u8]) -> u64) {
    if writes_corpus() {
        for (at, input) in honest().iter().enumerate() {
            std::fs::write(folder(name).join(format!("{at:02}")), input).expect("the corpus");
        }
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder(name)).expect("the corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let corpus = files.iter().map(|file| std::fs::read(file).expect("a file")).collect();
    let seed = number("PHALANX_FUZZ_SEED").unwrap_or(1);
    let mut fuzzer = Fuzzer::new(seed, corpus);
    let (begin, long) = (Instant::now(), number("PHALANX_FUZZ_SECONDS").map(Duration::from_secs));
    let mut run = 0;
    while long.map_or(run < runs, |long| begin.elapsed() < long) {
        let input = fuzzer.input().to_vec();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target(&input)));
        let behaviour = result.unwrap_or_else(|panic| {
            let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            println!("{name} seed {seed} run {run}, input {hex}");
            std::panic::resume_unwind(panic)
        });
        fuzzer.learn(behaviour);
        run += 1;
    }
    println!("{name} seed {seed}: {run} runs, {} behaviours", fuzzer.behaviours());
    assert!(fuzzer.behaviours() > 3, "{name}: the target is not reached");
}

/// Hash of a behaviour.
pub(crate) fn behaviour(of: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Kind of an error, without its details.
pub(crate) fn kind(error: &phalanx_merkle::Error) -> String {
    let text = format!("{error:?}");
    let digits = |c: char| !c.is_ascii_digit();
    // Corrupt stores differ by the kind of damage, not by its place.
    let what = text.split("what: ").nth(1).unwrap_or_default();
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
        + &what.chars().filter(|c| digits(*c)).collect::<String>()
}

pub(crate) type State = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn params() -> Params {
    Params {
        hash: HashFn::Blake3,
        sentinels: Sentinels::new(1).expect("few sentinels"),
        compaction: Compaction { extra: 5, ..Compaction::default() },
    }
}

/// Directory in memory, where possible: fsync costs nothing there.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory")
}

/// Chain of a few blocks with all kinds of log records; its state and roots.
pub(crate) fn chain(backend: Backend, blocks: u64) -> (Store, State, Vec<[u8; 32]>) {
    let mut store = Store::open(StoreConfig::new(backend).with_params(params())).expect("a store");
    let (mut state, mut roots) = (State::new(), vec![store.root()]);
    for height in 0..blocks {
        let mut delta = Delta::new();
        for i in 0..9u64 {
            let key = ((i * 5 + height * 3) % 23).to_be_bytes()[6..].to_vec();
            if (i + height) % 4 == 0 {
                delta.delete(&key);
                state.remove(&key);
            } else {
                let value = vec![height as u8; i as usize];
                delta.put(&key, &value);
                state.insert(key, value);
            }
        }
        if height % 3 == 0 {
            delta.put_code([height as u8; 32], vec![9; 20]);
        }
        let prepared = store.prepare(delta, height).expect("a block").with_payload(vec![1; 3]).expect("a payload");
        store.commit(prepared).expect("a block");
        roots.push(store.root());
    }
    (store, state, roots)
}
