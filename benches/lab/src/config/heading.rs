//! Headings of flags in help texts, the same in every command.

/// Transactions of a measurement.
pub const LOAD: &str = "Load";
/// Execution of blocks.
pub const ENGINE: &str = "Engine";
/// Place and kind of the state.
pub const STORE: &str = "State store";
/// Repetitions, cores and checks.
pub const MEASURE: &str = "Measurement";
/// Capacities of a machine that is modelled.
pub const MODEL: &str = "Modelled machine";
/// Replicas and the links between them.
pub const NETWORK: &str = "Network";
/// Faults that are made on purpose.
pub const FAULTS: &str = "Faults";
/// JSON-RPC, metrics and log of a node.
pub const SERVICE: &str = "Service";
/// Order of blocks, and their making.
pub const BLOCKS: &str = "Blocks";
/// Chain for development.
pub const DEVELOPMENT: &str = "Chain for development";
/// Files that are written.
pub const OUTPUT: &str = "Output";
