//! Rules of a block's environment on the chains of these nodes, as far as the block and its parent show them.
//!
//! A producer of its own gives whole seconds and a `prevRandao` of parent and height; a consensus gives milliseconds and a
//! `prevRandao` that binds time and beneficiary as well. The policy, which a block's name binds, distinguishes the two. Order,
//! beneficiaries and times within these rules are the choice of the block's maker.

use crate::store::Head;
use phalanx::{
    BlockAttributes,
    alloy::primitives::{B256, Bytes, keccak256},
    api::{Candidate, ExecId, TxPolicy},
    chain::ChainSpec,
    revm::primitives::hardfork::SpecId,
};

/// Maximum time of a block ahead of this node's clock, in milliseconds.
const AHEAD_MS: u64 = 15_000;

/// Minimum gas of a transaction until Osaka, and from Amsterdam on (EIP-2780).
const TX_GAS: [u64; 2] = [21_000, 12_000];

/// Minimum gas limit of a block that differs from its parent's: execution-specs, `check_gas_limit`.
const LEAST_GAS: u64 = 5_000;

/// Part of the parent's gas limit that a block's must differ by less than, as a divisor: the same.
const GAS_PART: u64 = 1_024;

/// Gas limit of a producer's block, as close to the wanted one as its parent's allows.
pub(crate) fn gas_limit(parent: u64, wanted: u64) -> u64 {
    let step = (parent / GAS_PART).saturating_sub(1);
    wanted.max(LEAST_GAS.min(parent)).clamp(parent.saturating_sub(step), parent.saturating_add(step))
}

/// `prevRandao` of a block of a producer.
pub(crate) fn randao(parent: B256, height: u64) -> B256 {
    keccak256([parent.as_slice(), &height.to_be_bytes()].concat())
}

/// Checks a block by its parent: the rules of the engine's service, with a sentence for the one that is broken, and those of these
/// nodes. [`check_clock`] is the rest.
///
/// # Errors
/// The rule that the block breaks, for every node and at any time.
pub(crate) fn check(spec: &ChainSpec, candidate: &Candidate, parent: &Head) -> Result<(), String> {
    let (env, payload) = (candidate.env(), candidate.payload());
    spec.validate_env(env, &parent.header).map_err(|error| error.to_string())?;
    let (limit, usual) = (env.gas_limit, parent.header.gas_limit);
    // A consensus's blocks have the genesis's; a producer moves its own.
    if limit != usual && candidate.policy() == TxPolicy::SkipInvalid {
        return Err(format!("its gas limit is {limit}, and its parent's is {usual}"));
    }
    let is_amsterdam = spec.spec_at(env.height, env.timestamp_ms / 1000, true).is_enabled_in(SpecId::AMSTERDAM);
    let (count, most) = (payload.txs().len() as u64, limit / TX_GAS[usize::from(is_amsterdam)]);
    // What a consensus has ordered in vain is skipped, and takes no gas.
    if count > most && candidate.policy() == TxPolicy::Strict {
        return Err(format!("it has {count} transactions, and gas for {most}"));
    }
    let is_free = spec.parameters().development && candidate.policy() == TxPolicy::Strict;
    let is_of_edits = is_free && holds_edits_alone(payload.attributes());
    if !is_of_edits && !payload.attributes().is_empty() {
        return Err("it has withdrawals or a beacon root, and no node of this chain gives a block any".into());
    }
    let time = env.timestamp_ms;
    let (least, randao) = match candidate.policy() {
        // A block of edits has its parent's second.
        TxPolicy::Strict if is_of_edits => {
            (parent.header.timestamp.saturating_mul(1000), randao(parent.exec, env.height))
        }
        TxPolicy::Strict => (next_ms(parent), randao(parent.exec, env.height)),
        TxPolicy::SkipInvalid => {
            (parent.timestamp_ms, ExecId(parent.exec).randomness(env.height, time, env.beneficiary))
        }
    };
    if time < least || candidate.policy() == TxPolicy::Strict && !time.is_multiple_of(1000) {
        return Err(format!("its time is {time} ms, and its parent's is {} ms", parent.timestamp_ms));
    }
    if env.prevrandao != randao && !is_free {
        return Err(format!("its prevRandao is {}, and {randao} follows from its parent", env.prevrandao));
    }
    Ok(())
}

/// True for the attributes of a block of edits.
fn holds_edits_alone(attributes: &Bytes) -> bool {
    let edits = BlockAttributes::decode(attributes).and_then(|attributes| attributes.edits);
    edits.is_some_and(|edits| BlockAttributes { edits: Some(edits), ..Default::default() }.encode() == *attributes)
}

