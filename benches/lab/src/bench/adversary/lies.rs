//! False hints, made from true ones.

use super::cases::{Lie, Size};
use alloy_consensus::Header;
use alloy_rlp::{Decodable as _, Encodable as _};
use anyhow::Context as _;
use phalanx::{
    Engine, Executor, GenesisAccount, Hints, RecoveredBlock,
    access::{Access, AccessSets},
    chain::ChainSpec,
    eip7928::{AccountChanges, BlockAccessIndex, CodeChange},
    paralyze::StateKey,
    revm::{
        context::TxEnv,
        primitives::{Address, B256, Bytes, U256, hardfork::SpecId, keccak256},
    },
};

/// Code of the request contracts, which never have a request: STOP.
const SILENT: Bytes = Bytes::from_static(&[0]);

/// Gas that a block has for each code that an access list may name.
const CODE_GAS: u64 = 12_500;

/// Rules of the chain whose blocks come with hints.
pub(super) fn rules() -> anyhow::Result<ChainSpec> {
    Ok(ChainSpec::named(SpecId::OSAKA.into())?)
}

/// Contracts that a block of that chain calls.
pub(super) fn protocol(rules: &ChainSpec) -> impl Iterator<Item = GenesisAccount> {
    let calls = rules.request_calls(SpecId::OSAKA).iter();
    calls.map(|(_, address)| GenesisAccount {
        address: *address,
        nonce: 1,
        code: Some(SILENT),
        ..GenesisAccount::default()
    })
}

/// Header of a block of the chain.
pub(super) fn header(number: u64, gas_limit: u64) -> Header {
    Header {
        number,
        timestamp: number * 12,
        beneficiary: Address::repeat_byte(0xbb),
        gas_limit,
        base_fee_per_gas: Some(1),
        excess_blob_gas: Some(0),
        blob_gas_used: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        ..Header::default()
    }
}

/// Data beside a block, as it is received.
#[derive(Debug)]
pub(super) enum Told {
    /// Access sets.
    Sets(AccessSets<StateKey>),
    /// Encoded exceptions.
    Exceptions(Vec<u8>),
    /// An access list and its hash.
    List(Vec<u8>, B256),
}

impl Told {
    pub(super) const fn hints(&self) -> Hints<'_> {
        match self {
            Self::Sets(sets) => Hints::Sets(sets),
            Self::Exceptions(bytes) => Hints::Exceptions(bytes.as_slice()),
            Self::List(rlp, hash) => Hints::AccessList { rlp: rlp.as_slice(), hash: *hash },
        }
    }
}

/// Makes the lies about each block of a list.
///
/// # Errors
/// If the engine fails, or a block is invalid without them.
pub(super) fn told(
    genesis: &[GenesisAccount],
    blocks: &[Vec<TxEnv>],
    lie: Lie,
    size: Size,
) -> anyhow::Result<Vec<Told>> {
    let mut engine = Engine::builder()
        .with_chain(rules()?)
        .with_executor(Executor::Sequential)
        .with_threads(1)
        .with_access_lists(true)
        .build()?;
    engine.genesis(genesis.iter().cloned())?;
    let mut all = Vec::new();
    for (number, txs) in (1..).zip(blocks) {
        let header = header(number, size.0);
        let payload = RecoveredBlock { header: &header, txs, ommers: &[], withdrawals: None };
        let executed = engine.execute_block(&payload, Hints::None)?;
        let list = executed.block().access_list().context("an engine that makes lists")?.rlp().clone();
        all.push(match lie {
            Lie::Sets => Told::Sets(false_sets(txs)),
            Lie::Exceptions => Told::Exceptions(flipped(engine.exceptions(&payload)?)),
            Lie::LastChange => listed(&false_last_change(&list)?),
            Lie::Codes => listed(&full_of_codes(&list, size)?),
        });
        let merkleized = engine.merkleize(executed)?;
        engine.commit(merkleized)?.write.wait()?;
    }
    Ok(all)
}

fn listed(list: &[AccountChanges]) -> Told {
    let mut rlp = Vec::new();
    list.to_vec().encode(&mut rlp);
    let hash = keccak256(&rlp);
    Told::List(rlp, hash)
}

/// Sets in which every transaction writes the same key, and none that it touches.
fn false_sets(txs: &[TxEnv]) -> AccessSets<StateKey> {
    let mut sets = AccessSets::new();
    let key = StateKey::Basic(Address::repeat_byte(0xcc));
    txs.iter().for_each(|_| sets.push([(key, Access::Write)]));
    sets
}

/// Flips a bit in every 16th byte.
fn flipped(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.iter_mut().skip(7).step_by(16).for_each(|byte| *byte ^= 1);
    bytes
}

/// Makes the value of the last change of a slot wrong.
fn false_last_change(list: &[u8]) -> anyhow::Result<Vec<AccountChanges>> {
    let mut list = Vec::<AccountChanges>::decode(&mut &*list)?;
    let slots = list.iter_mut().flat_map(|account| &mut account.storage_changes);
    let changes = slots.flat_map(|slot| &mut slot.changes);
    let last = changes.max_by_key(|change| change.block_access_index.get()).context("a change of a slot")?;
    last.new_value = last.new_value.wrapping_add(U256::ONE);
    Ok(list)
}

/// Adds codes, and makes the first step wrong.
fn full_of_codes(list: &[u8], size: Size) -> anyhow::Result<Vec<AccountChanges>> {
    let mut list = Vec::<AccountChanges>::decode(&mut &*list)?;
    let count = (size.0 / CODE_GAS).saturating_sub(8).max(1);
    list.extend((0..count).map(|number| {
        let mut changes = AccountChanges::new(Address::from_word((U256::from(number + 1) << 96_usize).into()));
        let step = BlockAccessIndex::new(u64::from(number != 0));
        changes.code_changes.push(CodeChange::new(step, number.to_be_bytes().to_vec().into()));
        changes
    }));
    list.sort_by_key(|account| account.address);
    Ok(list)
}
