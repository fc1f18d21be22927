//! Whole blocks of the workloads: transfers, tokens, pools and a mix of all kinds, at any contention. Every block
//! validates with every artefact. Seeds are those of [`crate::fuzz`].

use super::{NEVER, check, whole};
use crate::{
    fuzz::fuzz,
    kit::{Case, Hint, Way},
};
use phalanx::{Budget, Builder, CandidateTx, GenesisAccount, Hints, Reason, Target};
use phalanx_workloads::{Amm, Erc20, HotSide, Mix, Mixed, Native, Pools, TransferLoad, Workload};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// A load of the given kind.
fn load(rng: &mut ChaCha8Rng, kind: u64) -> Box<dyn Workload> {
    let load = TransferLoad {
        accounts: rng.random_range(20..120),
        txs: rng.random_range(60..160),
        alpha: [0.0, 0.3, 0.9][rng.random_range(0..3)],
        gamma: rng.random_range(1..8),
        hot: HotSide::Sender,
        seed: rng.random(),
        ..TransferLoad::default()
    };
    let pools = Pools { count: rng.random_range(1..9), hot_share: [0.0, 0.5, 1.0][rng.random_range(0..3)] };
    match kind % 4 {
        0 => Box::new(Native::new(load).expect("a load")),
        1 => Box::new(Erc20::new(load).expect("a load")),
        2 => Box::new(Amm::new(load, pools).expect("a load")),
        // Far more deployments and reverts than by default.
        _ => {
            let mut mix = Mix::default();
            (mix.create, mix.revert) = (rng.random_range(0..mix.native), rng.random_range(0..mix.native));
            Box::new(Mixed::new(load, pools, mix).expect("a load"))
        }
    }
}

/// The chain of a load.
fn chain(workload: &dyn Workload) -> Case {
    let account = |account: phalanx_workloads::GenesisAccount| {
        let phalanx_workloads::GenesisAccount { address, balance, nonce, code, storage } = account;
        GenesisAccount { address, balance, nonce, code, storage }
    };
    Case::new("Osaka").with(workload.genesis().accounts.into_iter().map(account))
}

#[test]
fn blocks_of_every_mix_validate_with_every_artefact() {
    fuzz(|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6d69_7865_7300);
        let workload = load(&mut rng, seed);
        let case = chain(&*workload);
        let threads = [1, 2, 4, 8][rng.random_range(0..4)];
        let mut engine = super::engine(&case, threads);
        let mut builder = Builder::new(&engine);
        let mut waiting: Vec<CandidateTx> = super::candidates(workload.transactions());
        let mut made = Vec::new();
        // Transactions without room in a block are offered to the next.
        let room = waiting.len().div_ceil(rng.random_range(2..4)) as u64;
        for number in 10.. {
            if waiting.is_empty() {
                break;
            }
            let Target::Whole(template) = whole(&case, number) else { unreachable!("a whole block") };
            let target = Target::Whole(template.clone());
            let budget = Budget { txs: room, ..Budget::default() };
            let ahead = rng.random_range(0..=waiting.len());
            builder.prepare(&engine, &target, waiting[..ahead].iter().cloned());
            let mut job = builder.open(&mut engine, target, budget, []).expect("a block");
            for part in waiting[ahead..].chunks(rng.random_range(10..200)) {
                job.extend(part.iter().cloned(), NEVER).expect("execution");
            }
            job.extend([], NEVER).expect("execution");
            let built = job.finish();
            assert!(built.failure.is_none() && !built.txs.is_empty(), "{:?}", built.failure);
            waiting = built.waiting.clone();
            for dropped in &built.dropped {
                let room = matches!(dropped.reason, Reason::Count | Reason::Gas { .. } | Reason::Behind { .. });
                assert!(room, "all transactions of this load are valid in their turn: {dropped:?}");
                waiting.push(dropped.candidate.clone());
            }
            waiting.sort_by_key(|candidate| candidate.rank);
            made.push(check::commit(&mut engine, &template, built));
        }
        let placed: usize = made.iter().map(|made| made.body.txs.len()).sum();
        assert_eq!(placed as u64, workload.load().txs);
        check::replays(&case, &made);
        made.len()
    });
}

/// A block is built as a fork, and another on top of it: both have their lists, which hold there and nowhere else.
#[test]
fn access_lists_hold_on_forks() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for kind in 0..4 {
        let workload = load(&mut rng, kind);
        let case = chain(&*workload);
        let offered = super::candidates(workload.transactions());
        let (first, second) = offered.split_at(offered.len() / 2);
        let mut engine = super::engine(&case, 4);
        let mut builder = Builder::new(&engine);
        let mut blocks = Vec::new();
        for (number, part) in (10..).zip([first, second]) {
            let Target::Whole(template) = whole(&case, number) else { unreachable!("a whole block") };
            let target = Target::Whole(template.clone());
            let mut job = builder.open(&mut engine, target, Budget::default(), []).expect("a block");
            job.extend(part.iter().cloned(), NEVER).expect("execution");
            let built = job.finish();
            assert_eq!(built.txs.len(), part.len());
            let body = check::body(&template, &built);
            let list = built.executed.block().access_list().expect("the engine produces lists").clone();
            let merkleized = engine.merkleize(built.executed).expect("a root");
            let root = merkleized.state_root();
            let (id, _) = engine.add_fork(merkleized, Vec::new()).expect("room for a fork");
            engine.checkout(id).expect("held");
            blocks.push((body, list, root));
        }
        assert_eq!(engine.state().height(), Some(2), "the engine stands on the second, and has committed neither");
        assert_ne!(engine.position(), engine.committed());

        for threads in [1, 2, 4, 8] {
            let mut engine = case.engine(&Way::dag(threads, Hint::None));
            let given =
                |(_, list, _): &'_ (crate::kit::Body, phalanx::BlockAccessList, _)| (list.rlp().clone(), list.hash());
            let (rlp, hash) = given(&blocks[1]);
            let early = engine.execute_block(&blocks[1].0.payload(), Hints::AccessList { rlp: &rlp, hash });
            assert!(early.is_err(), "on another parent it is another block");
            for block in &blocks {
                let (rlp, hash) = given(block);
                let hints = Hints::AccessList { rlp: &rlp, hash };
                let executed = engine.execute_block(&block.0.payload(), hints).expect("a valid block");
                assert_eq!(executed.block().access_list(), Some(&block.1));
                let merkleized = engine.merkleize(executed).expect("a root");
                assert_eq!(merkleized.state_root(), block.2, "{}, {threads} threads", workload.name());
                let (id, _) = engine.add_fork(merkleized, Vec::new()).expect("room for a fork");
                engine.checkout(id).expect("held");
            }
        }
    }
}
