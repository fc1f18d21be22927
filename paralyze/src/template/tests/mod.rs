//! Small contracts, whose templates must say what simulation says.

mod lines;

use crate::{Batch, Layers, ParaLyze, Snapshot as _, Source, StateKey, TemplateLimits};
use phalanx_access::{Access, Salt};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use revm::{
    bytecode::{Bytecode, opcode::*},
    context::{BlockEnv, CfgEnv, TxEnv},
    database::{CacheDB, EmptyDB},
    primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId, keccak256},
    state::AccountInfo,
};

/// Code in the making.
#[derive(Clone, Default)]
struct Asm(Vec<u8>);

impl Asm {
    fn op(mut self, ops: &[u8]) -> Self {
        self.0.extend_from_slice(ops);
        self
    }

    fn push(mut self, value: impl TryInto<U256>) -> Self {
        let bytes = value.try_into().ok().expect("a word").to_be_bytes_trimmed_vec();
        self.0.push(PUSH0 + bytes.len() as u8);
        self.0.extend(bytes);
        self
    }

    /// The word `n` of the arguments.
    fn arg(self, n: u64) -> Self {
        self.push(4 + 32 * n).op(&[CALLDATALOAD])
    }

    /// The slot of `mapping[top]`, the mapping being at `slot`.
    fn mapping(self, slot: u64) -> Self {
        self.push(0).op(&[MSTORE]).push(slot).push(32).op(&[MSTORE]).push(64).push(0).op(&[KECCAK256])
    }

    /// The slot of `mapping[top]`, the mapping's slot being below it.
    fn inner_mapping(self) -> Self {
        self.push(0).op(&[MSTORE]).push(32).op(&[MSTORE]).push(64).push(0).op(&[KECCAK256])
    }

    /// Adds `amount` to the slot on top.
    fn bump(self, amount: impl FnOnce(Self) -> Self) -> Self {
        amount(self.op(&[DUP1, SLOAD])).op(&[ADD, SWAP1, SSTORE])
    }

    /// Runs `body` if the top of the stack is not zero.
    fn when(mut self, body: impl FnOnce(Self) -> Self) -> Self {
        self = self.op(&[ISZERO, PUSH2, 0, 0]);
        let at = self.0.len() - 2;
        self = body(self.op(&[JUMPI]));
        let target = (self.0.len() as u16).to_be_bytes();
        self.0[at..at + 2].copy_from_slice(&target);
        self.op(&[JUMPDEST])
    }

    /// Calls the address on top with all calldata, and returns what it returns.
    fn forward(self, op: u8) -> Self {
        let value: &[u8] = if op == CALL { &[PUSH0] } else { &[] };
        // calldatacopy(0, 0, calldatasize); op(gas, to, [0,] 0, calldatasize, 0, 0)
        let copied = self.op(&[CALLDATASIZE, PUSH0, PUSH0, CALLDATACOPY, PUSH0, PUSH0, CALLDATASIZE, PUSH0]).op(value);
        // The address lies below the arguments.
        let depth = if op == CALL { DUP6 } else { DUP5 };
        let called = copied.op(&[depth, GAS, op, POP]);
        called.op(&[RETURNDATASIZE, PUSH0, PUSH0, RETURNDATACOPY, RETURNDATASIZE, PUSH0, RETURN])
    }

    fn code(self) -> Bytecode {
        Bytecode::new_raw(Bytes::from(self.0))
    }
}

const ONE: fn(Asm) -> Asm = |asm| asm.push(1);

fn address(n: u8) -> Address {
    Address::repeat_byte(n)
}

struct World {
    db: CacheDB<EmptyDB>,
    paralyze: ParaLyze,
    env: BlockEnv,
}

impl World {
    fn new() -> Self {
        let mut db = CacheDB::new(EmptyDB::default());
        for n in 1..=64 {
            let info = AccountInfo { balance: U256::from(1u64 << 60), ..Default::default() };
            db.insert_account_info(address(n), info);
        }
        let mut paralyze = ParaLyze::new(Salt::new(1), CfgEnv::new_with_spec(SpecId::OSAKA));
        paralyze.use_layers(Layers::WithoutStandards);
        Self { db, paralyze, env: BlockEnv { gas_limit: 1 << 40, ..BlockEnv::default() } }
    }

    fn contract(&mut self, n: u8, code: Asm) -> Address {
        self.db.insert_account_info(address(n), AccountInfo::default().with_code(code.code()));
        address(n)
    }

