//! Calls that are not part of the chain, on any state: `eth_call`, `eth_estimateGas`, `eth_createAccessList`, and tracers.
//!
//! They run on the EVM of the engine's blocks, with the chain's own precompiles, extra fee and forced transactions, over any
//! [`DatabaseRef`]: a [`StateSnapshot`](crate::StateSnapshot) of any height, or revm's `CacheDB` over one, which takes a
//! client's overrides.

mod access_list;
mod estimate;

pub use access_list::{ACCESS_LIST_ROUNDS, AccessListed};
pub use estimate::ESTIMATE_TOLERANCE;

use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use phalanx_paralyze::{ForcedTx, VmConfig, inspect_unsigned};
use revm::{
    DatabaseRef, ExecuteEvm as _,
    context::{BlockEnv, TxEnv},
    context_interface::{
        block::BlobExcessGasAndPrice,
        result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction},
    },
    database_interface::WrapDatabaseRef,
    handler::MainnetContext,
    inspector::{Inspector, NoOpInspector},
    primitives::Bytes,
    state::EvmState,
};

/// Reason why a simulation has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError<E> {
    /// No gas makes the call valid: the sender cannot pay for it, or the hard fork does not know its type.
    #[error("the call is invalid: {0}")]
    Invalid(InvalidTransaction),
    /// The state cannot be read.
    #[error("the state cannot be read: {0}")]
    State(E),
    /// The EVM failed for another reason.
    #[error("the EVM failed: {0}")]
    Evm(String),
    /// The call reverts, whatever gas it gets.
    #[error("the call reverts with {output}")]
    Reverted {
        /// Data that it reverts with.
        output: Bytes,
    },
    /// The call halts for another reason than gas.
    #[error("the call halts: {reason:?}")]
    Halted {
        /// Reason of revm.
        reason: HaltReason,
    },
    /// The gas that the call may use is not enough.
    #[error("the call needs more gas than the {allowance} that it may use")]
    GasAllowance {
        /// Least of the call's limit, the block's, the transaction's, and what the sender can pay for.
        allowance: u64,
    },
}

/// Result of a call, and the state that it would leave.
#[derive(Clone, Debug)]
pub struct Called {
    /// Result: success, revert or halt, with gas, output and logs.
    pub result: ExecutionResult,
    /// Accounts and slots that the call has loaded, with their changes.
    pub state: EvmState,
}

/// Calls on one state, under the rules of one block.
///
/// ```
/// use phalanx::revm::{context::{BlockEnv, TxEnv}, primitives::{Address, TxKind, U256}};
/// use phalanx::{Engine, GenesisAccount, SnapshotAt, simulate::Simulator};
///
/// let (alice, bob) = (Address::repeat_byte(1), Address::repeat_byte(2));
/// let mut engine = Engine::builder().build()?;
/// engine.genesis([GenesisAccount { address: alice, balance: U256::from(10), ..Default::default() }])?;
///
/// let header = phalanx::alloy::consensus::Header { number: 1, gas_limit: 30_000_000, ..Default::default() };
/// let (rules, env) = engine.rules_of(&header);
/// let simulator = Simulator::new(rules, env, engine.snapshot(SnapshotAt::Committed)?);
/// let pay = |value: u64| TxEnv {
///     caller: alice,
///     kind: TxKind::Call(bob),
///     value: U256::from(value),
///     ..Default::default()
/// };
/// assert!(simulator.call(&pay(3)).expect("a valid call").result.is_success());
/// assert_eq!(simulator.estimate_gas(&pay(3)).expect("it succeeds"), 21_000);
/// assert!(simulator.call(&pay(11)).is_err(), "Alice has ten");
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulator<D> {
    rules: VmConfig,
    env: BlockEnv,
    state: D,
}

/// Context that an inspector of a simulation sees.
pub type SimulatedContext<'s, D> = MainnetContext<WrapDatabaseRef<&'s D>>;

/// Error of a simulation on `D`.
type Failure<D> = SimulateError<<D as DatabaseRef>::Error>;

