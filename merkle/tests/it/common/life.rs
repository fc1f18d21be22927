//! The life of a chain, defined by a seed, with everything that can happen to a chain, and the oracle that knows it. At
//! each height the committed block is always the same, however often blocks were rewound or lost.

use std::{collections::VecDeque, path::Path, sync::Arc};

use phalanx_merkle::{
    Backend, BlockId, Delta, Durability, Error, HashFn, Params, Pending, Sentinels, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{Model, Op, plain};

/// Offset of the heights whose operations siblings have.
const SIBLING: u64 = 1 << 40;

/// Event of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A phase begins.
    Begin(&'static str),
    /// The phase ends.
    End(&'static str),
    /// The tip, of this height, is in the log.
    Written(u64),
    /// The chain is rewound to this height.
    Leaving(u64),
}

pub(crate) fn params() -> Params {
    Params { sentinels: Sentinels::new(2).expect("few sentinels"), ..Params::default() }
}

pub(crate) fn ops(seed: u64, height: u64) -> Vec<Op> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (height << 16));
    let op = |_| {
        let number = rng.random_range(0..60u8);
        let value = (!rng.random_bool(0.2)).then(|| vec![rng.random(); usize::from(number % 8) * 5]);
        (vec![number; 4 + usize::from(number % 30)], value)
    };
    let mut ops: Vec<Op> = (0..14).map(op).collect();
    // In every other life a twig's worth of keys comes and goes twice, so that there is something to prune.
    if height < 4 && seed % 2 == 1 {
        let crowd = |i: u16| (i.to_be_bytes().to_vec(), height.is_multiple_of(2).then(Vec::new));
        ops.extend((0..2100).map(crowd));
    }
    ops
}

pub(crate) fn delta(seed: u64, height: u64) -> Delta {
    let mut delta = plain(&ops(seed, height));
    if height.is_multiple_of(3) {
        delta.put_code([height as u8; 32], vec![height as u8; 50]);
    }
    delta
}

/// Makes the next block: siblings and children come and go, and some blocks are rewound once and made again.
pub(crate) fn turn(store: &mut Store, seed: u64, on: &mut dyn FnMut(Event)) -> Result<(), Error> {
    let height = store.height().map_or(0, |height| height + 1);
    for held in store.forks() {
        // The fork may have gone with another.
        let _ = store.discard_fork(held.block);
    }
    if height % 4 == 3 {
        plainly(store, seed, height, on)?;
    } else {
        beside(store, seed, height, on)?;
    }
    if height % 5 == 4 {
        during("rewind", on, |on| {
            on(Event::Leaving(height - 1));
            store.rewind(Some(height - 1))?.write()
        })?;
        plainly(store, seed, height, on)?;
    }
    if height % 3 == 2 {
        during("prune", on, |_| store.prune())?;
    }
    if height % 7 == 6 {
        during("flush", on, |_| store.flush())?;
    }
    during("read", on, |_| {
        store.payload_at(height)?;
        store.read().prove(&[7; 11])?;
        store.code(&[height as u8; 32]).map(|_| ())
    })
}

fn during<T>(
    what: &'static str,
    on: &mut dyn FnMut(Event),
    act: impl FnOnce(&mut dyn FnMut(Event)) -> Result<T, Error>,
) -> Result<T, Error> {
    on(Event::Begin(what));
    let done = act(on)?;
    on(Event::End(what));
    Ok(done)
}

fn plainly(store: &mut Store, seed: u64, height: u64, on: &mut dyn FnMut(Event)) -> Result<(), Error> {
    let prepared = during("prepare", on, |_| store.prepare(delta(seed, height), height))?;
    during("commit", on, |on| {
        store.commit(prepared)?;
        on(Event::Written(height));
        Ok(())
    })
}

/// Stages a sibling and a child, applies the block, and discards the rest.
fn beside(store: &mut Store, seed: u64, height: u64, on: &mut dyn FnMut(Event)) -> Result<(), Error> {
    let tip = store.tip();
    let add_fork = |store: &mut Store, parent: BlockId, delta: Delta, on: &mut dyn FnMut(Event)| {
        during("prepare", on, |_| {
            let prepared = store.prepare_on(parent, delta)?;
            store.add_fork(prepared)
        })
    };
    let stage = |store: &mut Store, block: BlockId, on: &mut dyn FnMut(Event)| {
        during("stage", on, |_| store.stage(block)?.map_or(Ok(()), Pending::write))
    };
    let sibling = add_fork(store, tip, delta(seed, height + SIBLING), on)?;
    stage(store, sibling, on)?;
    let block = add_fork(store, tip, delta(seed, height), on)?;
    if height.is_multiple_of(2) {
        stage(store, block, on)?;
        let child = add_fork(store, block, delta(seed, height + 1), on)?;
        stage(store, child, on)?;
    }
    during("promote", on, |on| {
        store.apply_fork(block)?.write()?;
        on(Event::Written(height));
        Ok(())
    })?;
    during("discard", on, |_| {
        let held: Vec<BlockId> = store.forks().iter().map(|held| held.block).collect();
        held.into_iter().try_for_each(|block| store.discard_fork(block).map(|_| ()))
    })
}

/// Oracle of a life: the models after its last blocks.
pub(crate) struct Oracle {
    seed: u64,
    models: VecDeque<Model>,
}

