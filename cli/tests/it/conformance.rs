//! `test`: counts, failures as lines, exit codes; and the large collections where they are present.

use crate::{
    command::{Ended, end, phalanx},
    fixtures::{collection, committed},
};
use serde_json::Value;
use std::{fs, path::Path};

const EXECUTORS: [&str; 3] = ["sequential", "dag", "block-stm"];

fn test(kind: &str, path: &Path, flags: &str) -> Ended {
    let mut command = phalanx(["test", kind]);
    command.arg(path).args(flags.split_whitespace());
    end(command)
}

/// The last line, and the JSON lines before it.
#[track_caller]
fn lines(ended: &Ended) -> (Vec<Value>, &str) {
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    let last = lines.pop().unwrap_or_else(|| panic!("nothing on stdout: {ended:?}"));
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (lines.into_iter().map(parse).collect(), last)
}

#[track_caller]
fn ends_with(ended: &Ended, code: i32, last: &str) -> Vec<Value> {
    let (failures, found) = lines(ended);
    assert_eq!((ended.code, found), (Some(code), last), "{ended:?}");
    failures
}

#[test]
fn committed_tests_pass_on_every_executor() {
    for executor in EXECUTORS {
        for threads in [1, 2, 4] {
            let flags = format!("--executor {executor} --threads {threads} --schedule-seed 7");
            let state = test("state", &committed("state"), &flags);
            assert_eq!(ends_with(&state, 0, "11 passed, 0 failed, 1 skipped"), [] as [Value; 0]);
            assert!(state.stderr.contains("skipped 1: not supported: Constantinople before its fix"), "{state:?}");
            let chain = test("blockchain", &committed("blockchain"), &flags);
            assert_eq!(ends_with(&chain, 0, "3 passed, 0 failed, 0 skipped"), [] as [Value; 0]);
        }
    }
}

#[test]
fn flags_select_tests() {
    let run = |kind: &str, flags: &str| test(kind, &committed(kind), &format!("--executor sequential {flags}"));
    let count = |kind: &str, flags: &str, last: &str| {
        ends_with(&run(kind, flags), 0, last);
    };
    count("state", "--fork Homestead", "1 passed, 0 failed, 0 skipped");
    count("state", "--filter ValueOverflow", "1 passed, 0 failed, 0 skipped");
    count("blockchain", "--fork HomesteadToDaoAt5", "1 passed, 0 failed, 0 skipped");
    count("blockchain", "--filter amountIs0", "1 passed, 0 failed, 0 skipped");
    let ended = run("state", "--fork London --json");
    let summary = ends_with(&ended, 0, "1 passed, 0 failed, 0 skipped");
    assert_eq!(summary[0]["passed"], 1, "{ended:?}");
    // Tests of the other kind are skipped, and no test at all is an error.
    let other = test("state", &committed("blockchain"), "");
    ends_with(&other, 2, "0 passed, 0 failed, 3 skipped");
    assert!(other.stderr.contains("use `phalanx test blockchain`"), "{other:?}");
    assert!(other.stderr.contains("a test of another kind: blockchain"), "{other:?}");
    let none = run("state", "--fork Olympic");
    assert_eq!(none.code, Some(2), "{none:?}");
    test("state", Path::new("/nowhere"), "").refused(2, "does not exist");
    test("state", &committed("state"), "--executor gpu").refused(2, "dag, block-stm, sequential");
}

/// A fixture with `change` made to its text, in a folder of its own.
fn changed(part: &str, change: impl Fn(&str) -> String) -> (tempfile::TempDir, String) {
    let text = fs::read_to_string(committed(part)).expect("a fixture");
    let new = change(&text);
    assert_ne!(text, new, "the change is one");
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("test.json"), &new).expect("a file");
    (dir, new)
}

