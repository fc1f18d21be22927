//! Commands that look at a store: they write not one byte, work beside a node and without the right to write, and refuse what is no
//! store.

use crate::{
    command::{Ended, disk_stores, end, phalanx, run},
    reference::store,
};
use phalanx::merkle::Store;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

const LOAD: &str = "--workload mixed --accounts 300 --txs 2000 --block-txs 200 --oracle off";

/// Key of an account that is not there.
const KEY: &str = "0x1111111111111111111111111111111111111111";

/// Time of the last change, and content, by path.
type Fingerprint = BTreeMap<PathBuf, (SystemTime, Vec<u8>)>;

/// Makes a store under `dir`; returns its folder and root.
fn made(kind: &str, dir: &Path) -> (PathBuf, String) {
    let path = dir.join(kind);
    let result = run(&format!("bench run {LOAD} --store {kind}:{} --json -", path.display())).json();
    (path, result["runs"][0]["integrity"]["state_root"].as_str().expect("a root").to_owned())
}

/// Every name under a path, with the time of its last change and its content.
fn fingerprint(path: &Path) -> Fingerprint {
    let mut found = BTreeMap::new();
    let mut open = vec![path.to_path_buf()];
    while let Some(path) = open.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
        }
        let content = if meta.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
        found.insert(path, (meta.modified().expect("a time"), content));
    }
    found
}

/// Fingerprint of a store whose node has no block to write: RocksDB ends some work of its own after it was opened.
fn settled(path: &Path) -> Fingerprint {
    loop {
        let before = fingerprint(path);
        std::thread::sleep(Duration::from_millis(300));
        if fingerprint(path) == before {
            return before;
        }
    }
}

/// Names of what differs.
fn changes(before: &Fingerprint, after: &Fingerprint) -> Vec<PathBuf> {
    let names = before.keys().chain(after.keys()).collect::<BTreeSet<_>>();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// Command lines that look, for a store and a folder for what they write.
fn looks(db: &str, out: &Path) -> Vec<String> {
    let out = out.display();
    vec![
        format!("state info --db {db}"),
        format!("state info --db {db} --json"),
        format!("state get --db {db} {KEY}"),
        format!("state prove --db {db} {KEY}"),
        format!("state check --db {db}"),
        format!("state export --db {db} {out}/stream"),
        format!("state backup --db {db} --to {out}/copy"),
        format!("state snapshot --db {db} {out}/snapshot"),
    ]
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn nothing_is_written_where_a_command_looks() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, root) = made(kind, dir.path());
        let open = || Store::open(store(kind, &path)).expect("a sound store");
        // RocksDB moves its log to tables when it is opened for writing.
        for state in ["closed", "opened before", "torn", "beside a node"] {
            let node = match state {
                "opened before" => {
                    drop(open());
                    None
                }
                "beside a node" => Some(open()),
                "torn" => {
                    let mut files: Vec<PathBuf> = fingerprint(&path).into_keys().collect();
                    files.retain(|path| path.extension().is_some_and(|end| end == "seg" || end == "log"));
                    files.retain(|path| !path.ends_with("code.log"));
                    let last = files.last().expect("a log");
                    let mut file = OpenOptions::new().append(true).open(last).expect("a log");
                    file.write_all(&[7; 5]).expect("a torn end");
                    None
                }
                _ => None,
            };
            let before = settled(&path);
            let out = dir.path().join("out");
            fs::create_dir(&out).expect("a folder");
            for line in looks(&path.display().to_string(), &out) {
                let ended = run(&line);
                assert_eq!(ended.code, Some(0), "{kind}, {state}: {line}: {ended:?}");
                assert_eq!(
                    changes(&before, &fingerprint(&path)),
                    [""; 0].map(PathBuf::from),
                    "{kind}, {state}: {line}"
                );
                let told = state == "torn";
                assert_eq!(ended.stderr.contains("a torn end of 5 bytes"), told, "{kind}, {state}: {line}: {ended:?}");
            }
            let info = run(&format!("state info --db {} --json", path.display())).json();
            assert_eq!((&info["state_root"], &info["kind"]), (&root.clone().into(), &(*kind).into()), "{info}");
            assert_eq!(info["torn"].as_array().map(Vec::len), Some(usize::from(state == "torn")), "{info}");
            let copies = [format!("state import --db {0}/again --root {root} {0}/stream", out.display())];
            let copies = copies.into_iter().chain([format!("state check --db {}/copy", out.display())]);
            copies.for_each(|line| assert_eq!(run(&line).code, Some(0), "{kind}, {state}: {line}"));
            fs::remove_dir_all(&out).expect("a folder");
            drop(node);
        }
        // Opening for writing cuts the torn end off and says so.
        let file = fingerprint(&path).into_keys().find(|path| path.extension().is_some_and(|end| end == "torn"));
        assert!(file.is_some(), "{kind}: what the node cut off is kept");
    }
}

