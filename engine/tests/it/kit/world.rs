//! A state in plain maps as a foreign database, and a block on it by revm's own `State` with a bundle.

use super::{case::Body, oracle::system_tx};
use phalanx::{
    Ancestors, ForeignItem, GenesisAccount,
    chain::{ChainSpec, PreStep},
    revm::{
        Context, DatabaseCommit as _, DatabaseRef, ExecuteEvm as _, MainBuilder as _, MainContext as _,
        context::ContextSetters as _,
        context_interface::result::{EVMError, ExecutionResult},
        database::{BundleState, State, WrapDatabaseRef, states::bundle_state::BundleRetention},
        database_interface::{DBErrorMarker, DatabaseCommitExt as _, bal::EvmDatabaseError},
        handler::{Handler as _, MainnetContext, MainnetEvm, MainnetHandler},
        primitives::{Address, B256, Bytes, U256, hardfork::SpecId},
        state::{AccountInfo, Bytecode},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Mutex,
};

/// A state before a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    accounts: BTreeMap<Address, (AccountInfo, BTreeMap<U256, U256>)>,
    codes: BTreeMap<B256, Bytecode>,
    pub(crate) hashes: Ancestors,
}

impl World {
    /// A state of these accounts, whose code has the kind that `spec` gives it.
    pub(crate) fn new<'a>(
        accounts: impl IntoIterator<Item = &'a GenesisAccount>,
        hashes: &Ancestors,
        spec: SpecId,
    ) -> Self {
        let mut world = Self { hashes: hashes.clone(), ..Self::default() };
        for GenesisAccount { address, balance, nonce, code, storage } in accounts {
            let mut info = AccountInfo { balance: *balance, nonce: *nonce, code: None, ..AccountInfo::default() };
            if let Some(bytes) = code.clone().filter(|code| !code.is_empty()) {
                let code = match bytes[..] {
                    [0xef, 1, 0, ref target @ ..] if target.len() == 20 && spec.is_enabled_in(SpecId::PRAGUE) => {
                        Bytecode::new_eip7702(Address::from_slice(target))
                    }
                    _ => Bytecode::new_legacy(bytes),
                };
                info.code_hash = code.hash_slow();
                world.codes.insert(info.code_hash, code);
            }
            let slots = storage.iter().copied().filter(|(_, value)| !value.is_zero()).collect();
            world.accounts.insert(*address, (info, slots));
        }
        world
    }
}

/// A database over a world that notes its reads, and may fail some.
pub(crate) struct Asked<'w> {
    pub(crate) world: &'w World,
    pub(crate) reads: Mutex<Vec<ForeignItem>>,
    pub(crate) fails: Box<dyn Fn(ForeignItem) -> Fails + Sync + 'w>,
}

impl fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

/// Answer of [`Asked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fails {
    No,
    Error,
    Panic,
    /// Other code than was asked for.
    OtherCode,
}

/// Error of [`Asked`].
#[derive(Debug)]
pub(crate) struct Broken(ForeignItem);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no disk for {}", self.0)
    }
}

impl std::error::Error for Broken {}
impl DBErrorMarker for Broken {}

impl<'w> Asked<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        Self::failing(world, |_| Fails::No)
    }

    pub(crate) fn failing(world: &'w World, fails: impl Fn(ForeignItem) -> Fails + Sync + 'w) -> Self {
        Self { world, reads: Mutex::default(), fails: Box::new(fails) }
    }

    /// A database that knows these items and fails all others.
    pub(crate) fn knowing(world: &'w World, items: BTreeSet<ForeignItem>) -> Self {
        Self::failing(world, move |item| if items.contains(&item) { Fails::No } else { Fails::Error })
    }

    fn ask(&self, item: ForeignItem) -> Result<Fails, Broken> {
        self.reads.lock().expect("no panic").push(item);
        match (self.fails)(item) {
            Fails::Error => Err(Broken(item)),
            Fails::Panic => panic!("no memory for {item}"),
            fails => Ok(fails),
        }
    }
}