#[test]
fn a_result_that_differs_from_the_fixture_is_a_failure() {
    let state = "state/TransactionSendingToEmpty.json";
    let replace = |part: &str, member: &str, digits: usize, nth: usize| {
        changed(part, |text| {
            let marker = format!("\"{member}\"");
            let at = text.match_indices(&marker).nth(nth).unwrap_or_else(|| panic!("{member}")).0;
            let start = at + text[at..].find("\"0x").expect("a value") + 3;
            format!("{}{}{}", &text[..start], "1".repeat(digits), &text[start + digits..])
        })
    };
    for (member, says) in [("hash", "the state root is 0x"), ("logs", "the logs hash to 0x")] {
        let (dir, _) = replace(state, member, 64, 0);
        for executor in EXECUTORS {
            let failures = ends_with(
                &test("state", dir.path(), &format!("--executor {executor}")),
                7,
                "0 passed, 1 failed, 0 skipped",
            );
            assert!(failures[0]["reason"].as_str().expect("a reason").starts_with(says), "{failures:?}");
            assert_eq!(
                (&failures[0]["test"], &failures[0]["fork"]),
                (&"TransactionSendingToEmpty".into(), &"Cancun".into())
            );
        }
    }
    let refused = |text: &str| text.replace("\"indexes\"", "\"expectException\" : \"SOME\", \"indexes\"");
    let (dir, _) = changed(state, refused);
    let failures = ends_with(&test("state", dir.path(), ""), 7, "0 passed, 1 failed, 0 skipped");
    assert!(failures[0]["reason"].as_str().expect("a reason").contains("must be refused: SOME"), "{failures:?}");

    let chain = "blockchain/wrongStateRoot.json";
    let (dir, _) = changed(chain, |text| {
        text.replace("\"expectException\"", "\"unexpected\"").replace("\"rlp_decoded\"", "\"decoded\"")
    });
    ends_with(&test("blockchain", dir.path(), ""), 0, "1 passed, 0 failed, 0 skipped");
    let (dir, _) = changed(chain, |text| text.replace("\"expectException\" : ", "\"blockHeader\" : {}, \"x\" : "));
    let failures = ends_with(&test("blockchain", dir.path(), ""), 7, "0 passed, 1 failed, 0 skipped");
    assert!(failures[0]["reason"].as_str().expect("a reason").contains("the state root is 0x"), "{failures:?}");
    let (dir, _) = replace("blockchain/amountIs0TouchAccount.json", "lastblockhash", 64, 0);
    let failures = ends_with(&test("blockchain", dir.path(), ""), 7, "0 passed, 1 failed, 0 skipped");
    assert!(failures[0]["reason"].as_str().expect("a reason").starts_with("the best block is"), "{failures:?}");
    let (dir, _) = changed("blockchain/amountIs0TouchAccount.json", |text| {
        let at = text.find("\"postState\"").expect("a state");
        format!("{}{}", &text[..at], text[at..].replacen("\"balance\" : \"0x", "\"balance\" : \"0x1", 1))
    });
    let failures = ends_with(&test("blockchain", dir.path(), ""), 7, "0 passed, 1 failed, 0 skipped");
    assert!(failures[0]["reason"].as_str().expect("a reason").contains("balance of 0x"), "{failures:?}");
}

