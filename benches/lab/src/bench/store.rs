//! `bench store`: the state store alone.

use crate::{
    config::{Store, Word, bytes, choice, threads, word},
    doctor,
    error::Usage,
    machine::{
        clock,
        disk_reads::{PAGE, RandomReads},
        host, memory,
        temporary::Temporary,
    },
    result::{Host, SCHEMA, Tool},
    ui::Ui,
    written::{self, Named},
};
use clap::Args;
use phalanx::{
    merkle::{self, Delta, Durability, HashFn, Locator, Memory, Params, ReadUse, Reading, StoreConfig},
    parascheduler::Workers,
    revm::primitives::B256,
};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::VecDeque,
    fs::File,
    hint::black_box,
    mem::MaybeUninit,
    path::{Path, PathBuf},
    time::Instant,
};

/// Bytes per key of a resident state, its locators and log buffers, for the check of available memory.
const KEY_BYTES: u64 = 200;

/// Bytes per key of a paged state, besides the cache.
const INDEX_BYTES: u64 = 24;

/// Pseudo-random numbers from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a rank below `keys`.
    fn rank(&mut self, skew: Skew, keys: usize) -> usize {
        match skew {
            Skew::Uniform => ((u128::from(self.next()) * keys as u128) >> 64) as usize,
            Skew::Zipf(exponent) => {
                // The inverse of the continuous distribution with density x^-exponent on 1..keys+1.
                let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
                let end = keys as f64 + 1.0;
                let x = if (exponent - 1.0).abs() < 1e-9 {
                    end.powf(uniform)
                } else {
                    let power = 1.0 - exponent;
                    (1.0 + uniform * (end.powf(power) - 1.0)).powf(1.0 / power)
                };
                (x as usize - 1).min(keys - 1)
            }
        }
    }
}

/// Key of a rank, as long as an address.
fn key(rank: u64) -> [u8; 20] {
    let mut numbers = Numbers(rank);
    let mut key = [0; 20];
    for part in key.chunks_mut(8) {
        part.copy_from_slice(&numbers.next().to_le_bytes()[..part.len()]);
    }
    key
}

/// Value about as long as an account's nonce and balance.
fn value(number: u64) -> [u8; 16] {
    let mut value = [7; 16];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}

/// All ranks, ordered by the first two bytes of their keys' hashes. Allocates nothing but the result: freed pages would be
/// counted as the state's later.
fn by_hash(keys: usize, hash: HashFn) -> Vec<u32> {
    const PART: usize = 1 << 16;
    let near = |rank: u32| {
        let [a, b, ..] = hash.key(&key(u64::from(rank)));
        u16::from_be_bytes([a, b])
    };
    let each = |see: &mut dyn FnMut(u32, usize)| {
        for part in (0..keys).step_by(PART) {
            let ranks = part as u32..keys.min(part + PART) as u32;
            let near: Vec<u16> = ranks.clone().into_par_iter().with_min_len(1 << 12).map(near).collect();
            ranks.zip(near).for_each(|(rank, near)| see(rank, usize::from(near)));
        }
    };
    let mut starts = vec![0u32; 1 << 16];
    each(&mut |_, near| starts[near] += 1);
    let mut before = 0;
    for count in &mut starts {
        before += core::mem::replace(count, before);
    }
    let mut order = vec![0; keys];
    each(&mut |rank, near| {
        order[starts[near] as usize] = rank;
        starts[near] += 1;
    });
    order
}

/// An empty vector with room for `len` items whose pages are already mapped, so that they are not counted as the state's.
fn touched<T>(len: usize) -> Vec<T> {
    // Without `black_box` the room could be allocated as zeros, which are mapped page by page on use.
    let mut room = black_box(Vec::with_capacity(len));
    room.spare_capacity_mut().iter_mut().for_each(|place| *place = MaybeUninit::zeroed());
    black_box(room)
}

/// The output.
#[derive(Serialize, JsonSchema)]
struct Stored {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Program that measured.
    tool: Tool,
    /// Machine that it ran on.
    host: Host,
    /// The run.
    runs: Vec<StoreRun>,
}

