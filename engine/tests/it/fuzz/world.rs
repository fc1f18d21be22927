//! A small crowded world in which every address is a target.

use super::{code, txs};
use crate::kit::{Body, COINBASE, Case, ETHER, Oracle, header};
use alloy_eips::{eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS, eip4895::Withdrawal};
use phalanx::{
    GenesisAccount,
    revm::primitives::{Address, B256, Bytes, U256, hardfork::SpecId, keccak256},
};
use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

const FORKS: [&str; 14] = [
    "Frontier",
    "Homestead",
    "EIP150",
    "EIP158",
    "Byzantium",
    "Petersburg",
    "Istanbul",
    "Berlin",
    "London",
    "Paris",
    "Shanghai",
    "Cancun",
    "Prague",
    "Osaka",
];
const NEWEST: &str = "Amsterdam";

/// Accounts of the world.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) spec: SpecId,
    pub(super) senders: Vec<Address>,
    pub(super) contracts: Vec<Address>,
    /// All addresses, also of accounts that do not exist yet.
    pub(super) all: Vec<Address>,
    /// Init codes that are deployed repeatedly.
    pub(super) inits: Vec<Bytes>,
}

impl World {
    pub(super) const fn has(&self, spec: SpecId) -> bool {
        self.spec.is_enabled_in(spec)
    }
}

/// Deploys its input by CREATE2, with the value of the call; always at the same address.
pub(super) const FACTORY: Address = Address::repeat_byte(0xfa);

pub(crate) fn case(rng: &mut ChaCha8Rng) -> Case {
    let (mut case, world) = found(rng);
    let mut oracle = Oracle::new(&case);
    for number in 0..rng.random_range(2..4u64) {
        let (body, valid) = next(rng, &case, &world, &mut oracle, 10 + number);
        case.blocks.push(body);
        if !valid {
            // No block can follow.
            break;
        }
    }
    case
}

/// A world and its genesis, without blocks.
pub(super) fn found(rng: &mut ChaCha8Rng) -> (Case, World) {
    // No chain has tried the newest fork, so it comes more often.
    let fork = if rng.random_bool(0.25) { NEWEST } else { *FORKS.choose(rng).expect("a fork") };
    let only = std::env::var("PHALANX_FUZZ_FORK").ok();
    let mut case = Case::new(only.as_deref().unwrap_or(fork));
    let spec = case.rules.spec(&header(&case.rules, 1));
    let senders: Vec<_> = (1..=5).map(Address::repeat_byte).collect();
    let contracts: Vec<_> = (0xc0..0xc5).map(Address::repeat_byte).collect();
    let mut all = [senders.clone(), contracts.clone()].concat();
    all.extend([COINBASE, FACTORY, Address::repeat_byte(0xd0), Address::repeat_byte(0xd1)]);
    all.extend([Address::repeat_byte(0xe0), Address::repeat_byte(0xe1)]);
    all.extend([1, 2, 3, 4, 9].map(Address::with_last_byte));
    all.extend(senders.iter().flat_map(|sender| [sender.create(0), sender.create(1)]));
    all.extend(contracts.iter().flat_map(|contract| [contract.create(1), contract.create(0)]));
    if spec.is_enabled_in(SpecId::CANCUN) {
        all.extend([BEACON_ROOTS_ADDRESS, HISTORY_STORAGE_ADDRESS]);
    }
    let mut world = World { spec, senders, contracts, all, inits: Vec::new() };
    world.inits = (0..2).map(|_| code::init(rng, &world)).collect();
    let created = world.inits.iter().map(|init| FACTORY.create2(B256::ZERO, keccak256(init)));
    world.all.extend(created.collect::<Vec<_>>());
    case.genesis.extend(genesis(rng, &world));
    case.ancestors = (1..13).map(|number| (number, B256::repeat_byte(number as u8))).collect();
    (case, world)
}

/// The next block, on `oracle`, which is after it then. Returns true if the block is valid.
pub(super) fn next(rng: &mut ChaCha8Rng, case: &Case, world: &World, oracle: &mut Oracle, number: u64) -> (Body, bool) {
    let mut body = empty(rng, case, world, number);
    let valid = txs::fill(rng, world, oracle, &mut body);
    (body, valid.is_some())
}

/// A block without transactions.
pub(super) fn empty(rng: &mut ChaCha8Rng, case: &Case, world: &World, number: u64) -> Body {
    let mut body = Body {
        header: header(&case.rules, number),
        txs: Vec::new(),
        ommers: Vec::new(),
        withdrawals: world.has(SpecId::SHANGHAI).then(|| withdrawals(rng, world)),
    };
    if rng.random_bool(0.5) {
        body.header.beneficiary = *world.all.choose(rng).expect("an address");
    }
    if rng.random_bool(0.3) {
        body.header.base_fee_per_gas = body.header.base_fee_per_gas.map(|_| 0);
    }
    body
}

fn genesis(rng: &mut ChaCha8Rng, world: &World) -> Vec<GenesisAccount> {
    let mut accounts = Vec::new();
    for (index, address) in world.senders.iter().enumerate() {
        let balance = match index {
            // One more wei overflows.
            0 if rng.random_bool(0.3) => U256::MAX - U256::from(rng.random_range(0..3u64)),
            // Enough for a transaction or two.
            1 => U256::from(rng.random_range(2_000_000..60_000_000u64)),
            _ => U256::from(10 * ETHER),
        };
        accounts.push(GenesisAccount { address: *address, balance, ..GenesisAccount::default() });
    }
    for address in &world.contracts {
        let mut storage: Vec<_> = (0..4).map(|slot| (U256::from(slot), U256::from(slot + 1))).collect();
        storage.retain(|_| rng.random_bool(0.5));
        accounts.push(GenesisAccount {
            address: *address,
            balance: U256::from(rng.random_range(0..3u64)),
            nonce: rng.random_range(0..2),
            storage,
            code: Some(code::program(rng, world, 5).into()),
        });
    }
    let code = Some(code::factory(world).into());
    accounts.push(GenesisAccount { address: FACTORY, nonce: 1, code, ..GenesisAccount::default() });
    // Empty accounts, as in old states.
    accounts.push(GenesisAccount { address: Address::repeat_byte(0xe0), ..GenesisAccount::default() });
    if rng.random_bool(0.3) {
        let full = U256::MAX - U256::from(5);
        accounts.push(GenesisAccount {
            address: Address::repeat_byte(0xd1),
            balance: full,
            ..GenesisAccount::default()
        });
    }
    if rng.random_bool(0.3) {
        accounts.push(GenesisAccount { address: COINBASE, ..GenesisAccount::default() });
    }
    for address in [BEACON_ROOTS_ADDRESS, HISTORY_STORAGE_ADDRESS] {
        if world.has(SpecId::CANCUN) && rng.random_bool(0.7) {
            let code = Some(code::program(rng, world, 2).into());
            accounts.push(GenesisAccount { address, nonce: 1, code, ..GenesisAccount::default() });
        }
    }
    accounts
}

fn withdrawals(rng: &mut ChaCha8Rng, world: &World) -> Vec<Withdrawal> {
    let mut some = |_| Withdrawal {
        address: *world.all.choose(rng).expect("an address"),
        amount: rng.random_range(0..2),
        ..Withdrawal::default()
    };
    (0..2).map(&mut some).collect()
}
