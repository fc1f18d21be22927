//! Each rule fires on a tiny workspace that breaks it, and passes on its clean twin.

use std::path::Path;
use std::process::Command;

use crate::survey::{Crate, Survey, survey};
use crate::{check, claims, prose, report};

const GLOSSARY: &str = "## Phrases that the check refuses\n\n```text\n\\bhouse elf\\b\n```\n";

/// Files of a workspace with the one crate `a`; the glossary refuses "house elf".
fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fixed = [
        ("Cargo.toml", "[workspace]\nmembers = [\n    \"a\",\n]\n"),
        ("a/Cargo.toml", "[package]\nname = \"a\"\n"),
        ("docs/reference/glossary.md", GLOSSARY),
    ];
    for (file, text) in fixed.iter().chain(files) {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a file")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    folder
}

fn surveyed(files: &[(&str, &str)]) -> Survey {
    survey(workspace(files).path()).expect("the workspace parses")
}

fn only_crate(files: &[(&str, &str)]) -> Crate {
    surveyed(files).crates.pop().expect("one crate")
}

/// `file:line: rule` of every finding.
fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let folder = workspace(files);
    let survey = survey(folder.path()).expect("the workspace parses");
    let found = check::check(folder.path(), &survey).expect("documents are readable");
    found.iter().map(|f| format!("{}:{}: {}", f.file.display(), f.line, f.rule)).collect()
}

#[test]
fn imports_point_down_the_list_of_modules() {
    let high = ("a/src/high.rs", "pub(crate) struct High;");
    let low = |text| ("a/src/low.rs", text);
    let lib = ("a/src/lib.rs", "mod high;\nmod low;\n");
    assert_eq!(findings(&[lib, high, low("\nuse crate::high::High;")]), ["a/src/low.rs:2: upward"]);
    assert_eq!(findings(&[lib, high, low("fn f() { let _ = crate::high::High; }")]), ["a/src/low.rs:1: upward"]);
    assert_eq!(findings(&[lib, high, low("fn f() {\n vec![super::high::High]; }")]), ["a/src/low.rs:2: upward"]);
    assert_eq!(findings(&[lib, high, low("#[cfg(test)]\nmod tests { use crate::high::High; }")]), [""; 0]);
    let turned = ("a/src/lib.rs", "mod low;\nmod high;\n");
    assert_eq!(findings(&[turned, high, low("use crate::high::High;")]), [""; 0]);
}

#[test]
fn an_upward_import_is_seen_through_a_reexport_and_a_binary_has_the_rule_too() {
    let main = ("a/src/main.rs", "mod high;\nmod middle;\nmod low;\n");
    let high = ("a/src/high/mod.rs", "mod inner;\npub(crate) use inner::High;");
    let inner = ("a/src/high/inner.rs", "pub(crate) struct High;");
    let middle = ("a/src/middle.rs", "pub(crate) struct Middle;");
    let low = ("a/src/low.rs", "use super::{high::{self, High as H}, middle};\nfn f() { high::High; }");
    assert_eq!(
        findings(&[main, high, inner, middle, low]),
        ["a/src/low.rs:1: upward", "a/src/low.rs:1: upward", "a/src/low.rs:1: upward"]
    );
    let low = ("a/src/low.rs", "");
    let passing = ("a/src/middle.rs", "pub(crate) use crate::high::High;");
    assert_eq!(findings(&[main, high, inner, passing, low]), ["a/src/middle.rs:1: upward"]);
}

#[test]
fn nothing_is_imported_through_the_facade() {
    let lib = ("a/src/lib.rs", "mod user;\nmod block;\nconst OWN: u8 = 1;\npub use block::Block;\npub use std::fmt;");
    let block = ("a/src/block.rs", "pub struct Block;");
    let user = |text| ("a/src/user.rs", text);
    assert_eq!(findings(&[lib, block, user("use crate::{Block};")]), ["a/src/user.rs:1: facade"]);
    assert_eq!(findings(&[lib, block, user("fn f(_: crate::Block) {}")]), ["a/src/user.rs:1: facade"]);
    assert_eq!(findings(&[lib, block, user("use crate::{OWN, block::Block, fmt};")]), [""; 0]);
}

/// `a → b → c → d`, whose last file holds `back`.
fn chain(back: &str) -> Crate {
    only_crate(&[
        ("a/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a/src/a.rs", "use crate::b::B;\npub struct A;"),
        ("a/src/b.rs", "use super::c::*;\npub struct B;"),
        ("a/src/c/mod.rs", "mod inner;\nuse crate::d::D;\npub use inner::C;"),
        ("a/src/c/inner.rs", "pub struct C;"),
        ("a/src/d.rs", back),
    ])
}

