//! The commands around the engine: doctor, completions, manual pages.

use crate::command::{end, phalanx, run};
use serde_json::Value;
use std::fs;

#[test]
fn the_doctor_prints_findings_and_remedies() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = run(&format!("doctor --json --dir {}", dir.path().display())).json();
    assert_eq!(report["schema"], 1);
    let findings = report["findings"].as_array().expect("findings");
    let text = |finding: &Value, field: &str| finding[field].as_str().expect("text").to_owned();
    for check in ["cores", "numa", "governor", "memory", "memory writes", "store folder", "durable write", "profile"] {
        assert!(findings.iter().any(|finding| finding["check"] == check), "{check}: {report}");
    }
    for finding in findings {
        assert!(!text(finding, "found").is_empty(), "{finding}");
        match &*text(finding, "verdict") {
            "fine" => assert_eq!(finding["advice"], Value::Null, "{finding}"),
            "note" => {}
            "spoils" => assert!(!text(finding, "advice").is_empty(), "{finding}"),
            other => panic!("{other}: {finding}"),
        }
    }
    let spoiled = findings.iter().any(|finding| finding["verdict"] == "spoils");
    assert_eq!(report["fit"], !spoiled);
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0, "nothing stays behind");
}

#[test]
fn only_a_strict_doctor_fails() {
    let ended = run("doctor");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("cores") && ended.stdout.contains("durable write"), "{ended:?}");
    // A build with assertions is unfit on every machine, so the two must differ.
    let strict = run("doctor --strict");
    let unfit = strict.stdout.contains("SPOILS");
    assert_eq!(strict.code, Some(if unfit { 5 } else { 0 }), "{strict:?}");
    assert!(unfit || !cfg!(debug_assertions));
    run("doctor --dir /nonexistent/folder").refused(2, "is no folder");
}

#[test]
fn every_shell_gets_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ended = run(&format!("completions {shell}"));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["bench", "replay", "doctor", "completions", "workload", "hot-pool-share"] {
            assert!(ended.stdout.contains(word), "{shell} does not know {word}");
        }
    }
    run("completions tcsh").refused(2, "bash");
    run("completions").refused(2, "Usage: phalanx");
}

#[test]
fn bash_accepts_the_script() {
    let script = run("completions bash").stdout;
    let mut shell = std::process::Command::new("bash");
    shell.args(["-n", "-c", &script]);
    // Without bash there is nothing to check.
    if let Ok(output) = shell.output() {
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn pages_are_written_for_every_command() {
    let page = run("man");
    assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""));
    assert!(page.stdout.contains(".TH phalanx") && page.stdout.contains("doctor"), "{page:?}");

    let dir = tempfile::tempdir().expect("a folder");
    let pages = dir.path().join("deep/man1");
    let written = run(&format!("man --dir {}", pages.display()));
    assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{written:?}");
    for (name, says) in [("phalanx", "doctor"), ("phalanx-bench-run", "hot"), ("phalanx-doctor", "strict")] {
        let text = fs::read_to_string(pages.join(format!("{name}.1"))).expect(name);
        assert!(text.contains(".TH") && text.contains(says), "{name}");
        for section in [".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", "TMPDIR", "130"] {
            assert_eq!(text.matches(section).count(), 1, "{name}: {section}");
        }
        assert_eq!(text.contains(".SH EXAMPLES"), name == "phalanx", "{name}");
    }
    let again = run(&format!("man --dir {}", pages.display()));
    let page = fs::read_to_string(pages.join("phalanx.1")).expect("a page");
    assert_eq!((again.code, page.matches("EXIT STATUS").count()), (Some(0), 1));
    let file = dir.path().join("file");
    fs::write(&file, "").expect("a file");
    let ended = end(phalanx(["man", "--dir", &file.display().to_string()]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("writing manual pages"), "{ended:?}");
}
