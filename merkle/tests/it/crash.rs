//! After any damage to the process or the files, the store reopens at a committed block, or returns an error that says
//! why not.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use crate::common::{
    Model, chain_ops, config,
    life::{boundaries, number},
    open, plain,
};
use phalanx_merkle::{
    Backend, Compaction, Delta, Durability, Error, HashFn, Params, Sentinels, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const CHILD: &str = "PHALANX_MERKLE_CRASH_CHILD";

fn plain_delta(seed: u64, height: u64) -> Delta {
    plain(&chain_ops(seed, height))
}

fn backend(kind: &str, dir: &Path) -> Backend {
    match kind {
        "file" => Backend::File(dir.to_path_buf()),
        #[cfg(feature = "rocksdb")]
        "rocks" => Backend::Rocks(dir.to_path_buf()),
        _ => panic!("unknown backend {kind}"),
    }
}

/// Child process of [`killed`]: commits for ever and reports each block.
#[test]
fn child() {
    let Ok(role) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = role.split('|').collect();
    let [kind, durability, seed, dir] = words[..] else { panic!("{role}") };
    let seed: u64 = seed.parse().expect("a seed");
    let durability = if durability == "block" { Durability::Block } else { Durability::Async };
    let (kind, tables) = kind.strip_suffix("+tables").map_or((kind, false), |kind| (kind, true));
    let (kind, staging) = kind.strip_suffix("+staging").map_or((kind, false), |kind| (kind, true));
    let mut config = StoreConfig::new(backend(kind, Path::new(dir))).with_durability(durability);
    if tables {
        config = config.with_faults(Arc::new(OnlyTables));
    }
    let mut store = Store::open(config).expect("the store opens");
    let mut out = std::io::stdout();
    println!("\nopened");
    loop {
        let height = store.height().map_or(0, |height| height + 1);
        let result =
            if staging { stage_and_promote(&mut store, seed, height) } else { commit(&mut store, seed, height) };
        if let Err(error) = result {
            println!("\nfailed {error:?} then {:?}", store.prepare(Delta::new(), height + 1).err());
            return;
        }
        writeln!(out, "\ncommitted {height}").and_then(|()| out.flush()).expect("a pipe");
    }
}

fn commit(store: &mut Store, seed: u64, height: u64) -> Result<(), Error> {
    let prepared = store.prepare(plain_delta(seed, height), height)?;
    store.commit(prepared)
}

/// Stages and discards a sibling before each block, and stages a child before the block is applied; rewinds every third
/// block once.
fn stage_and_promote(store: &mut Store, seed: u64, height: u64) -> Result<(), Error> {
    let write = |pending: Option<phalanx_merkle::Pending>| pending.map_or(Ok(()), phalanx_merkle::Pending::write);
    let tip = store.tip();
    let add_fork = |store: &mut Store, parent, height| {
        let prepared = store.prepare_on(parent, plain_delta(seed, height))?;
        store.add_fork(prepared)
    };
    let sibling = add_fork(store, tip, height + 1_000_000)?;
    write(store.stage(sibling)?)?;
    let block = add_fork(store, tip, height)?;
    write(store.stage(block)?)?;
    let child = add_fork(store, block, height + 1)?;
    write(store.stage(child)?)?;
    store.apply_fork(block)?.write()?;
    if height % 3 == 2 && store.rewind(Some(height - 1)).map(phalanx_merkle::Pending::write).is_ok() {
        let again = add_fork(store, tip, height)?;
        store.apply_fork(again)?.write()?;
    }
    if height % 5 == 4 {
        store.prune()?;
    }
    Ok(())
}

/// Kills a committing process again and again.
fn killed(kind: &str, durability: &str, seed: u64, rounds: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Models of the last blocks: a block that was rewound when the process died makes the chain shorter by one.
    let mut models = std::collections::VecDeque::from([Model::new(HashFn::Sha256)]);
    let mut acknowledged = None;
    for round in 0..rounds {
        let context = format!("{kind} {durability} seed {seed} round {round}");
        let mut child = Command::new(std::env::current_exe().expect("this test's path"))
            .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{kind}|{durability}|{seed}|{}", dir.path().display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let (opened, is_open) = std::sync::mpsc::channel();
        let killer = std::thread::spawn({
            // The model hashes its whole log at every block, so a long life costs its square.
            let delay = Duration::from_micros(rng.random_range(0..30_000));
            // Some processes are killed while they open the store, most while they commit, and some afterwards, however
            // slow the machine is.
            let waits = round % 3 > 0;
            move || {
                if waits {
                    let _ = is_open.recv();
                }
                std::thread::sleep(delay);
                child.kill().expect("a kill");
                child.wait().expect("its end");
            }
        });
        for line in lines.map_while(Result::ok) {
            let committed = line.strip_prefix("committed ");
            if let Some(height) = committed {
                acknowledged = Some(height.parse::<u64>().expect("a height"));
            }
            if (round % 3 == 1 && line == "opened") || (round % 3 == 2 && committed.is_some()) {
                // The killing thread may not be waiting.
                let _ = opened.send(());
            }
        }
        drop(opened);
        killer.join().expect("the killer");

        let plain = kind.split('+').next().unwrap_or(kind);
        let staging = kind.contains("+staging");
        let store = open(&backend(plain, dir.path()), HashFn::Sha256);
        // A block that is rewound for a moment is the tip's child.
        let acknowledged = if staging { acknowledged.and_then(|height| height.checked_sub(1)) } else { acknowledged };
        assert!(store.height() >= acknowledged, "{context}: {:?} < {acknowledged:?}", store.height());
        let blocks = store.height().map_or(0, |height| height as usize + 1);
        while models.back().is_some_and(|model| model.roots.len() < blocks) {
            let mut model = models[models.len() - 1].clone();
            model.block(&chain_ops(seed, model.roots.len() as u64));
            models.push_back(model);
            if models.len() > 3 {
                models.pop_front();
            }
        }
        let model = models.iter().find(|model| model.roots.len() == blocks).expect("one of the last blocks");
        model.assert_equals(&store, &context);
        for held in store.forks().into_iter().filter(|held| held.parent == store.tip()) {
            let roots = [0, 1_000_000].map(|more| {
                let mut model = model.clone();
                model.block(&chain_ops(seed, held.height + more));
                model.root()
            });
            assert!(held.staged && roots.contains(&held.root), "{context}");
        }
    }
    assert!(acknowledged.is_some(), "no child lived long enough to commit");
}

#[test]
fn file_survives_kill() {
    killed("file", "async", 1, 12);
    killed("file", "block", 2, 6);
    killed("file+staging", "async", 13, 6);
    killed("file+staging", "block", 14, 3);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_survives_kill() {
    killed("rocks", "async", 3, 12);
    killed("rocks", "block", 4, 6);
    killed("rocks+staging", "async", 15, 4);
    killed("rocks+tables", "async", 16, 9);
    killed("rocks+tables", "block", 17, 3);
    killed("rocks+staging+tables", "async", 19, 4);
}

/// Makes every block with entries bring a table.
#[derive(Debug)]
struct OnlyTables;

impl Faults for OnlyTables {
    fn before(&self, _: Step<'_>) -> Verdict {
        Verdict::Go
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(1)
    }
}

/// A process that died while the database ingested a table may have left a second name of it: the next table must not
/// overwrite it.
#[cfg(feature = "rocksdb")]
#[test]
fn an_ingested_table_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = || StoreConfig::new(backend("rocks", dir.path())).with_faults(Arc::new(OnlyTables));
    let mut model = Model::new(HashFn::Sha256);
    for height in 0..4 {
        let mut store = Store::open(config()).expect("the store opens");
        commit(&mut store, 18, height).expect("a block");
        model.block(&chain_ops(18, height));
        drop(store);
        let files = std::fs::read_dir(dir.path()).expect("a folder").map(|file| file.expect("a file").path());
        let tables = files.filter(|path| path.extension().is_some_and(|is| is == "sst"));
        let largest = tables.max_by_key(|path| path.metadata().expect("a file").len()).expect("a table");
        let left = dir.path().join("extents.tmp");
        assert!(!left.exists(), "the database has moved it");
        std::fs::hard_link(largest, left).expect("a second name");
        // Reads the whole log.
        model.assert_equals(&open(&backend("rocks", dir.path()), HashFn::Sha256), &format!("height {height}"));
    }
}

/// Truncates the file, and damages a byte of it: at each byte beside an end of a block, and at every 7th elsewhere; at every byte with
/// `PHALANX_STRIDE=1`.
#[test]
fn a_torn_or_damaged_file_reopens_at_a_block_or_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("00000000.seg");
    let backend = Backend::File(dir.path().to_path_buf());
    let mut store = open(&backend, HashFn::Sha256);
    let begin = std::fs::read(&file).expect("the log").len();
    let (mut ends, mut roots) = (Vec::new(), Vec::new());
    for height in 0..6u64 {
        let mut delta = Delta::new();
        for i in 0..height + 1 {
            delta.put(&i.to_be_bytes(), &height.to_be_bytes());
        }
        delta.delete(&(height - height / 2).to_be_bytes());
        delta.put_code([height as u8; 32], vec![7; 40]);
        let prepared = store.prepare(delta, height).expect("a block").with_payload(vec![1; 20]).expect("a payload");
        store.commit(prepared).expect("a block");
        ends.push(std::fs::read(&file).expect("the log").len());
        roots.push(store.root());
    }
    drop(store);
    let whole = std::fs::read(&file).expect("the log");
    let tip = ends.len() as u64 - 1;

    let stride = number("PHALANX_STRIDE", 7) as usize;
    let is_tried =
        |at: &usize| at.is_multiple_of(stride) || ends.iter().chain([&begin]).any(|end| at.abs_diff(*end) <= 8);
    for cut in (0..=whole.len()).filter(is_tried) {
        std::fs::write(&file, &whole[..cut]).expect("a write");
        if cut < begin {
            let refused = Store::open(config(&backend, HashFn::Sha256));
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "cut at {cut}: {refused:?}");
            assert_eq!(std::fs::read(&file).expect("the log"), &whole[..cut], "cut at {cut}");
            continue;
        }
        let complete = ends.iter().filter(|end| **end <= cut).count();
        let mut store = open(&backend, HashFn::Sha256);
        assert_eq!(store.height(), (complete as u64).checked_sub(1), "cut at {cut}");
        if complete > 0 {
            assert_eq!(store.root(), roots[complete - 1], "cut at {cut}");
        }
        let kept = std::fs::read(&file).expect("the log").len();
        assert_eq!(kept, if complete > 0 { ends[complete - 1] } else { begin }, "cut at {cut}");
        // The store continues from there.
        if cut % 37 == 0 {
            let prepared = store.prepare(plain_delta(1, 0), complete as u64).expect("a block");
            let root = prepared.root();
            store.commit(prepared).expect("a block");
            drop(store);
            assert_eq!(open(&backend, HashFn::Sha256).root(), root, "cut at {cut}");
        }
    }

    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let last = ends[ends.len() - 2];
    let begins = boundaries("00000000.seg", &whole);
    let own = begins[begins.len() - 2];
    // The process ended on this run of the machine, so a row of the last block that precedes its own is no torn one.
    let is_ambiguous = |at: usize| at >= own && !(own + 4..own + 8).contains(&at);
    for at in (0..whole.len()).filter(is_tried) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << rng.random_range(0..8);
        std::fs::write(&file, &damaged).expect("a write");
        match Store::open(config(&backend, HashFn::Sha256).with_expected_min_height(tip)) {
            Err(Error::Format { .. }) => assert!(at < begin, "byte {at}"),
            Err(Error::Corrupt { .. }) => assert!(at < last || !is_ambiguous(at), "byte {at}"),
            // Damage in the last block's own row looks like a torn write; only the caller's height tells them apart.
            Err(Error::Behind { found, .. }) => {
                assert!(at >= last && (is_ambiguous(at) || cfg!(not(target_os = "linux"))), "byte {at}");
                assert_eq!(found, Some(tip - 1));
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[test]
fn without_durability_the_file_reopens_at_a_flushed_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let backend = Backend::File(dir.path().to_path_buf());
    let mut model = Model::new(HashFn::Sha256);
    let mut store = Store::open(StoreConfig::new(backend.clone()).with_durability(Durability::None)).expect("a store");
    for height in 0..20 {
        model.block(&chain_ops(9, height));
        let prepared = store.prepare(plain_delta(9, height), height).expect("a block");
        store.commit(prepared).expect("a block");
        if height == 12 {
            store.flush().expect("a flush");
            let copy = tempfile::tempdir().expect("a directory");
            crate::common::life::copy(dir.path(), copy.path());
            model.assert_equals(&open(&Backend::File(copy.path().to_path_buf()), HashFn::Sha256), "flushed");
        }
        for (key, _) in model.state.iter().take(3) {
            store.read().prove(key).expect("a proof").expect("the key exists");
        }
    }
    drop(store);
    model.assert_equals(&open(&backend, HashFn::Sha256), "dropped");
}

#[cfg(feature = "rocksdb")]
#[test]
fn without_durability_rocks_reopens_at_a_flushed_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let backend = Backend::Rocks(dir.path().to_path_buf());
    let mut model = Model::new(HashFn::Sha256);
    let mut store = Store::open(StoreConfig::new(backend.clone()).with_durability(Durability::None)).expect("a store");
    let mut flushed = 0;
    for height in 0..20 {
        model.block(&chain_ops(9, height));
        let prepared = store.prepare(plain_delta(9, height), height).expect("a block");
        store.commit(prepared).expect("a block");
        if height == 12 {
            store.flush().expect("a flush");
            flushed = height;
        }
    }
    drop(store);
    let store = open(&backend, HashFn::Sha256);
    let height = store.height().expect("a block");
    assert!(height >= flushed);
    assert_eq!(store.root(), model.roots[height as usize]);
}

