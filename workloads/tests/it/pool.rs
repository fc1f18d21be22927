//! The committed bytecode of the pool trades as specified, and refuses invalid trades.

use crate::common::{Db, execute};
use phalanx_workloads::{PhalanxPool, PhalanxToken, Swap};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use revm::{
    DatabaseRef,
    context::{BlockEnv, TxEnv, result::ExecutionResult},
    primitives::{Address, Bytes, TxKind, U256, hardfork::SpecId, keccak256},
    state::{AccountInfo, Bytecode},
};

const TOKENS: [Address; 2] = [Address::repeat_byte(0xa0), Address::repeat_byte(0xa1)];
const POOL: Address = Address::repeat_byte(0xb0);
const TRADER: Address = Address::repeat_byte(0xc0);
const FRIEND: Address = Address::repeat_byte(0xc1);
const NOW: u64 = 1_000;

fn n(value: u128) -> U256 {
    U256::from(value)
}

/// A pool and a trader with `held` of both tokens, all of it approved.
struct Market {
    db: Db,
}

impl Market {
    fn new(reserves: [u128; 2], held: U256) -> Self {
        Self::with_tokens(reserves, held, [PhalanxToken::runtime(), PhalanxToken::runtime()])
    }

    fn with_tokens(reserves: [u128; 2], held: U256, codes: [Bytes; 2]) -> Self {
        let mut db = Db::default();
        let contract = |code| AccountInfo { nonce: 1, ..Default::default() }.with_code(Bytecode::new_raw(code));
        for ((token, code), reserve) in TOKENS.into_iter().zip(codes).zip(reserves) {
            db.insert_account_info(token, contract(code));
            for (slot, value) in [
                (PhalanxToken::balance_slot(TRADER), held),
                (PhalanxToken::balance_slot(POOL), n(reserve)),
                (PhalanxToken::allowance_slot(TRADER, POOL), held),
            ] {
                db.insert_account_storage(token, slot, value).unwrap();
            }
        }
        db.insert_account_info(POOL, contract(PhalanxPool::runtime()));
        for (slot, value) in PhalanxPool::storage(TOKENS, reserves) {
            db.insert_account_storage(POOL, slot, value).unwrap();
        }
        Self { db }
    }

    fn call(&mut self, to: Address, data: impl Into<Bytes>) -> ExecutionResult {
        let nonce = self.db.basic_ref(TRADER).unwrap().unwrap_or_default().nonce;
        let (kind, data) = (TxKind::Call(to), data.into());
        let tx = TxEnv { caller: TRADER, nonce, kind, data, gas_limit: 500_000, ..Default::default() };
        let block = BlockEnv { timestamp: U256::from(NOW), ..Default::default() };
        execute(&mut self.db, block, SpecId::OSAKA, &[tx]).remove(0)
    }

    fn swap(&mut self, swap: Swap) -> ExecutionResult {
        self.call(POOL, PhalanxPool::swap(&swap).to_vec())
    }

    fn reserves(&self) -> ([U256; 2], u32) {
        PhalanxPool::reserves(self.db.storage_ref(POOL, PhalanxPool::RESERVES_SLOT).unwrap())
    }

    fn held(&self, side: usize, holder: Address) -> U256 {
        self.db.storage_ref(TOKENS[side], PhalanxToken::balance_slot(holder)).unwrap()
    }

    /// State that a failed call must leave unchanged.
    fn everything(&self) -> ([U256; 2], u32, [U256; 6], U256) {
        let (reserves, swaps) = self.reserves();
        let holders = [TRADER, POOL, FRIEND];
        let held = core::array::from_fn(|at| self.held(at % 2, holders[at / 2]));
        (reserves, swaps, held, self.db.storage_ref(POOL, PhalanxPool::LOCK_SLOT).unwrap())
    }

