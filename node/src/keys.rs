//! Keys of the accounts of a chain for development, by the mnemonic that tools share (BIP-39, BIP-32).

use crate::error::NodeError;
use alloy_primitives::{Address, B256, Signature};
use coins_bip32::ecdsa::SigningKey;
use coins_bip39::{English, Mnemonic};
use phalanx::alloy::consensus::crypto::secp256k1::{recover_signer_unchecked, sign_message};

/// The mnemonic of development tools. Everybody knows it, so on any other chain its accounts hold nothing.
pub const DEV_MNEMONIC: &str = "test test test test test test test test test test test junk";

/// Maximum number of accounts: each is derived at the start, and funded by the genesis.
pub const MOST_ACCOUNTS: usize = 10_000;

/// An account of a chain for development.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevAccount {
    /// Address of the account.
    pub address: Address,
    /// Private key, which everybody knows.
    pub key: B256,
}

impl DevAccount {
    /// Signs a hash.
    ///
    /// # Errors
    /// The key is none of the curve, which no derived key is.
    pub(crate) fn sign(&self, hash: B256) -> Result<Signature, String> {
        sign_message(self.key, hash).map_err(|error| error.to_string())
    }
}

/// The first accounts of a mnemonic, at the paths `m/44'/60'/0'/0/N` that wallets derive.
///
/// # Errors
/// [`NodeError::Setting`]: the words are no mnemonic, or there are more than [`MOST_ACCOUNTS`].
pub fn dev_accounts(mnemonic: &str, count: usize) -> Result<Vec<DevAccount>, NodeError> {
    let wrong = |why: String| NodeError::Setting(format!("the accounts for development: {why}"));
    if count > MOST_ACCOUNTS {
        return Err(wrong(format!("{count} are more than {MOST_ACCOUNTS}")));
    }
    let phrase = Mnemonic::<English>::new_from_phrase(mnemonic);
    let phrase = phrase.map_err(|error| wrong(format!("the words are no mnemonic: {error}")))?;
    let parent = phrase.derive_key("m/44'/60'/0'/0", None).map_err(|error| wrong(error.to_string()))?;
    let account = |number: u32| {
        let child = parent.derive_path(&[number][..]).map_err(|error| wrong(error.to_string()))?;
        let signing: &SigningKey = child.as_ref();
        let key = B256::from_slice(&signing.to_bytes());
        let signature = sign_message(key, B256::ZERO).map_err(|error| wrong(error.to_string()))?;
        let address = recover_signer_unchecked(&signature, B256::ZERO).map_err(|error| wrong(error.to_string()))?;
        Ok(DevAccount { address, key })
    };
    (0..count as u32).map(account).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_are_those_that_tools_know() {
        let accounts = dev_accounts(DEV_MNEMONIC, 20).expect("a mnemonic");
        let named = |place: usize| (accounts[place].address.to_string(), accounts[place].key.to_string());
        let first = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        assert_eq!(named(0), ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".into(), first.into()));
        assert_eq!(named(9).0, "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
        assert_eq!(named(19).0, "0x8626f6940E2eb28930eFb4CeF49B2d1F2C9C1199");
    }

    #[test]
    fn what_is_no_mnemonic_says_so() {
        for (words, count) in [("test", 1), ("", 1), ("test test test test test test test test test test test test", 1)]
        {
            assert!(dev_accounts(words, count).is_err_and(|error| error.to_string().contains("mnemonic")), "{words}");
        }
        assert!(dev_accounts(DEV_MNEMONIC, MOST_ACCOUNTS + 1).is_err());
    }
}
