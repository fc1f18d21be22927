//! A run of the store: the state is made, warmed up, measured, closed and opened again.

use super::{
    config::{Skew, StoreBench, Work},
    disk::{self, disk_alone, drop_page_cache, io_field},
    draw::{Draw, by_hash, key, value},
    output::{BlockTimes, Held, Reads, StoreRun},
};
use crate::{
    config::{Store, memory_word, threads, word},
    error::Usage,
    machine::{clock, host},
    ui::Ui,
};
use phalanx::{
    merkle::{self, Delta, Locator, Memory, StoreConfig},
    revm::primitives::B256,
};
use std::{collections::VecDeque, hint::black_box, mem::MaybeUninit, path::Path, time::Instant};

/// An empty vector with room for `len` items whose pages are already mapped, so that they are not counted as the state's.
fn touched<T>(len: usize) -> Vec<T> {
    // Without `black_box` the room could be allocated as zeros, which are mapped page by page on use.
    let mut room = black_box(Vec::with_capacity(len));
    room.spare_capacity_mut().iter_mut().for_each(|place| *place = MaybeUninit::zeroed());
    black_box(room)
}

pub(super) fn measure(
    config: &StoreBench,
    ui: &Ui,
    store_config: StoreConfig,
    path: Option<&Path>,
) -> anyhow::Result<StoreRun> {
    let StoreBench { keys, updates, blocks, .. } = *config;
    // The benchmark holds locators of resident keys by rank, as an executor does. A paged state finds keys by name; there each
    // new key's neighbours cost a read, unless keys come in hash order, as an import brings them.
    let resident = config.memory == Memory::Resident;
    let mut located: Vec<Locator> = touched(if resident { keys } else { 0 });
    let order = (!resident).then(|| by_hash(keys, config.hasher));
    let bench_bytes = located.capacity() * size_of::<Locator>() + order.as_ref().map_or(0, |order| order.len() * 4);
    let before = host::rss();
    let mut store = merkle::Store::open(store_config.clone())?;
    if store.height().is_some() {
        return Err(Usage("--store must be an empty place".into()).into());
    }
    ui.say("making the state");
    // Blocks are so small that blocks in flight and undo records do not count beside the state.
    const PART: usize = 1 << 15;
    for part in (0..keys).step_by(PART) {
        ui.go_on()?;
        let part = part..keys.min(part + PART);
        let ranks = part.map(|at| order.as_ref().map_or(at as u64, |order| u64::from(order[at])));
        let mut delta = Delta::with_capacity(PART);
        ranks.clone().for_each(|rank| delta.put(&key(rank), &value(0)));
        let height = store.height().map_or(0, |height| height + 1);
        let prepared = store.prepare(delta, height)?;
        store.commit(prepared)?;
        if resident {
            let names: Vec<[u8; 20]> = ranks.map(key).collect();
            let names = names.iter().map(<[u8; 20]>::as_slice);
            store.read().get_many(names, |found| located.extend(found.and_then(|(_, at)| at)));
        }
    }
    anyhow::ensure!(store.len() == keys, "every key is in the state");
    anyhow::ensure!(!resident || located.len() == keys, "every key can be located");
    let dram = host::rss().saturating_sub(before);

    let mut draw = Draw::new(config);
    let warmup = config.warmup.unwrap_or((2 * keys).div_ceil(updates));
    ui.say("warming up");
    for _ in 0..warmup {
        ui.go_on()?;
        block(&mut store, Work::Update, &located, &draw.updated())?;
    }
    let dropped = !resident && drop_page_cache(path);
    let disk_alone = if resident { Vec::new() } else { path.map_or_else(Vec::new, disk_alone) };
    ui.say("measuring");
    let (mut times, mut cpu, mut moved): (Vec<f64>, u64, usize) = (Vec::with_capacity(blocks), 0, 0);
    let (size, written) = (path.map_or(0, host::size_of), disk::written());
    let (asked, reads, device) = (store.cache(), store.reads(), io_field("read_bytes"));
    let prefetcher = store.prefetcher().filter(|_| config.ahead > 0);
    let ahead = if prefetcher.is_some() { config.ahead } else { 0 };
    let (begin, cpu_before) = (Instant::now(), clock::process());
    let mut drawn = VecDeque::new();
    for number in 0..blocks {
        ui.go_on()?;
        while drawn.len() <= ahead.min(blocks - number - 1) {
            let ranks = draw.measured();
            if let Some(prefetcher) = &prefetcher {
                let names: Vec<[u8; 20]> = ranks.iter().map(|rank| key(*rank as u64)).collect();
                prefetcher.announce(names.iter().map(<[u8; 20]>::as_slice));
            }
            drawn.push_back(ranks);
        }
        let Some(ranks) = drawn.pop_front() else { break };
        let measured = block(&mut store, config.work, &located, &ranks)?;
        times.push(measured.seconds);
        cpu += measured.cpu;
        moved += measured.moves;
    }
    // What is read before the first block counts as well; keys of a resident state are drawn outside of the blocks.
    let seconds = if resident { times.iter().sum() } else { begin.elapsed().as_secs_f64() };
    let cpu = if resident { cpu } else { clock::process() - cpu_before };
    let reads = store.reads().zip(reads).map(|(after, before)| after.since(&before));
    let device = io_field("read_bytes").saturating_sub(device);
    let refused = prefetcher.as_ref().map_or(0, merkle::Prefetcher::refused);
    drop(prefetcher);
    let grown = path.map_or(0, host::size_of).saturating_sub(size);
    let written = disk::written().saturating_sub(written);
    let rewritten = store.rewritten_bytes();
    let hit_rate = store.cache().zip(asked).map(|(after, before)| after.since(&before).hit_rate());
    let count = (updates * blocks) as f64;
    let reads = reads.map(|made| Reads {
        device_bytes_per_update: device as f64 / count,
        page_cache_dropped: dropped,
        refused_ahead: refused,
        ..Reads::of(made, disk_alone, count, seconds)
    });
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times[((times.len() - 1) as f64 * share) as usize] * 1e3;
    let (root, rss, held) = (store.root(), host::rss_peak(), store.memory());
    drop(order);
    let begin = Instant::now();
    drop(store);
    let close = begin.elapsed().as_secs_f64();
    let (mut reopen, mut from) = (None, None);
    if path.is_some() {
        let begin = Instant::now();
        let store = merkle::Store::open(store_config)?;
        reopen = Some(begin.elapsed().as_secs_f64());
        anyhow::ensure!(store.root() == root, "the store reopens at another root");
        from = match store.opened() {
            merkle::Opened::Checkpoint { height } => Some(*height),
            _ => None,
        };
    }
    Ok(StoreRun {
        keys,
        updates_per_block: updates,
        blocks,
        warmup_blocks: warmup,
        hasher: word(config.hasher),
        // As `bench run`: memory survives nothing.
        durability: if config.store == Some(Store::Mem) { "none".into() } else { word(config.durability) },
        history: config.history,
        threads: threads(config.threads)?,
        seed: config.seed,
        skew: match config.skew {
            Skew::Uniform => "uniform".to_owned(),
            Skew::Zipf(exponent) => format!("zipf:{exponent}"),
        },
        memory: memory_word(config.memory),
        work: word(config.work),
        reading: word(config.reading),
        ahead_blocks: ahead,
        updates_per_s: count / seconds,
        us_core_per_update: cpu as f64 / 1e3 / count,
        moves_per_update: moved as f64 / count,
        dram_bytes_per_key: dram as f64 / keys as f64,
        memory_bytes: Held {
            records: held.records,
            spilled: held.spilled,
            index: held.index,
            ring: held.key_order,
            owners: held.owners,
            tree: held.tree,
            history: held.history,
            cache: held.cache,
        },
        cache_hit_rate: hit_rate,
        reads,
        state_bytes_per_key: (held.total() - held.history - held.cache) as f64 / keys as f64,
        disk_bytes_per_update: grown as f64 / count,
        written_bytes_per_update: written as f64 / count,
        written_mb_per_s: written as f64 / 1e6 / seconds,
        compaction_rewrite_bytes: rewritten,
        block_ms: BlockTimes { p50: quantile(0.5), p99: quantile(0.99), max: quantile(1.0) },
        close_s: close,
        reopen_s: reopen,
        reopen_from_height: from,
        rss_peak_bytes: rss,
        bench_bytes,
        state_root: B256::new(root).to_string(),
    })
}