    /// Asserts that the pool reverts with this error and leaves nothing behind.
    fn refuses(&mut self, swap: Swap, signature: &str, arguments: &[U256]) {
        let before = self.everything();
        let result = self.swap(swap);
        let ExecutionResult::Revert { output, .. } = &result else { panic!("{signature}: {result:?}") };
        let mut expected = keccak256(signature)[..4].to_vec();
        arguments.iter().for_each(|word| expected.extend(word.to_be_bytes::<32>()));
        assert_eq!(output[..], expected, "{signature}");
        assert!(result.logs().is_empty());
        assert_eq!(self.everything(), before, "{signature}");
    }
}

const fn sell(side: usize, amount: U256) -> Swap {
    Swap { sold: TOKENS[side], amount, minimum: U256::ZERO, to: TRADER, deadline: U256::MAX }
}

const MILLION: u128 = 1_000_000;

#[test]
fn a_swap_pays_its_quote_and_emits_its_events() {
    for side in [0, 1] {
        let mut market = Market::new([MILLION, 4 * MILLION], n(MILLION));
        let (reserves, _) = market.reserves();
        let amount = n(10_000);
        let out = PhalanxPool::quote(amount, reserves[side], reserves[1 - side]).unwrap();
        // 9,970 after the fee, at a price that it moves by one per cent itself.
        assert_eq!(out, if side == 0 { n(39_486) } else { n(2_486) });
        let result = market.swap(Swap { minimum: out, to: FRIEND, deadline: U256::from(NOW), ..sell(side, amount) });
        assert!(result.is_success(), "{result:?}");
        assert_eq!(U256::from_be_slice(result.output().unwrap()), out);
        assert_eq!(market.held(side, TRADER), n(MILLION) - amount);
        assert_eq!(market.held(1 - side, FRIEND), out);
        let mut expected = reserves;
        expected[side] += amount;
        expected[1 - side] -= out;
        assert_eq!(market.reserves(), (expected, 1));
        assert_eq!([0, 1].map(|side| market.held(side, POOL)), expected);
        let allowance = market.db.storage_ref(TOKENS[side], PhalanxToken::allowance_slot(TRADER, POOL)).unwrap();
        assert_eq!(allowance, n(MILLION) - amount);

        let [pulled, paid, sync, swap] = result.logs() else { panic!("{result:?}") };
        let word = |address: Address| address.into_word();
        let of_transfer = |from, to| [PhalanxToken::TRANSFER_EVENT, word(from), word(to)];
        assert_eq!((pulled.address, pulled.topics()), (TOKENS[side], &of_transfer(TRADER, POOL)[..]));
        assert_eq!((paid.address, paid.topics()), (TOKENS[1 - side], &of_transfer(POOL, FRIEND)[..]));
        assert_eq!((sync.address, sync.topics()), (POOL, &[PhalanxPool::SYNC_EVENT][..]));
        let words = |values: &[U256]| values.iter().flat_map(|value| value.to_be_bytes::<32>()).collect::<Vec<_>>();
        assert_eq!(sync.data.data[..], words(&expected));
        assert_eq!((swap.address, swap.topics()), (POOL, &[PhalanxPool::SWAP_EVENT, word(TRADER), word(FRIEND)][..]));
        let mut amounts = [U256::ZERO; 4];
        (amounts[side], amounts[3 - side]) = (amount, out);
        assert_eq!(swap.data.data[..], words(&amounts));
    }
}

#[test]
fn views_answer_from_storage() {
    let mut market = Market::new([3, 5], U256::ZERO);
    let mut view = |signature: &str, words: &[U256]| {
        let mut data = keccak256(signature)[..4].to_vec();
        words.iter().for_each(|word| data.extend(word.to_be_bytes::<32>()));
        let result = market.call(POOL, data);
        assert!(result.is_success(), "{signature}: {result:?}");
        let output = result.into_output().unwrap();
        output.chunks(32).map(U256::from_be_slice).collect::<Vec<_>>()
    };
    assert_eq!(view("tokens()", &[]), TOKENS.map(|token| U256::from_be_bytes(token.into_word().0)));
    assert_eq!(view("reserves()", &[]), [n(3), n(5), U256::ZERO]);
    let arguments = [1_000, 10_000, 20_000].map(n);
    let [amount, into, from] = arguments;
    let out = PhalanxPool::quote(amount, into, from).unwrap();
    assert_eq!(view("quote(uint256,uint256,uint256)", &arguments), [out]);
}