#[test]
fn a_circle_of_four_files_is_refused() {
    let circle = chain("use crate::a::A;\npub struct D;");
    let files: Vec<_> = circle.circle().iter().map(|file| file.display().to_string()).collect();
    assert_eq!(files, ["a/src/a.rs", "a/src/b.rs", "a/src/c/mod.rs", "a/src/d.rs"]);
    assert_eq!(chain("use std::fmt;\npub struct D;").circle().len(), 0);
    assert_eq!(chain("use crate::c::C;\npub struct D;").circle().len(), 0, "C is defined further down");
    let lib = ("a/src/lib.rs", "mod a { pub mod b; pub mod c; pub mod d; pub mod e; }");
    let files = |last| {
        let use_next = |next: &str| format!("fn f() {{ super::{next}::f() }}");
        let (b, c, d) = (use_next("c"), use_next("d"), use_next("e"));
        let files = [("a/src/a/b.rs", &*b), ("a/src/a/c.rs", &c), ("a/src/a/d.rs", &d), ("a/src/a/e.rs", last)];
        findings(&[&[lib], &files[..]].concat())
    };
    assert_eq!(files("fn f() { super::b::f() }"), ["a/src/a/b.rs:0: circle"]);
    assert_eq!(files("fn f() {}"), [""; 0]);
}

#[test]
fn a_parent_that_only_passes_names_on_closes_no_circle() {
    let lib = ("a/src/lib.rs", "mod a;");
    let children = [("a/src/a/b.rs", "use super::A;\npub struct B;"), ("a/src/a/c.rs", "use super::A;\npub struct C;")];
    let parent = |text| only_crate(&[&[lib, ("a/src/a/mod.rs", text)], &children[..]].concat());
    assert_eq!(parent("mod b;\nmod c;\npub use b::B;\npub use c::C;\npub struct A;").circle().len(), 0);
    assert_eq!(parent("mod b;\nmod c;\npub use b::B;\npub struct A(B);").circle().len(), 2);
}

/// Methods of one type in four files, each of which calls the next; the last one does `last`.
fn four_files(last: &str, allowed: Option<&str>) -> Vec<String> {
    let method = |of: &str, does: &str| format!("use super::T;\nimpl T {{ fn {of}(&self) {{ {does} }} }}");
    let files = [
        ("a/src/b.rs", method("b", "self.c()")),
        ("a/src/c.rs", method("c", "assert!(self.d());")),
        ("a/src/d.rs", method("d", "Self::e(self)")),
        ("a/src/e.rs", method("e", last)),
    ];
    let mut all = vec![("a/src/lib.rs", "mod b;\nmod c;\nmod d;\nmod e;\nstruct T;")];
    all.extend(files.iter().map(|(file, text)| (*file, text.as_str())));
    all.extend(allowed.map(|allowed| ("docs/house/allowed.txt", allowed)));
    findings(&all)
}

#[test]
fn files_of_a_type_that_call_each_other_are_a_circle() {
    assert_eq!(four_files("self.b()", None), ["a/src/b.rs:0: methods"]);
    assert_eq!(four_files("other.b()", None), [""; 0], "of another value");
    assert_eq!(four_files("", None), [""; 0]);
    let lib = ("a/src/lib.rs", "mod b;\nmod c;");
    let two = |of: &str, to: &str| format!("struct T;\nimpl T {{ fn {of}(&self) {{ self.{to}() }} }}");
    let found = only_crate(&[lib, ("a/src/b.rs", &two("b", "c")), ("a/src/c.rs", &two("c", "b"))]);
    assert_eq!(found.method_circles().len(), 0, "two types of one name");
}

