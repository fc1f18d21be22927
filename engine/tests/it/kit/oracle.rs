//! The oracle: stock revm on a plain map. It shares the schedule of system calls with the engine, and no execution.

use super::{
    case::{Body, Case},
    reference::{Accounts, Reference},
};
use alloy_consensus::Header;
use alloy_eips::eip7928::AccountChanges;
use alloy_rlp::Decodable as _;
use phalanx::{
    GenesisAccount,
    chain::{ChainSpec, PreStep},
    revm::{
        Context, Database, DatabaseCommit, ExecuteEvm as _, MainBuilder as _, MainContext as _,
        context::{ContextSetters as _, TxEnv},
        context_interface::result::{EVMError, ExecutionResult},
        handler::{Handler as _, MainnetContext, MainnetEvm, MainnetHandler, SystemCallTx as _},
        primitives::{Address, AddressMap, B256, Bytes, KECCAK_EMPTY, U256, hardfork::SpecId},
        state::{Account, AccountInfo, Bytecode},
    },
};
use std::{collections::BTreeMap, convert::Infallible};

/// A state in plain maps.
#[derive(Clone, Debug)]
struct Plain {
    accounts: Accounts,
    ancestors: BTreeMap<u64, B256>,
    clears_empty: bool,
    /// True if code of the form of a delegation is one (EIP-7702).
    delegates: bool,
}

/// The account, with code of the kind that its bytes have in the block's hard fork.
fn of_its_kind(info: &AccountInfo, delegates: bool) -> AccountInfo {
    let mut info = info.clone();
    if let Some(code) = &mut info.code
        && let [0xef, 1, 0, target @ ..] = code.original_byte_slice()
        && let Ok(target) = <[u8; 20]>::try_from(target)
    {
        *code =
            if delegates { Bytecode::new_eip7702(target.into()) } else { Bytecode::new_legacy(code.original_bytes()) };
    }
    info
}

impl Database for Plain {
    type Error = Infallible;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.accounts.get(&address).map(|(info, _)| of_its_kind(info, self.delegates)))
    }

    fn code_by_hash(&mut self, _: B256) -> Result<Bytecode, Infallible> {
        unreachable!("accounts carry their code")
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Infallible> {
        Ok(self.accounts.get(&address).and_then(|(_, slots)| slots.get(&slot)).copied().unwrap_or_default())
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Infallible> {
        Ok(self.ancestors.get(&number).copied().unwrap_or_default())
    }
}

impl DatabaseCommit for Plain {
    fn commit(&mut self, changes: AddressMap<Account>) {
        for (address, account) in changes.into_iter().filter(|(_, account)| account.is_touched()) {
            if account.is_selfdestructed() || (self.clears_empty && account.is_empty()) {
                self.accounts.remove(&address);
                continue;
            }
            let (info, slots) = self.accounts.entry(address).or_default();
            if account.is_created() {
                slots.clear();
            }
            *info = account.info;
            for (slot, value) in account.storage {
                slots.insert(slot, value.present_value);
            }
            slots.retain(|_, value| !value.is_zero());
        }
    }
}

impl Plain {
    fn new(case: &Case) -> Self {
        let accounts = case.genesis.iter().map(|account| {
            let mut info = AccountInfo { balance: account.balance, nonce: account.nonce, ..AccountInfo::default() };
            info.code_hash = KECCAK_EMPTY;
            info.code = Some(Bytecode::default());
            if let Some(code) = account.code.clone().filter(|code| !code.is_empty()) {
                let code = Bytecode::new_legacy(code);
                (info.code_hash, info.code) = (code.hash_slow(), Some(code));
            }
            (account.address, (info, account.storage.iter().copied().collect()))
        });
        Self { accounts: accounts.collect(), ancestors: case.ancestors.clone(), clears_empty: true, delegates: false }
    }

    fn credit(&mut self, address: Address, amount: U256) {
        let absent = || AccountInfo { code: Some(Bytecode::default()), ..AccountInfo::default() };
        let (info, _) = self.accounts.entry(address).or_insert_with(|| (absent(), BTreeMap::new()));
        info.balance = info.balance.saturating_add(amount);
        if self.clears_empty && info.is_empty() {
            self.accounts.remove(&address);
        }
    }

    fn dump(&self) -> BTreeMap<Address, GenesisAccount> {
        let account = |(address, (info, slots)): (&Address, &(AccountInfo, BTreeMap<U256, U256>))| {
            let code = info.code.as_ref().filter(|code| !code.is_empty()).map(Bytecode::original_bytes);
            let storage = slots.iter().map(|(slot, value)| (*slot, *value)).collect();
            let (address, balance, nonce) = (*address, info.balance, info.nonce);
            (address, GenesisAccount { address, balance, nonce, code, storage })
        };
        self.accounts.iter().map(account).collect()
    }
}

/// A system call: EIP-4788 and 2935 give 30 million gas, and EIP-8037 more for 16 new slots.
pub(super) fn system_tx(spec: SpecId, to: Address, data: Bytes) -> TxEnv {
    let more = if spec.is_enabled_in(SpecId::AMSTERDAM) { 16 * 64 * 1_530 } else { 0 };
    TxEnv { gas_limit: 30_000_000 + more, ..TxEnv::new_system_tx(to, data) }
}

/// Result of a block: results, state and access list.
pub(crate) type Left = (Vec<ExecutionResult>, BTreeMap<Address, GenesisAccount>, Bytes);

/// A chain within a block.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    rules: ChainSpec,
    state: Plain,
    header: Header,
    results: Vec<ExecutionResult>,
    /// Gas that is left: of execution, and of state growth.
    left: [u64; 2],
    list: Reference,
}

