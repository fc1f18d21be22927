//! Full and read-only disks. They are mounted in a separate name space, so that nothing stays mounted after the test.

use crate::{
    command::{Ended, disk_stores, run},
    reference::Load,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Runs a shell script that may mount; `$P` is the binary and `$D` a folder to mount on. `None`, with a note, if the system
/// forbids it.
fn where_mounting_is_allowed(script: &str, dir: &Path) -> Option<Ended> {
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]);
        command.env("P", env!("CARGO_BIN_EXE_phalanx")).env("D", dir).stdin(Stdio::null()).output()
    };
    if !unshared("mount -t tmpfs none $D").is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this system does not let a test mount a tmpfs");
        return None;
    }
    let output = unshared(script).expect("it ran a moment ago");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
    assert!(!ended.stderr.contains("panicked") && !ended.stdout.contains("panicked"), "{ended:?}");
    Some(ended)
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_committed() {
    let load = Load { accounts: 300, txs: 120_000, block_txs: 300, seed: 5 };
    let reference = load.reference();
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = format!(
            "mount -t tmpfs -o size=2m none $D || exit 99
             $P bench run {} --oracle off --store {kind}:$D/state --json - > $D/../out; code=$?
             $P state info --db {kind}:$D/state --json || exit 98
             exit $code",
            load.flags()
        );
        let mounted = dir.path().join("disk");
        fs::create_dir(&mounted).expect("a folder");
        let Some(ended) = where_mounting_is_allowed(&script, &mounted) else { return };
        assert_eq!(ended.code, Some(1), "{kind}: {ended:?}");
        assert!(ended.stderr.contains("No space left on device"), "{kind}: the reason is told: {ended:?}");
        assert_eq!(fs::read_to_string(dir.path().join("out")).expect("a file"), "", "{kind}: no result");
        let height = reference.holds(&ended.only_json()).expect("a committed block");
        assert!((1..reference.tip()).contains(&height), "{kind}: the disk was full in between: {height}");
    }
}

#[test]
fn a_disk_too_small_for_genesis_holds_no_chain_afterwards() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = format!(
            "mount -t tmpfs -o size=1m none $D || exit 99
             $P bench run --accounts 100000 --txs 100 --store {kind}:$D/state --json -; code=$?
             $P state info --db {kind}:$D/state; echo info $?
             exit $code"
        );
        let Some(ended) = where_mounting_is_allowed(&script, dir.path()) else { return };
        assert_eq!(ended.code, Some(1), "{kind}: {ended:?}");
        assert!(ended.stderr.contains("No space left on device"), "{kind}: {ended:?}");
        let created = ended.stdout.contains("no block") && ended.stdout.contains("info 0");
        let begun = ended.stderr.contains("there is no store") && ended.stdout.contains("info 2");
        assert!(created || begun, "{kind}: {ended:?}");
    }
}

#[test]
fn a_read_only_disk_is_reported() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = format!(
            "mount -t tmpfs -o ro none $D || exit 99; $P bench run --accounts 100 --txs 100 --store {kind}:$D/x --json -"
        );
        let Some(ended) = where_mounting_is_allowed(&script, dir.path()) else { return };
        ended.refused(2, "no folder can be made there: Read-only file system");

        let script = format!(
            "mount -t tmpfs none $D && $P bench run --accounts 100 --txs 100 --store {kind}:$D/x --json - > $D/out || exit 99
             mount -o remount,ro $D || exit 99
             $P state check --db $D/x && $P state info --db $D/x --json && $P state export --db $D/x - > /dev/null && $P state prune --db $D/x"
        );
        let Some(ended) = where_mounting_is_allowed(&script, dir.path()) else { return };
        assert_eq!(ended.code, Some(1), "{kind}: only pruning writes: {ended:?}");
        let wanted = ["sound: ", "state_root"].iter().all(|word| ended.stdout.contains(word));
        assert!(wanted && ended.stderr.contains("Read-only file system"), "{kind}: {ended:?}");
    }
}

#[test]
fn a_folder_without_permission_is_reported() {
    // The super user may write anywhere but to kernel files.
    for kind in disk_stores() {
        let line = format!("bench run --accounts 100 --txs 100 --store {kind}:/proc/phalanx --json -");
        let ended = run(&line);
        ended.refused(2, "/proc/phalanx: no folder can be made there");
        assert!(!ended.stderr.contains("making accounts"), "{ended:?}");
    }
}