#[test]
fn malformed_fixtures_are_failures_with_a_reason() {
    let state = fs::read_to_string(committed("state/TransactionSendingToEmpty.json")).expect("a fixture");
    let chain = fs::read_to_string(committed("blockchain/amountIs0TouchAccount.json")).expect("a fixture");
    let packed = fs::read(committed("blocks/1149999/block.json.gz")).expect("a fixture");
    let dir = tempfile::tempdir().expect("a folder");
    let mut cases: Vec<(String, Vec<u8>)> = vec![
        ("empty.json".into(), vec![]),
        ("null.json".into(), b"null".to_vec()),
        ("list.json".into(), b"[1,2]".to_vec()),
        ("number.json".into(), b"{\"a\": 7}".to_vec()),
        ("nothing.json".into(), b"{\"a\": {}}".to_vec()),
        ("deep.json".into(), [b"{\"a\":".to_vec(), vec![b'['; 200_000]].concat()),
        ("bytes.json".into(), vec![0xff; 100]),
        ("half.json.gz".into(), packed[..packed.len() / 2].to_vec()),
        ("half.tar.gz".into(), packed[..packed.len() / 2].to_vec()),
        ("no.tar.gz".into(), b"not packed".to_vec()),
    ];
    for (index, (from, to)) in [
        ("\"env\"", "\"environment\""),
        ("\"pre\"", "\"before\""),
        ("\"currentNumber\" : \"0x", "\"currentNumber\" : \"0xzz"),
        ("\"data\" : [", "\"data\" : [7, "),
        ("\"data\" : 0", "\"data\" : 99"),
        ("\"gas\" : 0", "\"gas\" : -1"),
        ("\"nonce\" : \"0x", "\"nonce\" : \"0xffffffffffffffffffffffff"),
        ("\"code\" : \"0x", "\"code\" : \"0x1"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(state.contains(from), "{from}");
        cases.push((format!("state-{index}.json"), state.replace(from, to).into_bytes()));
    }
    for (index, (from, to)) in [
        ("\"network\"", "\"net\""),
        ("\"genesisRLP\"", "\"genesis\""),
        ("\"genesisRLP\" : \"0x", "\"genesisRLP\" : \"0x00"),
        ("\"lastblockhash\"", "\"last\""),
        ("\"rlp\" : \"0x", "\"rlp\" : \"0x1"),
        ("\"rlp\"", "\"bytes\""),
        ("\"blocks\" : [", "\"blocks\" : [7, "),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(chain.contains(from), "{from}");
        cases.push((format!("chain-{index}.json"), chain.replace(from, to).into_bytes()));
    }
    for len in (0..state.len()).step_by(97) {
        cases.push((format!("cut-{len}.json"), state.as_bytes()[..len].to_vec()));
    }
    let count = cases.len();
    for (name, bytes) in cases {
        let kind = if name.starts_with("chain") { "blockchain" } else { "state" };
        let path = dir.path().join(&name);
        fs::write(&path, bytes).expect("a file");
        let failures = ends_with(&test(kind, &path, "--threads 1"), 7, "0 passed, 1 failed, 0 skipped");
        let reason = failures[0]["reason"].as_str().unwrap_or_else(|| panic!("{name}: {failures:?}"));
        assert!(reason.starts_with("malformed: ") && reason.len() > 15, "{name}: {reason}");
        assert!(failures[0].to_string().contains(&name), "the file is named: {failures:?}");
    }
    // A malformed file does not hide the others.
    fs::write(dir.path().join("good.json"), state).expect("a file");
    let all = test("state", dir.path(), "--threads 1");
    let (failures, last) = lines(&all);
    assert!(last.starts_with("1 passed, "), "{last}");
    assert!(failures.len() > count / 2, "{last}");
}

#[test]
fn the_collection_of_blockchain_tests_passes() {
    let Some(path) = collection("ethereum-tests/BlockchainTests-sample.tar.gz") else { return };
    for executor in EXECUTORS {
        for threads in [1, 4] {
            let ended = test("blockchain", &path, &format!("--executor {executor} --threads {threads}"));
            ends_with(&ended, 0, "72 passed, 0 failed, 0 skipped");
        }
    }
}

/// A part of the collection on hard cases for executors. The whole is the step `conformance` of `.ci/step`.
#[test]
fn the_collection_of_state_tests_passes_where_revm_does() {
    let Some(path) = collection("ethereum-tests/GeneralStateTests.tar.gz") else { return };
    for (executor, filter) in [("sequential", "stSelfBalance"), ("dag", "stRevertTest"), ("block-stm", "stCreate2")] {
        let ended = test("state", &path, &format!("--executor {executor} --threads 2 --filter {filter}"));
        let (failures, last) = lines(&ended);
        assert_eq!((ended.code, failures.len()), (Some(0), 0), "{executor} {filter}: {ended:?}");
        let passed: u64 = last.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
        assert!(passed > 30, "{executor} {filter}: {last}");
    }
}
