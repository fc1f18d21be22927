//! Words of the command line: bytes in hex, and keys.

use phalanx::{merkle::Hash, revm::primitives::hex};
use phalanx_lab::error::Usage;

/// Bytes on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Hex(pub(super) Vec<u8>);

impl core::str::FromStr for Hex {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        hex::decode(word).map(Self).map_err(|_| "expected an even number of hex digits")
    }
}

impl Hex {
    /// Bytes of a root.
    pub(super) fn root(&self) -> Result<Hash, Usage> {
        self.0[..].try_into().map_err(|_| Usage("a root has 32 bytes".into()))
    }
}

/// Key of an account or a slot.
#[derive(Clone, Debug)]
pub(crate) struct StateKey(pub(super) Vec<u8>);

impl core::str::FromStr for StateKey {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let Hex(bytes) = word.parse()?;
        Self::checked(bytes)
    }
}

impl StateKey {
    /// Refuses a key that the state of a chain cannot have.
    pub(super) fn checked(bytes: Vec<u8>) -> Result<Self, String> {
        let len = bytes.len();
        let wanted = "an address has 20 bytes; a slot's key has 52, the address and the slot";
        (phalanx::contents().is_key)(&bytes).then_some(Self(bytes)).ok_or(format!("{len} bytes, but {wanted}"))
    }
}