#[test]
fn a_user_that_may_only_read_can_look() {
    let other = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]).stdin(Stdio::null());
        command
    };
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, _) = made(kind, dir.path());
        let (binary, out) = (dir.path().join("phalanx"), dir.path().join("out"));
        fs::copy(env!("CARGO_BIN_EXE_phalanx"), &binary).expect("a copy");
        fs::create_dir(&out).expect("a folder");
        for path in fingerprint(dir.path()).into_keys() {
            let mode = if path == out { 0o777 } else { 0o555 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        if !other("true").status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: this system does not let a test become another user");
            return;
        }
        let before = fingerprint(&path);
        for line in looks(&path.display().to_string(), &out) {
            let mut command = other(&binary.display().to_string());
            command.args(line.split(' '));
            let ended = end(command);
            assert_eq!(ended.code, Some(0), "{kind}: {line}: {ended:?}");
        }
        assert!(fingerprint(&path) == before, "{kind}");
        let mut command = other(&binary.display().to_string());
        command.args(["state", "prune", "--db"]).arg(&path);
        let ended = end(command);
        assert_eq!(ended.code, Some(1), "{kind}: {ended:?}");
        assert!(ended.stderr.contains("Permission denied"), "{kind}: {ended:?}");
        for path in fingerprint(dir.path()).into_keys() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("a mode");
        }
    }
}

/// Answers beside a process that commits blocks: each is of one height, and no block waits. Transactions arrive for 500 seconds, so
/// that the process outlasts the commands on a slow or busy machine.
#[test]
fn a_running_node_can_be_looked_at() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, out) = (dir.path().join("state"), dir.path().join("out"));
        let line = format!(
            "bench run --workload native --accounts 300 --txs 500000 --rate 1000 --block-txs 20 --durability block --oracle off --store {kind}:{} --json -",
            path.display()
        );
        let mut node = phalanx(line.split(' ')).stderr(Stdio::null()).spawn().expect("the binary starts");
        let db = path.display();
        let height = || run(&format!("state info --db {db} --json"));
        while height().code != Some(0) || height().json()["height"].is_null() {
            assert_eq!(node.try_wait().expect("a child"), None, "{kind}: it ended before its first block");
        }
        let mut heights = Vec::new();
        for round in 0..3 {
            fs::create_dir(&out).expect("a folder");
            for line in looks(&db.to_string(), &out) {
                let ended = run(&line);
                assert_eq!(ended.code, Some(0), "{kind}, round {round}: {line}: {ended:?}");
            }
            let copy = run(&format!("state info --db {}/copy --json", out.display())).json();
            heights.push(copy["height"].as_u64().expect("a height"));
            fs::remove_dir_all(&out).expect("a folder");
        }
        assert_eq!(node.try_wait().expect("a child"), None, "{kind}: it ended");
        node.kill().and_then(|()| node.wait()).expect("a child");
        assert!(heights.is_sorted() && heights[0] < heights[2], "{kind}: it went on meanwhile: {heights:?}");
    }
}

/// Contents of a folder, and exit code and sentence of the commands that look at it.
struct Case {
    name: &'static str,
    /// Makes the folder, and returns its name on the command line.
    make: Make,
    code: i32,
    says: &'static str,
    flags: &'static str,
}

type Make = fn(kind: &'static str, dir: &Path, whole: &Path) -> String;

const fn case(name: &'static str, (code, says): (i32, &'static str), make: Make) -> Case {
    Case { name, make, code, says, flags: "" }
}

/// Copies a store.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// Copies a store without the files whose names contain a word.
fn without(whole: &Path, to: &Path, word: &str) -> String {
    copied(whole, to);
    let gone: Vec<String> = names(to).into_iter().filter(|name| name.contains(word)).collect();
    assert!(!gone.is_empty(), "{word}");
    gone.iter().for_each(|name| fs::remove_file(to.join(name)).expect("a file"));
    to.display().to_string()
}

