//! Progress on a terminal: bars where its cursor moves, lines where it does not.

use std::process::Command;

/// Output of `phalanx bench run` on a terminal of this kind. `None`, with a note, without script(1).
fn on_terminal(term: &str) -> Option<String> {
    let line = format!(
        "{} bench run --accounts 300 --txs 600 --block-txs 100 --json /dev/null",
        env!("CARGO_BIN_EXE_phalanx")
    );
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", term).env_remove("CI").env_remove("NO_COLOR");
    match command.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            eprintln!("skipped: script(1): {error}");
            None
        }
    }
}

#[test]
fn a_terminal_without_a_cursor_gets_lines() {
    let Some(told) = on_terminal("dumb") else { return };
    for what in ["making accounts", "writing genesis", "dag on"] {
        assert!(told.contains(what), "no sign of life at {what}: {told:?}");
    }
    assert!(!told.contains('\u{1b}'), "{told:?}");
}

#[test]
fn a_terminal_with_a_cursor_gets_bars() {
    let Some(told) = on_terminal("xterm") else { return };
    assert!(told.contains('\u{1b}'), "{told:?}");
}
