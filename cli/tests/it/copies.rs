//! Imports, exports and snapshots of a store: all or nothing, and proven.

use crate::command::{disk_stores, phalanx, run};
use std::{fs, path::Path, process::Command, time::Duration};

const LOAD: &str = "--workload mixed --accounts 300 --txs 2000 --block-txs 200 --oracle off";

/// Makes a store; returns its name and root.
fn made(kind: &str, dir: &Path) -> (String, String) {
    let name = format!("{kind}:{}", dir.join(kind).display());
    let result = run(&format!("bench run {LOAD} --store {name} --json -")).json();
    (name, result["runs"][0]["integrity"]["state_root"].as_str().expect("a root").to_owned())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn keys_of_other_lengths_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, root) = made("file", dir.path());
    for key in ["0x", "0x1234", &format!("0x{}", "11".repeat(19)), &format!("0x{}", "11".repeat(53))] {
        for command in ["get", "prove"] {
            run(&format!("state {command} --db {name} {key}")).refused(2, "an address has 20 bytes");
        }
    }
    let absent = format!("0x{}", "11".repeat(20));
    let proof = run(&format!("state prove --db {name} {absent}"));
    assert_eq!(proof.code, Some(0));
    let file = dir.path().join("proof.json");
    fs::write(&file, &proof.stdout).expect("a file");
    assert_eq!(run(&format!("state verify --root {root} {}", file.display())).code, Some(0));
    // A proof of absence of a key that there cannot be.
    fs::write(&file, proof.stdout.replace(&absent, "0x1111")).expect("a file");
    run(&format!("state verify --root {root} {}", file.display())).refused(2, "an address has 20 bytes");
}

#[test]
fn an_import_with_another_root_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, root) = made("file", dir.path());
    let stream = dir.path().join("stream");
    assert_eq!(run(&format!("state export --db {name} {}", stream.display())).code, Some(0));
    let before = names(dir.path());
    let other = format!("0x{}", "11".repeat(32));
    for kind in disk_stores() {
        let to = format!("{kind}:{}", dir.path().join("copy").display());
        run(&format!("state import --db {to} --root {other} {}", stream.display())).refused(3, &root);
        assert_eq!(names(dir.path()), before);
    }
    // A file that cannot be written keeps what it was, and is named.
    run(&format!("state export --db {name} /dev/full")).refused(1, "/dev/full");
    let folder = dir.path().join("absent").join("file");
    run(&format!("state export --db {name} {}", folder.display())).refused(1, "absent");
    assert_eq!(names(dir.path()), before);
}

#[test]
fn snapshots_of_both_backends_are_equal_and_restored() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut seen = Vec::new();
    for kind in disk_stores() {
        let (name, root) = made(kind, dir.path());
        let to = dir.path().join(format!("{kind}-snapshot"));
        assert_eq!(run(&format!("state snapshot --db {name} {}", to.display())).code, Some(0));
        run(&format!("state snapshot --db {name} {}", to.display())).refused(2, "exists");
        let files: Vec<Vec<u8>> = names(&to).iter().map(|name| fs::read(to.join(name)).expect("a file")).collect();
        seen.push((root, files));
    }
    assert!(seen.iter().all(|other| *other == seen[0]), "other bytes");
    let (root, snapshot) = (&seen[0].0, dir.path().join("file-snapshot"));
    let chunk = snapshot.join("00000000.chunk");
    let whole = fs::read(&chunk).expect("a chunk");
    for kind in disk_stores() {
        let place = dir.path().join(format!("{kind}-restored"));
        let line =
            format!("state restore --db {kind}:{} --height 10 --root {root} {}", place.display(), snapshot.display());
        let mut bad = whole.clone();
        bad[2000] ^= 1;
        fs::write(&chunk, bad).expect("a file");
        run(&line).refused(3, "chunk 0");
        run(&format!("state info --db {kind}:{}", place.display())).refused(2, "interrupted");
        fs::write(&chunk, &whole).expect("a file");
        let ended = run(&line);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let info = run(&format!("state info --db {kind}:{} --json", place.display())).json();
        assert_eq!((&info["state_root"], &info["height"]), (&root.clone().into(), &10.into()));
        assert_eq!(run(&format!("state check --db {kind}:{}", place.display())).code, Some(0));
    }
    run(&format!("state discard --db file:{}", dir.path().join("none").display()));
}

#[test]
fn a_second_signal_removes_temporary_stores() {
    for signal in ["TERM", "HUP"] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut command: Command = phalanx("bench store --keys 200000 --updates 2000 --blocks 100000".split(' '));
        let mut child = command.env("TMPDIR", dir.path()).spawn().expect("the binary starts");
        let send = || Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill starts");
        while names(dir.path()).is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        send();
        send();
        let ended = child.wait().expect("a child");
        assert_eq!(ended.code(), Some(130), "{signal}");
        assert_eq!(names(dir.path()), [""; 0], "{signal}");
    }
}
