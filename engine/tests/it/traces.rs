//! Traces. A replayed call ends like revm's, at any gas, with any values and conflicts; and the intended calls are
//! replayed.

use crate::kit::{Asm, COINBASE as BENEFICIARY, ETHER, contract};
use phalanx::{
    Block, BlockLimits, Engine, Executed, Executor, GenesisAccount, Order, Outcome, Traces, Tuning,
    revm::{
        bytecode::opcode::*,
        context::{BlockEnv, CfgEnv, TxEnv},
        primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId, keccak256},
        state::Bytecode,
    },
};
use phalanx_workloads::PhalanxToken;
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

const SENDERS: u8 = 8;

/// A block and the state before it.
struct Case {
    spec: SpecId,
    genesis: Vec<GenesisAccount>,
    env: BlockEnv,
    txs: Vec<TxEnv>,
}

/// Results of a block.
struct Ran {
    outcomes: Vec<Outcome>,
    root: B256,
    replayed: usize,
    list: Option<Bytes>,
}

impl Case {
    fn new(spec: SpecId, contracts: impl IntoIterator<Item = GenesisAccount>) -> Self {
        let rich = |byte: u8| GenesisAccount {
            address: Address::repeat_byte(byte),
            balance: U256::from(10 * ETHER),
            ..Default::default()
        };
        let env = BlockEnv {
            number: U256::from(7),
            timestamp: U256::from(1_000),
            beneficiary: BENEFICIARY,
            basefee: 7,
            gas_limit: u64::MAX,
            ..BlockEnv::default()
        };
        Self { spec, genesis: (1..=SENDERS).map(rich).chain(contracts).collect(), env, txs: Vec::new() }
    }

    /// Adds a call, with senders in turn.
    fn call(&mut self, to: Address, data: impl Into<Bytes>, gas_limit: u64) -> &mut TxEnv {
        let at = self.txs.len() as u64;
        let senders = u64::from(SENDERS);
        self.txs.push(TxEnv {
            tx_type: 2,
            caller: Address::repeat_byte((at % senders) as u8 + 1),
            nonce: at / senders,
            gas_limit,
            gas_price: 20,
            gas_priority_fee: Some(3),
            kind: TxKind::Call(to),
            data: data.into(),
            chain_id: Some(1),
            ..TxEnv::default()
        });
        self.txs.last_mut().expect("just added")
    }

    /// An engine on the state before the block.
    fn engine(&self, executor: Executor, threads: usize, traces: Traces, lists: bool) -> Engine {
        let builder = Engine::builder().with_force_parallel(true).with_cfg(CfgEnv::new_with_spec(self.spec));
        let builder =
            builder.with_executor(executor).with_threads(threads).with_tuning(Tuning::new().with_traces(traces));
        let mut engine = builder.with_access_lists(lists).build().expect("an engine in memory");
        engine.genesis(self.genesis.iter().cloned()).expect("a sound genesis");
        engine
    }

    fn execute(&self, engine: &mut Engine, executor: Executor) -> Executed {
        let limits = BlockLimits { max_txs: self.txs.len(), max_gas: u64::MAX };
        let block = match executor {
            Executor::Dag => engine.plan(&self.txs, Order::Given, limits).next_block(engine, &self.env),
            _ => Some(Block::unpredicted((0..self.txs.len() as u32).collect())),
        };
        engine.execute(&self.env, &self.txs, block.expect("a block")).expect("execution")
    }

    fn run(&self, executor: Executor, threads: usize, traces: Traces, lists: bool) -> Ran {
        let mut engine = self.engine(executor, threads, traces, lists);
        let executed = self.execute(&mut engine, executor);
        let merkleized = engine.merkleize(executed).expect("a root");
        let root = merkleized.state_root();
        let committed = engine.commit(merkleized).expect("a commit");
        let replayed = committed.block.stats().run.replayed;
        let list = committed.block.access_list().map(|list| list.rlp().clone());
        Ran { outcomes: committed.block.into_outcomes().1, root, replayed, list }
    }

