//! Blockchain tests: blocks are imported in order, and only valid ones enter the chain.

use super::{
    difference::first_difference,
    exceptions::unless_known,
    import::{Chain, Refusal, decode_genesis},
    kind::{Case, Kind, Plan, Verdict},
    mpt::state_root,
};
use alloy_eips::eip7840::BlobParams;
use phalanx::{
    TooWide,
    chain::{ChainSpec, ChainSpecError},
    revm::primitives::B256,
};
use phalanx_lab::run::engines::Setup;
use phalanx_workloads::fixtures::{BlockchainTest, PostState, Test};

/// BlockchainTests of ethereum/tests and of the execution spec tests.
#[derive(Debug)]
pub(crate) struct BlockchainTests;

impl Kind for BlockchainTests {
    fn run(&self, name: &str, test: &Test, plan: &Plan<'_>, tell: &mut dyn FnMut(Case, Verdict)) -> bool {
        let Test::Blockchain(test) = test else { return false };
        if plan.wants(&test.network) {
            let case = Case { fork: Some(test.network.clone()), ..Case::default() };
            tell(case, unless_known(name, &test.pre, plan.judge(|| judge(test, plan.setup))));
        }
        true
    }
}

fn judge(test: &BlockchainTest, setup: Setup) -> Verdict {
    let spec = match chain_spec(test) {
        Ok(spec) => spec,
        Err(error) => return Verdict::Skipped(error.to_string()),
    };
    match run(test, spec, setup) {
        Ok(()) => Verdict::Passed,
        Err(Ended::Unsupported(wide)) => Verdict::Skipped(wide.to_string()),
        Err(Ended::Failed(reason)) => Verdict::Failed(reason),
    }
}

/// Reason for which a test does not pass.
enum Ended {
    Failed(String),
    /// The engine refuses a valid block for a number in it.
    Unsupported(TooWide),
}

impl From<String> for Ended {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

fn chain_spec(test: &BlockchainTest) -> Result<ChainSpec, ChainSpecError> {
    let mut spec = ChainSpec::named(&test.network)?;
    if let Some(id) = test.chain_id {
        spec = spec.with_chain_id(id);
    }
    for (fork, limits) in &test.blob_schedule {
        let params = BlobParams {
            target_blob_count: limits.target,
            max_blob_count: limits.max,
            update_fraction: limits.update_fraction.into(),
            ..BlobParams::osaka()
        };
        spec = match spec.clone().with_blob_params(fork, params) {
            // The schedule may continue past the last known hard fork, which this network does not reach.
            Err(ChainSpecError::UnknownFork { .. }) => spec,
            other => other?,
        };
    }
    Ok(spec)
}

fn run(test: &BlockchainTest, spec: ChainSpec, setup: Setup) -> Result<(), Ended> {
    let genesis = decode_genesis(&test.genesis_rlp).map_err(|error| match error {
        Refusal::TooWide(wide) => Ended::Unsupported(wide),
        error => format!("malformed: genesisRLP: {error}").into(),
    })?;
    let hash = genesis.hash_slow();
    if let Some(stated) = test.genesis_hash.filter(|stated| *stated != hash) {
        return Err(format!("the genesis has hash {hash}, expected {stated}").into());
    }
    let root = state_root(&test.pre);
    if root != genesis.state_root {
        return Err(format!("the genesis has state root {root}, its header says {}", genesis.state_root).into());
    }
    let mut chain = Chain::new(spec, setup, genesis, test.pre.clone());
    for (index, block) in test.blocks.iter().enumerate() {
        match (chain.import(&block.rlp), &block.expect_exception) {
            (Err(error @ (Refusal::Internal(_) | Refusal::Evicted)), _) => {
                return Err(format!("block {index}: {error}").into());
            }
            (Ok(hash), None) => {
                if let Some(stated) = block.hash.filter(|stated| *stated != hash) {
                    return Err(format!("block {index}: its hash is {hash}, expected {stated}").into());
                }
            }
            (Err(Refusal::Invalid(_) | Refusal::TooWide(_)), Some(_)) => {}
            (Err(Refusal::TooWide(wide)), None) => return Err(Ended::Unsupported(wide)),
            (Ok(_), Some(exception)) => {
                return Err(format!("block {index}: it is accepted, and must be refused: {exception}").into());
            }
            (Err(rule), None) => {
                return Err(format!("block {index}: it is refused, and must be accepted: {rule}").into());
            }
        }
    }
    Ok(end(test, &chain)?)
}

/// Checks the best block and the state after it.
fn end(test: &BlockchainTest, chain: &Chain) -> Result<(), String> {
    let best = best(chain, test.last_hash).ok_or("internal: there is no best block")?;
    if best != test.last_hash {
        return Err(format!("the best block is {best}, expected {}", test.last_hash));
    }
    let state = &*chain.state(&best).ok_or("internal: the state after the best block was not kept")?;
    match &test.post {
        PostState::Unknown => Ok(()),
        PostState::Alloc(post) => {
            first_difference(state, post).map_or(Ok(()), |text| Err(format!("at the end: {text}")))
        }
        PostState::Root(expected) => {
            let root = state_root(state);
            if root == *expected {
                Ok(())
            } else {
                Err(format!("at the end: the state root is {root}, expected {expected}"))
            }
        }
    }
}

/// Tip by the fork choice that the tests assume; the engine has none.
///
/// The greatest total difficulty wins. Among equal ones, as on proof of stake, consensus would choose: the `favoured` tip if
/// it is among them, else the last imported block.
fn best(chain: &Chain, favoured: B256) -> Option<B256> {
    let tips = chain.best();
    [favoured, chain.last].into_iter().find(|hash| tips.contains(hash)).or_else(|| tips.first().copied())
}
