//! Rules of one chain in one value, and the EVM's configuration that follows from them.

use super::schedule::{ChainSpecError, Merge, Schedule, Upgrade};
use crate::{
    chain::{blobs, fees, genesis, mainnet, named},
    model::RootKind,
};
use alloy_consensus::Header;
use alloy_eips::{eip1559::BaseFeeParams, eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS, eip7840::BlobParams};
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, U256, keccak256};
use core::num::NonZeroU64;
use revm::{
    context::{BlockEnv, CfgEnv},
    context_interface::{block::BlobExcessGasAndPrice, cfg::GasParams},
    primitives::hardfork::SpecId,
};

/// DAO fork of a chain (EIP-779).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaoFork {
    /// First block of the fork.
    pub block: u64,
    /// True if the chain follows the fork: it drains the accounts and requires the extra data. Else it refuses that
    /// data.
    pub support: bool,
}

/// Points at which the rules of a chain change, each once, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkPoints {
    /// Heights of upgrades by block.
    pub blocks: Vec<u64>,
    /// Seconds since 1970 of upgrades by time.
    pub times: Vec<u64>,
}

/// Numbers that chains choose and no fork of Ethereum has changed so far. [`Default`] is Ethereum's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Divisor of the parent's gas limit: a block's limit differs from it by less than the quotient.
    pub gas_limit_divisor: NonZeroU64,
    /// Minimum gas limit.
    pub min_gas_limit: u64,
    /// Elasticity and maximum change of the base fee (EIP-1559).
    pub base_fee: BaseFeeParams,
    /// Base fee of the first London block, in wei per gas.
    pub initial_base_fee: u64,
    /// Minimum difficulty of proof of work.
    pub min_difficulty: U256,
    /// Static block reward in wei by the spec from which it is paid, ascending. Nothing is paid from the merge on.
    pub rewards: Vec<(SpecId, U256)>,
    /// True if transactions without a chain id are valid, which can be sent to every chain (EIP-155). Ethereum permits
    /// them.
    pub unprotected_txs: bool,
    /// True for a chain for development: its producer chooses gas limit and base fee of every block, blocks may hold
    /// [`Edit`](crate::Edit)s, and a signature with an `r` of zero is that of the address in `s`. Everybody can spend what is there.
    pub development: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        const ETHER: u64 = 1_000_000_000_000_000_000;
        Self {
            gas_limit_divisor: const { NonZeroU64::new(1024).expect("not zero") },
            min_gas_limit: 5000,
            base_fee: BaseFeeParams::ethereum(),
            initial_base_fee: alloy_eips::eip1559::INITIAL_BASE_FEE,
            min_difficulty: U256::from(131_072),
            rewards: [(SpecId::FRONTIER, 5), (SpecId::BYZANTIUM, 3), (SpecId::PETERSBURG, 2)]
                .map(|(spec, ether)| (spec, U256::from(ether) * U256::from(ETHER)))
                .to_vec(),
            unprotected_txs: true,
            development: false,
        }
    }
}

/// Rules of one chain, from its first block to Amsterdam.
///
/// A value: it is cloned and compared, and holds no state of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    pub(super) chain_id: u64,
    pub(super) schedule: Schedule,
    pub(super) dao: Option<DaoFork>,
    pub(super) deposit_contract: Address,
    pub(super) parameters: Parameters,
    pub(super) root: RootKind,
    /// Configuration of revm, of which the chain sets spec, chain id and blob parameters.
    pub(super) base: CfgEnv,
}

impl ChainSpec {
    pub(super) fn new(chain_id: u64, schedule: Schedule) -> Self {
        Self {
            chain_id,
            schedule,
            dao: None,
            deposit_contract: MAINNET_DEPOSIT_CONTRACT_ADDRESS,
            parameters: Parameters::default(),
            root: RootKind::default(),
            base: CfgEnv::new_with_spec(SpecId::OSAKA).with_chain_id(chain_id),
        }
    }