    /// Compares replays with revm. Returns the outcomes, and the number of calls that one worker replayed.
    fn prove(&self, what: &str) -> (Vec<Outcome>, usize) {
        let truth = self.run(Executor::Sequential, 1, Traces::On, true);
        assert_eq!(truth.replayed, 0);
        let mut alone = None;
        for (threads, traces, lists) in [
            (1, Traces::On, false),
            (1, Traces::On, true),
            (3, Traces::On, true),
            (1, Traces::Checked, true),
            (1, Traces::Off, false),
        ] {
            let what = format!("{what}, {threads} threads, {traces:?}, lists {lists}");
            let ours = self.run(Executor::Dag, threads, traces, lists);
            for (index, (ours, truth)) in ours.outcomes.iter().zip(&truth.outcomes).enumerate() {
                assert_eq!(ours, truth, "{what}: {:#?}", self.txs[index]);
            }
            assert_eq!((ours.outcomes.len(), ours.root), (truth.outcomes.len(), truth.root), "{what}");
            assert!(!lists || ours.list == truth.list, "{what}: another access list");
            assert!(ours.replayed == 0 || traces != Traces::Off);
            if (threads, traces) == (1, Traces::On) {
                assert_eq!(*alone.get_or_insert(ours.replayed), ours.replayed, "{what}");
            }
        }
        (truth.outcomes, alone.unwrap_or_default())
    }

    fn replays(&self, what: &str) -> usize {
        self.prove(what).1
    }
}

const CONTRACT: Address = Address::repeat_byte(0xc1);
const CALLEE: Address = Address::repeat_byte(0xc2);

fn word(value: u64) -> [u8; 32] {
    U256::from(value).to_be_bytes()
}

fn give(byte: u8, code: Asm) -> GenesisAccount {
    contract(byte, &code.build())
}

/// Adds calls of the same contract with less and less gas, down to none for execution.
fn with_less_and_less_gas(case: &mut Case, to: Address, data: &[u8]) {
    for _ in 0..3 * SENDERS {
        case.call(to, data.to_vec(), 400_000);
    }
    let (outcomes, _) = case.prove("with enough gas");
    let last = outcomes.last().expect("calls");
    assert!(last.is_success(), "{last:?}");
    // A refund must be covered first.
    let most = last.result().expect("it ran").gas().total_gas_spent();
    let all = (21_000..most + 40).rev();
    let step = 1.max((most - 21_000) as usize / 1500);
    // A store, and the 64th that a call retains, need more gas than is used in the end.
    for gas in (most - 40..most + 5_000).rev().step_by(7).chain((most - 8..most + 8).rev()).chain(all.step_by(step)) {
        case.call(to, data.to_vec(), gas);
    }
}

/// Asserts that successful calls are replayed, but for the first few of each kind; others lack gas, or a balance.
fn assert_nearly_all(outcomes: &[Outcome], replayed: usize) {
    let succeeded = outcomes.iter().filter(|outcome| outcome.is_success()).count();
    assert!(succeeded > 40 && succeeded < outcomes.len(), "{succeeded} of {} succeed", outcomes.len());
    assert!(replayed + 24 >= succeeded, "{replayed} replayed, {succeeded} succeeded");
}