const CASES: &[Case] = &[
    case("absent", (2, "no such directory"), |_, dir, _| dir.join("place").display().to_string()),
    case("empty", (2, "the directory is empty"), |_, dir, _| {
        fs::create_dir(dir.join("place")).expect("a folder");
        dir.join("place").display().to_string()
    }),
    case("empty, of a named kind", (2, "the directory is empty"), |kind, dir, _| {
        fs::create_dir(dir.join("place")).expect("a folder");
        format!("{kind}:{}", dir.join("place").display())
    }),
    case("something else", (2, "holds something else"), |_, dir, _| {
        fs::create_dir(dir.join("place")).expect("a folder");
        fs::write(dir.join("place/diary"), "no store").expect("a file");
        dir.join("place").display().to_string()
    }),
    case("a file", (2, "is a file, and a store is a folder"), |_, dir, _| {
        fs::write(dir.join("place"), "no store").expect("a file");
        dir.join("place").display().to_string()
    }),
    case(
        "another kind",
        (2, if cfg!(feature = "rocksdb") { "holds a store of the backend" } else { "no RocksDB" }),
        |kind, _, whole| format!("{}:{}", if kind == "file" { "rocks" } else { "file" }, whole.display()),
    ),
    Case {
        flags: "--hasher blake3",
        ..case("another hash function", (6, "has the hash function sha256, and blake3 was asked for"), |_, _, whole| {
            whole.display().to_string()
        })
    },
    Case {
        flags: "--min-height 11",
        ..case("too low", (6, "must reach height 11"), |_, _, whole| whole.display().to_string())
    },
    case("without its log", (6, "missing"), |kind, dir, whole| {
        without(whole, &dir.join("place"), if kind == "file" { ".seg" } else { "CURRENT" })
    }),
    case("without its code", (6, "missing"), |kind, dir, whole| {
        without(whole, &dir.join("place"), if kind == "file" { "code.log" } else { ".log" })
    }),
    case("without its promise", (6, "promise"), |_, dir, whole| without(whole, &dir.join("place"), "promise")),
    case("without its name", (6, "corrupt"), |_, dir, whole| {
        copied(whole, &dir.join("place"));
        fs::remove_file(dir.join("place/store")).expect("a file");
        dir.join("place").display().to_string()
    }),
    case("an interrupted import", (2, "interrupted"), |_, dir, whole| {
        copied(whole, &dir.join("place.partial/store"));
        fs::write(dir.join("place.partial/lock"), "").expect("a file");
        dir.join("place").display().to_string()
    }),
];

#[test]
fn what_is_no_store_is_refused_and_unchanged() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (whole, _) = made(kind, dir.path());
        for Case { name, make, code, says, flags } in CASES {
            let case = dir.path().join("case");
            let out = case.join("out");
            fs::create_dir_all(&out).expect("a folder");
            let db = make(kind, &case, &whole);
            let before = (fingerprint(&case), fingerprint(&whole));
            let prune = format!("state prune --db {db}");
            for line in looks(&db, &out).into_iter().chain([prune]) {
                let line = format!("{line} {flags}");
                let ended = end(phalanx(line.split_whitespace()));
                assert_eq!(ended.code, Some(*code), "{kind}, {name}: {line}: {ended:?}");
                assert!(ended.stderr.contains(says), "{kind}, {name}: {line}: {ended:?}");
                assert_eq!(ended.stdout, "", "{kind}, {name}: {line}");
                assert_eq!(ended.stderr.lines().count(), 1, "{kind}, {name}: one sentence: {ended:?}");
                let mut after = (fingerprint(&case), fingerprint(&whole));
                // Opening for writing may make the lock's file before it finds damage.
                if line.contains("prune") {
                    let lock =
                        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("lock"));
                    after.0.retain(|path, _| !lock(path) || before.0.contains_key(path));
                    after.0.entry(case.join("place")).and_modify(|after| {
                        after.0 = before.0.get(&case.join("place")).map_or(after.0, |before| before.0);
                    });
                }
                let changed = [changes(&before.0, &after.0), changes(&before.1, &after.1)].concat();
                assert!(changed.is_empty(), "{kind}, {name}: {line}: {changed:?}");
            }
            fs::remove_dir_all(&case).expect("a folder");
        }
    }
}

#[test]
fn a_folder_alone_names_a_store() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("blake");
        let line = format!("bench run {LOAD} --hasher blake3 --store {kind}:{} --json -", path.display());
        let result = run(&line).json();
        let root = result["runs"][0]["integrity"]["state_root"].as_str().expect("a root");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let (db, stream, proof) = (path.display(), at("stream"), dir.path().join("proof"));
        let info = |name: &str| run(&format!("state info --db {} --json", at(name))).json();
        assert_eq!((&info("blake")["hasher"], &info("blake")["kind"]), (&"blake3".into(), &(*kind).into()));
        let proven: Ended = run(&format!("state prove --db {db} {KEY}"));
        fs::write(&proof, &proven.stdout).expect("a file");
        for line in [
            format!("state verify --root {root} {}", proof.display()),
            format!("state export --db {db} {stream}"),
            format!("state import --db {} --root {root} {stream}", at("imported")),
            format!("state backup --db {db} --to {}", at("copy")),
            format!("state snapshot --db {db} {}", at("snapshot")),
            format!("state restore --db {} --height 10 --root {root} {}", at("restored"), at("snapshot")),
            format!("state prune --db {db}"),
            format!("state check --db {db} --min-height 10"),
        ] {
            let ended = run(&line);
            assert_eq!(ended.code, Some(0), "{kind}: {line}: {ended:?}");
        }
        for (name, of) in [("imported", "file"), ("restored", "file"), ("copy", *kind)] {
            let info = info(name);
            assert_eq!((&info["state_root"], &info["kind"]), (&root.into(), &of.into()), "{name}");
        }
        run(&format!("state verify --root {root} --hasher sha256 {}", proof.display())).refused(3, "");
        run(&format!("state import --db {} --hasher sha256 {stream}", at("other"))).refused(6, "blake3");
        run(&format!("state import --db {db} {stream}")).refused(2, "is not empty");
    }
}
