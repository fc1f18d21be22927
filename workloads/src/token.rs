//! The contract of the tokens: bytecode, storage layout and calldata.

use alloy_primitives::{Address, B256, Bytes, U256, address, b256, hex, keccak256};

/// The ERC-20 contract that the workloads move: source, compiler and layout are in `contracts/`.
///
/// ```
/// use alloy_primitives::{U256, address, keccak256};
/// use phalanx_workloads::PhalanxToken;
///
/// assert_eq!(keccak256(PhalanxToken::runtime()), PhalanxToken::CODE_HASH);
/// let to = address!("0x00000000000000000000000000000000000000aa");
/// let call = PhalanxToken::transfer(to, U256::from(5));
/// assert_eq!(PhalanxToken::decode_transfer(&call), Some((to, U256::from(5))));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PhalanxToken;

/// The committed hex without its final newline.
const RUNTIME_HEX: &[u8] = include_bytes!("../contracts/PhalanxToken.runtime.hex").trim_ascii();
const RUNTIME: [u8; RUNTIME_HEX.len() / 2] = match hex::const_decode_to_array(RUNTIME_HEX) {
    Ok(code) => code,
    Err(_) => panic!("the committed bytecode is hex"),
};

const CREATION_HEX: &[u8] = include_bytes!("../contracts/PhalanxToken.creation.hex").trim_ascii();
const CREATION: [u8; CREATION_HEX.len() / 2] = match hex::const_decode_to_array(CREATION_HEX) {
    Ok(code) => code,
    Err(_) => panic!("the committed bytecode is hex"),
};

/// First four bytes of `keccak256("transfer(address,uint256)")`.
const TRANSFER: [u8; 4] = hex!("a9059cbb");
/// First four bytes of `keccak256("approve(address,uint256)")`.
const APPROVE: [u8; 4] = hex!("095ea7b3");

const NAME: &str = "Phalanx Token";
const SYMBOL: &str = "PHX";

impl PhalanxToken {
    /// Address at which a genesis installs the token.
    pub const ADDRESS: Address = address!("0x7048a1a0000000000000000000000000000e4c20");

    /// Keccak-256 of [`Self::runtime`].
    pub const CODE_HASH: B256 = b256!("0x4348e7882736f6b3b32179f9b2996797dac53f2e27dde3e6d8392bc03deb430a");

    /// First topic of `Transfer(address,address,uint256)`.
    pub const TRANSFER_EVENT: B256 = b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

    /// Runtime bytecode. Without immutables, it runs at any address.
    pub const fn runtime() -> Bytes {
        Bytes::from_static(&RUNTIME)
    }

    /// Code that deploys the token and gives the creator all of `supply`: creation bytecode, then the arguments of the
    /// constructor, which are name, symbol and supply.
    pub fn creation(supply: U256) -> Bytes {
        let mut code = Vec::with_capacity(CREATION.len() + 7 * 32);
        code.extend_from_slice(&CREATION);
        // Offsets of the two strings, behind three words; then each string's length and bytes.
        for word in [U256::from(3 * 32), U256::from(5 * 32), supply] {
            code.extend_from_slice(&word.to_be_bytes::<32>());
        }
        for text in [NAME, SYMBOL] {
            code.extend_from_slice(&U256::from(text.len()).to_be_bytes::<32>());
            let mut word = [0; 32];
            word[..text.len()].copy_from_slice(text.as_bytes());
            code.extend_from_slice(&word);
        }
        code.into()
    }

    /// Supply of a deployment by [`Self::creation`]; `None` if `code` is anything else.
    pub fn decode_creation(code: &[u8]) -> Option<U256> {
        let arguments = code.strip_prefix(&CREATION)?;
        let supply = U256::from_be_slice(arguments.get(64..96)?);
        (*Self::creation(supply) == *code).then_some(supply)
    }

    /// The slot of a holder's balance: `keccak256(pad32(holder) ‖ pad32(0))`.
    pub fn balance_slot(holder: Address) -> U256 {
        let mut preimage = [0; 64];
        preimage[12..32].copy_from_slice(holder.as_slice());
        keccak256(preimage).into()
    }

