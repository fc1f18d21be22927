//! `schema`: what commands write is what their schemas say, no field more and none less.

use crate::{
    command::{Ended, run},
    fixtures,
};
use serde_json::{Map, Value};

/// Words of a schema that say nothing about a value.
const SILENT: [&str; 7] = ["$schema", "$defs", "title", "description", "format", "default", "examples"];

/// Differences of `value` from the part `at` of the schema `root`. A field that the schema does not name is a difference too, and
/// so is a word of the schema that this check does not know.
fn differences(root: &Value, at: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let rules = match at {
        Value::Bool(true) => return,
        Value::Object(rules) => rules,
        other => return found.push(format!("{path}: schema {other}")),
    };
    let mut say = |what: String| found.push(format!("{path}: {what}"));
    let mut deeper = Vec::new();
    for (word, rule) in rules {
        match word.as_str() {
            word if SILENT.contains(&word) => {}
            "$ref" => {
                let name = rule.as_str().and_then(|of| of.strip_prefix("#/$defs/")).expect("a definition");
                deeper.push((&root["$defs"][name], value, path.to_owned()));
            }
            "type" => {
                let allowed = rule.as_array().map_or_else(|| vec![rule], |kinds| kinds.iter().collect());
                if !allowed.iter().any(|kind| is(kind.as_str().expect("a type"), value)) {
                    say(format!("{value} is no {rule}"));
                }
            }
            "const" if rule == value => {}
            "enum" if rule.as_array().expect("values").contains(value) => {}
            "minimum" if value.as_f64().is_none_or(|number| number >= rule.as_f64().expect("a number")) => {}
            "maximum" if value.as_f64().is_none_or(|number| number <= rule.as_f64().expect("a number")) => {}
            "minItems"
                if value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().expect("a count")) => {}
            "maxItems"
                if value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().expect("a count")) => {}
            "const" | "enum" | "minimum" | "maximum" | "minItems" | "maxItems" => {
                say(format!("{value} against {word} {rule}"))
            }
            "anyOf" | "oneOf" => {
                let tried: Vec<Vec<String>> = (rule.as_array().expect("schemas").iter())
                    .map(|choice| {
                        let mut found = Vec::new();
                        differences(root, choice, value, path, &mut found);
                        found
                    })
                    .collect();
                if !tried.iter().any(Vec::is_empty) {
                    say(format!("none of {word}: {tried:?}"));
                }
            }
            "items" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                deeper.extend(items.iter().map(|item| (rule, item, format!("{path}[]"))));
            }
            "prefixItems" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                deeper.extend(
                    rule.as_array().expect("schemas").iter().zip(items).map(|of| (of.0, of.1, format!("{path}[]"))),
                );
            }
            "required" => {
                let missing = rule.as_array().expect("names").iter().filter_map(Value::as_str);
                missing
                    .filter(|name| value.is_object() && value.get(name).is_none())
                    .for_each(|name| say(format!("lacks {name}")));
            }
            // Here, as the two are read together.
            "properties" | "additionalProperties" => {}
            unknown => say(format!("the word {unknown} is unknown to this check")),
        }
    }
    let empty = Map::new();
    let named = rules.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let others = rules.get("additionalProperties");
    if let Some(object) = value.as_object().filter(|_| others.is_some() || rules.contains_key("properties")) {
        for (name, field) in object {
            match named.get(name).or(others) {
                Some(rule) => deeper.push((rule, field, format!("{path}.{name}"))),
                None => found.push(format!("{path}: {name} is not in the schema")),
            }
        }
    }
    for (rule, value, path) in deeper {
        differences(root, rule, value, &path, found);
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "string" => value.is_string(),
        other => panic!("a type {other}"),
    }
}

fn schema(name: &str) -> Value {
    run(&format!("schema {name}")).json()
}

/// Holds `value` against the schema `name`.
#[track_caller]
fn fits(name: &str, value: &Value) {
    let schema = schema(name);
    let mut found = Vec::new();
    differences(&schema, &schema, value, name, &mut found);
    assert!(found.is_empty(), "{found:#?} in {value}");
}

/// Holds what a command wrote to stdout against the schema `name`.
#[track_caller]
fn writes(line: &str, name: &str) -> Value {
    let ended: Ended = run(line);
    let value = ended.only_json();
    fits(name, &value);
    value
}

