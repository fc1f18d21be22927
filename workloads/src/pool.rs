//! The contract of the pools: bytecode, storage layout, calldata, and its arithmetic in Rust.

use alloy_primitives::{Address, B256, Bytes, U256, b256, hex};

/// The constant-product pool of the `amm` and `mixed` workloads: source, compiler and layout are in `contracts/`.
///
/// ```
/// use alloy_primitives::{U256, address, keccak256};
/// use phalanx_workloads::{PhalanxPool, Swap};
///
/// assert_eq!(keccak256(PhalanxPool::runtime()), PhalanxPool::CODE_HASH);
/// // 1,000 in, less 0.3 %, at a price of two.
/// let (million, two) = (U256::from(1_000_000), U256::from(2_000_000));
/// assert_eq!(PhalanxPool::quote(U256::from(1_000), million, two), Some(U256::from(1_992)));
///
/// let token = address!("0x00000000000000000000000000000000000000aa");
/// let swap = Swap { sold: token, amount: million, minimum: U256::ZERO, to: token, deadline: U256::MAX };
/// assert_eq!(PhalanxPool::decode_swap(&PhalanxPool::swap(&swap)), Some(swap));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PhalanxPool;

/// Arguments of `swapExactIn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Token that goes in.
    pub sold: Address,
    /// Amount of it.
    pub amount: U256,
    /// Minimum amount that must come out.
    pub minimum: U256,
    /// Receiver of the output.
    pub to: Address,
    /// Last valid time, in seconds.
    pub deadline: U256,
}

/// The committed hex without its final newline.
const RUNTIME_HEX: &[u8] = include_bytes!("../contracts/PhalanxPool.runtime.hex").trim_ascii();
const RUNTIME: [u8; RUNTIME_HEX.len() / 2] = match hex::const_decode_to_array(RUNTIME_HEX) {
    Ok(code) => code,
    Err(_) => panic!("the committed bytecode is hex"),
};

/// First four bytes of `keccak256("swapExactIn(address,uint256,uint256,address,uint256)")`.
const SWAP_EXACT_IN: [u8; 4] = hex!("b26aefb9");

/// Bits of a reserve; the number of swaps lies above two of them.
const RESERVE_BITS: usize = 112;

impl PhalanxPool {
    /// Keccak-256 of [`Self::runtime`].
    pub const CODE_HASH: B256 = b256!("0x34e71d0f7fc2110172e5a3508420b4a41795a25a6fc3aa5d8ebbbf7ed53095b5");

    /// First topic of `Swap(address,uint256,uint256,uint256,uint256,address)`.
    pub const SWAP_EVENT: B256 = b256!("0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822");

    /// First topic of `Sync(uint112,uint112)`.
    pub const SYNC_EVENT: B256 = b256!("0x1c411e9a96e071241c2f21f7726b17ae89e3cab4c78be50e062b03a9fffbbad1");

    /// The slots of the two tokens.
    pub const TOKEN_SLOTS: [U256; 2] = [U256::ZERO, U256::ONE];

    /// The slot of the reserves and the number of swaps.
    pub const RESERVES_SLOT: U256 = U256::from_limbs([2, 0, 0, 0]);

    /// Slot of the lock: one, or two during a swap.
    pub const LOCK_SLOT: U256 = U256::from_limbs([3, 0, 0, 0]);

    /// Runtime bytecode. Without immutables, it runs at any address.
    pub const fn runtime() -> Bytes {
        Bytes::from_static(&RUNTIME)
    }

    /// Storage of a pool that holds `reserves` of `tokens` and has executed no swap.
    pub fn storage(tokens: [Address; 2], reserves: [u128; 2]) -> [(U256, U256); 4] {
        let [first, second] = tokens.map(|token| U256::from_be_bytes(token.into_word().0));
        let packed = U256::from(reserves[0]) | U256::from(reserves[1]) << RESERVE_BITS;
        let [slot_0, slot_1] = Self::TOKEN_SLOTS;
        [(slot_0, first), (slot_1, second), (Self::RESERVES_SLOT, packed), (Self::LOCK_SLOT, U256::ONE)]
    }

    /// Both reserves and the number of swaps, from the value of [`Self::RESERVES_SLOT`].
    pub fn reserves(packed: U256) -> ([U256; 2], u32) {
        let mask = (U256::ONE << RESERVE_BITS) - U256::ONE;
        let swaps = (packed >> (2 * RESERVE_BITS)).as_limbs()[0] as u32;
        ([packed & mask, packed >> RESERVE_BITS & mask], swaps)
    }

