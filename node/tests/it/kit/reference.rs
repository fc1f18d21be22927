//! The chain once more, by stock revm alone: one transaction after the other over a state in memory.

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, U256};
use phalanx::{
    GenesisAccount,
    alloy::genesis::Genesis,
    chain::{ChainSpec, PreStep},
    recover,
    revm::{
        Context, Database as _, DatabaseCommit as _, DatabaseRef, ExecuteCommitEvm as _, ExecuteEvm as _,
        MainBuilder as _, MainContext as _, SystemCallEvm as _,
        context::{BlockEnv, CfgEnv, TxEnv},
        context_interface::result::ExecutionResult,
        database::{CacheDB, EmptyDB},
        state::{AccountInfo, Bytecode},
    },
};

#[derive(Clone, Debug)]
pub(crate) struct Reference<S = EmptyDB> {
    pub(crate) state: CacheDB<S>,
    pub(crate) chain: ChainSpec,
}

impl Reference {
    pub(crate) fn new(genesis: &Genesis) -> Self {
        let mut state = CacheDB::new(EmptyDB::new());
        for account in GenesisAccount::of(genesis) {
            let code = account.code.map(Bytecode::new_raw);
            let mut info = AccountInfo { balance: account.balance, nonce: account.nonce, ..AccountInfo::default() };
            if let Some(code) = code {
                (info.code_hash, info.code) = (code.hash_slow(), Some(code));
            }
            state.insert_account_info(account.address, info);
        }
        Self::on(genesis, state)
    }
}

impl<S: DatabaseRef<Error: core::error::Error + Send + Sync>> Reference<S> {
    /// The chain on a state of its own.
    pub(crate) fn on(genesis: &Genesis, state: CacheDB<S>) -> Self {
        Self { state, chain: ChainSpec::from_genesis(genesis).expect("a chain") }
    }

    fn rules(&self, header: &Header) -> (CfgEnv, BlockEnv) {
        let spec = self.chain.spec(header);
        (self.chain.cfg(spec, header.timestamp), self.chain.env(header))
    }

    fn system_call(&mut self, header: &Header, to: Address, data: Bytes) {
        let (cfg, env) = self.rules(header);
        let mut evm = Context::mainnet().with_db(&mut self.state).with_cfg(cfg).with_block(env).build_mainnet();
        let called = evm.system_call(to, data).expect("a sound contract");
        let mut changes = called.state;
        changes.retain(|address, _| *address == to);
        drop(evm);
        self.state.commit(changes);
    }

    /// Runs a block and gives the result of each transaction.
    pub(crate) fn block(&mut self, header: &Header, hash: B256, txs: &[Bytes]) -> Vec<ExecutionResult> {
        let spec = self.chain.spec(header);
        for step in self.chain.pre_steps(header, spec) {
            if let PreStep::SystemCall { to, data } = step {
                self.system_call(header, to, Bytes::from(data.0));
            }
        }
        let (cfg, env) = self.rules(header);
        let run = |tx: &Bytes| {
            let tx = recover(tx).expect("a transaction");
            let context = Context::mainnet().with_db(&mut self.state).with_cfg(cfg.clone()).with_block(env.clone());
            context.build_mainnet().transact_commit(tx).expect("a valid transaction")
        };
        let results = txs.iter().map(run).collect();
        for (_, to) in self.chain.request_calls(spec) {
            self.system_call(header, *to, Bytes::new());
        }
        self.state.cache.block_hashes.insert(U256::from(header.number), hash);
        results
    }

    /// Runs a call on the state, with any nonce and for free.
    pub(crate) fn call(&mut self, header: &Header, tx: TxEnv) -> ExecutionResult {
        let (mut cfg, mut env) = self.rules(header);
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        env.basefee = 0;
        let nonce = self.account(tx.caller).nonce;
        let tx = TxEnv { nonce, chain_id: Some(cfg.chain_id), ..tx };
        let context = Context::mainnet().with_db(&mut self.state).with_cfg(cfg).with_block(env);
        context.build_mainnet().transact(tx).expect("a valid call").result
    }

    pub(crate) fn account(&mut self, address: Address) -> AccountInfo {
        self.state.basic(address).expect("in memory").unwrap_or_default()
    }

    pub(crate) fn slot(&mut self, address: Address, slot: u64) -> U256 {
        self.state.storage(address, U256::from(slot)).expect("in memory")
    }
}
