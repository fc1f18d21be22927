//! Random blocks: transfers, calls of a contract, creations, destructions, and delegations.

use super::{
    Rules, State,
    contract::{INIT, Op, bytes, call, code, word},
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::{
        either::Either,
        transaction::{Authorization, RecoveredAuthority, RecoveredAuthorization},
    },
    database::{CacheDB, EmptyDB},
    primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId, keccak256},
    state::{AccountInfo, Bytecode},
};

pub(super) const SENDERS: u64 = 6;
const CONTRACTS: u64 = 3;

pub(super) fn sender(number: u64) -> Address {
    Address::from_word(U256::from(0x5e00 + number).into())
}

pub(super) fn contract(number: u64) -> Address {
    Address::from_word(U256::from(0xc000 + number).into())
}

/// The state before all blocks: rich senders, and contracts with some slots.
pub(super) fn base() -> State {
    let mut state = CacheDB::new(EmptyDB::new());
    for number in 0..SENDERS {
        state.insert_account_info(sender(number), AccountInfo::from_balance(U256::from(10).pow(U256::from(18))));
    }
    for number in 0..CONTRACTS {
        let code = Bytecode::new_raw(code());
        let info = AccountInfo { balance: U256::from(number * 1_000), nonce: 1, ..AccountInfo::from_bytecode(code) };
        state.insert_account_info(contract(number), info);
        for slot in 0..3 {
            state.insert_account_storage(contract(number), U256::from(slot), U256::from(slot * 7)).unwrap();
        }
    }
    state
}

/// A random block of up to `most` transactions. Nonces count up, so nearly all are valid.
pub(super) fn block(seed: u64, most: usize) -> (Rules, Vec<TxEnv>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let beneficiary = [sender(0), contract(0), Address::repeat_byte(0xbe), target(&mut rng)][rng.random_range(0..4)];
    let block = BlockEnv { number: U256::ONE, beneficiary, basefee: 7, gas_limit: u64::MAX, ..BlockEnv::default() };
    let rules = Rules { spec: [SpecId::CANCUN, SpecId::PRAGUE, SpecId::AMSTERDAM][rng.random_range(0..3)], block };
    let mut nonces = [0; SENDERS as usize];
    let txs = (0..rng.random_range(0..=most)).map(|_| tx(&mut rng, rules.spec, &mut nonces)).collect();
    (rules, txs)
}

/// Any account that plays a role, or a new one.
fn target(rng: &mut ChaCha8Rng) -> Address {
    match rng.random_range(0..5) {
        0 | 1 => sender(rng.random_range(0..SENDERS)),
        2 => contract(rng.random_range(0..CONTRACTS)),
        3 => created(contract(rng.random_range(0..CONTRACTS)), rng.random_range(0..2), rng.random_range(0..4)),
        _ => Address::from_word(U256::from(rng.random_range(0xee00..0xee04)).into()),
    }
}

/// The address at which [`Op::Create`] creates.
fn created(by: Address, salt: u64, init: usize) -> Address {
    by.create2(B256::from(U256::from(salt)), keccak256(bytes(INIT[init])))
}

fn tx(rng: &mut ChaCha8Rng, spec: SpecId, nonces: &mut [u64; SENDERS as usize]) -> TxEnv {
    let from = rng.random_range(0..SENDERS);
    let nonce = nonces[from as usize];
    nonces[from as usize] += 1;
    let tip = rng.random_range(0..3);
    let mut tx = TxEnv {
        tx_type: 2,
        caller: sender(from),
        nonce,
        gas_limit: 3_000_000,
        gas_price: 7 + tip,
        gas_priority_fee: Some(tip),
        chain_id: Some(1),
        value: U256::from(rng.random_range(0..3) * 10),
        kind: TxKind::Call(contract(rng.random_range(0..CONTRACTS))),
        ..TxEnv::default()
    };
    match rng.random_range(0..20) {
        0..4 => tx.kind = TxKind::Call(target(rng)),
        4 => {
            tx.kind = TxKind::Create;
            tx.data = bytes(INIT[rng.random_range(0..INIT.len())]).into();
        }
        5 | 6 if spec.is_enabled_in(SpecId::PRAGUE) => {
            let to = [contract(0), contract(1), Address::ZERO][rng.random_range(0..3)];
            let of = rng.random_range(0..SENDERS);
            let inner = Authorization { chain_id: U256::ONE, address: to, nonce: nonces[of as usize] };
            nonces[of as usize] += 1;
            let valid = RecoveredAuthority::Valid(sender(of));
            (tx.tx_type, tx.kind) = (4, TxKind::Call(sender(of)));
            tx.authorization_list = vec![Either::Right(RecoveredAuthorization::new_unchecked(inner, valid))];
            tx.data = operation(rng);
        }
        7 => tx.kind = TxKind::Call(sender(rng.random_range(0..SENDERS))),
        _ => tx.data = operation(rng),
    }
    tx
}

fn operation(rng: &mut ChaCha8Rng) -> Bytes {
    let [a, b] = [rng.random_range(0..4u64), rng.random_range(0..4)].map(U256::from);
    let ops = [Op::Set, Op::Add, Op::Copy, Op::Read, Op::Back, Op::Revert, Op::Set, Op::Add];
    match rng.random_range(0..14) {
        op @ 0..8 => call(ops[op], a, b, &[]),
        8 => call(Op::Pay, a, word(target(rng)), &[]),
        9 => call(Op::Balance, a, word(target(rng)), &[]),
        10 => call(Op::CodeHash, a, word(target(rng)), &[]),
        11 => call(Op::Leave, a, word(target(rng)), &[]),
        _ => {
            let salt = U256::from(rng.random_range(0..2));
            call(Op::Create, salt, b, &bytes(INIT[rng.random_range(0..INIT.len())]))
        }
    }
}
