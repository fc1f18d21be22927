//! Imports, exports and snapshots of a store: all or nothing, and proven.

use crate::command::{disk_stores, phalanx, run};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

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
fn a_fault_of_a_stream_names_its_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, _) = made("file", dir.path());
    let (stream, cut) = (dir.path().join("stream"), dir.path().join("cut"));
    assert_eq!(run(&format!("state export --db {name} {}", stream.display())).code, Some(0));
    let bytes = fs::read(&stream).expect("a stream");
    fs::write(&cut, &bytes[..bytes.len() / 2]).expect("a file");
    let ended = run(&format!("state import {} --db file:{}", cut.display(), dir.path().join("copy").display()));
    ended.refused(6, &format!("{} is corrupt", cut.display()));
    assert!(!ended.stderr.contains("(import)"), "{ended:?}");
    // A full device has no room for a stream.
    let full = run(&format!("state export --db {name} /dev/full"));
    assert!(full.code == Some(1) && full.stderr.contains("/dev/full: No space left"), "{full:?}");
    run(&format!("state info --db {}", stream.display())).refused(2, "is a file, and a store is a folder");
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

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
}

/// Waits for a name in a folder.
fn wait_for_name(dir: &Path, begin: &str) {
    while !names(dir).iter().any(|name| name.starts_with(begin)) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// SIGHUP, or SIGTERM where this process ignores SIGHUP, as under `nohup`: the command then ignores it as well, by intent.
fn hangup() -> &'static str {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let is_ignored = ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1));
    if is_ignored { "TERM" } else { "HUP" }
}

#[test]
fn temporary_stores_go_with_a_signal() {
    for (signal, times) in [("TERM", 1), (hangup(), 1), ("INT", 2), ("TERM", 2), (hangup(), 2)] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut command: Command = phalanx("bench store --keys 200000 --updates 2000 --blocks 100000".split(' '));
        let mut child = command.env("TMPDIR", dir.path()).spawn().expect("the binary starts");
        wait_for_name(dir.path(), "phalanx-");
        std::thread::sleep(Duration::from_millis(200));
        (0..times).for_each(|_| send(&child, signal));
        let ended = child.wait().expect("a child");
        assert_eq!(ended.code(), Some(130), "{signal} {times}");
        assert_eq!(names(dir.path()), [""; 0], "{signal} {times}");
    }
}

#[test]
fn a_signal_ends_a_copy_without_half_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, _) = made("file", dir.path());
    let out = dir.path().join("out");
    let mut ended_early = 0;
    for round in 0..24u64 {
        fs::create_dir(&out).expect("a folder");
        let (signal, what) =
            (["TERM", hangup(), "INT"][round as usize % 3], ["export", "snapshot"][round as usize % 2]);
        let line = format!("state {what} --db {name} {}", out.join("whole").display());
        let mut child = phalanx(line.split(' ')).spawn().expect("the binary starts");
        std::thread::sleep(Duration::from_millis(3 + 2 * (round / 2)));
        send(&child, signal);
        let code = child.wait().expect("a child").code();
        let left = names(&out);
        match code {
            Some(0) => assert_eq!(left, ["whole"], "{what}"),
            Some(130) => {
                assert!(left.is_empty() || left == ["whole"], "{what} {signal}: {left:?}");
                ended_early += 1;
            }
            // The process had not begun to watch.
            None => assert_eq!(left, [""; 0], "{what}"),
            _ => panic!("{what} {signal}: {code:?}"),
        }
        fs::remove_dir_all(&out).expect("a folder");
    }
    println!("{ended_early} of 24 copies were interrupted");
}