    fn store(&mut self, of: Address, slot: U256, value: impl Into<U256>) {
        self.db.insert_account_storage(of, slot, value.into()).expect("in memory");
    }

    /// Predicts `txs`, and compares each prediction by template with simulation: the same keys, written where they are
    /// written. Gives how many there are.
    fn agree(&mut self, txs: &[TxEnv]) -> usize {
        let refs: Vec<&TxEnv> = txs.iter().collect();
        let mut batch = Batch::new();
        self.paralyze.analyse(&self.db, &self.env, &refs, &mut batch);
        let mut templates = 0;
        for (index, tx) in txs.iter().enumerate() {
            if batch.source(index) == Source::Template {
                templates += 1;
                let mut alone = Batch::new();
                self.paralyze.simulate(&self.db, &self.env, tx, &mut alone);
                let sorted = |set: &[(StateKey, Access)]| {
                    let mut set = set.to_vec();
                    set.sort_unstable();
                    set
                };
                let (predicted, simulated) = (sorted(batch.sets().get(index)), sorted(alone.sets().get(0)));
                let agree = predicted.len() == simulated.len()
                    && predicted.iter().zip(&simulated).all(|(p, s)| p.0 == s.0 && p.1.covers(s.1));
                assert!(agree, "transaction {index}: {} keys for {}", predicted.len(), simulated.len());
                check_preimages(&batch, index);
            }
        }
        templates
    }
}

fn call(from: u8, to: Address, selector: u32, args: &[U256]) -> TxEnv {
    let mut data = selector.to_be_bytes().to_vec();
    args.iter().for_each(|arg| data.extend(arg.to_be_bytes::<32>()));
    TxEnv {
        caller: address(from),
        kind: TxKind::Call(to),
        data: data.into(),
        gas_limit: 500_000,
        gas_price: 1,
        chain_id: Some(1),
        ..TxEnv::default()
    }
}

/// Checks the preimages of slots. Returns how many slots have them.
fn check_preimages(batch: &Batch, index: usize) -> usize {
    let known = batch.preimages(index);
    for (at, (place, preimage)) in known.iter().enumerate() {
        let (key, _) = batch.sets().get(index)[*place as usize];
        match known[..at].iter().rev().find(|(of, _)| of == place) {
            Some((_, outer)) => assert_eq!(outer[32..], keccak256(preimage)[..], "of the one before"),
            None => {
                assert!(matches!(key, StateKey::Slot(_, slot) if slot == U256::from_be_bytes(keccak256(preimage).0)))
            }
        }
    }
    let inners = known.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    INNERS.with(|all| all.set(all.get() + inners));
    known.len() - inners
}