#[test]
fn an_erc20_transfer_is_replayed_with_any_amount_of_gas() {
    let specs = [SpecId::BERLIN, SpecId::LONDON, SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA, SpecId::AMSTERDAM];
    for spec in specs {
        let holder = |byte: u8| PhalanxToken::balance_slot(Address::repeat_byte(byte));
        let token = GenesisAccount {
            address: PhalanxToken::ADDRESS,
            nonce: 1,
            code: Some(PhalanxToken::runtime()),
            storage: (1..=SENDERS).map(|byte| (holder(byte), U256::from(1_000_000))).collect(),
            ..Default::default()
        };
        let mut case = Case::new(spec, [token]);
        let to = Address::repeat_byte(0x77);
        // The token uses PUSH0, which comes with Shanghai.
        if !spec.is_enabled_in(SpecId::SHANGHAI) {
            case.call(PhalanxToken::ADDRESS, PhalanxToken::transfer(to, U256::ONE).to_vec(), 100_000);
            case.prove("a token of a later hard fork");
            continue;
        }
        with_less_and_less_gas(&mut case, PhalanxToken::ADDRESS, &PhalanxToken::transfer(to, U256::from(3)));
        for (amount, to) in [(0, 3), (1_000_001, 4), (5, 5), (7, 1), (900_000, 2), (u64::MAX, 3)] {
            for _ in 0..SENDERS {
                let call = PhalanxToken::transfer(Address::repeat_byte(to), U256::from(amount));
                case.call(
                    PhalanxToken::ADDRESS,
                    call.to_vec(),
                    if spec.is_enabled_in(SpecId::AMSTERDAM) { 200_000 } else { 100_000 },
                );
            }
        }
        let (outcomes, replayed) = case.prove(&format!("{spec:?}"));
        // Most of the calls before lack gas for a new slot, so that the last ones are left to revm.
        let last = if spec.is_enabled_in(SpecId::AMSTERDAM) { 6 * usize::from(SENDERS) } else { 0 };
        assert_nearly_all(&outcomes, replayed + last);
    }
}

/// A repeated measurement of a block must not profit from its first run.
#[test]
fn forgotten_traces_are_recorded_again() {
    let contract = give(0xc1, Asm::new().count(0).op(STOP));
    let mut case = Case::new(SpecId::PRAGUE, [contract]);
    for _ in 0..10 * SENDERS {
        case.call(CONTRACT, Bytes::new(), 100_000);
    }
    let mut engine = case.engine(Executor::Dag, 1, Traces::On, false);
    let mut replays = || case.execute(&mut engine, Executor::Dag).block().stats().run.replayed;
    let (first, again) = (replays(), replays());
    assert!(0 < first && first < again && again <= case.txs.len(), "{first}, then {again}");
    engine.forget();
    let anew = case.execute(&mut engine, Executor::Dag).block().stats().run.replayed;
    assert_eq!(anew, first);
}

#[test]
fn the_cost_of_a_slot_depends_on_its_value() {
    // Writes two words of calldata to slot 0, one after the other, and a third to slot 1.
    let code = Asm::new().input().store(0).push(32).op(CALLDATALOAD).store(0).push(64).op(CALLDATALOAD).store(1);
    let mut case = Case::new(SpecId::OSAKA, [give(0xc1, code.op(STOP))]);
    let values = [0, 1, 2];
    for round in 0..3 {
        for (a, b) in values.into_iter().flat_map(|a| values.map(|b| (a, b))) {
            let data = [word(a), word(b), word((a + b + round) % 3)].concat();
            for _ in 0..2 {
                case.call(CONTRACT, data.clone(), 100_000);
            }
        }
    }
    // All calls but the recorded and compared ones.
    let replayed = case.replays("clean and dirty, zero and nonzero");
    assert!(replayed + 16 > case.txs.len(), "{replayed} of {}", case.txs.len());
}

#[test]
fn a_store_needs_more_than_the_stipend() {
    // Little gas is left where a slot is written with its present value, which costs 100.
    let code = Asm::new().load(0).store(0).op(STOP);
    let mut case = Case::new(SpecId::OSAKA, [give(0xc1, code)]);
    with_less_and_less_gas(&mut case, CONTRACT, &[]);
    let (outcomes, replayed) = case.prove("around 2300 gas");
    assert_nearly_all(&outcomes, replayed);
}