const LOAD: &str = "--accounts 300 --txs 900 --block-txs 200";

#[test]
fn every_name_has_a_schema_and_a_table_of_documented_fields() {
    let listed = run("schema").stdout;
    assert!(listed.lines().count() >= 20, "{listed}");
    for name in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let schema = schema(name);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        let fields = run(&format!("schema {name} --fields")).stdout;
        for line in fields.lines() {
            // Path, type, meaning: a field without a meaning ends after its type.
            let mut parts = line.split("  ").filter(|part| !part.is_empty());
            let (path, kind) = (parts.next().expect("a path"), parts.next());
            assert!(
                kind.is_some_and(|kind| kind != " any") && (parts.next().is_some() || path.ends_with('*')),
                "{name}: {line:?}"
            );
        }
    }
    run("schema nothing").refused(2, "`phalanx schema` lists the names");
}

#[test]
fn the_check_can_fail() {
    let schema = schema("bench-run");
    let sound = run(&format!("bench run {LOAD} --executor sequential --json -")).json();
    let spoilt: [fn(&mut Value); 6] = [
        |value| value["schema"] = 2.into(),
        |value| value["runs"][0]["threads"] = "one".into(),
        |value| value["runs"][0]["threads"] = (-1).into(),
        |value| value["runs"][0]["unheard"] = 1.into(),
        |value| drop(value["runs"][0].as_object_mut().expect("a run").remove("executor")),
        |value| value["host"]["findings"][0]["verdict"] = "splendid".into(),
    ];
    for spoil in spoilt {
        let mut value = sound.clone();
        spoil(&mut value);
        let mut found = Vec::new();
        differences(&schema, &schema, &value, "", &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}

#[test]
fn benchmarks_write_what_their_schemas_say() {
    writes(
        &format!("bench run {LOAD} --executor dag --executor block-stm --executor sequential --json -"),
        "bench-run",
    );
    writes(&format!("bench build {LOAD} --quality --json -"), "bench-run");
    writes(&format!("bench schedule {LOAD} --runs 1 --json -"), "bench-schedule");
    writes(
        "bench schedule --figure fafo-4 --accounts 10100 --txs 400 --block-txs 200 --json -",
        "bench-schedule-figure",
    );
    writes(&format!("bench sweep {LOAD} --axis alpha=0,0.5 --gamma 10 --json -"), "bench-sweep");
    writes(&format!("bench scale {LOAD} --runs 1 --json -"), "bench-scale");
    writes("bench store --keys 500 --updates 50 --blocks 2 --json -", "bench-store");
    let shown = run("bench store --keys 500 --updates 50 --blocks 2");
    assert!(shown.code == Some(0) && shown.stdout.contains("Updates per second"), "{shown:?}");
    assert!(!shown.stdout.contains('{'), "a table for people: {shown:?}");
    #[cfg(feature = "node")]
    writes(
        "bench node --txs 300 --payers 7 --writers 3 --batch 10 --readers 1 --blocks instant --json -",
        "bench-node",
    );
    writes("bench adversary --case transfers --runs 1 --threads 1 --block-gas 3000000 --json -", "bench-adversary");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json").display().to_string();
    assert_eq!(run(&format!("bench run {LOAD} --executor sequential --json {file}")).code, Some(0));
    writes(&format!("bench compare {file} {file} --json -"), "bench-compare");
    writes(&format!("bench compare {file} {file} --expect B/A>=5 --json -"), "bench-compare");
}

#[test]
fn tools_write_what_their_schemas_say() {
    writes("doctor --json", "doctor");
    writes("version --json", "version");
    writes(&format!("explain {LOAD} --json -"), "explain");
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    assert_eq!(run(&format!("bench run {LOAD} --executor dag --store file:{}", store.display())).code, Some(0));
    let places: Vec<_> =
        std::fs::read_dir(&store).expect("a store").map(|entry| entry.expect("an entry").path()).collect();
    let place = places.iter().find(|place| place.is_dir()).unwrap_or(&store);
    commands_of_a_store(&place.display().to_string(), folder.path());
}

/// Every command of a store, with the schema that its output has.
fn commands_of_a_store(db: &str, folder: &std::path::Path) {
    let root = writes(&format!("state info --db {db} --json"), "state-info")["state_root"]
        .as_str()
        .expect("a root")
        .to_owned();
    let at = |name: &str| folder.join(name).display().to_string();
    // The beneficiary of the blocks has the fees; the other address has nothing.
    let absent = format!("0x{}", "11".repeat(20));
    assert!(writes(&format!("state get --db {db} {absent} --json"), "state-get")["decoded"].is_null());
    let proof = at("proof.json");
    let proven = writes(&format!("state prove --db {db} {absent}"), "state-prove");
    std::fs::write(&proof, proven.to_string()).expect("a file");
    let verified = writes(&format!("state verify --root {root} {proof} --json"), "state-verify");
    assert_eq!((&verified["proven"], &verified["reason"]), (&true.into(), &Value::Null), "{verified}");
    let other = run(&format!("state verify --root 0x{} {proof} --json", "00".repeat(32)));
    assert_eq!(other.code, Some(3), "{other:?}");
    let other = other.only_json();
    fits("state-verify", &other);
    assert!(other["proven"] == false && other["reason"].is_string(), "{other}");
    assert_eq!(writes(&format!("state check --db {db} --json"), "state-check")["sound"], true);
    writes(&format!("state backup --db {db} --to {} --json", at("copy")), "state-copy");
    writes(&format!("state export --db {db} {} --json", at("stream")), "state-export");
    run(&format!("state export --db {db} - --json")).refused(2, "cannot both go to stdout");
    let imported = writes(&format!("state import --db {} {} --json", at("imported"), at("stream")), "state-copy");
    assert_eq!(imported["state_root"], root.as_str(), "{imported}");
    let snapshot = writes(&format!("state snapshot --db {db} {} --json", at("snapshot")), "state-snapshot");
    let restore = format!(
        "state restore --db {} --height {} --root {root} {} --json",
        at("restored"),
        snapshot["height"],
        at("snapshot")
    );
    let chunk = std::path::Path::new(&at("snapshot")).join("00000000.chunk");
    let kept = chunk.with_extension("kept");
    std::fs::rename(&chunk, &kept).expect("a chunk");
    let missing = run(&restore);
    assert_eq!(missing.code, Some(3), "{missing:?}");
    fits("state-missing", &missing.only_json());
    assert_eq!(missing.only_json()["missing"][0], 0);
    std::fs::rename(&kept, &chunk).expect("a chunk");
    writes(&restore, "state-copy");
    writes(&format!("state prune --db {} --json", at("copy")), "state-prune");
    assert_eq!(writes(&format!("state discard --db {} --json", at("none")), "state-discard")["removed"], false);
}

#[test]
fn simulations_and_networks_write_what_their_schemas_say() {
    let small = "--validators 4 --topology uniform:50,10,5 --tps 1000 --seconds 1";
    writes(&format!("simulate zaptos {small} --json -"), "simulate-zaptos");
    // A hundred validators at every load.
    if std::env::var("PHALANX_FIGURES").is_ok_and(|which| which == "all") {
        writes("simulate zaptos --figure 5 --seconds 1 --json -", "simulate-zaptos");
    }
    writes("simulate resilientdb --figure 7 --json -", "simulate-resilientdb");
    writes("simulate autobahn --figure 7 --json -", "simulate-autobahn");
    writes("simulate compare --protocols autobahn --seconds 5 --json -", "simulate-compare");
    writes("net --seconds 1 --tps 50 --clients 50 --json -", "net");
    writes("simulate sbft --f 1 --c 0 --json -", "simulate-sbft");
}

#[test]
fn replays_and_tests_write_lines_that_their_schemas_say() {
    let blocks = fixtures::committed("blocks");
    let replayed = run(&format!("replay {} --repeat 1 --quality --json -", blocks.display()));
    let tested = run(&format!("test state {} --json", fixtures::committed("state").display()));
    let failed = run(&format!("test state {} --json", blocks.display()));
    let lines = |ended: &Ended, name: &str| {
        let values = ended.stdout.lines().filter(|line| line.starts_with('{'));
        values.map(|line| fits(name, &serde_json::from_str(line).expect("JSON"))).count()
    };
    assert!(lines(&replayed, "replay") >= 3, "{replayed:?}");
    assert!(lines(&tested, "test") >= 1 && lines(&failed, "test") >= 1, "{tested:?} {failed:?}");
}
