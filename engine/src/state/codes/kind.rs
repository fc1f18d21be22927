//! The one rule by which bytes become code: the bytes and the hard fork of the block decide, nothing else.
//!
//! From Prague on, code of the form `0xef0100 ‖ address` delegates to that address (EIP-7702), however it came to be.
//! Before Prague the same bytes are ordinary code, which fails at its first instruction. Before London any sender could
//! deploy them (EIP-3541), so a chain may hold some when it reaches Prague: from then on they delegate, as in the
//! execution specification.

use alloy_primitives::Bytes;
use revm::{
    bytecode::eip7702::{EIP7702_BYTECODE_LEN, EIP7702_MAGIC_BYTES, EIP7702_VERSION},
    primitives::hardfork::SpecId,
    state::Bytecode,
};

/// Rule of a hard fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeRule {
    /// All code runs.
    Runs,
    /// Code of the form of a delegation delegates.
    Delegates,
}

impl CodeRule {
    pub(crate) const fn of(spec: SpecId) -> Self {
        if spec.is_enabled_in(SpecId::PRAGUE) { Self::Delegates } else { Self::Runs }
    }

    /// Code of these bytes, analysed. O(bytes).
    pub(crate) fn code(self, bytes: Bytes) -> Bytecode {
        match self {
            Self::Delegates if is_delegation(&bytes) => {
                Bytecode::new_eip7702_raw(bytes.clone()).unwrap_or_else(|_| Bytecode::new_legacy(bytes))
            }
            _ => Bytecode::new_legacy(bytes),
        }
    }

    /// True if code of these bytes delegates.
    pub(crate) fn delegates(self, bytes: &[u8]) -> bool {
        self == Self::Delegates && is_delegation(bytes)
    }

    /// The same code, of the kind that this rule gives its bytes.
    pub(crate) fn correct(self, code: Bytecode) -> Bytecode {
        let delegates = self.delegates(code.original_byte_slice());
        if delegates == code.is_eip7702() { code } else { self.code(code.original_bytes()) }
    }
}

/// True if bytes have the form of a delegation.
pub(super) fn is_delegation(bytes: &[u8]) -> bool {
    bytes.len() == EIP7702_BYTECODE_LEN
        && bytes.starts_with(EIP7702_MAGIC_BYTES)
        && bytes[EIP7702_MAGIC_BYTES.len()] == EIP7702_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Address;

    #[test]
    fn the_kind_of_code_follows_from_its_bytes_and_the_fork() {
        let delegation = Bytecode::new_eip7702(Address::repeat_byte(7)).original_bytes();
        let version = [&[0xef, 1, 1], &delegation[3..]].concat();
        for (bytes, delegates) in [
            (delegation.to_vec(), true),
            (version, false),
            (delegation[..22].to_vec(), false),
            ([&delegation[..], &[0]].concat(), false),
            (vec![0xef, 1], false),
            (vec![0xef, 0, 0], false),
            (vec![0x60, 1], false),
        ] {
            for (spec, knows) in [
                (SpecId::FRONTIER, false),
                (SpecId::BERLIN, false),
                (SpecId::LONDON, false),
                (SpecId::CANCUN, false),
                (SpecId::PRAGUE, true),
                (SpecId::OSAKA, true),
            ] {
                let rule = CodeRule::of(spec);
                let code = rule.code(bytes.clone().into());
                assert_eq!((code.is_eip7702(), rule.delegates(&bytes)), (delegates && knows, delegates && knows));
                assert_eq!(code.original_byte_slice(), bytes);
                for other in [CodeRule::Runs, CodeRule::Delegates] {
                    let corrected = other.correct(code.clone());
                    assert_eq!(corrected.is_eip7702(), other.delegates(&bytes));
                    assert_eq!(corrected.original_byte_slice(), bytes);
                }
            }
        }
    }
}