fn refuses_what_is_not_its_own(kind: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let backend = backend(kind, dir.path());
    let mut store = open(&backend, HashFn::Sha256);
    let prepared = store.prepare(plain_delta(1, 1), 0).expect("a block");
    store.commit(prepared).expect("a block");

    assert!(matches!(Store::open(config(&backend, HashFn::Sha256)), Err(Error::Locked { .. })), "the same process");
    let output = Command::new(std::env::current_exe().expect("this test's path"))
        .args(["--exact", "crash::child", "--nocapture"])
        .env(CHILD, format!("{kind}|async|1|{}", dir.path().display()))
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("Locked"), "{text}");
    let root = store.root();
    drop(store);

    // Every genesis parameter is bound into the store.
    let own = Params::with_hash(HashFn::Sha256);
    let sentinels = Sentinels::new(3).expect("few sentinels");
    let compaction = |active, of, per_entry, extra| Compaction { active, of, per_entry, extra };
    let Compaction { active, of, per_entry, extra } = own.compaction;
    for params in [
        Params::with_hash(HashFn::Blake3),
        Params { sentinels, ..own },
        Params { compaction: compaction(active, of + 1, per_entry, extra), ..own },
        Params { compaction: compaction(active, of, per_entry + 1, extra), ..own },
        Params { compaction: compaction(active, of, per_entry, extra + 1), ..own },
    ] {
        let other = Store::open(StoreConfig::new(backend.clone()).with_params(params));
        assert!(matches!(other, Err(Error::Format { .. })), "{params:?}: {other:?}");
    }
    let ahead = Store::open(config(&backend, HashFn::Sha256).with_expected_min_height(1));
    assert!(matches!(ahead, Err(Error::Behind { found: Some(0), expected: 1 })), "{ahead:?}");
    assert_eq!(open(&backend, HashFn::Sha256).root(), root);
}

