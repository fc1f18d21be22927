//! Output as JSON, and its schema: both come from one type, so that they cannot differ.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;

/// JSON Schema (draft 2020-12) of what a command writes.
#[derive(Clone, Debug)]
pub struct Named {
    /// Name, as in `bench-run`.
    pub name: &'static str,
    /// Flags that write it.
    pub by: &'static str,
    /// The schema.
    pub schema: Schema,
}

/// Schema of what a command writes as `T`.
pub fn schema<T: JsonSchema>(name: &'static str, by: &'static str) -> Named {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    Named { name, by, schema }
}

/// An output as JSON.
///
/// # Panics
/// If a map of it has keys other than text, which is a fault of the program.
pub fn value(written: &impl Serialize) -> Value {
    serde_json::to_value(written).expect("plain types with names as keys are JSON")
}