/// A run of the store, as written.
#[derive(Serialize, JsonSchema)]
struct StoreRun {
    /// Keys of the state.
    keys: usize,
    /// Updates per block.
    updates_per_block: usize,
    /// Measured blocks.
    blocks: usize,
    /// Blocks before them.
    warmup_blocks: usize,
    /// Hash of the commitment.
    hasher: String,
    /// Failures that a committed block survives.
    durability: String,
    /// Blocks that can be rolled back.
    history: usize,
    /// Threads that hash.
    threads: usize,
    /// Seed of the updates.
    seed: u64,
    /// Distribution of the updates: `uniform` or `zipf:T`.
    skew: String,
    /// What the measured blocks do: `update`, `create` or `delete`.
    work: String,
    /// `resident`, or `cached:BYTES`.
    memory: String,
    /// Way to read values from disk: `direct`, `buffered` or `threads`.
    reading: String,
    /// Blocks whose keys are announced before they run.
    ahead_blocks: usize,
    /// Updates per second.
    updates_per_s: f64,
    /// Processor time of all threads per update, in µs.
    us_core_per_update: f64,
    /// Records that compaction moved per update.
    moves_per_update: f64,
    /// Memory of the process for the state, in bytes per key.
    dram_bytes_per_key: f64,
    /// Memory of the state by part, in bytes.
    memory_bytes: Held,
    /// Share of reads that the cache answered. Null for a resident state.
    cache_hit_rate: Option<f64>,
    /// Reads of the measured blocks. Null for a resident state, and where the backend reads by itself.
    reads: Option<Reads>,
    /// Memory of the state without history and cache, in bytes per key.
    state_bytes_per_key: f64,
    /// Growth of the store, in bytes per update.
    disk_bytes_per_update: f64,
    /// Bytes that were written per update.
    written_bytes_per_update: f64,
    /// The same in megabytes per second.
    written_mb_per_s: f64,
    /// Bytes that compaction wrote again. Null if the backend does not count them.
    compaction_rewrite_bytes: Option<u64>,
    /// Time of a block, in ms.
    block_ms: BlockTimes,
    /// Time to close the store, in s.
    close_s: f64,
    /// Time to open it again, in s. Null without a folder.
    reopen_s: Option<f64>,
    /// Height of the checkpoint that it opened from. Null without one.
    reopen_from_height: Option<u64>,
    /// Highest resident set of the process.
    rss_peak_bytes: u64,
    /// Memory of the benchmark itself: part of the peak, not of a key's memory.
    bench_bytes: usize,
    /// Root after the last block.
    state_root: String,
}

/// Reads of values from disk.
#[derive(Serialize, JsonSchema)]
struct Reads {
    /// Reads per second.
    per_s: f64,
    /// Reads per update.
    per_update: f64,
    /// Extents that were asked for per update: neighbours share a read.
    extents_per_update: f64,
    /// Bytes per read.
    bytes_per_read: f64,
    /// Bytes that block devices sent per update, with those of other threads of the process.
    device_bytes_per_update: f64,
    /// Mean number of reads in flight.
    depth: f64,
    /// True if reads were queued on io_uring.
    on_rings: bool,
    /// True if the page cache was dropped before the measured blocks.
    page_cache_dropped: bool,
    /// Keys that were announced and refused, because too many waited.
    refused_ahead: u64,
    /// The disk's own random reads of the log's files, measured right before: of a page, and of two.
    disk: Vec<RandomReads>,
    /// Reads per second as a share of the disk's own best rate for a page.
    share_of_disk: Option<f64>,
}

/// Memory of a state by part, in bytes.
#[derive(Serialize, JsonSchema)]
struct Held {
    /// Records in place.
    records: usize,
    /// Records beside their place.
    spilled: usize,
    /// Index from keys to records.
    index: usize,
    /// Order of the keys.
    ring: usize,
    /// Keys by position.
    owners: usize,
    /// Nodes of the tree.
    tree: usize,
    /// Undo records.
    history: usize,
    /// Values read from disk.
    cache: usize,
}

/// Times of blocks, in ms.
#[derive(Serialize, JsonSchema)]
struct BlockTimes {
    /// Median.
    p50: f64,
    /// 99th percentile.
    p99: f64,
    /// Maximum.
    max: f64,
}

/// Schema of what is written.
pub(super) fn schema() -> Named {
    written::schema::<Stored>("bench-store", "bench store, bench store --json")
}

