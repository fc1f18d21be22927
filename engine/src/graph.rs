//! The conflicts of a wave as a graph. A planner makes it with the block, beside the execution of the block before: it
//! needs predictions and no state, and one thread builds it.

use crate::{
    lent::{Home, Lent},
    rewards,
};
use alloy_primitives::Address;
use phalanx_access::{AccessSets, KeyId};
use phalanx_parascheduler::{Dag, DagBuilder};

/// Who waits for whom.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) dag: Lent<Dag>,
    /// The longest chain, in transactions.
    pub(crate) critical_path: usize,
    /// The key of the beneficiary's balance, if some transaction names it.
    pub(crate) beneficiary: Option<KeyId>,
    /// Whether somebody looks at that balance, so that rewards are noted one by one.
    pub(crate) observed: bool,
}

/// A graph made ahead, and for whose rewards.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    graph: Graph,
    paid: Address,
}

impl Ahead {
    pub(crate) const fn new(graph: Graph, paid: Address) -> Self {
        Self { graph, paid }
    }

    /// The graph, if it is `paid` who earns the rewards.
    pub(crate) fn into_graph(self, paid: Address) -> Option<Graph> {
        (self.paid == paid).then_some(self.graph)
    }
}

/// Builds graphs, wave after wave, keeping its tables and the graphs' memory.
#[derive(Debug, Default)]
pub(crate) struct GraphBuilder {
    builder: DagBuilder,
    memory: Home<Dag>,
}

impl GraphBuilder {
    /// The graph of transactions that touch `sets`. O(accesses + keys).
    pub(crate) fn build(&mut self, sets: &AccessSets<KeyId>, n_keys: usize, beneficiary: Option<KeyId>) -> Graph {
        // The DAG orders the rewards as well; what a transaction may see is what was predicted, and no more.
        let ordered = beneficiary.and_then(|id| rewards::in_order(sets, n_keys, id));
        let mut dag = self.memory.lend();
        match &ordered {
            Some((sets, n_keys)) => self.builder.build(sets, *n_keys, &mut dag),
            None => self.builder.build(sets, n_keys, &mut dag),
        }
        Graph { critical_path: dag.critical_path(), dag, beneficiary, observed: ordered.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use crate::{BlockLimits, Engine, GenesisAccount, Order};
    use alloy_primitives::{Address, TxKind, U256};
    use revm::context::{BlockEnv, TxEnv};

    #[test]
    fn what_was_made_ahead_is_what_runs_unless_another_earns() {
        let sender = Address::repeat_byte(1);
        let txs: Vec<_> = (0..20)
            .map(|nonce| TxEnv {
                caller: sender,
                gas_limit: 21_000,
                kind: TxKind::Call(sender),
                nonce,
                ..TxEnv::default()
            })
            .collect();
        let [env, other] = [7, 8].map(|byte| BlockEnv {
            number: U256::from(1),
            beneficiary: Address::repeat_byte(byte),
            ..BlockEnv::default()
        });
        for (paid, seen) in [(&env, 1_000), (&other, 20)] {
            let mut engine = Engine::builder().build().unwrap();
            engine
                .genesis([GenesisAccount { address: sender, balance: U256::MAX, ..GenesisAccount::default() }])
                .unwrap();
            let mut planner = engine.plan(&txs, Order::Given, BlockLimits { max_txs: 20, max_gas: u64::MAX });
            let mut block = planner.next_block(&engine, &env).unwrap();
            let ahead = block.graph.as_mut().unwrap();
            assert_eq!(ahead.graph.critical_path, 20, "one sender is one chain");
            // No graph that is built says so.
            ahead.graph.critical_path = 1_000;
            let executed = engine.execute(paid, &txs, block).unwrap();
            let committed = engine.merkleize(executed).and_then(|merkleized| engine.commit(merkleized)).unwrap();
            assert_eq!(committed.block.stats().run.critical_path, seen);
        }
    }
}