/// Runs the blocks, up to the first invalid one, whose reason is in the engine's words.
pub(super) fn run(case: &Case) -> Vec<Result<Left, String>> {
    let mut oracle = Oracle::new(case);
    let mut all = Vec::new();
    for body in &case.blocks {
        let left = oracle.block(body);
        let ended = left.is_err();
        all.push(left);
        if ended {
            break;
        }
    }
    all
}

impl Oracle {
    /// Starts with the genesis of a case.
    pub(crate) fn new(case: &Case) -> Self {
        let (rules, state) = (case.rules.clone(), Plain::new(case));
        Self { rules, state, header: Header::default(), results: Vec::new(), left: [0; 2], list: Reference::default() }
    }

    /// Nonce and balance of an account.
    pub(crate) fn account(&self, address: &Address) -> (u64, U256) {
        self.state.accounts.get(address).map_or((0, U256::ZERO), |(info, _)| (info.nonce, info.balance))
    }

    /// Runs a block.
    ///
    /// # Errors
    /// The reason why the block is invalid.
    pub(crate) fn block(&mut self, body: &Body) -> Result<Left, String> {
        self.begin(&body.header);
        body.txs.iter().try_for_each(|tx| self.transact(tx))?;
        self.end(body)
    }

    fn evm(&mut self) -> MainnetEvm<MainnetContext<&mut Plain>> {
        let spec = self.rules.spec(&self.header);
        let mut env = self.rules.env(&self.header);
        if !spec.is_enabled_in(SpecId::LONDON) {
            env.basefee = 0;
        }
        let cfg = self.rules.cfg(spec, self.header.timestamp);
        Context::mainnet().with_db(&mut self.state).with_cfg(cfg).with_block(env).build_mainnet()
    }

    /// Makes a system call. Returns true if it succeeded.
    fn system_call(&mut self, to: Address, data: Bytes) -> bool {
        let mut evm = self.evm();
        evm.ctx.set_tx(system_tx(evm.ctx.cfg.spec, to, data));
        let result: Result<ExecutionResult, EVMError<Infallible>> = MainnetHandler::default().run_system_call(&mut evm);
        let result = result.expect("no database error");
        let changes = evm.finalize();
        self.list.access_all(&changes);
        if result.is_success() {
            self.state.commit(changes);
        }
        result.is_success()
    }

    /// True if every change is of an accessed key; before Cancun a destruction clears slots without an access.
    fn tells_all(&self) -> bool {
        self.rules.spec(&self.header).is_enabled_in(SpecId::CANCUN)
    }

