//! `phalanx keys`: each operator of a network has its own secrets alone, and no second replica.

use crate::command::{Ended, phalanx, run};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// A network of four operators, each with a folder of its own beside the shared one.
struct Operators {
    folder: tempfile::TempDir,
}

impl Operators {
    fn new(protocol: &str) -> Self {
        let made = Self { folder: tempfile::tempdir().expect("a folder") };
        let mut members = String::new();
        for index in 0..4 {
            let (dir, port) = (made.of(index), 10_100 + 2 * index);
            let line =
                format!("keys new --dir {} --peers 127.0.0.1:{port} --clients 127.0.0.1:{}", dir.display(), port + 1);
            let public = run(&line).json();
            assert_eq!(
                fs::read(dir.join("public.json")).ok().map(|bytes| serde_json::from_slice(&bytes).ok()),
                Some(Some(public))
            );
            members.push_str(&format!(" --member {}", dir.join("public.json").display()));
        }
        let shared = made.shared();
        let ended = run(&format!("net --protocol {protocol} --seconds 0 --dir {}{members}", shared.display()));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let files: Vec<_> = fs::read_dir(&shared).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(files, ["network.json"], "no key is dealt");
        made
    }

    fn of(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("operator-{index}"))
    }

    fn shared(&self) -> PathBuf {
        self.folder.path().join("shared")
    }

    fn flags(&self, index: usize) -> String {
        let (network, secret) = (self.shared().join("network.json"), self.of(index).join("secret.json"));
        format!("--config {} --secret {}", network.display(), secret.display())
    }

    fn join(&self, index: usize, dealings: &[usize]) -> Ended {
        let dealing = |of: &usize| format!(" --dealing {}", self.shared().join(format!("dealing-{of}.json")).display());
        run(&format!("keys join {}{}", self.flags(index), dealings.iter().map(dealing).collect::<String>()))
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// Starts a replica with the keys of a member, until it is ready.
fn starts(config: &Path, index: usize, more: &[&str]) {
    let words = ["replica", "--config", config.to_str().expect("UTF-8"), "--control", "--index"];
    let mut command = phalanx(words.into_iter().map(String::from).chain([index.to_string()]));
    let mut child = command.args(more).stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success() && line.contains("ready"), "{line}");
}

#[test]
fn operators_make_a_network_without_a_dealer() {
    let operators = Operators::new("pbft");
    let config = operators.shared().join("network.json");
    for index in 0..4 {
        let ended = operators.join(index, &[]);
        assert!(ended.code == Some(0) && ended.stdout.starts_with(&format!("replica {index} of 4")), "{ended:?}");
        for secret in [operators.of(index).join("secret.json"), operators.shared().join(format!("keys-{index}.json"))] {
            assert_eq!(mode(&secret), 0o600, "{}", secret.display());
        }
    }
    starts(&config, 2, &[]);
    // Not a second time, also where nothing is left of the first replica.
    operators.join(2, &[]).refused(2, "is there already");
    fs::remove_dir_all(operators.shared().join("replica-2")).expect("a folder");
    fs::remove_file(operators.shared().join("keys-2.json")).expect("a file");
    operators.join(2, &[]).refused(2, "have joined this network before");
    assert_eq!(run(&format!("keys join --again {}", operators.flags(2))).code, Some(0));
    let line = format!("replica --config {} --index 2", config.display());
    run(&line).refused(6, "this is no first start");
    starts(&config, 2, &["--rejoin"]);
    // It is the place of the folder from now on. Copied, it is refused.
    starts(&config, 2, &[]);
    let (dir, aside) = (operators.shared().join("replica-2"), operators.shared().join("aside"));
    fs::rename(&dir, &aside).expect("a folder");
    fs::create_dir(&dir).expect("a folder");
    for name in ["log", "place"] {
        fs::copy(aside.join(name), dir.join(name)).expect("a file");
    }
    run(&line).refused(6, "is not where that file says");
    starts(&config, 2, &["--moved"]);
    let again = format!("keys new --dir {} --peers 127.0.0.1:1 --clients 127.0.0.1:2", operators.of(1).display());
    run(&again).refused(2, "never overwritten");
    run(&format!("keys deal {}", operators.flags(1))).refused(2, "only SBFT");
}

#[test]
fn members_of_sbft_deal_their_shares() {
    let operators = Operators::new("sbft");
    for index in 0..4 {
        assert_eq!(run(&format!("keys deal {}", operators.flags(index))).code, Some(0));
    }
    operators.join(0, &[0, 1, 3]).refused(2, "the dealing of member 2 is missing");
    // A dealing that is another one where it arrives.
    let path = operators.shared().join("dealing-2.json");
    let whole = fs::read_to_string(&path).expect("a file");
    fs::write(&path, whole.replacen("\"faulty\": 1", "\"faulty\": 0", 1)).expect("written");
    operators.join(0, &[0, 1, 2, 3]).refused(2, "the dealing of member 2");
    fs::write(&path, whole).expect("written");
    for index in 0..4 {
        assert_eq!(operators.join(index, &[3, 2, 1, 0]).code, Some(0));
    }
    starts(&operators.shared().join("network.json"), 0, &[]);
}

#[test]
fn wrong_members_are_refused_with_a_sentence() {
    let operators = Operators::new("pbft");
    let member = |index: usize| operators.of(index).join("public.json").display().to_string();
    let net = |members: &[usize], more: &str| {
        let flags: String = members.iter().map(|of| format!(" --member {}", member(*of))).collect();
        run(&format!("net --dir {} {more}{flags}", operators.folder.path().join("other").display()))
    };
    net(&[0, 1, 2, 2], "--seconds 0").refused(2, "listed twice");
    net(&[0, 1, 2], "--seconds 0").refused(2, "--n is 4 and there are 3 --member");
    net(&[0, 1, 2, 3], "--seconds 1").refused(2, "--seconds 0");
    let text = fs::read_to_string(member(3)).expect("a file");
    let other = fs::read_to_string(member(1)).expect("a file");
    let proof = |text: &str| text.split("\"proof\": \"").nth(1).map(|rest| rest[..130].to_owned()).expect("a proof");
    fs::write(member(3), text.replace(&proof(&text), &proof(&other))).expect("written");
    net(&[0, 1, 2, 3], "--seconds 0").refused(2, "are not signed by their secret half");
    let stranger = format!("--secret {}", operators.of(0).join("secret.json").display());
    let others = Operators::new("pbft");
    let network = others.shared().join("network.json");
    run(&format!("keys join --config {} {stranger}", network.display()))
        .refused(2, "no member of the network has these keys");
}
