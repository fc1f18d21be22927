//! State tests: one transaction, its logs and the root of the state after it.

use super::{
    exceptions::unless_known,
    kind::{Case, Kind, Plan, Verdict},
    mpt::state_root,
};
use alloy_eips::eip7840::BlobParams;
use phalanx::{
    Error, Outcome,
    chain::{ChainSpec, Merge},
    revm::{
        context::{BlockEnv, TxEnv},
        context_interface::block::BlobExcessGasAndPrice,
        primitives::{B256, hardfork::SpecId, keccak256},
    },
};
use phalanx_lab::run::engines::{self, Setup};
use phalanx_workloads::fixtures::{StateTest, StateTestCase, StateTestEnv, Test, state_test_block_hash};

/// GeneralStateTests.
#[derive(Debug)]
pub(crate) struct StateTests;

impl Kind for StateTests {
    fn run(&self, name: &str, test: &Test, plan: &Plan<'_>, tell: &mut dyn FnMut(Case, Verdict)) -> bool {
        let Test::State(test) = test else { return false };
        for case in test.cases.iter().filter(|case| plan.wants(&case.fork)) {
            let (data, gas, value) = case.indexes;
            let place = Case { fork: Some(case.fork.clone()), indexes: Some([data, gas, value]), ..Case::default() };
            tell(place, unless_known(name, &test.pre, plan.judge(|| judge(test, case, plan.setup))));
        }
        true
    }
}

/// Result of a transaction.
struct After {
    outcome: Option<Outcome>,
    root: B256,
}

fn judge(test: &StateTest, case: &StateTestCase, setup: Setup) -> Verdict {
    let chain = match ChainSpec::named(&case.fork) {
        Ok(chain) => chain.with_chain_id(test.chain_id),
        Err(error) => return Verdict::Skipped(error.to_string()),
    };
    let tx = match (&case.tx, &case.expect_exception) {
        (Ok(tx), _) => tx,
        // The transaction cannot be encoded, so a node refuses it.
        (Err(_), Some(_)) => return Verdict::Passed,
        (Err(reason), None) => {
            return Verdict::Failed(format!("the transaction must run, and cannot be made: {reason}"));
        }
    };
    let After { outcome, root } = match execute(&chain, test, tx, setup) {
        Ok(after) => after,
        Err(Error::UnsupportedSpec { spec }) => return Verdict::Skipped(format!("rules of {spec:?}")),
        Err(error) => return Verdict::Failed(format!("internal: {error}")),
    };
    let failed = |text: String| Verdict::Failed(text);
    match (&outcome, &case.expect_exception) {
        (None, _) => return failed("internal: the block holds no outcome".into()),
        (Some(Outcome::Skipped(reason)), None) => {
            return failed(format!("the transaction must run, and is refused: {reason}"));
        }
        (Some(Outcome::Executed(_)), Some(exception)) => {
            return failed(format!("the transaction runs, and must be refused: {exception}"));
        }
        (Some(Outcome::Skipped(_)), Some(_)) => {
            let before = state_root(&test.pre);
            return if root == before {
                Verdict::Passed
            } else {
                failed("a refused transaction changed the state".into())
            };
        }
        (Some(Outcome::Executed(result)), None) => {
            let hash = logs_hash(result.logs());
            if hash != case.logs_hash {
                return failed(format!("the logs hash to {hash}, expected {}", case.logs_hash));
            }
        }
    }
    if root == case.post_root {
        Verdict::Passed
    } else {
        failed(format!("the state root is {root}, expected {}", case.post_root))
    }
}

fn execute(chain: &ChainSpec, test: &StateTest, tx: &TxEnv, setup: Setup) -> Result<After, Error> {
    let number = test.env.number.saturating_to();
    let timestamp = test.env.timestamp.saturating_to();
    let spec = chain.spec_at(number, timestamp, matches!(chain.merge(), Merge::Genesis));
    let env = block_env(&test.env, spec, chain.blob_params(timestamp));
    let mut engine = setup.plain(chain.cfg(spec, timestamp), &test.pre)?;
    engine.set_ancestors(engines::ancestors(number, state_test_block_hash));
    let executed = engines::execute_one(&mut engine, setup.executor, &env, tx)?;
    let outcome = executed.block().outcomes().first().cloned();
    engines::commit(&mut engine, executed)?;
    Ok(After { outcome, root: state_root(&engines::dump(&engine)?) })
}

/// Block environment of the transaction, by the rules of `spec`.
fn block_env(env: &StateTestEnv, spec: SpecId, blobs: Option<BlobParams>) -> BlockEnv {
    let from_parent = |params: BlobParams| {
        let (excess, used) = env.parent_blob_gas?;
        let base_fee = env.base_fee.unwrap_or_default();
        Some(params.next_block_excess_blob_gas_osaka(excess, used, base_fee))
    };
    let blobs = blobs.filter(|_| spec.is_enabled_in(SpecId::CANCUN));
    BlockEnv {
        number: env.number,
        beneficiary: env.coinbase,
        timestamp: env.timestamp,
        gas_limit: env.gas_limit,
        basefee: env.base_fee.filter(|_| spec.is_enabled_in(SpecId::LONDON)).unwrap_or_default(),
        difficulty: env.difficulty,
        prevrandao: spec.is_enabled_in(SpecId::MERGE).then(|| env.random.unwrap_or_default()),
        blob_excess_gas_and_price: blobs.map(|params| {
            let excess_blob_gas = env.excess_blob_gas.or_else(|| from_parent(params)).unwrap_or_default();
            BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice: params.calc_blob_fee(excess_blob_gas) }
        }),
        slot_num: env.slot,
    }
}

/// Keccak of the RLP of the logs.
fn logs_hash(logs: &[phalanx::revm::primitives::Log]) -> B256 {
    keccak256(alloy_rlp::encode(logs.to_vec()))
}