/// Checks a block's time by this node's clock, `now_ms`.
///
/// # Errors
/// The block is too far ahead. Clocks differ and are set anew: the same block passes later.
pub(crate) fn check_clock(candidate: &Candidate, parent: &Head, now_ms: u64) -> Result<(), String> {
    let time = candidate.env().timestamp_ms;
    // A producer gives a block at least a second more than its parent, so a busy chain's times run ahead of clocks.
    if time > now_ms.saturating_add(AHEAD_MS).max(next_ms(parent)) {
        return Err(format!(
            "the time of block {}, {time} ms, is more than {AHEAD_MS} ms ahead of this node's clock: compare both nodes' clocks",
            candidate.env().height
        ));
    }
    Ok(())
}

/// The first whole second behind a block, in milliseconds.
const fn next_ms(parent: &Head) -> u64 {
    parent.header.timestamp.saturating_add(1).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::{
        Edit, Edited,
        alloy::{consensus::Header, primitives::Address},
        api::{BlockEnv, Payload},
        chain::Parameters,
    };

    const NOW: u64 = 50_000;

    type Change = fn(&mut BlockEnv);

    fn parent() -> Head {
        Head {
            hash: B256::repeat_byte(4),
            exec: B256::repeat_byte(5),
            // The base fee of its child is 7.
            header: Header {
                number: 6,
                timestamp: 40,
                gas_limit: 50_000,
                base_fee_per_gas: Some(8),
                ..Header::default()
            },
            timestamp_ms: 40_500,
            attributes: Bytes::new(),
            access_list: Bytes::new(),
            skipped: Vec::new(),
        }
    }

    fn candidate(policy: TxPolicy, change: Change, txs: usize, attributes: &'static [u8]) -> Candidate {
        let parent = parent();
        let mut env = BlockEnv {
            height: 7,
            timestamp_ms: 41_000,
            beneficiary: Address::repeat_byte(1),
            gas_limit: 50_000,
            base_fee: 7,
            prevrandao: B256::ZERO,
        };
        change(&mut env);
        if env.prevrandao.is_zero() {
            env.prevrandao = match policy {
                TxPolicy::Strict => randao(parent.exec, 7),
                TxPolicy::SkipInvalid => ExecId(parent.exec).randomness(7, env.timestamp_ms, env.beneficiary),
            };
        }
        let payload = Payload::with_attributes(vec![Bytes::new(); txs], Bytes::from_static(attributes));
        Candidate::new(1, ExecId(parent.exec), env, policy, payload.into())
    }

    fn judge(policy: TxPolicy, change: Change, txs: usize, attributes: &'static [u8]) -> Result<(), String> {
        let spec = ChainSpec::named("Prague").expect("a fork");
        check(&spec, &candidate(policy, change, txs, attributes), &parent())
    }

    #[test]
    fn a_block_ahead_of_the_clock_breaks_no_rule_and_passes_once_the_clock_is_there() {
        let ahead: Change = |env| env.timestamp_ms = NOW + AHEAD_MS + 1000;
        for policy in [TxPolicy::Strict, TxPolicy::SkipInvalid] {
            assert_eq!(judge(policy, ahead, 0, b""), Ok(()));
            let block = candidate(policy, ahead, 0, b"");
            let why = check_clock(&block, &parent(), NOW).expect_err("ahead");
            assert!(why.contains("block 7") && why.contains("ahead of this node's clock"), "{why}");
            assert!(check_clock(&block, &parent(), NOW + 999).is_err());
            assert_eq!(check_clock(&block, &parent(), NOW + 1000), Ok(()));
            // The first second behind the parent is never too late, whatever the clock says.
            assert_eq!(check_clock(&candidate(policy, |_| (), 0, b""), &parent(), 0), Ok(()));
        }
    }

    #[test]
    fn blocks_of_edits_are_those_of_a_chain_for_development() {
        let spec = ChainSpec::named("Prague").expect("a fork");
        let free = spec.clone().with_parameters(Parameters { development: true, ..Parameters::default() });
        let edit = Edit { account: Address::ZERO, value: Edited::Nonce(1) };
        let edits = BlockAttributes { edits: Some(vec![edit]), ..BlockAttributes::default() };
        let block = |policy, time, attributes: &BlockAttributes| {
            let of = candidate(policy, |_| (), 0, b"");
            let env = BlockEnv { timestamp_ms: time, base_fee: 9, gas_limit: 90_000, ..*of.env() };
            Candidate::new(
                1,
                of.parent(),
                env,
                policy,
                Payload::with_attributes(Vec::new(), attributes.encode()).into(),
            )
        };
        let (strict, time) = (TxPolicy::Strict, 40_000);
        assert_eq!(check(&free, &block(strict, time, &edits), &parent()), Ok(()), "in its parent's time");
        let none = BlockAttributes::default();
        assert!(check(&free, &block(strict, time, &none), &parent()).is_err(), "without edits it is after its parent");
        assert_eq!(check(&free, &block(strict, 41_000, &none), &parent()), Ok(()), "with any fee and limit");
        let more = BlockAttributes { parent_beacon_block_root: B256::repeat_byte(1), ..edits.clone() };
        assert!(check(&free, &block(strict, time, &more), &parent()).is_err());
        for other in [block(strict, time, &edits), block(TxPolicy::SkipInvalid, 41_000, &edits)] {
            assert!(check(&spec, &other, &parent()).is_err());
        }
    }

    #[test]
    fn gas_limits_move_towards_the_wanted_one() {
        let (mut limit, mut blocks) = (30_000_000, 0);
        while limit != 60_000_000 {
            let next = gas_limit(limit, 60_000_000);
            assert!(next > limit && next - limit < limit / GAS_PART, "{limit}, {next}");
            (limit, blocks) = (next, blocks + 1);
        }
        assert!((700..720).contains(&blocks), "{blocks}: ln 2 of 1024");
        assert_eq!(gas_limit(limit, limit), limit);
        assert_eq!(gas_limit(6_000, 1), 5_996);
        assert_eq!(gas_limit(5_001, 1), 5_000, "not below the least");
        assert_eq!([gas_limit(5_000, 1), gas_limit(100, 1), gas_limit(100, 900)], [5_000, 100, 100]);
        assert_eq!(gas_limit(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn every_rule_is_checked_and_nothing_sound_is_refused() {
        let both = [TxPolicy::Strict, TxPolicy::SkipInvalid];
        let sound: [Change; 3] =
            [|_| (), |env| env.beneficiary = Address::ZERO, |env| env.timestamp_ms = NOW + AHEAD_MS];
        for (policy, change) in both.into_iter().flat_map(|policy| sound.map(|change| (policy, change))) {
            assert_eq!(judge(policy, change, 2, b""), Ok(()));
        }
        assert_eq!(judge(TxPolicy::SkipInvalid, |env| env.timestamp_ms = 40_500, 0, b""), Ok(()));
        for change in [|env: &mut BlockEnv| env.gas_limit = 50_047, |env: &mut BlockEnv| env.gas_limit = 49_953] {
            assert_eq!(judge(TxPolicy::Strict, change, 2, b""), Ok(()));
            assert!(judge(TxPolicy::SkipInvalid, change, 2, b"").expect_err("a limit").contains("gas limit"));
        }
        let broken: [(&str, Change); 6] = [
            ("base fee", |env| env.base_fee = 8),
            ("gas limit", |env| env.gas_limit = 50_048),
            ("gas limit", |env| env.gas_limit = 49_952),
            ("its time", |env| env.timestamp_ms = 40_499),
            ("prevRandao", |env| env.prevrandao = B256::repeat_byte(1)),
            ("the timestamp", |env| env.timestamp_ms = 0),
        ];
        for (policy, (what, change)) in both.into_iter().flat_map(|policy| broken.map(|broken| (policy, broken))) {
            let why = judge(policy, change, 0, b"").expect_err(what);
            assert!(why.contains(what), "{what}: {why}");
        }
        for change in [|env: &mut BlockEnv| env.timestamp_ms = 40_500, |env: &mut BlockEnv| env.timestamp_ms = 41_001] {
            assert!(judge(TxPolicy::Strict, change, 0, b"").expect_err("a time").contains("its time"));
        }
        // The rule of the one maker is not that of the other.
        for policy in both {
            let other: Change = match policy {
                TxPolicy::SkipInvalid => |env| env.prevrandao = randao(parent().exec, 7),
                TxPolicy::Strict => |env| {
                    env.prevrandao = ExecId(parent().exec).randomness(7, env.timestamp_ms, env.beneficiary);
                },
            };
            assert!(judge(policy, other, 0, b"").expect_err("a randao").contains("prevRandao"));
            let many = judge(policy, |_| (), 3, b"");
            match policy {
                TxPolicy::Strict => assert!(many.expect_err("too many").contains("gas for 2")),
                TxPolicy::SkipInvalid => assert_eq!(many, Ok(()), "what has no gas is skipped"),
            }
            assert!(judge(policy, |_| (), 0, b"\x01").expect_err("attributes").contains("beacon root"));
        }
    }
}