    /// Ethereum mainnet, up to its second blob parameter fork.
    pub fn mainnet() -> Self {
        let dao = Some(DaoFork { block: mainnet::DAO_BLOCK, support: true });
        Self { dao, ..Self::new(1, mainnet::schedule()) }
    }

    /// Reads a chain from geth's `genesis.json`. Missing blob parameters are mainnet's.
    ///
    /// # Errors
    /// [`ChainSpecError`] if forks are out of order or missing, or rules are required that the engine does not
    /// implement: seals other than proof of work and of stake, EIP-155 and EIP-158 at different blocks,
    /// Constantinople without Petersburg, forks after Amsterdam.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, ChainSpecError> {
        genesis::chain_spec(&genesis.config)
    }

    /// The chain that Ethereum's tests mean by the name of a fork (`London`), or of a transition
    /// (`BerlinToLondonAt5`, `CancunToPragueAtTime15k`, `ArrowGlacierToParisAtDiffC0000`). The chain id is 1.
    ///
    /// # Errors
    /// [`ChainSpecError::UnknownFork`]; [`ChainSpecError::Unsupported`] for Constantinople before its fix, whose
    /// EIP-1283 was never in force on mainnet.
    pub fn named(name: &str) -> Result<Self, ChainSpecError> {
        named::chain_spec(name)
    }

    /// Sets the chain id.
    #[must_use]
    pub const fn with_chain_id(mut self, chain_id: u64) -> Self {
        self.chain_id = chain_id;
        self.base.chain_id = chain_id;
        self
    }

    /// Sets revm's configuration, for limits of the chain's own: code, initcode, gas of a transaction. Spec, chain id
    /// and blob parameters stay the chain's.
    ///
    /// # Errors
    /// [`ChainSpecError::Contradiction`] if the chain id is not the chain's, or blob parameters or gas table are neither the chain's nor the default.
    pub fn with_cfg(mut self, cfg: CfgEnv) -> Result<Self, ChainSpecError> {
        let contradicts = |what| Err(ChainSpecError::Contradiction { what });
        if cfg.chain_id != self.chain_id {
            return contradicts("the chain id");
        }
        let known = |given: Option<u64>, of: fn(&BlobParams) -> u64| {
            given.is_none_or(|given| self.schedule.all_blobs().any(|params| of(&params) == given))
        };
        let fraction = |params: &BlobParams| u64::try_from(params.update_fraction).unwrap_or(u64::MAX);
        if !known(cfg.max_blobs_per_tx, |params| params.max_blobs_per_tx)
            || !known(cfg.blob_base_fee_update_fraction, fraction)
        {
            return contradicts("the blob parameters");
        }
        if cfg.gas_params != GasParams::new_spec(cfg.spec) {
            return contradicts("the gas table");
        }
        self.base = cfg;
        Ok(self)
    }

    /// Sets the [`Parameters`].
    #[must_use]
    pub fn with_parameters(mut self, parameters: Parameters) -> Self {
        self.parameters = parameters;
        self
    }

    /// Sets the kind of the root that the chain's blocks report. Default: that of the twigs.
    #[must_use]
    pub const fn with_root(mut self, root: RootKind) -> Self {
        self.root = root;
        self
    }

    /// Sets the blob parameters of a fork, named as in [`Self::named`] without regard to case. Only target, maximum,
    /// update fraction and minimum fee count; the fork determines the rest. A fork that is not scheduled stays so.
    ///
    /// # Errors
    /// [`ChainSpecError::UnknownFork`] if no fork of that name brings blob parameters, [`ChainSpecError::Blobs`] if the
    /// parameters cannot be computed with.
    pub fn with_blob_params(mut self, fork: &str, params: BlobParams) -> Result<Self, ChainSpecError> {
        let upgrade = [
            Upgrade::Cancun,
            Upgrade::Prague,
            Upgrade::Osaka,
            Upgrade::Bpo1,
            Upgrade::Bpo2,
            Upgrade::Bpo3,
            Upgrade::Bpo4,
            Upgrade::Bpo5,
            Upgrade::Amsterdam,
        ]
        .into_iter()
        .find(|upgrade| upgrade.name().eq_ignore_ascii_case(fork));
        let upgrade = upgrade.ok_or_else(|| ChainSpecError::UnknownFork { name: fork.into() })?;
        self.schedule.set_blobs(upgrade, params)?;
        Ok(self)
    }

    /// Chain id (EIP-155).
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Start of proof of stake.
    pub const fn merge(&self) -> Merge {
        self.schedule.merge
    }

    /// DAO fork, if the chain follows or refuses it.
    pub const fn dao(&self) -> Option<DaoFork> {
        self.dao
    }

    /// Contract whose logs are deposits (EIP-6110).
    pub const fn deposit_contract(&self) -> Address {
        self.deposit_contract
    }

    /// Numbers that no fork changes.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Kind of the root that blocks report.
    pub const fn root(&self) -> RootKind {
        self.root
    }

    /// Returns true if a block is on proof of stake. Where the number of the first such block is not known, a
    /// difficulty of zero decides: [`Self::validate_header`] lets no other block have it.
    pub fn is_merged(&self, header: &Header) -> bool {
        match self.schedule.merge {
            Merge::Never => false,
            Merge::Genesis => true,
            Merge::At { block: Some(block), .. } => header.number >= block,
            Merge::At { block: None, .. } => header.difficulty.is_zero(),
        }
    }

    /// Spec in force at a block. O(forks).
    pub fn spec(&self, header: &Header) -> SpecId {
        self.spec_at(header.number, header.timestamp, self.is_merged(header))
    }

    /// Spec in force at a number and a timestamp, on the given side of the merge. Forks before the merge go by
    /// number, later ones by time.
    pub fn spec_at(&self, number: u64, timestamp: u64, merged: bool) -> SpecId {
        self.schedule.spec(number, timestamp, merged)
    }

    /// Blob parameters in force at a time: `None` before Cancun.
    pub fn blob_params(&self, timestamp: u64) -> Option<BlobParams> {
        self.schedule.blobs(timestamp)
    }

    /// Returns true if all blocks have the base fee of the genesis: `phalanxFixedBaseFee` in its `config`. A consensus that orders blocks
    /// before their parents are executed needs it.
    pub fn has_fixed_base_fee(&self) -> bool {
        self.parameters.base_fee == fees::FIXED
    }

    /// Digest of the chain id, every fork and its parameters, and the kind of the root.
    pub(crate) fn digest(&self) -> B256 {
        let Self { chain_id, schedule, dao, deposit_contract, .. } = self;
        let mut bytes = chain_id.to_be_bytes().to_vec();
        bytes.extend_from_slice(deposit_contract.as_slice());
        match dao {
            Some(DaoFork { block, support }) => {
                bytes.push(1 + u8::from(*support));
                bytes.extend_from_slice(&block.to_be_bytes());
            }
            None => bytes.push(0),
        }
        schedule.write(&mut bytes);
        if self.parameters.development {
            bytes.extend_from_slice(b"development");
        }
        if self.root == RootKind::Ethereum {
            bytes.extend_from_slice(b"ethereum root");
        }
        if self.has_fixed_base_fee() {
            bytes.extend_from_slice(b"fixed base fee");
        }
        if let Some(limit) = self.base.limit_contract_code_size {
            bytes.extend_from_slice(b"code limit");
            bytes.extend_from_slice(&(limit as u64).to_be_bytes());
        }
        keccak256(bytes)
    }

    /// Compares the rules of a block and of all before it. Returns true if both chains have the same forks up to that number and
    /// time, with the same parameters, and differ at most in later ones. O(forks).
    pub fn agrees_until(&self, other: &Self, number: u64, timestamp: u64) -> bool {
        let Self { chain_id, schedule, dao, deposit_contract, parameters, root, base } = self;
        let dao_until = |dao: Option<DaoFork>| dao.filter(|dao| dao.block <= number);
        let rules = (chain_id, deposit_contract, parameters, root, base, dao_until(*dao));
        let Self { chain_id, deposit_contract, parameters, root, base, .. } = other;
        let others = (chain_id, deposit_contract, parameters, root, base, dao_until(other.dao));
        rules == others && schedule.agrees_until(&other.schedule, number, timestamp)
    }

    /// Blocks and times at which rules change.
    pub fn fork_points(&self) -> ForkPoints {
        let (mut blocks, times) = self.schedule.points();
        if let Some(DaoFork { block, .. }) = self.dao
            && let Err(place) = blocks.binary_search(&block)
        {
            blocks.insert(place, block);
        }
        ForkPoints { blocks, times }
    }

    /// Base fee of the child of a block with the given fields, in wei per gas (EIP-1559). `None` if the number does not fit a
    /// header.
    pub fn next_base_fee(&self, gas_used: u64, gas_limit: u64, base_fee: u64) -> Option<u64> {
        fees::next_base_fee(self.parameters.base_fee, gas_used, gas_limit, base_fee)
    }

    /// Excess blob gas of a block at a time, after a parent with the given fields. `None` if there are no blobs then, or
    /// the number does not fit a header.
    pub fn next_excess_blob_gas(&self, timestamp: u64, excess: u64, used: u64, base_fee: u64) -> Option<u64> {
        blobs::next_excess(&self.blob_params(timestamp)?, excess, used, base_fee)
    }

    /// Configuration of revm for a spec and the blob parameters of a time, on that of [`Self::with_cfg`]. revm derives
    /// limits that are not set there from the spec: on code, initcode and a transaction's gas (EIP-170, 3860, 7825).
    pub fn cfg(&self, spec: SpecId, timestamp: u64) -> CfgEnv {
        let mut cfg = self.base.clone().with_spec_and_mainnet_gas_params(spec);
        let blobs = self.blob_params(timestamp).filter(|_| spec.is_enabled_in(SpecId::CANCUN));
        cfg.max_blobs_per_tx = blobs.map(|params| params.max_blobs_per_tx);
        cfg.blob_base_fee_update_fraction = blobs.and_then(|params| params.update_fraction.try_into().ok());
        cfg
    }

    /// Spec in force in a block environment.
    pub fn spec_of(&self, env: &BlockEnv) -> SpecId {
        let number = u64::try_from(env.number).unwrap_or(u64::MAX);
        let merged = match self.schedule.merge {
            Merge::Never => false,
            Merge::Genesis => true,
            Merge::At { block: Some(block), .. } => number >= block,
            Merge::At { block: None, .. } => env.prevrandao.is_some() && env.difficulty.is_zero(),
        };
        self.spec_at(number, u64::try_from(env.timestamp).unwrap_or(u64::MAX), merged)
    }

    /// Block environment of transactions. From Cancun on it holds the price of blob gas if the header states the
    /// excess.
    pub fn env(&self, header: &Header) -> BlockEnv {
        let merged = self.is_merged(header);
        let cancun = self.spec(header).is_enabled_in(SpecId::CANCUN);
        let blobs = self.blob_params(header.timestamp).filter(|_| cancun).zip(header.excess_blob_gas);
        BlockEnv {
            number: U256::from(header.number),
            beneficiary: header.beneficiary,
            timestamp: U256::from(header.timestamp),
            gas_limit: header.gas_limit,
            basefee: header.base_fee_per_gas.unwrap_or_default(),
            difficulty: header.difficulty,
            prevrandao: merged.then_some(header.mix_hash),
            blob_excess_gas_and_price: blobs.map(|(params, excess_blob_gas)| BlobExcessGasAndPrice {
                excess_blob_gas,
                blob_gasprice: params.calc_blob_fee(excess_blob_gas),
            }),
            slot_num: header.slot_number.unwrap_or_default(),
        }
    }
}