#[test]
fn file_refuses_foreign_stores() {
    refuses_what_is_not_its_own("file");
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("state.log"), b"a diary, not a store").expect("a write");
    let opened = Store::open(StoreConfig::new(Backend::File(dir.path().to_path_buf())));
    assert!(matches!(opened, Err(Error::Format { .. })), "{opened:?}");
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_refuses_foreign_stores() {
    refuses_what_is_not_its_own("rocks");
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_damaged_rocks_store_is_an_error() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let dir = tempfile::tempdir().expect("a directory");
    let backend = Backend::Rocks(dir.path().to_path_buf());
    let mut model = Model::new(HashFn::Sha256);
    let mut store = open(&backend, HashFn::Sha256);
    for height in 0..10 {
        model.block(&chain_ops(6, height));
        let prepared = store.prepare(plain_delta(6, height), height).expect("a block");
        store.commit(prepared).expect("a block");
    }
    drop(store);
    let images: Vec<_> = std::fs::read_dir(dir.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(path).expect("a file")))
        .collect();
    for round in 0..40 {
        let copy = tempfile::tempdir().expect("a directory");
        for (path, bytes) in &images {
            let name = path.file_name().expect("a name");
            let mut bytes = bytes.clone();
            let log = path.extension().is_some_and(|extension| extension == "log" || extension == "sst");
            if log && !bytes.is_empty() {
                let at = rng.random_range(0..bytes.len());
                if round % 2 == 0 {
                    bytes[at] ^= 1 << rng.random_range(0..8);
                } else {
                    bytes.truncate(at);
                }
            }
            std::fs::write(copy.path().join(name), bytes).expect("a write");
        }
        let opened = Store::open(StoreConfig::new(Backend::Rocks(copy.path().to_path_buf())));
        match opened {
            Ok(store) => {
                let root = store.height().map(|height| model.roots[height as usize]);
                assert!(root.is_none_or(|root| root == store.root()), "round {round}");
            }
            Err(Error::Corrupt { .. } | Error::Rocks { .. } | Error::Format { .. }) => {}
            Err(other) => panic!("round {round}: {other}"),
        }
    }
}