impl DatabaseRef for Asked<'_> {
    type Error = Broken;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, Broken> {
        self.ask(ForeignItem::Account(address))?;
        Ok(self.world.accounts.get(&address).map(|(info, _)| info.clone()))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, Broken> {
        match self.ask(ForeignItem::Code(hash))? {
            Fails::OtherCode => Ok(Bytecode::new_legacy(Bytes::from_static(&[0x5f, 0x5f, 0xfd]))),
            _ => Ok(self.world.codes[&hash].clone()),
        }
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, Broken> {
        self.ask(ForeignItem::Slot(address, slot))?;
        let slots = self.world.accounts.get(&address).map(|(_, slots)| slots);
        Ok(slots.and_then(|slots| slots.get(&slot)).copied().unwrap_or_default())
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Broken> {
        self.ask(ForeignItem::BlockHash(number))?;
        Ok(self.world.hashes.get(&number).copied().unwrap_or_default())
    }
}

type Stock<'s, 'w> = MainnetEvm<MainnetContext<&'s mut State<WrapDatabaseRef<&'w Asked<'w>>>>>;

/// revm's own sequential execution of a whole block.
struct Loop<'a, 'w> {
    rules: &'a ChainSpec,
    body: &'a Body,
    state: State<WrapDatabaseRef<&'w Asked<'w>>>,
}

impl<'w> Loop<'_, 'w> {
    fn evm(&mut self) -> Stock<'_, 'w> {
        let header = &self.body.header;
        let spec = self.rules.spec(header);
        let mut env = self.rules.env(header);
        if !spec.is_enabled_in(SpecId::LONDON) {
            env.basefee = 0;
        }
        let cfg = self.rules.cfg(spec, header.timestamp);
        Context::mainnet().with_db(&mut self.state).with_cfg(cfg).with_block(env).build_mainnet()
    }

    fn system_call(&mut self, to: Address, data: Bytes) {
        let mut evm = self.evm();
        evm.ctx.set_tx(system_tx(evm.ctx.cfg.spec, to, data));
        let result: Result<ExecutionResult, EVMError<EvmDatabaseError<Broken>>> =
            MainnetHandler::default().run_system_call(&mut evm);
        let (result, changes) = (result.expect("no error of the database"), evm.finalize());
        if result.is_success() {
            self.state.commit(changes);
        }
    }
}

/// Results and bundle of a valid block by stock revm.
pub(crate) fn stock(rules: &ChainSpec, database: &Asked<'_>, body: &Body) -> (Vec<ExecutionResult>, BundleState) {
    stock_verdict(rules, database, body).expect("a valid block")
}

/// Results and bundle of a block by stock revm, or the index of the first transaction that it refuses.
pub(super) fn stock_verdict(
    rules: &ChainSpec,
    database: &Asked<'_>,
    body: &Body,
) -> Result<(Vec<ExecutionResult>, BundleState), usize> {
    let state = State::builder().with_database_ref(database).with_bundle_update().build();
    let mut run = Loop { rules, body, state };
    let spec = rules.spec(&body.header);
    for step in rules.pre_steps(&body.header, spec) {
        match step {
            PreStep::SystemCall { to, data } => run.system_call(to, Bytes::from(data.0)),
            PreStep::Drain { accounts, refund } => {
                // revm's own `drain_balances` deletes what it empties, which the hard fork of the DAO does not yet.
                let mut sum = 0;
                for address in accounts {
                    let account = run.state.load_cache_account(*address).expect("no error of the database");
                    if account.account.is_none() {
                        continue;
                    }
                    let (amount, transition) = account.drain_balance();
                    sum += amount;
                    let transitions = run.state.transition_state.as_mut().expect("a bundle is wanted");
                    transitions.add_transition(*address, transition.map_storage(|_| None));
                }
                run.state.increment_balances([(refund, sum)]).expect("no error of the database");
            }
        }
    }
    let mut results = Vec::new();
    for (index, tx) in body.txs.iter().enumerate() {
        let mut evm = run.evm();
        let result = match evm.transact_one(tx.clone()) {
            Err(EVMError::Transaction(_)) => return Err(index),
            result => result.expect("no error of the database"),
        };
        let changes = evm.finalize();
        run.state.commit(changes);
        results.push(result);
    }
    for (address, amount) in rules.post_credits(&body.header, &body.ommers, body.withdrawals.as_deref()) {
        let amount = amount.try_into().expect("less than all money");
        run.state.increment_balances([(address, amount)]).expect("no error of the database");
    }
    for (_, address) in rules.request_calls(spec) {
        run.system_call(*address, Bytes::new());
    }
    run.state.merge_transitions(BundleRetention::Reverts);
    Ok((results, run.state.take_bundle()))
}
