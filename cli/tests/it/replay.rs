//! `replay`: blocks equal to their chain, and the evidence of differences.

use crate::{
    command::{Ended, end, phalanx},
    fixtures::{collection, committed, copy},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Fields that scripts rely on.
const FIELDS: [&str; 17] = [
    "number",
    "spec",
    "txs",
    "executor",
    "threads",
    "gas_used",
    "gas_used_matches",
    "receipts_root",
    "receipts_root_matches",
    "logs_bloom_matches",
    "senders_recovered_match",
    "post_state_digest",
    "equals_sequential",
    "exec_ms",
    "sequential_ms",
    "reexecutions",
    "escapes",
];

const ALL: &str = "--executor dag --executor block-stm --executor sequential";

fn replay(dir: &Path, flags: &str) -> Ended {
    let mut command = phalanx(["replay"]);
    command.arg(dir).args(flags.split_whitespace());
    end(command)
}

#[track_caller]
fn lines(ended: &Ended, code: i32) -> Vec<Value> {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    ended.stdout.lines().map(parse).collect()
}

/// Checks a block that equals its chain.
#[track_caller]
fn sound(line: &Value) {
    for field in FIELDS {
        assert!(line.get(field).is_some(), "{field}: {line}");
    }
    for (field, value) in line.as_object().expect("an object") {
        let compared = field.contains("match") || field == "equals_sequential";
        assert!(!compared || *value != Value::Bool(false), "{field}: {line}");
    }
    assert_eq!((&line["equals_sequential"], &line["bundle"]), (&true.into(), &Value::Null), "{line}");
    assert!(line["exec_ms"].as_f64().is_some_and(|ms| ms > 0.0) && line["sequential_ms"].is_f64(), "{line}");
}

#[test]
fn committed_blocks_equal_their_chain() {
    for hints in
        ["", "--access simulate", "--hints perfect", "--hints none", "--hints wrong:0.5 --seed 3", "--hints list"]
    {
        let ended =
            replay(&committed("blocks"), &format!("{ALL} --threads 2 --schedule-seed 5 --repeat 3 {hints} --json -"));
        let lines = lines(&ended, 0);
        assert_eq!(lines.len(), 6, "two blocks, three executors");
        lines.iter().for_each(sound);
        assert!(lines.iter().all(|line| line["repeat"] == 3));
        assert_eq!((&lines[0]["number"], &lines[3]["number"]), (&1_149_999.into(), &2_463_002.into()));
        let executors: Vec<_> =
            lines[..3].iter().map(|line| (line["executor"].as_str(), line["threads"].as_u64())).collect();
        let expected = [("dag", 2), ("block-stm", 2), ("sequential", 1)];
        assert_eq!(executors, expected.map(|(name, threads)| (Some(name), Some(threads))));
        assert_eq!(lines[0]["receipts_root_matches"], Value::Null, "before Byzantium the engine has none");
    }
    let artefacts = "--artefact none --artefact exceptions --artefact access-list";
    let each = lines(&replay(&committed("blocks"), &format!("{ALL} --threads 2 {artefacts} --json -")), 0);
    assert_eq!(each.len(), 18, "two blocks, three executors, three artefacts");
    each.iter().for_each(sound);
    for line in &each {
        assert_eq!(line["artefact_bytes"].is_null(), line["hints"] == "none", "{line}");
        assert!(line["us_core_per_tx"].as_f64().is_some_and(|cost| cost > 0.0), "{line}");
    }
    let both = lines(&replay(&committed("blocks"), "--hints adversarial --json -"), 0);
    assert!(both.iter().all(|line| line["repeat"] == 3), "a median, if nothing is said");
    let taught = lines(&replay(&committed("blocks"), "--learn --json -"), 0);
    assert!(taught.iter().all(|line| line["repeat"] == 1), "what a block teaches is for the next");
    let hints: Vec<_> = both.iter().map(|line| line["hints"].as_str().expect("a word")).collect();
    assert_eq!(hints, ["adversarial:disjoint", "adversarial:chain", "adversarial:disjoint", "adversarial:chain"]);
    both.iter().for_each(sound);
}

#[test]
fn stdout_gets_a_table_and_files_get_lines() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("lines.json");
    let ended = replay(&committed("blocks/1149999"), &format!("--json {}", file.display()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("1149999 Frontier") && ended.stdout.contains("times sequential revm in the median"));
    let text = fs::read_to_string(file).expect("a file");
    sound(&serde_json::from_str(text.trim()).expect("one line"));
}

/// A copy of the committed blocks, with a changed account in one.
fn tampered() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let blocks = dir.path().join("blocks");
    copy(&committed("blocks"), &blocks);
    let block = blocks.join("1149999");
    fs::remove_file(block.join("prestate.json.gz")).expect("a file");
    let prestate = r#"{"0x2910543af39aba0cd09dbb2d50200b3e800a63d2":{"balance":"0xecd6cc6171760494861f","nonce":14699},
        "0x68795c4aa09d6f4ed3e5deddf8c2ad3049a601da":{"balance":"0x7","nonce":17512}}"#;
    fs::write(block.join("prestate.json"), prestate).expect("a file");
    (dir, blocks)
}