#[test]
fn a_place_that_cannot_be_written_is_a_typed_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = dir.path().join("plain");
    std::fs::write(&plain, b"not a directory").expect("a write");
    let opened = Store::open(StoreConfig::new(Backend::File(plain.join("store"))));
    assert!(matches!(opened, Err(Error::NoStore { .. })), "{opened:?}");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let closed = dir.path().join("closed");
        std::fs::create_dir(&closed).expect("a directory");
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).expect("permissions");
        // A superuser may write anyway, and the test shows nothing.
        if std::fs::write(closed.join("probe"), b"").is_err() {
            let opened = Store::open(StoreConfig::new(Backend::File(closed.clone())));
            assert!(matches!(opened, Err(Error::Io { .. })), "{opened:?}");
        }
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    }
}

/// A process may be killed after it took the lock, and before it wrote a file.
#[test]
fn a_creation_that_got_no_further_than_its_lock_begins_again() {
    let locks: &[(&str, &str)] = &[
        ("file", "lock"),
        #[cfg(feature = "rocksdb")]
        ("rocks", "store.lock"),
    ];
    for (kind, lock) in locks {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(lock), b"").expect("a write");
        let mut store = open(&backend(kind, dir.path()), HashFn::Sha256);
        let prepared = store.prepare(plain_delta(1, 0), 0).expect("a block");
        store.commit(prepared).expect("a block");
    }
}

