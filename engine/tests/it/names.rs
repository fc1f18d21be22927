//! No type of the engine has the name of one of `phalanx::api`: a caller imports both side by side.

use std::{collections::BTreeSet, fs, path::Path};

/// Names of types that a root or a public module exports: those of its `pub use`, and those it defines.
fn types(file: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut found = BTreeSet::new();
    for statement in text.split("pub use ").skip(1) {
        let (used, _) = statement.split_once(';').expect("a statement ends");
        let names = used.rsplit_once("::").map_or(used, |(_, names)| names).trim_matches(['{', '}', '\n', ' ']);
        for name in names.split(',') {
            // `X as Y` exports Y.
            found.insert(name.rsplit(" as ").next().expect("a part").trim().to_owned());
        }
    }
    let words: Vec<_> = text.split_whitespace().collect();
    for part in words.windows(3) {
        if part[0] == "pub" && ["struct", "enum", "trait", "type", "union"].contains(&part[1]) {
            found.insert(part[2].split(|c: char| !c.is_alphanumeric()).next().expect("a part").to_owned());
        }
    }
    found.retain(|name| name.starts_with(|c: char| c.is_uppercase()));
    found
}

#[test]
fn no_type_has_a_name_of_the_interface() {
    let interface = types("api/src/lib.rs");
    assert!(interface.contains("ExecutionEngine") && interface.len() > 20, "{interface:?}");
    let mut own = 0;
    for file in ["src/lib.rs", "src/chain/mod.rs", "src/pool/mod.rs", "src/simulate/mod.rs", "src/lab.rs"] {
        let types = types(file);
        let both: Vec<_> = types.intersection(&interface).collect();
        assert!(both.is_empty(), "engine/{file} and engine/api/src/lib.rs both export {both:?}: rename one");
        own += types.len();
    }
    assert!(own > 100, "{own}");
}