#[test]
fn calls_between_contracts_are_replayed_as_one() {
    // Adds calldata to its slot 0, logs and returns the sum, and the caller.
    let callee = Asm::new().load(0).input().op(ADD).op(DUP1).store(0).op(DUP1).push(0).op(MSTORE);
    let callee = callee.op(CALLER).push(32).op(MSTORE).op(DUP1).op(CALLER).push(64).push(0).op(LOG2);
    let callee = give(0xc2, callee.push(64).push(0).op(RETURN));
    for (op, gas) in [(CALL, None), (CALL, Some(40_000)), (DELEGATECALL, None), (CALL, Some(2_000_000))] {
        let code = Asm::new().input().push(0).op(MSTORE).push(64).push(128).push(32).push(0);
        let code = if op == CALL { code.push(0) } else { code };
        let code = code.addr(CALLEE);
        let code = match gas {
            Some(gas) => code.push(gas),
            None => code.op(GAS),
        };
        // The returned words go to slots, the sizes of the callee's code and of the output to others.
        let code = code.op(op).store(5).push(128).op(MLOAD).store(6).push(160).op(MLOAD).store(7);
        let code = code.addr(CALLEE).op(EXTCODESIZE).store(8).op(RETURNDATASIZE).store(9);
        let code = code.push(32).push(32).push(0).op(RETURNDATACOPY).push(0).op(MLOAD).store(10);
        let mut case = Case::new(SpecId::OSAKA, [give(0xc1, code.op(STOP)), callee.clone()]);
        with_less_and_less_gas(&mut case, CONTRACT, &word(3));
        let (outcomes, replayed) = case.prove(&format!("opcode {op:#x}, {gas:?} gas"));
        assert_nearly_all(&outcomes, replayed);
    }
}

#[test]
fn a_static_call_is_replayed_and_must_not_write() {
    let reads = give(0xc2, Asm::new().load(3).give());
    let writes = give(0xc2, Asm::new().set(3, 1).op(STOP));
    for (callee, least) in [(reads, 20), (writes, 0)] {
        let code = Asm::new().push(32).push(0).push(0).push(0).addr(CALLEE).op(GAS).op(STATICCALL).store(0);
        let code = code.push(0).op(MLOAD).push(1).op(ADD).store(1).op(STOP);
        let mut case = Case::new(SpecId::OSAKA, [give(0xc1, code), callee]);
        for _ in 0..4 * SENDERS {
            case.call(CONTRACT, Vec::new(), 200_000);
        }
        let replayed = case.replays("a static call");
        assert!(replayed >= least && (least > 0 || replayed == 0), "{replayed}");
    }
}

#[test]
fn aliased_slots_and_accounts_are_replayed_correctly() {
    // Takes 1 from the slot that the first word of calldata names, adds it to that of the second, and calls the third.
    let code = Asm::new().push(1).input().op(SLOAD).op(SUB).input().op(SSTORE);
    let second = |code: Asm| code.push(32).op(CALLDATALOAD);
    let code = second(second(code.push(1)).op(SLOAD).op(ADD)).op(SSTORE);
    let code = code.push(0).push(0).push(0).push(0).push(0).push(64).op(CALLDATALOAD).op(GAS).op(CALL).store(9);
    let mut case = Case::new(SpecId::OSAKA, [give(0xc1, code.op(STOP)), give(0xc2, Asm::new().count(1).op(STOP))]);
    let at = |byte: u8| Address::repeat_byte(byte).into_word().0;
    let targets = [at(0xc2), at(0xc1), at(1), BENEFICIARY.into_word().0, word(4), [0xc2; 32]];
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..400 {
        let (a, b) = (rng.random_range(0..3), rng.random_range(0..3));
        let target = if rng.random_bool(0.8) { targets[0] } else { *targets.choose(&mut rng).expect("one") };
        case.call(CONTRACT, [word(a), word(b), target].concat(), 300_000);
    }
    let replayed = case.replays("aliases");
    assert!(replayed > 100, "{replayed}");
}