#[test]
fn allowances_only_shrink() {
    let circle = |number| four_files("self.b()", Some(&format!("# why\n\nmethods a::T {number}\n")));
    assert_eq!(circle("4"), [""; 0]);
    assert_eq!(circle("5"), ["a/src/b.rs:0: methods"], "too large");
    assert_eq!(four_files("", Some("methods a::T 4")), ["docs/house/allowed.txt:0: allowed"], "of nothing");
    let map = |lines: usize, allowed: &str| {
        let text = "// one\n".repeat(lines);
        findings(&[("a/src/lib.rs", "mod b;"), ("a/src/b/mod.rs", &text), ("docs/house/allowed.txt", allowed)])
    };
    assert_eq!(map(80, ""), [""; 0]);
    assert_eq!(map(81, ""), ["a/src/b/mod.rs:0: map"]);
    assert_eq!(map(100, "map a/src/b/mod.rs 100"), [""; 0]);
    assert_eq!(map(100, "map a/src/b/mod.rs 120"), [""; 0], "a little less is no reason to edit the list");
    assert_eq!(map(101, "map a/src/b/mod.rs 100"), ["a/src/b/mod.rs:0: map"]);
    assert_eq!(map(100, "map a/src/b/mod.rs 121"), ["a/src/b/mod.rs:0: map"]);
    assert_eq!(map(80, "map a/src/b/mod.rs 100"), ["a/src/b/mod.rs:0: map"]);
    let broken = workspace(&[("docs/house/allowed.txt", "map it\n")]);
    let survey = survey(broken.path()).expect("the workspace parses");
    assert!(check::check(broken.path(), &survey).expect_err("no number").to_string().contains("map it"));
}

#[test]
fn doc_comments_name_the_thing_first() {
    let lib = |doc: &str| {
        findings(&[("a/src/lib.rs", &format!("//! Crate.\n\n/// {doc}\n/// It is next.\npub fn f() {{}}"))])
    };
    assert_eq!(lib("Whose it is."), ["a/src/lib.rs:3: opener"]);
    assert_eq!(lib("Owner."), [""; 0]);
    let hundred = "/// Number.\nconst A: u8 = 1;\n".repeat(99);
    assert_eq!(findings(&[("a/src/lib.rs", &format!("{hundred}/// It.\nconst B: u8 = 1;"))]), [""; 0], "1 % may");
}

#[test]
fn refused_phrases_are_found_in_comments_strings_and_documents() {
    let lib = |text| findings(&[("a/src/lib.rs", text)]);
    assert_eq!(lib("//! A House\n    //! elf.\n"), ["a/src/lib.rs:1: phrase"]);
    assert_eq!(lib("const A: &str = r#\"\n\" house elf\"#;"), ["a/src/lib.rs:2: phrase"]);
    assert_eq!(lib("const A: (char, u8, &str) = ('\"', b'\\'', \"a house \\\n elf\"); /* house elf */").len(), 2);
    assert_eq!(
        lib("macro_rules! house { (house elf) => { '\"' } }\nstruct A<'a>(&'a u8); // house\nstruct elf;"),
        [""; 0]
    );
    assert_eq!(findings(&[("README.md", "\na house\nelf")]), ["README.md:2: phrase"]);
    let changelog = ("CHANGELOG.md", "# C\n\n## Unreleased\n\n## 0.1.0\n\nhouse elf\n");
    assert_eq!(findings(&[changelog]), [""; 0], "history stays");
}

#[test]
fn documents_name_files_that_exist() {
    let files = [("a/src/lib.rs", ""), ("docs/x.md", "")];
    let with = |file, text| findings(&[&files[..], &[(file, text)]].concat());
    assert_eq!(with("docs/y.md", "\n[x](x.md#top) [y](../gone.md)"), ["docs/y.md:2: link"]);
    assert_eq!(with("docs/y.md", "[x]: z.md"), ["docs/y.md:1: link"]);
    assert_eq!(with("docs/y.md", "[x](https://x.org) [y](#y) [z](../a/src/lib.rs)\n```\n[x](gone.md)\n```"), [""; 0]);
    assert_eq!(with("ARCHITECTURE.md", "`a/src/gone.rs` and `other/file.rs`"), ["ARCHITECTURE.md:1: path"]);
    assert_eq!(with("ARCHITECTURE.md", "`a/src/lib.rs`, `a/`, `docs/x.md`"), [""; 0]);
}

/// Runs git in a folder and returns what it prints.
fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn claims_are_marked_where_their_code_has_changed_since() {
    let folder = workspace(&[("a/src/lib.rs", "//! A crate.\n"), ("b/src/lib.rs", "//! Another.\n")]);
    let git = |arguments: &[&str]| git_in(folder.path(), arguments);
    git(&["init", "-q"]);
    let commit = || {
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "Change"]);
        git(&["rev-parse", "HEAD"])
    };
    let first = commit();
    std::fs::write(folder.path().join("b/src/lib.rs"), "//! Another one.\n").expect("written");
    std::fs::create_dir_all(folder.path().join("docs")).expect("made");
    let claim = |name: &str, commit: &str| format!(r#"{{"name": "{name}", "commit": "{commit}", "code": ["{name}"]}}"#);
    let all = [claim("a", &first), claim("b", &first), claim("a", &"0".repeat(40))].join(",");
    std::fs::write(folder.path().join("docs/claims.json"), format!("[{all}]")).expect("written");
    commit();
    let marks: Vec<_> =
        claims::ages(folder.path()).expect("well-formed").iter().map(|line| line[..8].to_owned()).collect();
    assert_eq!(marks, ["fresh   ", "OLDER   ", "unknown "]);
    std::fs::write(folder.path().join("docs/claims.json"), "[{}]").expect("written");
    assert!(claims::ages(folder.path()).is_err());
}