struct Measured {
    seconds: f64,
    /// Processor time of all cores within `seconds`, in nanoseconds.
    cpu: u64,
    moves: usize,
}

/// Runs one block: the delta is made, hashed, applied and written inside the timer; its keys are drawn before.
fn block(store: &mut merkle::Store, work: Work, located: &[Locator], ranks: &[usize]) -> anyhow::Result<Measured> {
    let height = store.height().map_or(0, |height| height + 1);
    let found: Vec<Locator> = ranks.iter().filter_map(|rank| located.get(*rank).copied()).collect();
    let (begin, cpu) = (Instant::now(), clock::process());
    let mut delta = Delta::with_capacity(ranks.len());
    for (nonce, rank) in ranks.iter().enumerate() {
        let value = value(height << 32 | nonce as u64);
        match (work, found.get(nonce)) {
            (Work::Delete, _) => delta.delete(&key(*rank as u64)),
            // No other block has moved the key since it was located.
            (Work::Update, Some(locator)) => delta.change_at(*locator, &value),
            // A paged state finds keys by name.
            _ => delta.put(&key(*rank as u64), &value),
        }
    }
    let prepared = store.prepare(delta, height)?;
    let moves = prepared.moves();
    store.commit(prepared)?;
    Ok(Measured { seconds: begin.elapsed().as_secs_f64(), cpu: clock::process() - cpu, moves })
}
