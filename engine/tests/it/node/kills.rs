//! `kill -9` at commits: the engine and the node's own store agree afterwards, and no block is missing in the latter.

use super::{
    service::{candidate, commit, forking, meta, open, submit},
    wallet::{Call, address, signed},
};
use alloy_primitives::{B256, Bytes};
use parking_lot::Mutex;
use phalanx::{
    BlockSink, RootKind, ServiceConfig, SinkBlock, SinkRefused,
    alloy::genesis::Genesis,
    api::{CommittedTip, ExecId, ExecutionEngine as _, Priority, Ticket},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

/// Folder of the chain, in the environment of a process that is to be killed.
const FOLDER: &str = "PHALANX_KILLED_FOLDER";

/// Appends the height and the name of each block to a file.
#[derive(Debug)]
struct Log(Mutex<File>);

const RECORD: usize = 40;

impl Log {
    fn open(folder: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(folder.join("blocks")).expect("a file");
        Self(Mutex::new(file))
    }

    /// The last name at each height. A record that is cut off is not there.
    fn read(folder: &Path) -> BTreeMap<u64, B256> {
        let bytes = std::fs::read(folder.join("blocks")).unwrap_or_default();
        let records = bytes.as_chunks::<RECORD>().0.iter();
        let read = |record: &[u8; RECORD]| {
            let (height, name) = record.split_first_chunk().expect("eight bytes");
            (u64::from_be_bytes(*height), B256::from_slice(name))
        };
        records.map(read).collect()
    }
}

impl BlockSink for Log {
    fn resumed(&self, _: &CommittedTip) {}

    fn put(&self, block: &SinkBlock<'_>) -> Result<(), SinkRefused> {
        let mut record = block.committed.height.to_be_bytes().to_vec();
        record.extend_from_slice(block.committed.exec.0.as_slice());
        let file = &mut *self.0.lock();
        file.write_all(&record).and_then(|()| file.sync_data()).map_err(|_| SinkRefused)
    }
}

/// The chain of a folder, with Ethereum's root if the folder's name says so.
fn chain(folder: &Path) -> Genesis {
    let mut chain = forking();
    if folder.ends_with("ethereum") {
        chain.config.extra_fields.insert(RootKind::FIELD.into(), RootKind::Ethereum.name().into());
    }
    chain
}

/// Commits blocks without end, one or two at a time, and executes the next one meanwhile.
fn run(folder: &Path) {
    let config = ServiceConfig::default().with_sink(Arc::new(Log::open(folder)));
    let service = open(&chain(folder), &folder.join("store"), config);
    let tip = service.status().committed;
    let (mut parent, mut height) = (tip.exec, tip.height);
    loop {
        height += 1;
        let tx = signed(2, &Call::to(0, height - 1, address(1), 1), vec![]);
        let block = candidate(parent, height, vec![tx], Bytes::new());
        service.submit(Ticket(1), block.clone(), Priority::Decided).expect("accepted");
        service.settle();
        if height % 3 == 1 {
            service.stage(Ticket(3), block.id()).expect("rooted");
        } else {
            service.commit(Ticket(2), block.id(), meta(&block)).expect("accepted");
        }
        parent = block.id();
    }
}

#[test]
fn kills_at_commits_lose_no_block_of_the_sink() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return run(Path::new(&folder));
    }
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (kills, seed) = (number("PHALANX_KILLS", 8), number("PHALANX_SEED", 7));
    println!("{kills} kills, PHALANX_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let all = crate::kit::folder();
    for name in ["twigs", "ethereum"] {
        let folder = all.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        kill_often(&folder, kills, &mut rng);
    }
}

fn kill_often(folder: &Path, kills: u64, rng: &mut ChaCha8Rng) {
    let mut last = 0;
    for kill in 0..kills {
        let program = std::env::current_exe().expect("a path");
        let mut child = Command::new(program)
            .args(["--exact", "node::kills::kills_at_commits_lose_no_block_of_the_sink"])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        std::thread::sleep(Duration::from_millis(rng.random_range(100..700)));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        let blocks = Log::read(folder);
        if !folder.join("store").exists() {
            continue;
        }
        let service = open(&chain(folder), &folder.join("store"), ServiceConfig::default());
        let tip = service.status().committed;
        assert!(tip.height >= last, "kill {kill}: {} after {last}", tip.height);
        for height in 1..=tip.height {
            let name = blocks.get(&height).unwrap_or_else(|| panic!("kill {kill}: block {height} is missing"));
            if let Some(row) = service.committed_at(height) {
                assert_eq!(row.exec, ExecId(*name), "kill {kill}: block {height}");
            }
        }
        last = tip.height;
    }
    println!("{last} blocks after {kills} kills");
    assert!(last > 0, "some blocks were committed");
    let service = open(&chain(folder), &folder.join("store"), ServiceConfig::default());
    let tip = service.status().committed;
    let tx = signed(2, &Call::to(0, tip.height, address(1), 1), vec![]);
    let block = candidate(tip.exec, tip.height + 1, vec![tx], Bytes::new());
    submit(&service, &block);
    commit(&service, &block);
}