/// Settings of a run of the state store alone.
#[derive(Clone, Debug, Args)]
pub struct StoreBench {
    /// Keys in the state
    #[arg(long, default_value_t = 1 << 20)]
    pub keys: usize,
    /// Updates per block
    #[arg(long, default_value_t = 50_000)]
    pub updates: usize,
    /// Measured blocks
    #[arg(long, default_value_t = 40)]
    pub blocks: usize,
    /// Blocks before the measured ones, until compaction is steady [default: as many as update each key twice]
    #[arg(long)]
    pub warmup: Option<usize>,
    /// Distribution of updates over keys: uniform, or zipf:T with exponent T
    #[arg(long, default_value = "uniform", value_parser = Skew::parse)]
    pub skew: Skew,
    /// Hash of the commitment
    #[arg(long, value_parser = choice::<HashFn>(), default_value = "sha256")]
    pub hasher: HashFn,
    /// Failures that a committed block survives
    #[arg(long, value_parser = choice::<Durability>(), default_value = "block")]
    pub durability: Durability,
    /// Part of the state in memory: resident, or cached:BYTES (with K, M or G) of values besides an index
    #[arg(long, default_value = "resident", value_parser = memory)]
    pub memory: Memory,
    /// Way to read values from disk; cached memory in files only
    #[arg(long, value_parser = choice::<Reading>(), default_value = Reading::default().word())]
    pub reading: Reading,
    /// Blocks whose keys are announced before they run, so that their values are read meanwhile; cached memory only
    #[arg(long, default_value_t = 1)]
    pub ahead: usize,
    /// What the measured blocks do
    #[arg(long, value_parser = choice::<Work>(), default_value = "update")]
    pub work: Work,
    /// Blocks that can be rolled back
    #[arg(long, default_value_t = 8)]
    pub history: usize,
    /// Threads [default: one per core]
    #[arg(long)]
    pub threads: Option<usize>,
    /// Place of the state: mem, file:DIR or rocks:DIR, a new or empty folder [default: a temporary folder]
    #[arg(long, value_parser = Store::parse)]
    pub store: Option<Store>,
    /// Seed of the keys
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

/// What measured blocks do to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// New values of keys that exist.
    Update,
    /// Keys that do not exist.
    Create,
    /// Ends of keys that exist.
    Delete,
}

impl Word for Work {
    const WORDS: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Update, "update", "New values of keys that exist"),
        (Self::Create, "create", "Keys that do not exist"),
        (Self::Delete, "delete", "Deletes keys that exist, each once"),
    ];
}

/// Distribution of updates over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// Every key alike.
    Uniform,
    /// Zipf with this exponent.
    Zipf(f64),
}

impl Skew {
    /// Reads `uniform` or `zipf:T`.
    ///
    /// # Errors
    /// If `word` is neither, or the exponent is out of range.
    pub fn parse(word: &str) -> Result<Self, String> {
        match word.split_once(':') {
            None if word == "uniform" => Ok(Self::Uniform),
            Some(("zipf", exponent)) => match exponent.parse::<f64>() {
                Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Self::Zipf(exponent)),
                _ => Err("the exponent must be above 0 and at most 10".into()),
            },
            _ => Err("expected uniform or zipf:T".into()),
        }
    }
}

