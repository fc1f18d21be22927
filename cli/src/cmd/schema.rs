//! `schema`: JSON Schemas of what commands write, made from the types that they write.

use super::{explain, net, replay, simulate, state, test};
use crate::{exit, output};
use clap::Args;
use phalanx_lab::{error::Usage, schemas, written::Named};
use serde_json::{Map, Value};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Name of what is written, as in bench-run [default: list the names]
    name: Option<String>,
    /// Print the fields as a table instead: path, type, meaning with unit
    #[arg(long, requires = "name")]
    fields: bool,
}

impl SchemaArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let all = all();
        let Some(name) = &self.name else {
            let line = |Named { name, by, .. }: &Named| format!("{name:22} {by}\n");
            output::print(&all.iter().map(line).collect::<String>())?;
            return Ok(exit::OK);
        };
        let found = all.iter().find(|named| named.name == *name);
        let Named { schema, .. } = found.ok_or_else(|| {
            Usage(format!("nothing that is written is called {name}: `phalanx schema` lists the names"))
        })?;
        if self.fields {
            output::print(&fields(schema.as_value()))?;
        } else {
            output::json(Path::new("-"), schema)?;
        }
        Ok(exit::OK)
    }
}

/// Schemas of everything that commands write, in the order of their names.
fn all() -> Vec<Named> {
    let mut all = schemas::all();
    all.extend(simulate::schemas());
    all.extend(state::schemas());
    all.extend([explain::schema(), net::net_schema(), replay::schema(), test::schema()]);
    #[cfg(feature = "node")]
    all.push(super::bench::node::schema());
    all.sort_by_key(|named| named.name);
    all
}

/// A line per field: path, type, meaning.
fn fields(schema: &Value) -> String {
    let mut lines = Vec::new();
    list(schema, schema, "", &mut lines);
    let width = lines.iter().map(|(path, ..)| path.chars().count()).max().unwrap_or(0);
    let kinds = lines.iter().map(|(_, kind, _)| kind.len()).max().unwrap_or(0);
    lines
        .iter()
        .map(|(path, kind, of)| format!("{path:width$}  {kind:kinds$}  {of}").trim_end().to_owned() + "\n")
        .collect()
}

/// Lists the fields of `at`, whose path is `path`. Types of this program do not contain themselves.
fn list(root: &Value, at: &Value, path: &str, lines: &mut Vec<(String, String, String)>) {
    let at = resolved(root, at);
    for choice in choices(at) {
        list(root, choice, path, lines);
    }
    if let Some(items) = at.get("items") {
        list(root, items, &format!("{path}[]"), lines);
    }
    let empty = Map::new();
    let properties = at.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for (name, field) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let line = (path.clone(), kind(root, field), meaning(root, field));
        if !lines.contains(&line) {
            lines.push(line);
        }
        list(root, field, &path, lines);
    }
    if let Some(others) = at.get("additionalProperties").filter(|others| others.is_object()) {
        let path = if path.is_empty() { "*".to_owned() } else { format!("{path}.*") };
        lines.push((path.clone(), kind(root, others), meaning(root, others)));
        list(root, others, &path, lines);
    }
}

/// Alternatives of a schema.
fn choices(at: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"].into_iter().filter_map(move |word| at[word].as_array()).flatten()
}

/// Follows a reference to a definition.
fn resolved<'v>(root: &'v Value, at: &'v Value) -> &'v Value {
    let name = at["$ref"].as_str().and_then(|of| of.strip_prefix("#/$defs/"));
    name.map_or(at, |name| &root["$defs"][name])
}

/// Type of a field, in words.
fn kind(root: &Value, field: &Value) -> String {
    let at = resolved(root, field);
    if let Some(value) = at.get("const") {
        return value.to_string();
    }
    let mut kinds: Vec<String> = match &at["type"] {
        Value::String(kind) => vec![kind.clone()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => choices(at).map(|choice| kind(root, choice)).collect(),
    };
    if let Some(known) = at["enum"].as_array() {
        kinds = known.iter().map(Value::to_string).collect();
    }
    if let Some(items) = at.get("items") {
        let of = kind(root, items);
        kinds.iter_mut().filter(|kind| **kind == "array").for_each(|kind| *kind = format!("array of {of}"));
    }
    kinds.dedup();
    if kinds.is_empty() { "any".into() } else { kinds.join(" or ") }
}

/// First sentence on a field; that on its type, if it has none.
fn meaning(root: &Value, field: &Value) -> String {
    let own = field["description"].as_str();
    let of = own.or_else(|| resolved(root, field)["description"].as_str()).unwrap_or_default();
    of.split_whitespace().collect::<Vec<_>>().join(" ")
}