    /// Output of a sale of `amount` at these reserves, rounded down; `None` where the contract would revert: nothing is
    /// sold, a reserve is empty, or a product does not fit.
    pub fn quote(amount: U256, reserve_in: U256, reserve_out: U256) -> Option<U256> {
        if amount.is_zero() || reserve_in.is_zero() || reserve_out.is_zero() {
            return None;
        }
        let kept = amount.checked_mul(U256::from(997))?;
        let worth = reserve_in.checked_mul(U256::from(1000))?.checked_add(kept)?;
        Some(kept.checked_mul(reserve_out)? / worth)
    }

    /// Calldata of `swapExactIn`.
    pub fn swap(swap: &Swap) -> [u8; 164] {
        let mut data = [0; 164];
        data[..4].copy_from_slice(&SWAP_EXACT_IN);
        let address = |address: Address| address.into_word().0;
        let number = |number: U256| number.to_be_bytes::<32>();
        let words =
            [address(swap.sold), number(swap.amount), number(swap.minimum), address(swap.to), number(swap.deadline)];
        data[4..].copy_from_slice(words.as_flattened());
        data
    }

    /// Decodes the arguments of a call to `swapExactIn`; `None` if `data` is anything else.
    pub fn decode_swap(data: &[u8]) -> Option<Swap> {
        let words = data.strip_prefix(&SWAP_EXACT_IN)?;
        let ([sold, amount, minimum, to, deadline], []) = words.as_chunks::<32>() else { return None };
        let address = |word: &[u8; 32]| word.strip_prefix(&[0; 12]).map(Address::from_slice);
        let number = |word: &[u8; 32]| U256::from_be_bytes(*word);
        Some(Swap {
            sold: address(sold)?,
            amount: number(amount),
            minimum: number(minimum),
            to: address(to)?,
            deadline: number(deadline),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn the_committed_bytecode_is_the_pinned_one() {
        assert_eq!(keccak256(PhalanxPool::runtime()), PhalanxPool::CODE_HASH);
        assert_eq!(keccak256("swapExactIn(address,uint256,uint256,address,uint256)")[..4], SWAP_EXACT_IN);
        assert_eq!(keccak256("Swap(address,uint256,uint256,uint256,uint256,address)"), PhalanxPool::SWAP_EVENT);
        assert_eq!(keccak256("Sync(uint112,uint112)"), PhalanxPool::SYNC_EVENT);
    }

    #[test]
    fn reserves_are_packed_like_the_compilers() {
        let most = (1u128 << RESERVE_BITS) - 1;
        for reserves in [[1, 2], [most, 1], [3, most]] {
            let packed = PhalanxPool::storage([Address::ZERO; 2], reserves)[2].1;
            assert_eq!(PhalanxPool::reserves(packed), (reserves.map(U256::from), 0));
            let swapped = packed | U256::from(u32::MAX) << 224;
            assert_eq!(PhalanxPool::reserves(swapped), (reserves.map(U256::from), u32::MAX));
        }
    }

    #[test]
    fn only_a_well_formed_swap_decodes() {
        let address = Address::repeat_byte(7);
        let [amount, minimum, deadline] = [1, 2, 3].map(U256::from);
        let data = PhalanxPool::swap(&Swap { sold: address, amount, minimum, to: address, deadline });
        assert!(PhalanxPool::decode_swap(&data).is_some());
        assert_eq!(PhalanxPool::decode_swap(&data[..163]), None);
        assert_eq!(PhalanxPool::decode_swap(&[&data[..], &[0]].concat()), None);
        for flipped in [0, 4, 100] {
            let mut data = data;
            data[flipped] ^= 1;
            assert_eq!(PhalanxPool::decode_swap(&data), None, "byte {flipped}");
        }
    }

    #[test]
    fn a_quote_refuses_like_the_contract() {
        let [zero, one, all] = [U256::ZERO, U256::ONE, U256::MAX];
        for (amount, reserve_in, reserve_out) in
            [(zero, one, one), (one, zero, one), (one, one, zero), (all, one, one), (one, all, one), (one, one, all)]
        {
            assert_eq!(PhalanxPool::quote(amount, reserve_in, reserve_out), None);
        }
    }
}