#[test]
fn a_word_wider_than_an_address_is_another_word() {
    // Reverts if the word of calldata is its own address. Otherwise calls the address in its last 20 bytes, and stores
    // the output and the caller that the callee sees.
    let code = Asm::new().op(CALLDATASIZE).op(ISZERO).when(|code| code.load(0).give());
    let code = code.load(0).op(POP).input().op(ADDRESS).op(EQ).push(0xff).op(JUMPI);
    let code = code.push(32).push(0).push(0).push(0).input().op(GAS).op(STATICCALL).op(POP);
    let mut code = code.push(0).op(MLOAD).store(1).input().op(EXTCODESIZE).store(2).op(STOP);
    while code.clone().build().len() < 0xff {
        code = code.op(STOP);
    }
    let me = give(0xc1, code.op(JUMPDEST).push(0).push(0).op(REVERT));
    let me = GenesisAccount { storage: vec![(U256::ZERO, U256::from(7))], ..me };
    let mut replayed = 0;
    for answer in [Asm::new().push(42).give(), Asm::new().op(ADDRESS).give(), Asm::new().op(CALLER).give()] {
        let [own, other] = [CONTRACT, CALLEE].map(|address| address.into_word().0);
        let dirty = |word: [u8; 32]| {
            let mut word = word;
            word[5] = 1;
            word
        };
        for (first, then) in
            [(dirty(own), dirty(other)), (dirty(other), other), (dirty(own), other), (other, dirty(own))]
        {
            let mut case = Case::new(SpecId::OSAKA, [me.clone(), give(0xc2, answer.clone())]);
            for word in [first; 30].into_iter().chain([then; 10]) {
                case.call(CONTRACT, word, 200_000);
            }
            replayed += case.replays("addresses with high bytes set");
        }
    }
    assert!(replayed > 20, "{replayed}");
}

#[test]
fn sizes_that_decide_the_cost_are_guarded() {
    let none = Asm::new;
    let callee = give(0xc2, none().op(CALLDATASIZE).store(1).op(STOP));
    let called = |code: Asm| code.push(0).addr(CALLEE).op(GAS).op(CALL).store(2);
    // Logs the top of the stack.
    let tell = |code: Asm| code.push(0).op(MSTORE).push(32).push(0).op(LOG0);
    let codes = [
        ("exponent", tell(none().input().push(3).op(EXP))),
        ("base", tell(none().push(300).input().op(EXP))),
        ("offset of a store", none().push(1).input().op(MSTORE)),
        ("offset of a byte", none().push(1).input().op(MSTORE8)),
        ("offset of a load", tell(none().input().op(MLOAD).op(MSIZE).op(ADD))),
        ("hashed bytes", tell(none().input().push(0).op(KECCAK256))),
        ("bytes of an event", none().input().push(0).op(LOG0)),
        ("copied calldata", none().input().push(0).push(0).op(CALLDATACOPY).push(32).push(0).op(LOG0)),
        ("offset in calldata", none().push(32).input().push(0).op(CALLDATACOPY).push(32).push(0).op(LOG0)),
        ("a word of calldata", tell(none().input().op(CALLDATALOAD))),
        ("copied code", none().input().push(0).push(0).op(CODECOPY).push(32).push(0).op(LOG0)),
        ("copied memory", tell(none().input().push(0).push(7).op(MCOPY).op(MSIZE))),
        ("size of a return", none().input().push(0).op(RETURN)),
        ("size of a revert", none().input().push(0).op(REVERT)),
        ("input of a call", called(none().push(0).push(0).input().push(0))),
        ("output of a call", called(none().input().push(0).push(0).push(0))),
        (
            "gas of a call",
            tell(
                none()
                    .push(0)
                    .push(0)
                    .push(0)
                    .push(0)
                    .push(0)
                    .addr(CALLEE)
                    .push(40)
                    .input()
                    .op(MUL)
                    .push(4_500)
                    .op(ADD)
                    .op(CALL),
            ),
        ),
        ("a slot", none().push(1).input().op(SSTORE).push(0).op(SLOAD).store(1)),
    ];
    let sizes = [0, 1, 31, 32, 33, 64, 255, 256, 4_000, 22_300, 65_536];
    for (what, code) in codes {
        let mut case = Case::new(SpecId::OSAKA, [give(0xc1, code.op(STOP)), callee.clone()]);
        for round in 0..6 {
            for size in sizes {
                // The last sizes occur only after the first have been recorded.
                case.call(CONTRACT, word(if round < 2 { size % 40 } else { size }), 400_000);
            }
        }
        let replayed = case.replays(what);
        assert!(replayed > 4, "{what}: {replayed}");
    }
}

