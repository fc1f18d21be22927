//! Output of `explain` as JSON.

use super::{explanation::name, graph::Heat, source::Explained};
use crate::output;
use phalanx_lab::{
    machine::host,
    result::{SCHEMA, Tool},
    written::{self, Named},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The parallelism of a block.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Program that explained it.
    tool: Tool,
    /// The block, in words.
    what: &'a str,
    /// Origin of the edges: true or predicted access sets.
    edges_are: &'a str,
    /// Transactions.
    txs: usize,
    /// Keys that they touch.
    keys: usize,
    /// Gas that they used.
    gas: u64,
    /// Transactions of the longest chain.
    longest_chain: usize,
    /// Transactions ÷ longest chain.
    tlp_dag: f64,
    /// Gas ÷ gas of the critical path.
    gas_parallelism: f64,
    /// The chain with the most gas.
    critical_path: Path,
    /// Time of the block on sequential revm, in ns.
    sequential_ns: f64,
    /// Keys by the length of the chain that each makes alone.
    hottest: Vec<Hot>,
    /// Mispredictions that aborted.
    escapes: usize,
    /// Executions beyond the first.
    reexecutions: usize,
    /// True if another executor took the block over.
    fallback: bool,
    /// Pairs of transactions of which the second waits for the first.
    edges: &'a [(u32, u32)],
    /// Number of all edges: more than are listed, if it is large.
    edges_total: u64,
    /// The exact command.
    command: String,
}

/// The chain with the most gas.
#[derive(Serialize, JsonSchema)]
struct Path {
    /// Gas of the chain.
    gas: u64,
    /// Share of the block's gas × the time of sequential revm, in ns.
    ns: f64,
    /// Transactions of the chain in order.
    txs: Vec<Step>,
}

/// A transaction of the critical path.
#[derive(Serialize, JsonSchema)]
struct Step {
    /// Number of the transaction in the block.
    tx: u32,
    /// Gas that it used.
    gas: u64,
    /// Key for which it waits for the one before. Null for the first.
    because_of: Option<String>,
}

/// A key, and how it is used.
#[derive(Serialize, JsonSchema)]
struct Hot {
    /// The key, in words.
    key: String,
    /// Transactions of the chain that it makes alone.
    chain: usize,
    /// Transactions that touch it.
    txs: usize,
    /// The same ÷ all transactions.
    share: f64,
    /// Transactions that write it.
    writes: usize,
    /// Transactions that read it.
    reads: usize,
    /// Transactions that add to it without reading.
    credits: usize,
}

/// Schema of what is written.
pub(in crate::cmd) fn schema() -> Named {
    written::schema::<Written<'_>>("explain", "explain --json")
}

impl Explained {
    pub(super) fn value(&self, hottest: &[Heat]) -> Value {
        let graph = &self.graph;
        let (by_txs, by_gas) = self.parallelism();
        let hot = |heat: &Heat| Hot {
            key: name(&graph.keys[heat.key.index()]),
            chain: heat.chain,
            txs: heat.txs,
            share: heat.txs as f64 / self.txs().max(1) as f64,
            writes: heat.writes,
            reads: heat.reads,
            credits: heat.credits,
        };
        let step = |(index, tx): (usize, &u32)| {
            let before = index.checked_sub(1).map(|before| graph.path[before]);
            let because_of = before.and_then(|before| graph.between(before, *tx)).map(name);
            Step { tx: *tx, gas: graph.gas[*tx as usize], because_of }
        };
        let txs = graph.path.iter().enumerate().map(step).collect();
        written::value(&Written {
            schema: SCHEMA,
            tool: host::tool(),
            what: &self.what,
            edges_are: self.sets,
            txs: self.txs(),
            keys: graph.keys.len(),
            gas: graph.total_gas(),
            longest_chain: graph.dag.critical_path(),
            tlp_dag: by_txs,
            gas_parallelism: by_gas,
            critical_path: Path { gas: graph.path_gas(), ns: self.path_ns(), txs },
            sequential_ns: self.sequential_ns,
            hottest: hottest.iter().filter(|heat| heat.txs > 0).map(hot).collect(),
            escapes: self.escapes,
            reexecutions: self.reexecutions,
            fallback: self.fallback,
            edges: &graph.edges,
            edges_total: graph.edges_total,
            command: output::command(),
        })
    }
}
