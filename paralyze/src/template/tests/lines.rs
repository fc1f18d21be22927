//! Straight lines, which must say what walks say.

use super::{
    super::eval::{FOLLOWED, ONLY_WALKS},
    *,
};

/// Contracts that call each other with what they were given, changed and shifted, and use what they get back: lines across
/// all frames must say what walks do.
#[test]
fn lines_across_calls_agree_with_walks() {
    let seed = std::env::var("PHALANX_SEED").map_or(0x11e5, |seed| seed.parse().expect("PHALANX_SEED is a number"));
    let cases: u64 = std::env::var("PHALANX_CASES").map_or(40, |n| n.parse().expect("PHALANX_CASES is a number"));
    let (mut straight, mut predicted, mut preimages) = (0, 0, [0; 2]);
    for case in 0..cases {
        let mut rng = ChaCha8Rng::seed_from_u64(seed + case);
        println!("PHALANX_SEED={} PHALANX_CASES=1", seed + case);
        let mut world = World::new();
        let mut contracts = Vec::new();
        for n in 200..204 {
            let mut code = Asm::default();
            for _ in 0..rng.random_range(2..6) {
                code = statement(&mut rng, code, &contracts);
            }
            let answer = value(&mut rng, code).push(96).op(&[MSTORE]);
            let end = if rng.random_range(0..4) == 0 { REVERT } else { RETURN };
            let contract = world.contract(n, answer.push(rng.random_range(0..50)).push(96).op(&[end]));
            (0..4).for_each(|slot| world.store(contract, U256::from(slot), U256::from(rng.random_range(0..9u64))));
            let info = AccountInfo { balance: U256::from(1_000_000), ..AccountInfo::default() };
            let code = world.db.cache.accounts[&contract].info.code.clone().expect("a contract");
            world.db.insert_account_info(contract, info.with_code(code));
            contracts.push(contract);
        }
        // One that delegates to nothing.
        let nowhere = AccountInfo::default().with_code(Bytecode::new_eip7702(address(160)));
        world.db.insert_account_info(address(150), nowhere);
        let random = |rng: &mut ChaCha8Rng| {
            // Some with bits that no address has.
            let dirt = |rng: &mut ChaCha8Rng| U256::from(rng.random_range(0..4u64) / 3) << 200;
            let args: Vec<_> = (0..3).map(|_| U256::from(rng.random_range(0..4u64)) | dirt(rng)).collect();
            let mut tx = call(rng.random_range(1..=60), *contracts.last().expect("four"), 3, &args);
            tx.data = tx.data[..tx.data.len() - [0, 0, 1, 32][rng.random_range(0..4)]].to_vec().into();
            tx.gas_limit = 3_000_000;
            tx.value = U256::from([0, 0, 0, 5][rng.random_range(0..4)]);
            tx
        };
        let txs: Vec<_> = (0..200).map(|_| random(&mut rng)).collect();
        let refs: Vec<&TxEnv> = txs.iter().collect();
        let [mut lessons, mut by_line, mut by_walk] = [Batch::new(), Batch::new(), Batch::new()];
        // Until there is nothing left to learn.
        (0..12).for_each(|_| world.paralyze.analyse(&world.db, &world.env, &refs, &mut lessons));
        world.paralyze.analyse(&world.db, &world.env, &refs, &mut by_line);
        straight += FOLLOWED.get();
        ONLY_WALKS.set(true);
        world.paralyze.analyse(&world.db, &world.env, &refs, &mut by_walk);
        ONLY_WALKS.set(false);
        predicted += (0..txs.len()).filter(|index| by_line.source(*index) == Source::Template).count();
        for index in 0..txs.len() {
            assert_eq!(by_line.source(index), by_walk.source(index));
            let sorted = |batch: &Batch| {
                let mut set = batch.sets().get(index).to_vec();
                set.sort_unstable();
                set
            };
            assert_eq!(sorted(&by_line), sorted(&by_walk), "transaction {index}");
            preimages[0] += check_preimages(&by_line, index);
            preimages[1] += check_preimages(&by_walk, index);
        }
    }
    let [by_line, by_walk] = preimages;
    assert_eq!(by_line, by_walk, "preimages by line and by walk");
    assert!(cases < 40 || straight * 2 > predicted && predicted > 2_000, "{straight} of {predicted}");
}