#[test]
fn delegations_precompiles_and_value_are_left_to_revm() {
    let delegation = Bytecode::new_eip7702(CALLEE).original_bytes();
    let code = Asm::new().count(0).op(STOP);
    let mut case = Case::new(SpecId::PRAGUE, [contract(0xc1, &delegation), give(0xc2, code)]);
    for _ in 0..3 * SENDERS {
        case.call(CONTRACT, Vec::new(), 100_000);
        case.call(Address::with_last_byte(4), vec![1, 2, 3], 100_000);
        case.call(CALLEE, Vec::new(), 100_000).value = U256::ONE;
        let listed = case.call(CALLEE, Vec::new(), 100_000);
        listed.tx_type = 1;
        listed.gas_priority_fee = None;
        listed.access_list.0 =
            vec![alloy_eips::eip2930::AccessListItem { address: CALLEE, storage_keys: vec![B256::ZERO] }];
    }
    assert_eq!(case.replays("unusual calls"), 0);
}

#[test]
fn no_call_is_replayed_before_berlin() {
    for spec in [SpecId::BYZANTIUM, SpecId::ISTANBUL] {
        let mut case = Case::new(spec, [give(0xc1, Asm::new().count(0).op(STOP))]);
        for _ in 0..3 * SENDERS {
            let call = case.call(CONTRACT, Vec::new(), 100_000);
            (call.tx_type, call.gas_priority_fee) = (0, None);
        }
        assert_eq!(case.replays(&format!("{spec:?}")), 0);
    }
}

/// Writes code that traces mostly support, computing with calldata, storage, block and gas.
struct Writer<'a> {
    rng: &'a mut ChaCha8Rng,
    callees: &'a [Address],
}

