//! Head of a measurement's JSON: schema, program, machine and command.

use crate::{
    doctor,
    machine::host,
    result::{Host, SCHEMA, Tool},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Fields that every measurement begins with.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Head<'a> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Program that measured.
    tool: Tool,
    /// Machine that it ran on.
    host: Host,
    /// The exact command.
    command: &'a str,
}

impl<'a> Head<'a> {
    /// Head of what this program measures now; `store` is the folder of the state, if on disk.
    pub(crate) fn here(store: Option<&Path>, command: &'a str) -> Self {
        Self { schema: SCHEMA, tool: host::tool(), host: doctor::host(store), command }
    }
}
