//! Blocks on a foreign database: outcomes and bundle equal revm's own, on every executor.

use super::{
    case::{Body, Case, Verdict},
    world::{Asked, World, stock_verdict},
};
use phalanx::{
    AccessListFault, BlockError, Engine, Executor, GenesisAccount, Hints, Outcome, Traces, Tuning,
    access::AccessSets,
    chain::ChainSpec,
    paralyze::StateKey,
    revm::{
        database::{AccountRevert, AccountStatus, BundleAccount, BundleState},
        primitives::{Address, B256, hardfork::SpecId},
        state::AccountInfo,
    },
};
use std::collections::BTreeMap;

/// Engine without a state of its own.
pub(crate) fn stateless(rules: &ChainSpec, executor: Executor, threads: usize) -> Engine {
    let builder = Engine::builder().with_chain(rules.clone()).with_executor(executor).with_threads(threads);
    builder
        .with_force_parallel(true)
        .with_tuning(Tuning::new().with_traces(Traces::Checked))
        .build()
        .expect("an engine in memory")
}

/// Names the first differences of two bundles; `None` if they are equal.
///
/// An account that did not exist before, and was destroyed and made again within the block, has either status: nothing of the
/// foreign state is to be cleared. So has one that existed and was empty, which no state of a chain has where it is destroyed
/// (EIP-161).
pub(crate) fn difference(ours: &BundleState, revm: &BundleState) -> Option<String> {
    let is_made = |account: &BundleAccount| {
        account.original_info.as_ref().is_none_or(AccountInfo::is_empty)
            && matches!(account.status, AccountStatus::InMemoryChange | AccountStatus::DestroyedChanged)
    };
    let mut ours = ours.clone();
    for (address, account) in ours.state.iter_mut().filter(|(_, account)| is_made(account)) {
        let Some(theirs) = revm.state.get(address).filter(|theirs| is_made(theirs)) else { continue };
        account.status = theirs.status;
        for (reverts, theirs) in ours.reverts.iter_mut().zip(revm.reverts.iter()) {
            let of = |reverts: &[(Address, AccountRevert)]| reverts.iter().position(|(of, _)| of == address);
            if let Some((ours, theirs)) = of(reverts).zip(of(theirs).map(|place| &theirs[place].1)) {
                reverts[ours].1.wipe_storage = theirs.wipe_storage;
            }
        }
    }
    let ours = &ours;
    if ours == revm {
        return None;
    }
    let mut lines = Vec::new();
    let mut addresses: Vec<_> = ours.state.keys().chain(revm.state.keys()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    for address in addresses {
        let (a, b) = (ours.state.get(address), revm.state.get(address));
        if a != b {
            lines.push(format!("{address}: ours {a:?}\n  revm {b:?}"));
        }
    }
    if ours.contracts != revm.contracts {
        let hashes = |bundle: &BundleState| bundle.contracts.keys().copied().collect::<Vec<_>>();
        lines.push(format!("contracts: ours {:?}, revm {:?}", hashes(ours), hashes(revm)));
    }
    let reverts = |bundle: &BundleState| bundle.reverts.iter().flatten().cloned().collect::<BTreeMap<_, _>>();
    let (a, b) = (reverts(ours), reverts(revm));
    for (address, revert) in &a {
        if b.get(address) != Some(revert) {
            lines.push(format!("revert of {address}: ours {revert:?}\n  revm {:?}", b.get(address)));
        }
    }
    lines.push(format!("reverts {} and {}, sizes {} and {}", a.len(), b.len(), ours.state_size, revm.state_size));
    Some(lines.join("\n"))
}

impl Case {
    /// Compares the valid blocks on a foreign database with revm's own execution. `blocks` are the verdicts of the
    /// engine on its own state.
    pub(super) fn check_foreign(&self, blocks: &[Verdict], perfect: &[AccessSets<StateKey>]) -> Result<(), String> {
        let mut before: BTreeMap<Address, GenesisAccount> =
            self.genesis.iter().map(|account| (account.address, account.clone())).collect();
        let mut hashes = self.ancestors.clone();
        let engines = [(Executor::Sequential, 1), (Executor::Dag, 2), (Executor::BlockStm, 2)];
        let mut engines = engines.map(|(executor, threads)| (executor, stateless(&self.rules, executor, threads)));
        for (number, (body, verdict)) in self.blocks.iter().zip(blocks).enumerate() {
            let spec = self.rules.spec(&body.header);
            let (mut body, named) = (body.clone(), body.header.parent_hash);
            if let Some(parent) = body.header.number.checked_sub(1) {
                body.header.parent_hash = *hashes.entry(parent).or_insert(body.header.parent_hash);
            }
            // A contract that the protocol calls with another parent's hash may touch more slots, or fewer, and pay others.
            let is_renamed = body.header.parent_hash != named;
            let world = World::new(before.values(), &hashes, spec);
            let truth = verdict.is_ok().then(|| stock_verdict(&self.rules, &Asked::new(&world), &body));
            for (executor, engine) in &mut engines {
                let hints = match perfect.get(number).filter(|_| *executor == Executor::Dag) {
                    Some(sets) => Hints::Sets(sets),
                    None => Hints::None,
                };
                let ours = engine.execute_on(&Asked::new(&world), &body.payload(), hints);
                let what = match (ours, &truth, verdict) {
                    (Ok(ours), Some(Ok((results, bundle))), _) => {
                        let results: Vec<_> = results.iter().cloned().map(Outcome::Executed).collect();
                        let outcomes = (ours.block.outcomes() != results).then(|| "the outcomes differ".to_owned());
                        outcomes.or_else(|| difference(&ours.bundle, bundle))
                    }
                    (Err(BlockError::InvalidTransaction { index, .. }), Some(Err(refused)), _)
                        if is_renamed && index == *refused =>
                    {
                        None
                    }
                    (Err(ours), None, Err(verdict)) if format!("{ours:?}") == *verdict => None,
                    (Err(BlockError::AccessList { what: AccessListFault::TooLong { .. }, .. }), ..) if is_renamed => {
                        None
                    }
                    (Ok(_), None, Err(verdict)) if is_renamed && verdict.contains("TooLong") => None,
                    (Err(error), ..) => Some(error.to_string()),
                    (Ok(_), ..) => Some("the block is invalid".into()),
                };
                if let Some(what) = what {
                    return Err(format!("{executor:?} on a foreign state, block {number} by {spec:?}:\n{what}"));
                }
            }
            if let Ok(ended) = verdict {
                before = ended.state.clone();
            }
        }
        Ok(())
    }
}

/// A recorded block as a [`Body`] on a [`World`].
pub(crate) fn recorded(
    rules: &ChainSpec,
    block: &phalanx_workloads::fixtures::RealBlock,
    ommers: Vec<alloy_consensus::Header>,
) -> (Body, World) {
    let accounts: Vec<_> = block
        .prestate
        .iter()
        .map(|(address, account)| GenesisAccount {
            address: *address,
            balance: account.balance,
            nonce: account.nonce,
            code: (!account.code.is_empty()).then(|| account.code.clone()),
            storage: account.storage.iter().map(|(slot, value)| (*slot, *value)).collect(),
        })
        .collect();
    let mut header = block.header.clone();
    let mut hashes: BTreeMap<u64, B256> = block.block_hashes.clone();
    let parent = header.number - 1;
    // Where only inputs are recorded, the header names no parent.
    header.parent_hash = *hashes.entry(parent).or_insert(header.parent_hash);
    let spec: SpecId = rules.spec(&header);
    let world = World::new(&accounts, &hashes, spec);
    (Body { header, txs: block.txs.clone(), ommers, withdrawals: block.withdrawals.clone() }, world)
}