    /// Makes the steps before the transactions.
    pub(crate) fn begin(&mut self, header: &Header) {
        let spec = self.rules.spec(header);
        self.header = header.clone();
        // The header names the parent of its block.
        if let Some(parent) = header.number.checked_sub(1) {
            self.state.ancestors.entry(parent).or_insert(header.parent_hash);
        }
        self.state.clears_empty = spec.is_enabled_in(SpecId::SPURIOUS_DRAGON);
        self.state.delegates = spec.is_enabled_in(SpecId::PRAGUE);
        (self.results, self.left) = (Vec::new(), [header.gas_limit; 2]);
        self.list = Reference::default();
        self.list.begin(0, &self.state.accounts);
        for step in self.rules.pre_steps(header, spec) {
            match step {
                PreStep::SystemCall { to, data } => _ = self.system_call(to, Bytes::from(data.0)),
                PreStep::Drain { accounts, refund } => {
                    for account in accounts {
                        let held = self.state.accounts.get_mut(account).map(|(info, _)| &mut info.balance);
                        let amount = held.map(core::mem::take).unwrap_or_default();
                        self.state.credit(refund, amount);
                        self.list.access(*account);
                        self.list.access(refund);
                    }
                }
            }
        }
        self.list.end(&self.state.accounts, self.tells_all());
    }

    /// Executes the next transaction.
    ///
    /// # Errors
    /// The reason why the transaction is invalid; nothing has changed then.
    pub(crate) fn transact(&mut self, tx: &TxEnv) -> Result<(), String> {
        let (index, gas_limit) = (self.results.len(), tx.gas_limit);
        let is_split = self.rules.spec(&self.header).is_enabled_in(SpecId::AMSTERDAM);
        let needed = if is_split { [gas_limit.min(1 << 24), gas_limit] } else { [gas_limit, 0] };
        if let Some((_, left)) = needed.iter().zip(self.left).find(|(needed, left)| *needed > left) {
            return Err(format!("GasLimit {{ index: {index}, gas_limit: {gas_limit}, left: {left} }}"));
        }
        let mut evm = self.evm();
        let result = evm.transact_one(tx.clone());
        let changes = evm.finalize();
        match result {
            Ok(result) => {
                let gas = result.gas();
                if is_split {
                    let state = gas.state_gas_spent_final();
                    let execution = (gas.total_gas_spent() - state).max(gas.floor_gas());
                    self.left = [self.left[0] - execution, self.left[1] - state];
                } else {
                    self.left[0] -= gas.tx_gas_used();
                }
                self.results.push(result);
                self.list.begin(self.results.len() as u64, &self.state.accounts);
                self.list.access_all(&changes);
                self.state.commit(changes);
                self.list.end(&self.state.accounts, self.tells_all());
                Ok(())
            }
            Err(EVMError::Transaction(reason)) => {
                Err(format!("InvalidTransaction {{ index: {index}, reason: {reason:?} }}"))
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Makes the steps after the transactions.
    ///
    /// # Errors
    /// The reason why the block is invalid.
    pub(crate) fn end(&mut self, body: &Body) -> Result<Left, String> {
        let spec = self.rules.spec(&self.header);
        self.list.begin(self.results.len() as u64 + 1, &self.state.accounts);
        for (address, amount) in self.rules.post_credits(&self.header, &body.ommers, body.withdrawals.as_deref()) {
            self.list.access(address);
            self.state.credit(address, amount);
        }
        for (_, address) in self.rules.request_calls(spec) {
            let address = *address;
            if self.state.accounts.get(&address).is_none_or(|(info, _)| info.is_empty_code_hash()) {
                return Err(format!("SystemContract {{ address: {address:?}, what: \"has no code\" }}"));
            }
            if !self.system_call(address, Bytes::new()) {
                return Err(format!("SystemContract {{ address: {address:?}, what: \"failed\" }}"));
            }
        }
        self.list.end(&self.state.accounts, self.tells_all());
        let (list, most) = (self.list.finish(), self.header.gas_limit / 2_000);
        let accounts = Vec::<AccountChanges>::decode(&mut &list[..]).expect("a list");
        let items: usize =
            accounts.iter().map(|account| 1 + account.storage_changes.len() + account.storage_reads.len()).sum();
        if spec.is_enabled_in(SpecId::AMSTERDAM) && items as u64 > most {
            return Err(format!("AccessList {{ index: None, what: TooLong {{ items: {items}, most: {most} }} }}"));
        }
        Ok((core::mem::take(&mut self.results), self.state.dump(), list))
    }
}