/// A row of code that is damaged is told by the whole one behind it, whatever was promised.
#[test]
fn a_bit_flipped_between_rows_of_code_is_no_torn_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = open(&backend("file", dir.path()), HashFn::Sha256);
    for height in 0..3u8 {
        let mut delta = Delta::new();
        delta.put_code([height; 32], vec![height; 100]);
        delta.put(&[height], &[1]);
        let prepared = store.prepare(delta, height.into()).expect("a block");
        store.commit(prepared).expect("a block");
    }
    drop(store);
    let path = dir.path().join("code.log");
    let mut bytes = std::fs::read(&path).expect("the file of code");
    bytes[60] ^= 1;
    std::fs::write(&path, &bytes).expect("a write");
    let opened = Store::open(config(&backend("file", dir.path()), HashFn::Sha256));
    assert!(
        matches!(&opened, Err(Error::Corrupt { what, .. }) if what.contains("a whole one behind it")),
        "{opened:?}"
    );
    assert_eq!(std::fs::read(&path).expect("the file of code"), bytes);
}

/// The blocks are whole and promised, so what is damaged is the code that they need.
#[test]
fn damage_of_the_only_row_of_code_names_the_file_of_code() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = || config(&backend("file", dir.path()), HashFn::Sha256).with_durability(Durability::Block);
    let mut store = Store::open(settings()).expect("a store");
    let mut delta = Delta::new();
    delta.put_code([7; 32], vec![7; 100]);
    delta.put(&[7], &[1]);
    let prepared = store.prepare(delta, 0).expect("a block");
    store.commit(prepared).expect("a block");
    drop(store);
    let path = dir.path().join("code.log");
    let mut bytes = std::fs::read(&path).expect("the file of code");
    bytes[60] ^= 1;
    std::fs::write(&path, &bytes).expect("a write");
    let opened = Store::open(settings());
    let named = |found: &Error| matches!(found, Error::Corrupt { path: at, what } if *at == path && what.contains("blocks need code"));
    assert!(opened.as_ref().is_err_and(named), "{opened:?}");
}

/// A limit on the file's size stands in for a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_poisons_and_the_store_reopens_at_the_last_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let exe = std::env::current_exe().expect("this test's path");
    // With the signal ignored, a write past the limit is an ordinary error.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\" --exact crash::child --nocapture"])
        .arg(exe)
        .env(CHILD, format!("file|async|5|{}", dir.path().display()))
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = text.lines().find(|line| line.starts_with("failed")).expect("a failed write");
    assert!(failed.starts_with("failed Io") && failed.ends_with("then Some(Poisoned)"), "{failed}");
    let last = text.lines().filter_map(|line| line.strip_prefix("committed ")).next_back().expect("a commit");
    let mut model = Model::new(HashFn::Sha256);
    (0..=last.parse().expect("a height")).for_each(|height| model.block(&chain_ops(5, height)));
    model.assert_equals(&open(&Backend::File(dir.path().to_path_buf()), HashFn::Sha256), "after the disk was full");
}