impl<D: DatabaseRef> Simulator<D> {
    /// Creates a simulator of calls on `state`, at their turn in a block with this environment. Rules and environment
    /// come from [`Engine::rules_of`](crate::Engine::rules_of), for the block itself or for one to come.
    pub const fn new(rules: VmConfig, env: BlockEnv, state: D) -> Self {
        Self { rules, env, state }
    }

    /// State of the calls.
    pub const fn state(&self) -> &D {
        &self.state
    }

    /// State of the calls, to change it between them.
    pub const fn state_mut(&mut self) -> &mut D {
        &mut self.state
    }

    /// Environment of the calls, to change it between them.
    pub const fn env_mut(&mut self) -> &mut BlockEnv {
        &mut self.env
    }

    /// State of the calls, when no more come.
    pub fn into_state(self) -> D {
        self.state
    }

    /// Runs a call like `eth_call`. It has no signature, so its nonce is ignored and contracts may be its sender.
    ///
    /// A call with a price pays for its gas like a transaction, and the chain's extra fee. A call without price is free, and
    /// BASEFEE is zero then, as in geth; likewise for blobs. A [`ForcedTx`] is free too, and mints. Neither the
    /// beneficiary nor other recipients are paid. Its gas limit is what it may use, at most that of the block; the limit per
    /// transaction of EIP-7825 does not count.
    ///
    /// # Errors
    /// The call is invalid, or the state cannot be read. A call that reverts or halts has a result.
    pub fn call(&self, tx: &TxEnv) -> Result<Called, Failure<D>> {
        Ok(self.inspect(tx, NoOpInspector)?.0)
    }

    /// Runs like [`Self::call`], watched by an inspector: a tracer of revm-inspectors, or one of the caller's.
    ///
    /// # Errors
    /// The errors of [`Self::call`].
    pub fn inspect<'s, I>(&'s self, tx: &TxEnv, inspector: I) -> Result<(Called, I), Failure<D>>
    where
        I: Inspector<SimulatedContext<'s, D>>,
    {
        let tx = TxEnv { gas_limit: tx.gas_limit.min(self.env.gas_limit), ..tx.clone() };
        let (called, inspector) = self.run(tx, inspector);
        Ok((called.map_err(failed)?, inspector))
    }

    /// Runs a call with exactly this gas limit.
    fn run<'s, I>(&'s self, mut tx: TxEnv, inspector: I) -> (Result<Called, EVMError<D::Error, InvalidTransaction>>, I)
    where
        I: Inspector<SimulatedContext<'s, D>>,
    {
        let mut env = self.env.clone();
        // What a chain makes itself sees the base fee all the same.
        if price(&tx) == 0 && !ForcedTx::is(&tx) {
            env.basefee = 0;
        }
        if let Some(blobs) = &mut env.blob_excess_gas_and_price
            && tx.max_fee_per_blob_gas == 0
            && !tx.blob_hashes.is_empty()
        {
            *blobs = BlobExcessGasAndPrice { blob_gasprice: 0, ..*blobs };
        }
        tx.chain_id = Some(self.rules.chain_id);
        let mut cfg = self.rules.cfg.clone();
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        let mut evm = self.rules.with_cfg(cfg).build(WrapDatabaseRef(&self.state)).with_inspector(inspector);
        evm.ctx.block = env;
        evm.ctx.tx = tx;
        let result = inspect_unsigned(self.rules.rules(), &mut evm);
        let called = result.map(|result| Called { result, state: evm.finalize() });
        (called, evm.inspector)
    }
}

/// Price that a transaction pays for gas at most.
const fn price(tx: &TxEnv) -> u128 {
    tx.gas_price
}

/// Price of all blobs of a transaction at most.
const fn blob_price(tx: &TxEnv) -> u128 {
    let gas = tx.blob_hashes.len() as u128 * DATA_GAS_PER_BLOB as u128;
    tx.max_fee_per_blob_gas.saturating_mul(gas)
}

fn failed<E: core::fmt::Display>(error: EVMError<E, InvalidTransaction>) -> SimulateError<E> {
    match error {
        EVMError::Transaction(reason) => SimulateError::Invalid(reason),
        EVMError::Database(error) => SimulateError::State(error),
        other => SimulateError::Evm(other.to_string()),
    }
}