    /// Slot of the allowance of `spender` by `holder`: `keccak256(pad32(spender) ‖ keccak256(pad32(holder) ‖
    /// pad32(1)))`.
    pub fn allowance_slot(holder: Address, spender: Address) -> U256 {
        let mut preimage = [0; 64];
        preimage[12..32].copy_from_slice(holder.as_slice());
        preimage[63] = 1;
        let of_holder = keccak256(preimage);
        preimage[12..32].copy_from_slice(spender.as_slice());
        preimage[32..].copy_from_slice(of_holder.as_slice());
        keccak256(preimage).into()
    }

    /// Slots that are not balances: total supply, name, symbol.
    pub fn metadata(supply: U256) -> [(U256, U256); 3] {
        let slot = |n: u64| U256::from(n);
        [(slot(2), supply), (slot(3), short_string(NAME)), (slot(4), short_string(SYMBOL))]
    }

    /// Calldata of `transfer(to, amount)`.
    #[inline]
    pub fn transfer(to: Address, amount: U256) -> [u8; 68] {
        call(TRANSFER, to, amount)
    }

    /// Receiver and amount of a call to `transfer`, or `None` if `data` is anything else.
    pub fn decode_transfer(data: &[u8]) -> Option<(Address, U256)> {
        decode(TRANSFER, data)
    }

    /// Calldata of `approve(spender, amount)`.
    pub fn approve(spender: Address, amount: U256) -> [u8; 68] {
        call(APPROVE, spender, amount)
    }

    /// Spender and amount of a call to `approve`, or `None` if `data` is anything else.
    pub fn decode_approve(data: &[u8]) -> Option<(Address, U256)> {
        decode(APPROVE, data)
    }
}

#[inline]
fn call(selector: [u8; 4], address: Address, amount: U256) -> [u8; 68] {
    let mut data = [0; 68];
    data[..4].copy_from_slice(&selector);
    data[16..36].copy_from_slice(address.as_slice());
    data[36..].copy_from_slice(&amount.to_be_bytes::<32>());
    data
}

fn decode(selector: [u8; 4], data: &[u8]) -> Option<(Address, U256)> {
    let words: &[u8; 64] = data.strip_prefix(&selector)?.try_into().ok()?;
    let (address, amount) = words.split_at(32);
    let address = address.strip_prefix(&[0; 12])?;
    Some((Address::from_slice(address), U256::from_be_slice(amount)))
}

/// Encodes a string of at most 31 bytes like Solidity: left-aligned, twice its length in the last byte.
fn short_string(text: &str) -> U256 {
    let mut word = [0; 32];
    word[..text.len()].copy_from_slice(text.as_bytes());
    word[31] = 2 * text.len() as u8;
    U256::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_bytecode_is_the_pinned_one() {
        assert_eq!(keccak256(PhalanxToken::runtime()), PhalanxToken::CODE_HASH);
        assert_eq!(keccak256("transfer(address,uint256)")[..4], TRANSFER);
        assert_eq!(keccak256("approve(address,uint256)")[..4], APPROVE);
        assert_eq!(keccak256("Transfer(address,address,uint256)"), PhalanxToken::TRANSFER_EVENT);
    }

    #[test]
    fn only_a_well_formed_transfer_decodes() {
        let data = PhalanxToken::transfer(PhalanxToken::ADDRESS, U256::MAX);
        assert_eq!(PhalanxToken::decode_transfer(&data), Some((PhalanxToken::ADDRESS, U256::MAX)));
        assert_eq!(PhalanxToken::decode_transfer(&data[..67]), None);
        for flipped in [0, 4, 15] {
            let mut data = data;
            data[flipped] ^= 1;
            assert_eq!(PhalanxToken::decode_transfer(&data), None, "byte {flipped}");
        }
    }

    #[test]
    fn only_the_tokens_own_deployment_decodes() {
        let supply = U256::from(77);
        let code = PhalanxToken::creation(supply);
        assert_eq!(PhalanxToken::decode_creation(&code), Some(supply));
        assert_eq!(PhalanxToken::decode_creation(&code[..code.len() - 1]), None);
        assert_eq!(PhalanxToken::decode_creation(&CREATION), None);
        for at in [0, CREATION.len(), code.len() - 1] {
            let mut code = code.to_vec();
            code[at] ^= 1;
            assert_eq!(PhalanxToken::decode_creation(&code), None, "byte {at}");
        }
    }
}