thread_local! {
    /// Number of second halves that have preimages.
    static INNERS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

fn word(address: Address) -> U256 {
    address.into_word().into()
}

#[test]
fn mappings_offsets_and_constants_are_learned_from_one_call() {
    let mut world = World::new();
    // balances[caller] += 1; allowances[caller][arg 0] += 1; array at 9, element arg 1; slot 5; slot 7 + arg 1
    let hashed = |asm: Asm| asm.push(9).push(0).op(&[MSTORE]).push(32).push(0).op(&[KECCAK256]);
    let code = Asm::default().op(&[CALLER]).mapping(3).bump(ONE);
    let code = code.op(&[CALLER]).mapping(4).arg(0).inner_mapping().bump(ONE);
    let code = hashed(code).arg(1).op(&[ADD]).bump(ONE).push(5).bump(|asm| asm.op(&[CALLER]));
    let code = code.arg(1).push(7).op(&[ADD, SLOAD, POP, STOP]);
    let token = world.contract(200, code);
    let txs: Vec<_> = (1..=20).map(|n| call(n, token, 1, &[word(address(40 + n)), U256::from(n)])).collect();
    INNERS.set(0);
    assert_eq!(world.agree(&txs), 20);
    assert!(INNERS.get() >= 15, "allowances are mappings of mappings: {}", INNERS.get());
}

#[test]
fn the_data_of_a_list_in_a_mapping_is_at_the_hash_of_a_hash() {
    let mut world = World::new();
    // lists[caller] is at 3; its first element at the hash of where the list is.
    let code = Asm::default().op(&[CALLER]).mapping(3).push(0).op(&[MSTORE]).push(32).push(0).op(&[KECCAK256]);
    let lists = world.contract(200, code.bump(ONE).op(&[STOP]));
    let txs: Vec<_> = (1..=20).map(|n| call(n, lists, 1, &[])).collect();
    assert_eq!(world.agree(&txs), 20);
}

#[test]
fn calls_of_one_shape_may_part_anywhere() {
    let mut world = World::new();
    // to = arg 0 as an address; if that is zero, slot 1; balances[caller] and balances[to] += arg 1; if arg 1 is not 3,
    // balances[to] once more and the account of to
    let to = |asm: Asm| asm.arg(0).push((U256::ONE << 160) - U256::ONE).op(&[AND]);
    let code = to(Asm::default()).op(&[ISZERO]).when(|asm| asm.push(1).bump(ONE));
    let code = code.op(&[CALLER]).mapping(3).bump(|asm| asm.arg(1));
    let code = to(code).mapping(3).bump(|asm| asm.arg(1)).arg(1).push(3).op(&[SUB]);
    let code = code.when(|asm| to(to(asm).mapping(3).bump(ONE)).op(&[BALANCE, POP])).op(&[STOP]);
    let token = world.contract(200, code);
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut all = Vec::new();
    for n in 0..400u64 {
        let from = 1 + (n % 40) as u8;
        let is_zero = rng.random_range(0..5) == 0;
        let to = if is_zero { U256::ZERO } else { word(address(rng.random_range(1..60))) };
        // Bits that are masked away, and a payment to oneself.
        let to = to | U256::from(rng.random_range(0..2u8)) << 200;
        let to = if rng.random_range(0..9) == 0 { word(address(from)) } else { to };
        let mut tx = call(from, token, 1, &[to, U256::from(rng.random_range(2..5))]);
        // Several lengths come between each other, some of which cut an argument short.
        tx.data =
            [&tx.data[..tx.data.len() - rng.random_range(0..2)], &[0; 9][..rng.random_range(0..3)]].concat().into();
        all.push(tx);
    }
    // All ways are met in the first half.
    world.agree(&all[..200]);
    assert!(world.agree(&all[200..]) > 190);
}

#[test]
fn only_branches_on_inputs_need_to_have_been_seen() {
    let mut world = World::new();
    let code = Asm::default().arg(0).when(|asm| asm.push(1).bump(ONE)).push(2).bump(ONE).op(&[STOP]);
    let chooser = world.contract(200, code);
    let with = |n: u8, choice: u64| call(n, chooser, 7, &[U256::from(choice)]);
    assert_eq!(world.agree(&[with(1, 0), with(2, 0)]), 2);
    assert_eq!(world.agree(&[with(3, 5)]), 1, "the other way is learned when it is met");
    let both: Vec<_> = (1..=20).map(|n| with(n, u64::from(n % 3))).collect();
    assert_eq!(world.agree(&both), 20);
}

#[test]
fn which_of_the_kept_things_is_meant_is_asked_before_both_have_been_seen() {
    for equal in [EQ, SUB, XOR] {
        let mut world = World::new();
        // if arg 0 is (or is not) what slot 6 keeps, touch slot 1; then slot 2
        let code =
            Asm::default().arg(0).push(6).op(&[SLOAD, equal]).when(|asm| asm.push(1).bump(ONE)).push(2).bump(ONE);
        let pool = world.contract(200, code.op(&[STOP]));
        world.store(pool, U256::from(6), U256::from(77));
        let with = |n: u8, token: u64| call(n, pool, 7, &[U256::from(token)]);
        assert_eq!(world.agree(&[with(1, 77), with(2, 77)]), 2);
        assert_eq!(world.agree(&[with(3, 78)]), 1, "the other one is not taken for the first");
        let both: Vec<_> = (1..=20).map(|n| with(n, 77 + u64::from(n % 3))).collect();
        assert_eq!(world.agree(&both), 20);
    }
}

#[test]
fn a_branch_on_the_state_is_decided_once_both_ways_are_known() {
    let mut world = World::new();
    // if flags[arg 0] touch slot 1
    let code = Asm::default().arg(0).mapping(3).op(&[SLOAD]).when(|asm| asm.push(1).bump(ONE)).op(&[STOP]);
    let chooser = world.contract(200, code);
    let flag = |n: u64| {
        let preimage = [U256::from(n).to_be_bytes::<32>(), U256::from(3).to_be_bytes::<32>()].concat();
        U256::from_be_bytes(keccak256(preimage).0)
    };
    (0..20).step_by(2).for_each(|n| world.store(chooser, flag(n), U256::ONE));
    let with = |from: u8, n: u64| call(from, chooser, 7, &[U256::from(n)]);
    assert_eq!(world.agree(&[with(1, 0), with(2, 2)]), 2);
    // Nothing was seen of the other way, so the known one is assumed; the truth corrects that.
    let unset = with(3, 1);
    let mut truth = Batch::new();
    world.paralyze.simulate(&world.db, &world.env, &unset, &mut truth);
    world.paralyze.learn(&world.db, &world.env, &[(&unset, truth.sets().get(0))]);
    let all: Vec<_> = (0..20).map(|n| with(1 + n as u8, n)).collect();
    assert_eq!(world.agree(&all), 20);
}

#[test]
fn proxies_of_every_kind_are_followed_by_formula() {
    let mut world = World::new();
    let logic = Asm::default().op(&[CALLER]).mapping(3).bump(ONE).arg(0).mapping(4).bump(ONE).op(&[STOP]);
    let logic = world.contract(200, logic);
    // EIP-1967 keeps the address in a slot, EIP-1167 in the code, EIP-7702 instead of it.
    let slot = U256::from_be_bytes(keccak256("eip1967.proxy.implementation").0) - U256::ONE;
    let stored = Asm::default().push(slot).op(&[SLOAD]).forward(DELEGATECALL);
    let proxies = [world.contract(201, stored.clone()), world.contract(202, stored)];
    proxies.iter().for_each(|proxy| world.store(*proxy, slot, word(logic)));
    let minimal = world.contract(203, Asm::default().push(word(logic)).forward(DELEGATECALL));
    let delegated = address(204);
    world.db.insert_account_info(delegated, AccountInfo::default().with_code(Bytecode::new_eip7702(logic)));
    for to in [proxies[0], proxies[1], minimal, delegated] {
        let txs: Vec<_> = (1..=10).map(|n| call(n, to, 9, &[U256::from(n)])).collect();
        assert_eq!(world.agree(&txs), 10, "{to}");
    }
    // The second proxy had the first one's code: nothing was to be learned. Nor is there of new logic elsewhere.
    let other = Asm::default().arg(0).mapping(8).bump(ONE).op(&[STOP]);
    let other = world.contract(205, other);
    let txs: Vec<_> = (1..=10).map(|n| call(n, other, 9, &[U256::from(n)])).collect();
    world.agree(&txs);
    world.store(proxies[0], slot, word(other));
    let before = world.paralyze.templates();
    let txs: Vec<_> = (1..=10).map(|n| call(n, proxies[0], 9, &[U256::from(n)])).collect();
    assert_eq!(world.agree(&txs), 10);
    assert_eq!(world.paralyze.templates(), before, "templates of callees are composed");
}

#[test]
fn callees_come_from_calldata_storage_and_return_data() {
    let mut world = World::new();
    let token = Asm::default().arg(0).mapping(3).bump(ONE).op(&[STOP]);
    let tokens = [world.contract(200, token.clone()), world.contract(201, token)];
    // A factory answers with the address in slot arg 0.
    let factory = Asm::default().arg(0).op(&[SLOAD]).push(0).op(&[MSTORE]).push(32).push(0).op(&[RETURN]);
    let factory = world.contract(202, factory);
    world.store(factory, U256::ZERO, word(tokens[0]));
    world.store(factory, U256::ONE, word(tokens[1]));
    // The router asks the factory, and calls the answer with the same calldata, then the address in argument 1.
    let ask = Asm::default().op(&[CALLDATASIZE, PUSH0, PUSH0, CALLDATACOPY]);
    let ask = ask.push(32).push(128).push(36).push(0).push(word(factory)).op(&[GAS, STATICCALL, POP]);
    let then = ask.push(0).push(0).op(&[CALLDATASIZE]).push(0).push(0).push(128).op(&[MLOAD, GAS, CALL, POP]);
    let last = then.push(0).push(0).op(&[CALLDATASIZE]).push(0).push(0).arg(1).op(&[GAS, CALL, POP, STOP]);
    let router = world.contract(203, last);
    let txs: Vec<_> =
        (1..=20u8).map(|n| call(n, router, 5, &[U256::from(n % 2), word(tokens[usize::from(n % 3 == 0)])])).collect();
    assert_eq!(world.agree(&txs), 20);
}

#[test]
fn value_that_a_call_hands_on_makes_writers() {
    let mut world = World::new();
    let splitter = Asm::default().push(0).push(0).push(0).push(0).op(&[CALLVALUE]).arg(0).op(&[GAS, CALL, STOP]);
    let splitter = world.contract(200, splitter);
    let pay = |n: u8, value: u64| TxEnv { value: U256::from(value), ..call(n, splitter, 2, &[word(address(60 + n))]) };
    let txs: Vec<_> = (1..=4).map(|n| pay(n, 5)).collect();
    assert_eq!(world.agree(&txs), 4);
}

/// Tokens and pools with random numbers, called at random.
#[test]
fn templates_agree_with_simulation_on_random_calls() {
    let seed = std::env::var("PHALANX_SEED").map_or(0x7e3a, |seed| seed.parse().expect("PHALANX_SEED is a number"));
    let cases: u64 = std::env::var("PHALANX_CASES").map_or(20, |n| n.parse().expect("PHALANX_CASES is a number"));
    for case in 0..cases {
        let mut rng = ChaCha8Rng::seed_from_u64(seed + case);
        println!("PHALANX_SEED={} PHALANX_CASES=1", seed + case);
        let mut world = World::new();
        let balances = rng.random_range(0..20u64);
        // transfer(to, amount), with the check that the balance suffices
        let mine = Asm::default().op(&[CALLER]).mapping(balances);
        let checked = mine.op(&[DUP1, SLOAD]).arg(1).op(&[GT]).when(|asm| asm.push(0).push(0).op(&[REVERT]));
        let moved = checked.op(&[DUP1, SLOAD]).arg(1).op(&[SWAP1, SUB, SWAP1, SSTORE]);
        let token = moved.arg(0).mapping(balances).bump(|asm| asm.arg(1)).op(&[STOP]);
        let tokens = [world.contract(200, token.clone()), world.contract(201, token)];
        // A pool reads its token from slot 6 or 7 by argument 0, updates its reserve, and calls the token.
        let pool = Asm::default().arg(0).push(1).op(&[AND]).push(6).op(&[ADD, SLOAD]);
        let pool = pool.push(8).bump(|asm| asm.arg(1)).op(&[CALLDATASIZE, PUSH0, PUSH0, CALLDATACOPY]);
        let pool = pool.push(0).push(0).op(&[CALLDATASIZE]).push(0).push(0).op(&[DUP6, GAS, CALL, POP, STOP]);
        let pools = [world.contract(202, pool.clone()), world.contract(203, pool)];
        for pool in pools {
            world.store(pool, U256::from(6), word(tokens[0]));
            world.store(pool, U256::from(7), word(tokens[1]));
        }
        for owner in 1..=60 {
            for token in tokens.into_iter().take(rng.random_range(0..=2)) {
                let preimage = [word(address(owner)).to_be_bytes::<32>(), U256::from(balances).to_be_bytes::<32>()];
                let slot = U256::from_be_bytes(keccak256(preimage.concat()).0);
                world.store(token, slot, U256::from(rng.random_range(0..100u64)));
            }
        }
        let random = |rng: &mut ChaCha8Rng| {
            let to = [tokens[0], tokens[1], pools[0], pools[1]][rng.random_range(0..4)];
            let peer = word(address(rng.random_range(1..=60)));
            call(rng.random_range(1..=60), to, 3, &[peer, U256::from(rng.random_range(0..50u64))])
        };
        // What is not known yet is assumed to go as it went before, so both ways are shown first.
        let lesson: Vec<_> = (0..200).map(|_| random(&mut rng)).collect();
        for tx in &lesson {
            let mut truth = Batch::new();
            world.paralyze.simulate(&world.db, &world.env, tx, &mut truth);
            world.paralyze.learn(&world.db, &world.env, &[(tx, truth.sets().get(0))]);
        }
        let txs: Vec<_> = (0..100).map(|_| random(&mut rng)).collect();
        assert!(world.agree(&txs) >= 90);
    }
}

/// Slots without a formula are simulated, and after a few tries no longer followed.
#[test]
fn slots_that_depend_on_gas_or_balances_stay_with_simulation() {
    let mut world = World::new();
    let by_gas = world.contract(200, Asm::default().op(&[GAS]).bump(ONE).op(&[STOP]));
    let by_balance = world.contract(201, Asm::default().op(&[CALLER, BALANCE]).bump(ONE).op(&[STOP]));
    let creates = world.contract(202, Asm::default().push(0).push(0).push(0).op(&[CREATE, STOP]));
    for _ in 0..20 {
        for to in [by_gas, by_balance, creates] {
            let txs: Vec<_> = (1..=10).map(|n| call(n, to, 1, &[])).collect();
            assert_eq!(world.agree(&txs), 0);
        }
    }
    assert!(world.paralyze.templates().1 < 100_000);
}

/// A loop that only gas ends, and a long one of many paths: neither takes more memory than the limits say.
#[test]
fn gas_bombs_and_long_loops_are_not_learned() {
    let mut world = World::new();
    let endless = world.contract(200, Asm::default().op(&[JUMPDEST, PUSH0, JUMP]));
    // for (i = arg 0; i > 0; i--) touch slot i
    let body = [JUMPDEST, DUP1, SLOAD, POP, PUSH1, 1, SWAP1, SUB, DUP1, PUSH1, 3, JUMPI, STOP];
    let long = world.contract(201, Asm::default().arg(0).op(&body));
    let bombs: Vec<_> = (1..=4).map(|n| TxEnv { gas_limit: 16_000_000, ..call(n, endless, 1, &[]) }).collect();
    assert_eq!(world.agree(&bombs), 0);
    for round in 0..20u64 {
        let txs: Vec<_> = (1..=10u8)
            .map(|n| TxEnv { gas_limit: 8_000_000, ..call(n, long, 1, &[U256::from(1 + round * 100 + u64::from(n))]) })
            .collect();
        world.agree(&txs);
    }
    let (functions, bytes) = world.paralyze.templates();
    assert!(functions <= 2 && bytes < 1 << 20, "{functions} functions, {bytes} bytes");
}

/// A function per transaction, and hashes of hashes without end.
#[test]
fn floods_of_functions_and_hashes_are_bounded() {
    let mut world = World::new();
    let limits = TemplateLimits { functions: 50, bytes: 1 << 20 };
    world.paralyze = ParaLyze::new(Salt::new(1), CfgEnv::new_with_spec(SpecId::OSAKA)).with_template_limits(limits);
    let any = world.contract(200, Asm::default().push(1).bump(ONE).op(&[STOP]));
    for round in 0..10u32 {
        let txs: Vec<_> = (0..400u32).map(|n| call(1 + (n % 60) as u8, any, round * 200 + n / 2 + 1, &[])).collect();
        world.agree(&txs);
        let (functions, bytes) = world.paralyze.templates();
        assert!(functions <= 50 && bytes <= 1 << 20, "{functions} functions, {bytes} bytes");
    }
    // keccak(keccak(.. arg 0 ..)), deeper than formulas go: simulated, and right.
    let mut deep = Asm::default().arg(0);
    for _ in 0..200 {
        deep = deep.mapping(1);
    }
    let deep = world.contract(201, deep.bump(ONE).op(&[STOP]));
    let txs: Vec<_> = (1..=20).map(|n| call(n, deep, 1, &[U256::from(n)])).collect();
    assert_eq!(world.agree(&txs), 0);
    // As many independent ones as there is gas for: more than are evaluated for that gas.
    let mut wide = Asm::default();
    for n in 0..300u64 {
        wide = wide.arg(0).push(n).op(&[ADD]).mapping(n).op(&[SLOAD, POP]);
    }
    let wide = world.contract(202, wide.op(&[STOP]));
    let txs: Vec<_> = (1..=20).map(|n| TxEnv { gas_limit: 2_000_000, ..call(n, wide, 1, &[U256::from(n)]) }).collect();
    assert_eq!(world.agree(&txs), 20);
    let poor: Vec<_> = txs.iter().map(|tx| TxEnv { gas_limit: 25_000, ..tx.clone() }).collect();
    assert_eq!(world.agree(&poor), 0, "evaluating costs less than the gas pays for, or is given up");
}

#[test]
fn a_code_hash_stands_for_the_code_wherever_it_is() {
    let mut world = World::new();
    let code = Asm::default().op(&[ADDRESS]).mapping(1).bump(ONE).op(&[STOP]);
    let first = world.contract(200, code.clone());
    assert_eq!(world.agree(&[call(1, first, 1, &[]), call(2, first, 1, &[])]), 2);
    let second = world.contract(201, code);
    assert_eq!(world.db.code_hash(&first), world.db.code_hash(&second));
    assert_ne!(world.db.code_hash(&first), Some(B256::ZERO));
    assert_eq!(world.agree(&[call(3, second, 1, &[])]), 1);
}