#[test]
fn the_rust_quote_equals_the_pools() {
    let seed: u64 = std::env::var("PHALANX_SEED").ok().map_or(7, |seed| seed.parse().unwrap());
    println!("PHALANX_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let held = U256::ONE << 120;
    let mut market = Market::new([1 << 60, 1 << 55], held);
    let mut swaps = 0;
    for round in 0..300 {
        let (before, _) = market.reserves();
        let side = rng.random_range(0..2);
        let amount = U256::from(rng.random::<u64>() >> rng.random_range(0..64u32));
        let quoted = PhalanxPool::quote(amount, before[side], before[1 - side]).filter(|out| !out.is_zero());
        let result = market.swap(sell(side, amount));
        assert_eq!(result.is_success(), quoted.is_some(), "seed {seed}, round {round}: {result:?}");
        let Some(out) = quoted else { continue };
        swaps += 1;
        let (after, count) = market.reserves();
        assert_eq!((before[1 - side] - after[1 - side], count), (out, swaps), "seed {seed}, round {round}");
        assert!(after[0] * after[1] > before[0] * before[1], "the fee stays: seed {seed}, round {round}");
        assert_eq!([0, 1].map(|side| market.held(side, POOL)), after);
    }
    assert!(swaps > 200, "most amounts are above nothing: {swaps}");
}

#[test]
fn late_or_overpriced_swaps_are_refused() {
    let mut market = Market::new([MILLION, MILLION], n(MILLION));
    let late = NOW - 1;
    let swap = Swap { deadline: U256::from(late), ..sell(0, n(100)) };
    market.refuses(swap, "PoolExpired(uint256,uint256)", &[U256::from(late), U256::from(NOW)]);
    let out = PhalanxPool::quote(n(100), n(MILLION), n(MILLION)).unwrap();
    let minimum = out + U256::ONE;
    let signature = "PoolInsufficientOutput(uint256,uint256)";
    market.refuses(Swap { minimum, ..sell(0, n(100)) }, signature, &[out, minimum]);
    market.refuses(sell(0, n(1)), signature, &[U256::ZERO, U256::ZERO]);
    assert!(market.swap(Swap { minimum: out, ..sell(0, n(100)) }).is_success());
}

#[test]
fn swaps_of_nothing_of_unknown_tokens_or_in_empty_or_locked_pools_are_refused() {
    let mut market = Market::new([MILLION, MILLION], n(MILLION));
    market.refuses(sell(0, U256::ZERO), "PoolNothingSold()", &[]);
    let stranger = FRIEND.into_word().0;
    let foreign = Swap { sold: FRIEND, ..sell(0, n(5)) };
    market.refuses(foreign, "PoolUnknownToken(address)", &[U256::from_be_bytes(stranger)]);
    for reserves in [[0, MILLION], [MILLION, 0], [0, 0]] {
        Market::new(reserves, n(9)).refuses(sell(0, n(5)), "PoolNoLiquidity()", &[]);
    }
    let locked = (PhalanxPool::LOCK_SLOT, U256::from(2));
    market.db.insert_account_storage(POOL, locked.0, locked.1).unwrap();
    market.refuses(sell(0, n(5)), "PoolLocked()", &[]);
}

#[test]
fn the_token_refuses_amounts_not_held_or_not_approved() {
    let word = |address: Address| U256::from_be_bytes(address.into_word().0);
    let mut market = Market::new([MILLION, MILLION], n(50));
    let allowance = "ERC20InsufficientAllowance(address,uint256,uint256)";
    market.refuses(sell(0, n(51)), allowance, &[word(POOL), n(50), n(51)]);
    let slot = PhalanxToken::allowance_slot(TRADER, POOL);
    market.db.insert_account_storage(TOKENS[0], slot, U256::MAX).unwrap();
    let balance = "ERC20InsufficientBalance(address,uint256,uint256)";
    market.refuses(sell(0, n(51)), balance, &[word(TRADER), n(50), n(51)]);
    market.db.insert_account_storage(TOKENS[1], slot, U256::ZERO).unwrap();
    market.refuses(sell(1, n(10)), allowance, &[word(POOL), U256::ZERO, n(10)]);
    assert!(market.swap(sell(0, n(50))).is_success());
}

#[test]
fn nothing_overflows() {
    let panic = "Panic(uint256)";
    let overflow = [U256::from(0x11)];
    let mut market = Market::new([MILLION, MILLION], U256::MAX);
    for amount in [U256::MAX, U256::MAX / n(997) + U256::ONE, U256::MAX / n(997)] {
        market.refuses(sell(0, amount), panic, &overflow);
    }
    // Amounts that fit the products and not a reserve.
    let full = (1 << 112) - 1;
    let mut market = Market::new([full - 10, MILLION], n(100_000));
    assert!(market.swap(sell(1, n(10))).is_success(), "towards the empty side");
    let mut market = Market::new([full, full], n(100_000));
    let out = PhalanxPool::quote(n(1_000), n(full), n(full)).unwrap();
    market.refuses(sell(0, n(1_000)), "PoolFull(uint256,uint256)", &[n(full) + n(1_000), n(full) - out]);
}

/// A token that moves nothing and reports success or failure.
fn liar(says: u8) -> Bytes {
    // balanceOf answers a million as well: mstore(0, ..); return(0, 32)
    let selector = [0x60, 0, 0x35, 0x60, 0xe0, 0x1c, 0x63, 0x70, 0xa0, 0x82, 0x31, 0x14, 0x60, 25, 0x57];
    let moved = [0x60, says, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3];
    let balance = [0x5b, 0x62, 0x0f, 0x42, 0x40, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3];
    [&selector[..], &moved, &balance].concat().into()
}

#[test]
fn a_lying_token_gains_nothing() {
    let reserves = [MILLION; 2];
    let with = |says| Market::with_tokens(reserves, n(MILLION), [liar(says), PhalanxToken::runtime()]);
    let token = U256::from_be_bytes(TOKENS[0].into_word().0);
    with(0).refuses(sell(0, n(100)), "PoolTransferFailed(address)", &[token]);
    with(0).refuses(sell(1, n(100)), "PoolTransferFailed(address)", &[token]);
    // The token claims a payment; the pool checks its balance.
    let out = PhalanxPool::quote(n(100), n(MILLION), n(MILLION)).unwrap();
    with(1).refuses(sell(0, n(100)), "PoolBroken(uint256,uint256)", &[n(MILLION), n(MILLION) - out]);
    // The pool keeps the output that it could not send.
    let mut kept = with(1);
    assert!(kept.swap(sell(1, n(100))).is_success());
    assert_eq!(kept.reserves().0, [n(MILLION), n(MILLION + 100)]);
}

#[test]
fn ether_and_unknown_calls_are_refused() {
    let mut market = Market::new([MILLION; 2], n(MILLION));
    assert!(matches!(market.call(POOL, keccak256("mint(address)")[..4].to_vec()), ExecutionResult::Revert { .. }));
    assert!(matches!(market.call(POOL, Bytes::new()), ExecutionResult::Revert { .. }));
    let cut = PhalanxPool::swap(&sell(0, n(5)))[..163].to_vec();
    assert!(matches!(market.call(POOL, cut), ExecutionResult::Revert { .. }));
}