/// Pushes a word that differs from call to call, or not.
fn value(rng: &mut ChaCha8Rng, code: Asm) -> Asm {
    match rng.random_range(0..9) {
        0 => code.op(&[CALLER]),
        6 => code.op(&[ADDRESS]),
        7 => code.op(&[CALLVALUE]),
        8 => code.op(&[RETURNDATASIZE]),
        1 => code.push(rng.random_range(0..4)).op(&[SLOAD]),
        2 => code.push(rng.random_range(0..120)).op(&[CALLDATALOAD]),
        3 => code.push(U256::from(rng.random::<u64>())),
        _ => code.arg(rng.random_range(0..3)),
    }
}

/// Touches something; branches, or calls one of `contracts`.
fn statement(rng: &mut ChaCha8Rng, code: Asm, contracts: &[Address]) -> Asm {
    match rng.random_range(0..9) {
        8 => value(rng, code).op(&[[BALANCE, EXTCODESIZE][rng.random_range(0..2)], POP]),
        0 => value(rng, code).mapping(rng.random_range(0..5)).bump(ONE),
        1 => {
            let mut slot = value(rng, code).mapping(rng.random_range(0..5));
            for _ in 0..rng.random_range(1..=2) {
                slot = value(rng, slot).inner_mapping();
            }
            slot.bump(ONE)
        }
        2 => value(rng, code).op(&[SLOAD, POP]),
        3 => value(rng, code).mapping(7).push(rng.random_range(0..3)).op(&[ADD]).bump(ONE),
        4 => {
            let inner = rng.random::<u64>();
            let mut inner = ChaCha8Rng::seed_from_u64(inner);
            code.arg(rng.random_range(0..3)).push(1).op(&[AND]).when(|asm| value(&mut inner, asm).mapping(9).bump(ONE))
        }
        _ => {
            let Some(callee) = contracts.get(rng.random_range(0..contracts.len().max(1))) else { return code };
            // The calldata, one word of it something else, and its end cut off.
            let given = code.op(&[CALLDATASIZE, PUSH0, PUSH0, CALLDATACOPY]);
            let given = value(rng, given).push(4 + rng.random_range(0..80)).op(&[MSTORE]);
            let kind = [CALL, STATICCALL, DELEGATECALL, CALLCODE][rng.random_range(0..4)];
            let given = given.push(32).push(160).push(rng.random_range(60..110)).push(0);
            let given = match kind {
                CALL | CALLCODE if rng.random() => given.op(&[CALLVALUE]),
                CALL | CALLCODE => given.push(rng.random_range(0..2)),
                _ => given,
            };
            // One contract, or one of two, as an argument says.
            let others = [contracts[rng.random_range(0..contracts.len())], address(60), address(150), address(1)];
            let other = word(others[rng.random_range(0..9usize).saturating_sub(5)]) ^ word(*callee);
            let argument = rng.random_range(0..3);
            let to = given.arg(argument).push(1).op(&[AND]).push(other).op(&[MUL]);
            // With what the argument has above an address.
            let to = to.arg(argument).push(200).op(&[SHR]).push(200).op(&[SHL, OR]);
            let called = to.push(word(*callee)).op(&[XOR, GAS, kind]);
            let called = if rng.random() { called.mapping(6).bump(ONE) } else { called.op(&[POP]) };
            called.push(160).op(&[MLOAD]).mapping(rng.random_range(0..5)).bump(ONE)
        }
    }
}

/// A hash of two copies of a hash of two copies, and so on: what asks for it must not ask twice each time.
#[test]
fn hashes_in_hashes_take_no_longer_than_they_are_many() {
    let mut world = World::new();
    // After as many hashes as a transaction asks for at a time, and without them.
    for (n, asked) in [(200, 0), (201, 64)] {
        let code = (0..asked).fold(Asm::default(), |code, slot| code.arg(0).mapping(slot).op(&[SLOAD, POP])).arg(0);
        let nested = (0..44).fold(code, |code, _| {
            code.op(&[DUP1]).push(0).op(&[MSTORE]).push(32).op(&[MSTORE]).push(64).push(0).op(&[KECCAK256])
        });
        let nested = world.contract(n, nested.op(&[SLOAD, POP, STOP]));
        for many in [3, 20] {
            let txs: Vec<_> = (1..=many).map(|n| call(n, nested, 1, &[U256::from(n)])).collect();
            assert_eq!(world.agree(&txs), txs.len());
            assert!(FOLLOWED.get() > 0 || asked > 0, "a line of {asked} and many hashes");
        }
    }
}