impl Writer<'_> {
    fn slot(&mut self, code: Asm) -> Asm {
        match self.rng.random_range(0..5) {
            0 => code.input().push(3).op(AND),
            1 => code.op(CALLER).push(0).op(MSTORE).push(64).push(0).op(KECCAK256),
            2 => {
                let slot = self.rng.random_range(0..3);
                code.load(slot).push(3).op(AND)
            }
            _ => code.push(self.rng.random_range(0..4)),
        }
    }

    fn value(&mut self, code: Asm, depth: usize) -> Asm {
        const BINARY: [u8; 23] = [
            ADD, MUL, SUB, DIV, SDIV, MOD, SMOD, EXP, SIGNEXTEND, LT, GT, SLT, SGT, EQ, AND, OR, XOR, BYTE, SHL, SHR,
            SAR, ADDMOD, MULMOD,
        ];
        const PLAIN: [u8; 20] = [
            CALLER,
            ADDRESS,
            ORIGIN,
            CALLVALUE,
            CALLDATASIZE,
            CODESIZE,
            RETURNDATASIZE,
            COINBASE,
            TIMESTAMP,
            NUMBER,
            DIFFICULTY,
            GASLIMIT,
            BASEFEE,
            GASPRICE,
            CHAINID,
            PC,
            MSIZE,
            GAS,
            CALLER,
            ADDRESS,
        ];
        match self.rng.random_range(0..14) {
            0..=3 if depth < 3 => {
                let op = *BINARY.choose(self.rng).expect("an operator");
                let operands = if matches!(op, ADDMOD | MULMOD) { 3 } else { 2 };
                let code = (0..operands).fold(code, |code, _| self.value(code, depth + 1));
                code.op(op)
            }
            4 if depth < 3 => {
                let code = self.value(code, depth + 1);
                code.op(*[ISZERO, NOT, ISZERO].choose(self.rng).expect("an operator"))
            }
            5 => code.op(*PLAIN.choose(self.rng).expect("one")),
            6 => code.push(self.rng.random_range(0..70)).op(CALLDATALOAD),
            7 => self.slot(code).op(SLOAD),
            8 => code.push(self.rng.random_range(0..100)).op(MLOAD),
            9 => code.push(self.rng.random_range(0..80)).push(self.rng.random_range(0..64)).op(KECCAK256),
            10 => code.push(self.rng.random_range(0..3)).op(TLOAD),
            11 => code.addr(*self.callees.choose(self.rng).unwrap_or(&CALLEE)).op(EXTCODESIZE),
            12 => code.push(U256::MAX >> self.rng.random_range(0..256usize)),
            _ => code.push(self.rng.random_range(0..5)),
        }
    }

    fn statement(&mut self, code: Asm) -> Asm {
        match self.rng.random_range(0..16) {
            0..=3 => {
                let code = self.value(code, 0);
                self.slot(code).op(SSTORE)
            }
            4 => code.count(self.rng.random_range(0..4)),
            5 | 6 => self.value(code, 0).push(self.rng.random_range(0..100)).op(MSTORE),
            7 => self.value(code, 0).push(self.rng.random_range(0..100)).op(MSTORE8),
            8 => {
                let [len, from, to] = [0; 3].map(|_| self.rng.random_range(0..90));
                let op = *[CALLDATACOPY, CODECOPY, MCOPY].choose(self.rng).expect("a copy");
                code.push(len).push(from).push(to).op(op)
            }
            9 => self.value(code, 1).push(self.rng.random_range(0..3)).op(TSTORE),
            10 | 11 => {
                let topics = self.rng.random_range(0..=4u8);
                let code = (0..topics).fold(code, |code, _| self.value(code, 1));
                code.push(self.rng.random_range(0..70)).push(self.rng.random_range(0..70)).op(LOG0 + topics)
            }
            12 | 13 if !self.callees.is_empty() => self.call(code),
            14 => {
                // Branches mostly go one way.
                let code = self.value(code, 1).push(self.rng.random_range(0..8)).op(LT);
                let inner = self.rng.random_range(0..4);
                code.when(|code| match inner {
                    0 => code.push(0).push(0).op(REVERT),
                    _ => self.statement(code),
                })
            }
            _ => {
                // A value that depends on its position.
                let code = self.value(code, 1).push(63).op(AND);
                code.op(MLOAD).push(self.rng.random_range(0..100)).op(MSTORE)
            }
        }
    }

    fn call(&mut self, code: Asm) -> Asm {
        let op = *[CALL, CALL, STATICCALL, DELEGATECALL].choose(self.rng).expect("a call");
        let [len, to, room, from] = [0; 4].map(|_| self.rng.random_range(0..70));
        let code = code.push(room).push(to).push(len).push(from);
        let code = if op == CALL { code.push(0) } else { code };
        let callee = *self.callees.choose(self.rng).expect("a callee");
        let dirt = U256::from(self.rng.random_range(0..2u8)) << 200;
        let code = match self.rng.random_range(0..6) {
            // A stored address, or one with high bytes set.
            0 => code.load(9),
            1 => code.push(U256::from_be_bytes(callee.into_word().0) | dirt),
            2 => code.addr(callee).push(dirt).op(OR),
            _ => code.addr(callee),
        };
        let code = match self.rng.random_range(0..3) {
            0 => code.push(self.rng.random_range(500..60_000)),
            _ => code.op(GAS),
        };
        let code = code.op(op).store(4);
        if self.rng.random_bool(0.5) {
            return code;
        }
        // All of the returned data.
        code.op(RETURNDATASIZE).push(0).push(self.rng.random_range(0..40)).op(RETURNDATACOPY)
    }

    fn contract(&mut self, byte: u8) -> GenesisAccount {
        let mut code = Asm::new();
        for _ in 0..self.rng.random_range(1..8) {
            code = self.statement(code);
        }
        let end = *[STOP, RETURN, RETURN, REVERT].choose(self.rng).expect("an end");
        let code = match end {
            STOP => code.op(STOP),
            REVERT if self.rng.random_bool(0.7) => code.op(STOP),
            end => code.push(self.rng.random_range(0..70)).push(self.rng.random_range(0..70)).op(end),
        };
        let kept = self.callees.choose(self.rng).map_or(U256::ONE, |callee| U256::from_be_bytes(callee.into_word().0));
        let dirt = U256::from(self.rng.random_range(0..2u8)) << 170;
        let slots = (0..4).map(|slot| (U256::from(slot), U256::from(self.rng.random_range(0..3u64))));
        let storage = slots.filter(|(_, value)| !value.is_zero()).chain([(U256::from(9), kept | dirt)]).collect();
        GenesisAccount { storage, ..give(byte, code) }
    }
}