#[test]
fn a_difference_leaves_a_bundle_that_reproduces_it() {
    let (dir, blocks) = tampered();
    let bundles = dir.path().join("found");
    let flags =
        format!("--threads 2 --hints wrong:0.5 --seed 9 --schedule-seed 4 --bundle {} --json -", bundles.display());
    let ended = replay(&blocks, &flags);
    let found = lines(&ended, 3);
    assert_eq!(found.len(), 2);
    sound(&found[1]);
    assert_eq!(found[0]["post_state_digest_matches"], false, "{ended:?}");
    let bundle = PathBuf::from(found[0]["bundle"].as_str().expect("a bundle"));
    assert!(ended.stderr.contains(&bundle.display().to_string()), "{ended:?}");
    for file in ["line.json", "hints.json", "ours.json", "sequential.json", "difference.json"] {
        let text = fs::read_to_string(bundle.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    for file in ["block.json.gz", "prestate.json", "block_hashes.json.gz"] {
        let copy = fs::read(bundle.join("blocks/1149999").join(file)).expect("a copy");
        assert_eq!(copy, fs::read(blocks.join("1149999").join(file)).expect("the original"), "{file}");
    }
    // The command of the bundle needs no other files.
    fs::remove_dir_all(&blocks).expect("a folder");
    let command = fs::read_to_string(bundle.join("command")).expect("a command");
    let words: Vec<_> = command.split_whitespace().skip(1).collect();
    assert!(command.contains("--schedule-seed 4") && command.contains("--hints wrong:0.5 --seed 9"), "{command}");
    let mut again = phalanx(words.iter().copied().chain(["--json", "-"]));
    again.current_dir(dir.path());
    let again = lines(&end(again), 3);
    for field in
        ["number", "executor", "threads", "hints", "hints_seed", "schedule_seed", "post_state_digest", "gas_used"]
    {
        assert_eq!(again[0][field], found[0][field], "{field}");
    }
}

#[test]
fn a_block_that_does_not_match_its_hashes_is_a_difference() {
    let dir = tempfile::tempdir().expect("a folder");
    let block = dir.path().join("1149999");
    copy(&committed("blocks/1149999"), &block);
    let unpacked = |change: &dyn Fn(&str) -> String| {
        let packed = fs::File::open(committed("blocks/1149999/block.json.gz")).expect("a file");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text).expect("JSON");
        let new = change(&text);
        assert_ne!(new, text);
        _ = fs::remove_file(block.join("block.json.gz"));
        fs::write(block.join("block.json"), new).expect("a file");
        lines(&replay(&block, &format!("{ALL} --bundle {} --json -", dir.path().join("b").display())), 3)
    };
    for line in unpacked(&|text| text.replace("\"gasUsed\":\"0x5208\"", "\"gasUsed\":\"0x5209\"")) {
        assert_eq!((&line["gas_used_matches"], &line["equals_sequential"]), (&false.into(), &true.into()), "{line}");
        assert_eq!(line["block_matches_its_hashes"], false, "{line}");
    }
    for line in unpacked(&|text| text.replace("\"from\":\"0x2910543af39", "\"from\":\"0x3910543af39")) {
        assert_eq!(line["senders_recovered_match"], false, "{line}");
    }
    // Every executor refuses it with the same reason.
    let refused = unpacked(&|text| text.replace("\"nonce\":\"0x396b\"", "\"nonce\":\"0x396c\""));
    for line in refused {
        assert_eq!((&line["gas_used"], &line["equals_sequential"]), (&Value::Null, &true.into()), "{line}");
        assert!(line["error"].as_str().expect("a reason").contains("transaction 0 is invalid"), "{line}");
    }
}

#[test]
fn malformed_blocks_are_reported_and_the_others_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let break_it = |name: &str, change: &dyn Fn(&Path)| {
        let block = dir.path().join(name);
        copy(&committed("blocks/1149999"), &block);
        change(&block);
    };
    let packed = fs::read(committed("blocks/1149999/block.json.gz")).expect("a file");
    break_it("1", &|block| fs::write(block.join("block.json.gz"), &packed[..packed.len() - 9]).expect("a file"));
    break_it("2", &|block| fs::write(block.join("block.json"), "{}").expect("a file"));
    break_it("3", &|block| fs::remove_file(block.join("prestate.json.gz")).expect("a file"));
    break_it("4", &|block| fs::write(block.join("prestate.json"), r#"{"0x12": {}}"#).expect("a file"));
    break_it("5", &|block| fs::write(block.join("block_hashes.json"), r#"{"x": 7}"#).expect("a file"));
    break_it("6", &|_| ());
    let found = lines(&replay(dir.path(), "--json -"), 7);
    assert_eq!(found.len(), 6);
    for line in &found[..5] {
        assert!(line["error"].as_str().expect("a reason").starts_with("malformed: "), "{line}");
    }
    sound(&found[5]);
}

#[test]
fn impossible_commands_are_refused() {
    let empty = tempfile::tempdir().expect("a folder");
    replay(empty.path(), "").refused(2, "holds no block");
    replay(Path::new("/nowhere"), "").refused(2, "does not exist");
    for (flags, says) in [
        ("--hints right", "expected perfect, none, adversarial, list, or wrong:P"),
        ("--hints wrong:1.5", "between 0 and 1"),
        ("--repeat 0", "--repeat must be between 1 and"),
        ("--threads 0", "--threads must be between 1 and"),
        ("--artefact everything", "none, exceptions, access-list"),
        ("--artefact none --hints none", "cannot be used with"),
        ("--executor gpu", "dag, block-stm, sequential"),
    ] {
        replay(&committed("blocks"), flags).refused(2, says);
    }
}

/// Other hints and numbers of threads: the step `blocks` of `.ci/step`; all of these, `PHALANX_STRIDE=1`.
#[test]
fn every_block_of_the_collection_equals_its_chain() {
    let Some(path) = collection("blocks") else { return };
    let settings = [
        (2, "--hints list"),
        (4, "--hints wrong:0.1 --schedule-seed 1"),
        (1, "--access static"),
        (2, "--hints perfect"),
        (2, "--hints adversarial --schedule-seed 3"),
    ];
    let some = if std::env::var("PHALANX_STRIDE").is_ok_and(|stride| stride == "1") { settings.len() } else { 2 };
    for (threads, hints) in settings.into_iter().take(some) {
        let bundle = tempfile::tempdir().expect("a folder");
        let flags = format!("{ALL} --threads {threads} {hints} --bundle {} --json -", bundle.path().display());
        let found = lines(&replay(&path, &flags), 0);
        assert_eq!(found.len(), if hints.contains("adversarial") { 41 * 6 } else { 41 * 3 });
        found.iter().for_each(sound);
        for line in &found {
            // One block is recorded with inputs only, and the oldest have other receipts.
            let inputs_only = line["number"] == 22_546_209;
            assert_eq!(line["logs_bloom_matches"] == true, !inputs_only, "{line}");
            assert_eq!(line["post_state_digest_matches"], true, "{line}");
            let byzantium = line["number"].as_u64().expect("a number") >= 4_370_000;
            assert_eq!(line["receipts_root_matches"] == true, byzantium, "{line}");
        }
    }
}

#[test]
fn a_prestate_that_lacks_an_account_is_suspected() {
    let (dir, blocks) = tampered();
    let block = blocks.join("1149999");
    let other = r#"{"0x68795c4aa09d6f4ed3e5deddf8c2ad3049a601da":{"balance":"0x7","nonce":17512}}"#;
    fs::write(block.join("prestate.json"), other).expect("a file");
    let ended = replay(&block, &format!("--bundle {} --json -", dir.path().join("b").display()));
    let found = lines(&ended, 3);
    let error = found[0]["error"].as_str().expect("a reason");
    assert!(
        error.contains("nonce 14699 too high") && error.contains("does prestate.json list every account"),
        "{error}"
    );
}
