//! Chains that Ethereum's tests name by a fork, or by a transition between two.

use super::schedule::{ByBlock, ByTime, ChainSpecError, Merge, Schedule, Upgrade};
use super::spec::{ChainSpec, DaoFork};
use alloy_eips::eip7840::BlobParams;
use alloy_primitives::U256;

/// A step on the ladder of forks.
#[derive(Clone, Copy)]
enum Step {
    /// First block of any chain.
    Genesis,
    Block(Upgrade),
    Merge,
    Time(Upgrade, Option<BlobParams>),
}

/// Blob parameters of no real chain, for tests of blob parameter forks.
const fn made_up(target_blob_count: u64, max_blob_count: u64, update_fraction: u128) -> BlobParams {
    BlobParams { target_blob_count, max_blob_count, update_fraction, ..BlobParams::osaka() }
}

/// Forks with the names that tests use, in order: a name means all steps up to its own.
const LADDER: [(&[&str], Step); 22] = [
    (&["Frontier"], Step::Genesis),
    (&["Homestead"], Step::Block(Upgrade::Homestead)),
    (&["EIP150", "TangerineWhistle"], Step::Block(Upgrade::Tangerine)),
    (&["EIP158", "SpuriousDragon"], Step::Block(Upgrade::SpuriousDragon)),
    (&["Byzantium"], Step::Block(Upgrade::Byzantium)),
    (&["ConstantinopleFix", "Petersburg"], Step::Block(Upgrade::Petersburg)),
    (&["Istanbul"], Step::Block(Upgrade::Istanbul)),
    (&["MuirGlacier"], Step::Block(Upgrade::MuirGlacier)),
    (&["Berlin"], Step::Block(Upgrade::Berlin)),
    (&["London"], Step::Block(Upgrade::London)),
    (&["ArrowGlacier"], Step::Block(Upgrade::ArrowGlacier)),
    (&["GrayGlacier"], Step::Block(Upgrade::GrayGlacier)),
    (&["Paris", "Merge"], Step::Merge),
    (&["Shanghai"], Step::Time(Upgrade::Shanghai, None)),
    (&["Cancun"], Step::Time(Upgrade::Cancun, Some(BlobParams::cancun()))),
    (&["Prague"], Step::Time(Upgrade::Prague, Some(BlobParams::prague()))),
    (&["Osaka"], Step::Time(Upgrade::Osaka, Some(BlobParams::osaka()))),
    (&["BPO1"], Step::Time(Upgrade::Bpo1, Some(BlobParams::bpo1()))),
    (&["BPO2"], Step::Time(Upgrade::Bpo2, Some(BlobParams::bpo2()))),
    (&["BPO3"], Step::Time(Upgrade::Bpo3, Some(made_up(21, 32, 20_609_697)))),
    (&["BPO4"], Step::Time(Upgrade::Bpo4, Some(made_up(14, 21, 13_739_630)))),
    (&["Amsterdam"], Step::Time(Upgrade::Amsterdam, Some(BlobParams::bpo2()))),
];

/// Names of rules that the engine does not implement.
const UNSUPPORTED: [(&str, &str); 1] = [("Constantinople", "Constantinople before its fix (EIP-1283)")];

/// Start of a transition's last step.
#[derive(Clone, Copy)]
enum At {
    Block(u64),
    Difficulty(U256),
    Time(u64),
}

pub(super) fn chain_spec(name: &str) -> Result<ChainSpec, ChainSpecError> {
    let unknown = || ChainSpecError::UnknownFork { name: name.into() };
    let Some((from, rest)) = name.split_once("To") else {
        return climb(rung(name)?, None);
    };
    let (to, at) = rest.rsplit_once("At").ok_or_else(unknown)?;
    let at = parse_at(at).ok_or_else(unknown)?;
    let from = rung(from)?;
    if let ("Dao", At::Block(block)) = (to, at) {
        return Ok(ChainSpec { dao: Some(DaoFork { block, support: true }), ..climb(from, None)? });
    }
    let to = rung(to)?;
    let fits = match (LADDER[to].1, at) {
        (Step::Block(_), At::Block(_)) | (Step::Merge, At::Difficulty(_)) | (Step::Time(..), At::Time(_)) => from < to,
        _ => false,
    };
    if !fits {
        return Err(unknown());
    }
    climb(from, Some((to, at)))
}

fn rung(name: &str) -> Result<usize, ChainSpecError> {
    if let Some((_, what)) = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == name) {
        return Err(ChainSpecError::Unsupported { what });
    }
    let found = LADDER.iter().position(|(names, _)| names.contains(&name));
    found.ok_or_else(|| ChainSpecError::UnknownFork { name: name.into() })
}

/// Parses a start: `5`, `Time15k`, `DiffC0000`.
fn parse_at(at: &str) -> Option<At> {
    if let Some(time) = at.strip_prefix("Time") {
        let (digits, unit) = time.strip_suffix('k').map_or((time, 1), |thousands| (thousands, 1000));
        return digits.parse::<u64>().ok()?.checked_mul(unit).map(At::Time);
    }
    if let Some(difficulty) = at.strip_prefix("Diff") {
        return U256::from_str_radix(difficulty, 16).ok().map(At::Difficulty);
    }
    at.parse().ok().map(At::Block)
}

/// Applies all steps up to `from` at genesis, and the steps of a transition from its start.
fn climb(from: usize, transition: Option<(usize, At)>) -> Result<ChainSpec, ChainSpecError> {
    let (mut blocks, mut merge, mut times): (Vec<ByBlock>, _, Vec<ByTime>) = (Vec::new(), Merge::Never, Vec::new());
    let last = transition.map_or(from, |(to, _)| to);
    for (index, (_, step)) in LADDER.iter().enumerate().take(last + 1) {
        let at = transition.filter(|_| index > from).map(|(_, at)| at);
        match (*step, at) {
            (Step::Genesis, _) => {}
            (Step::Block(upgrade), Some(At::Block(block))) => blocks.push((upgrade, block)),
            // A transition of another kind starts from the newest rules before it.
            (Step::Block(upgrade), _) => blocks.push((upgrade, 0)),
            (Step::Merge, Some(At::Difficulty(total_difficulty))) => {
                merge = Merge::At { total_difficulty, block: None }
            }
            (Step::Merge, _) => merge = Merge::Genesis,
            (Step::Time(upgrade, params), Some(At::Time(time))) => times.push((upgrade, time, params)),
            (Step::Time(upgrade, params), _) => times.push((upgrade, 0, params)),
        }
    }
    Ok(ChainSpec::new(1, Schedule::new(&blocks, merge, &times)?))
}