#[test]
fn an_interrupted_import_is_no_store_and_is_repeated_or_discarded() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, root) = made("file", dir.path());
    let stream = dir.path().join("stream");
    assert_eq!(run(&format!("state export --db {name} {}", stream.display())).code, Some(0));
    let bytes = fs::read(&stream).expect("a stream");
    for kind in disk_stores() {
        for (signal, repeat) in [("TERM", true), (hangup(), false), ("INT", true), ("KILL", true), ("KILL", false)] {
            let place = dir.path().join("place");
            let db = format!("{kind}:{}", place.display());
            let line = format!("state import --db {db} --root {root} -");
            let mut child = phalanx(line.split(' ')).stdin(Stdio::piped()).spawn().expect("the binary starts");
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(&bytes[..bytes.len() / 2]).expect("it reads");
            wait_for_name(dir.path(), "place.partial");
            run(&format!("state discard --db {db}")).refused(6, "is open elsewhere");
            send(&child, signal);
            let code = child.wait().expect("a child").code();
            assert_eq!(code, if signal == "KILL" { None } else { Some(130) }, "{kind} {signal}");
            for command in ["info", "check", "prune"] {
                run(&format!("state {command} --db {}", place.display())).refused(2, "interrupted");
            }
            if repeat {
                let line = format!("state import --db {db} --root {root} {}", stream.display());
                assert_eq!(run(&line).code, Some(0), "{kind} {signal}");
                assert_eq!(run(&format!("state check --db {}", place.display())).code, Some(0), "{kind} {signal}");
                fs::remove_dir_all(&place).expect("a folder");
            } else {
                assert!(run(&format!("state discard --db {db}")).stdout.contains("removed"), "{kind} {signal}");
                run(&format!("state info --db {}", place.display())).refused(2, "no such directory");
            }
            assert!(!names(dir.path()).iter().any(|name| name.starts_with("place")), "{kind} {signal}");
        }
    }
    // What no import made is not removed.
    fs::create_dir(dir.path().join("place.partial")).expect("a folder");
    fs::write(dir.path().join("place.partial/diary"), "not ours").expect("a file");
    let db = dir.path().join("place");
    run(&format!("state discard --db {}", db.display())).refused(2, "is not empty");
    run(&format!("state import --db {} {}", db.display(), stream.display())).refused(2, "is not empty");
    assert!(dir.path().join("place.partial/diary").exists());
}

/// As under `nohup`.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$P\" state import --db \"$D\" -"]);
    command.env("P", env!("CARGO_BIN_EXE_phalanx")).env("D", dir.path().join("place"));
    command.stdin(Stdio::piped()).stderr(Stdio::null()).stdout(Stdio::null());
    let (name, _) = made("file", dir.path());
    let stream = dir.path().join("stream");
    assert_eq!(run(&format!("state export --db {name} {}", stream.display())).code, Some(0));
    let mut child = command.spawn().expect("a shell");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&fs::read(&stream).expect("a stream")[..5000]).expect("it reads");
    wait_for_name(dir.path(), "place.partial");
    send(&child, "HUP");
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().expect("a child").is_none(), "it goes on");
    send(&child, "TERM");
    assert_eq!(child.wait().expect("a child").code(), Some(130));
}

/// Changes one byte of the file of code, and takes the file away.
#[test]
fn a_store_without_its_code_is_never_sound() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_, root) = made("file", dir.path());
    let code = dir.path().join("file/code.log");
    let whole = fs::read(&code).expect("a file");
    assert!(whole.len() > 1000, "the load has contracts");
    let out = dir.path().join("out");
    let looks = || {
        let (db, out) = (dir.path().join("file"), out.display());
        ["info", "check"].map(|command| format!("state {command} --db {}", db.display())).into_iter().chain([
            format!("state export --db {} {out}", db.display()),
            format!("state backup --db {} --to {out}", db.display()),
        ])
    };
    for at in (0..whole.len()).step_by(whole.len() / 12) {
        let mut changed = whole.clone();
        changed[at] ^= 4;
        fs::write(&code, &changed).expect("a file");
        looks().for_each(|line| run(&line).refused(6, "is corrupt"));
        assert!(fs::read(&code).expect("a file") == changed && !out.exists(), "byte {at}: nothing is cut or made");
        fs::write(&code, &whole[..at]).expect("a file");
        looks().for_each(|line| run(&line).refused(6, "is corrupt"));
    }
    fs::write(&code, &whole).expect("a file");
    assert_eq!(run(&format!("state check --db {}", dir.path().join("file").display())).code, Some(0), "{root}");
}