#[test]
fn random_contracts_are_replayed_like_in_revm() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let (first, cases) = (number("PHALANX_SEED").unwrap_or(1), number("PHALANX_CASES").unwrap_or(60));
    let (mut calls, mut replayed, mut succeeded) = (0, 0, 0);
    for seed in first..first + cases {
        println!("PHALANX_SEED={seed} PHALANX_CASES=1");
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let inner = Writer { rng, callees: &[] }.contract(0xc3);
        let middle = Writer { rng, callees: &[inner.address] }.contract(0xc2);
        let outer = Writer { rng, callees: &[inner.address, middle.address] }.contract(0xc1);
        let spec = *[SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA, SpecId::AMSTERDAM].choose(rng).expect("a spec");
        let mut case = Case::new(spec, [outer, middle, inner]);
        if rng.random_bool(0.1) {
            case.env.beneficiary = *[CONTRACT, CALLEE, Address::repeat_byte(1)].choose(rng).expect("one");
        }
        let shapes: Vec<usize> = (0..2).map(|_| *[0, 3, 4, 32, 36, 68].choose(rng).expect("a length")).collect();
        for _ in 0..160 {
            let to = *[CONTRACT, CONTRACT, CONTRACT, CALLEE].choose(rng).expect("one");
            let len = *shapes.choose(rng).expect("a shape");
            let salt = keccak256([rng.random_range(0..3)]);
            let data: Vec<u8> = (0..len)
                .map(|at| if rng.random_bool(0.02) { salt[at % 32] } else { u8::from(at % 32 == 31) * (salt[0] & 3) })
                .collect();
            let gas = *[500_000, 500_000, 500_000, 120_000, 60_000, 30_000, 22_000].choose(rng).expect("gas");
            // New slots have a price of their own.
            let growth = if spec.is_enabled_in(SpecId::AMSTERDAM) && rng.random_bool(0.8) { 300_000 } else { 0 };
            case.call(to, data, gas + growth);
        }
        let (outcomes, ours) = case.prove(&format!("PHALANX_SEED={seed} PHALANX_CASES=1"));
        (calls, replayed) = (calls + outcomes.len(), replayed + ours);
        succeeded += outcomes.iter().filter(|outcome| outcome.is_success()).count();
    }
    println!("{calls} calls, {succeeded} succeeded, {replayed} replayed");
    assert!(cases < 100 || (replayed > calls / 10 && succeeded > calls / 4), "{replayed}, {succeeded} of {calls}");
}