fn memory(word: &str) -> Result<Memory, String> {
    let refused = || "expected resident or cached:BYTES".to_owned();
    match word.split_once(':') {
        None if word == "resident" => Ok(Memory::Resident),
        Some(("cached", number)) => {
            let bytes = bytes(number).ok().and_then(|bytes| usize::try_from(bytes).ok());
            bytes.map(|bytes| Memory::Cached { bytes }).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
}

/// Measures the store: updates of random keys, a root and a write per block.
///
/// # Errors
/// If the settings describe no run, memory is short, or the store fails.
pub fn run(config: &StoreBench, ui: &Ui) -> anyhow::Result<Value> {
    let StoreBench { keys, updates, blocks, .. } = *config;
    if keys == 0 || keys > 1 << 31 || updates == 0 || blocks == 0 || updates > 1 << 24 {
        let bounds = "--keys, --updates and --blocks must be above zero, --keys at most 2^31, --updates at most 2^24";
        return Err(Usage(bounds.into()).into());
    }
    if config.work == Work::Delete && updates.saturating_mul(blocks) > keys {
        return Err(Usage(
            "--work delete deletes each key once: --updates times --blocks must be at most --keys".into(),
        )
        .into());
    }
    let needed = match config.memory {
        Memory::Resident => (keys as u64).saturating_mul(KEY_BYTES),
        Memory::Cached { bytes } => (keys as u64).saturating_mul(INDEX_BYTES).saturating_add(bytes as u64),
    };
    memory::memory_beside(needed)?;
    let folder = Temporary::new()?;
    let store = config.store.clone().unwrap_or_else(|| Store::File(folder.path().into()));
    let path = store.path().map(Path::to_path_buf);
    let store_config = StoreConfig::new(store.backend()?)
        .with_durability(config.durability)
        .with_params(Params::with_hash(config.hasher))
        .with_memory(config.memory)
        .with_reading(config.reading)
        .with_history(config.history);
    let workers = Workers::new(threads(config.threads)?)?;
    let row = workers.install(|| measure(config, ui, store_config, path.as_deref()))?;
    let (tool, host) = (host::tool(), doctor::host(path.as_deref()));
    Ok(written::value(&Stored { schema: SCHEMA, tool, host, runs: vec![row] }))
}

fn measure(config: &StoreBench, ui: &Ui, store_config: StoreConfig, path: Option<&Path>) -> anyhow::Result<StoreRun> {
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

    let mut draw = Draw { config, numbers: Numbers(config.seed), next: 0 };
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
    let (disk, written) = (path.map_or(0, host::size_of), written());
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
    let disk = path.map_or(0, host::size_of).saturating_sub(disk);
    let written = self::written().saturating_sub(written);
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
        durability: word(config.durability),
        history: config.history,
        threads: threads(config.threads)?,
        seed: config.seed,
        skew: match config.skew {
            Skew::Uniform => "uniform".to_owned(),
            Skew::Zipf(exponent) => format!("zipf:{exponent}"),
        },
        memory: match config.memory {
            Memory::Resident => "resident".to_owned(),
            Memory::Cached { bytes } => format!("cached:{bytes}"),
        },
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
        disk_bytes_per_update: disk as f64 / count,
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

impl Reads {
    fn of(made: ReadUse, disk: Vec<RandomReads>, updates: f64, seconds: f64) -> Self {
        let per_s = made.reads as f64 / seconds;
        let page = disk.iter().find(|disk| disk.bytes == PAGE);
        Self {
            per_s,
            per_update: made.reads as f64 / updates,
            extents_per_update: made.extents as f64 / updates,
            bytes_per_read: made.bytes as f64 / (made.reads as f64).max(1.0),
            device_bytes_per_update: 0.0,
            depth: made.depth(),
            on_rings: made.on_rings,
            page_cache_dropped: false,
            refused_ahead: 0,
            share_of_disk: page.map(|page| per_s / page.best()),
            disk,
        }
    }
}

/// Segments of a log in files.
fn segments(store: &Path) -> std::io::Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(store)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(files.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect())
}

/// The disk's own random reads of a log's files; nothing where the system does not allow them.
fn disk_alone(store: &Path) -> Vec<RandomReads> {
    let of = |bytes| RandomReads::of(&segments(store)?, bytes);
    [PAGE, 2 * PAGE].into_iter().filter_map(|bytes| of(bytes).ok()).collect()
}

/// Makes the log's files durable and drops the system's page cache; false where that is not permitted.
fn drop_page_cache(store: Option<&Path>) -> bool {
    let sync = |path: PathBuf| File::open(path).and_then(|file| file.sync_all());
    let synced = store.map(|store| segments(store).and_then(|files| files.into_iter().try_for_each(sync)));
    matches!(synced, Some(Ok(()))) && std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Bytes that this process gave to the kernel to write: logs, tables and checkpoints. Zero where the system does not tell.
fn written() -> u64 {
    io_field("wchar")
}

/// Field of the process's accounts of input and output. Zero where the system does not tell.
fn io_field(name: &str) -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok()).unwrap_or(0)
}

/// Draws the keys of blocks.
struct Draw<'c> {
    config: &'c StoreBench,
    numbers: Numbers,
    /// Keys that were created or deleted so far.
    next: usize,
}

impl Draw<'_> {
    /// Ranks of keys that a block updates.
    fn updated(&mut self) -> Vec<usize> {
        (0..self.config.updates).map(|_| self.numbers.rank(self.config.skew, self.config.keys)).collect()
    }

    /// Ranks of keys that a measured block changes. Keys are in no order of their ranks.
    fn measured(&mut self) -> Vec<usize> {
        let StoreBench { keys, updates, work, .. } = *self.config;
        let first = match work {
            Work::Update => return self.updated(),
            Work::Create => keys + self.next,
            Work::Delete => self.next,
        };
        self.next += updates;
        (first..first + updates).collect()
    }
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