impl Oracle {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, models: VecDeque::from([Model::with(params())]) }
    }

    /// Model after this many blocks, at most five fewer than the most requested before.
    pub(crate) fn after(&mut self, blocks: usize) -> &Model {
        while self.models.back().is_some_and(|model| model.roots.len() < blocks) {
            let mut model = self.models[self.models.len() - 1].clone();
            model.block(&ops(self.seed, model.roots.len() as u64));
            self.models.push_back(model);
            if self.models.len() > 6 {
                self.models.pop_front();
            }
        }
        self.models.iter().find(|model| model.roots.len() == blocks).expect("one of the last blocks")
    }

    /// Root after a height.
    pub(crate) fn root(&mut self, height: u64) -> [u8; 32] {
        let blocks = height as usize + 1;
        if self.models.back().is_some_and(|model| model.roots.len() < blocks) {
            self.after(blocks);
        }
        self.models.back().expect("a model").roots[height as usize]
    }

    /// Asserts that an opened store is the chain after a height between `acked` and `begun`, with only forks staged on
    /// it.
    pub(crate) fn check(&mut self, store: &Store, acked: Option<u64>, begun: Option<u64>, context: &str) {
        let height = store.height();
        assert!(height >= acked && height <= begun, "{context}: {height:?} is not within {acked:?}..={begun:?}");
        let seed = self.seed;
        let model = self.after(height.map_or(0, |height| height as usize + 1)).clone();
        model.assert_equals(store, context);
        for held in store.forks().into_iter().filter(|held| held.parent == store.tip()) {
            let roots = [0, SIBLING].map(|more| {
                let mut model = model.clone();
                model.block(&ops(seed, held.height + more));
                model.root()
            });
            assert!(held.staged && roots.contains(&held.root), "{context}: {held:?}");
        }
    }
}

/// Injects no faults, but makes segments so small that there are many.
#[derive(Debug)]
pub(crate) struct SmallSegments;

impl Faults for SmallSegments {
    fn before(&self, _: Step<'_>) -> Verdict {
        Verdict::Go
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(4 << 10)
    }
}

pub(crate) fn backend(kind: &str, dir: &Path) -> Backend {
    match kind {
        "file" => Backend::File(dir.to_path_buf()),
        #[cfg(feature = "rocksdb")]
        "rocks" => Backend::Rocks(dir.to_path_buf()),
        _ => panic!("unknown backend {kind}"),
    }
}

pub(crate) fn config(kind: &str, dir: &Path, durability: Durability) -> StoreConfig {
    let config = StoreConfig::new(backend(kind, dir)).with_params(params()).with_durability(durability);
    config.with_history(3).with_faults(Arc::new(SmallSegments))
}

/// Ends of the records of a store's file, as far as they can be told; the first one is its begin.
pub(crate) fn boundaries(name: &str, bytes: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (vec![0], 0);
    if name.ends_with(".seg") || name == "code.log" || name.starts_with("checkpoint") {
        // `crc (4) || len (4) || kind (1) || ..`
        while at + 9 <= bytes.len() {
            at += 9 + u32::from_be_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
            ends.push(at.min(bytes.len()));
        }
    } else if name.ends_with(".log") || name.starts_with("MANIFEST") {
        // `crc (4) || len (2) || type (1) || ..`, with four bytes more if the type is of a reused log; a fragment never
        // crosses a block of 32 KiB.
        while at + 7 <= bytes.len() {
            let header = if (5..9).contains(&bytes[at + 6]) || bytes[at + 6] == 11 { 11 } else { 7 };
            at += header + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
            let left = (1 << 15) - at % (1 << 15);
            at += if left < 7 { left } else { 0 };
            ends.push(at.min(bytes.len()));
        }
    }
    ends
}

/// Changes the run of the machine in the whole slots of a promise: a power cut ends it.
pub(crate) fn start_anew(path: &Path) {
    const SLOT: usize = 4096;
    const LEN: usize = 92;
    let Ok(mut bytes) = std::fs::read(path) else { return };
    let sum = |slot: &[u8]| HashFn::Sha256.key(&slot[..LEN - 8]);
    for at in [0, SLOT] {
        let Some(slot) = bytes.get_mut(at..at + LEN) else { continue };
        if sum(slot)[..8] == slot[LEN - 8..] {
            slot[LEN - 16] ^= 1;
            let sum = sum(slot);
            slot[LEN - 8..].copy_from_slice(&sum[..8]);
        }
    }
    std::fs::write(path, bytes).expect("a write");
}

/// Copies a directory without subdirectories.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}

/// Copies the directory of an open store, in which RocksDB may be deleting files.
pub(crate) fn copy_live(from: &Path, to: &Path) {
    let listed = || -> std::io::Result<Vec<_>> {
        let entries = std::fs::read_dir(from)?;
        let mut all = entries
            .map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.metadata()?.len()))))
            .collect::<Result<Vec<_>, _>>()?;
        all.sort();
        Ok(all)
    };
    for _ in 0..1000 {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir_all(to).expect("a directory");
        let Ok(before) = listed() else { continue };
        let copied = before.iter().all(|(name, _)| std::fs::copy(from.join(name), to.join(name)).is_ok());
        if copied && listed().is_ok_and(|after| after == before) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{} never rests", from.display());
}

/// Number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}