#[test]
fn commits_have_a_short_subject_and_a_body() {
    let folder = workspace(&[]);
    let git = |arguments: &[&str]| git_in(folder.path(), arguments);
    git(&["init", "-q"]);
    for message in ["Start\n\nBecause.".to_owned(), format!("{}\n\nBecause.", "x".repeat(73)), "Do it".to_owned()] {
        git(&["commit", "-q", "--allow-empty", "-m", &message]);
    }
    let rules = |range| check::commits(folder.path(), range).map(|found| found.len());
    assert_eq!(rules("HEAD").expect("a range"), 2);
    assert_eq!(rules("HEAD~2").expect("a range"), 0);
    assert!(rules("nowhere").is_err());
}

#[test]
fn lines_of_tests_are_counted_apart() {
    let found = only_crate(&[
        (
            "a/src/lib.rs",
            "//! Crate.\n\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod kit;\n#[cfg(all(test, x))]\nmod more {\n}\nmod b;",
        ),
        ("a/src/tests.rs", "fn f() {}\n"),
        ("a/src/kit/mod.rs", "mod x;\n"),
        ("a/src/kit/x.rs", "\n"),
        ("a/src/b.rs", "const A: u8 = 1; // one\n"),
        ("a/tests/it.rs", "fn f() {}\nfn g() {}\n"),
    ]);
    assert_eq!((found.source, found.code, found.tests), (4, 2, 7 + 3 + 2));
    assert_eq!(found.modules, 2);
}

#[test]
fn report_prints_the_same_figures_twice() {
    let survey = surveyed(&[("a/src/lib.rs", "/// It.\npub fn f() {}\n"), ("README.md", "house elf")]);
    let json: serde_json::Value = serde_json::from_str(&report::json(&survey)).expect("JSON");
    assert_eq!((&json["total"]["source"], &json["crates"][0]["riddles"]), (&2.into(), &1.into()));
    assert_eq!((&json["total"]["refused"], &json["crates"][0]["crate"]), (&1.into(), &"a".into()));
    let table = report::table(&survey, true);
    let total = table.lines().find(|line| line.starts_with("total")).expect("a line of totals");
    assert_eq!(
        total.split_whitespace().collect::<Vec<_>>()[1..],
        ["1", "0", "0", "0", "2", "1", "0", "1", "1", "1", "100.0", "%"]
    );
}

#[test]
fn sentences_that_are_no_longer_true_and_lines_that_stand_twice_are_refused() {
    let list = ("docs/house/superseded.txt", "# a comment\n\nonly two house elves => there are three\n");
    let page = |text| ("docs/page.md", text);
    assert_eq!(findings(&[list, page("\nIt has Only\ntwo  house elves.")]), ["docs/page.md:2: superseded"]);
    assert_eq!(findings(&[list, page("It has three.")]), [""; 0]);
    assert_eq!(findings(&[page("It has only two house elves.")]), [""; 0], "without a list");
    let log = |text| ("CHANGELOG.md", text);
    let old = "# Changelog\n\n## New\n\n- One.\n- Two.\n\n## Old\n\n- One.\n- One.\n- Only two house elves.\n";
    assert_eq!(findings(&[list, log(old)]), [""; 0], "history stays");
    let double = "# Changelog\n\n## New\n\n- One.\n- Two.\n- One.\n\n## Old\n";
    assert_eq!(findings(&[log(double)]), ["CHANGELOG.md:7: twice"]);
    let broken = workspace(&[("docs/house/superseded.txt", "no arrow\n")]);
    let survey = survey(broken.path()).expect("the workspace parses");
    assert!(check::check(broken.path(), &survey).expect_err("no remedy").to_string().contains("no arrow"));
}

#[test]
fn this_glossary_parses() {
    let glossary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/glossary.md");
    assert!(prose::refused(&std::fs::read_to_string(glossary).expect("a file")).expect("phrases").len() > 5);
    assert!(prose::refused("# Glossary").is_err());
}
