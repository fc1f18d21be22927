//! Nodes, leaves and references to them.

use alloy_primitives::{Address, B256, keccak256};

/// A node of a shard: an index into its arenas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Node {
    #[default]
    Empty,
    Leaf(u32),
    /// A branch, and the extension above it, if it is deeper than the place where it hangs.
    Branch(u32),
}

/// A leaf in one cache line. Its value is in the store, its hash in the branch above.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Leaf {
    pub(crate) key: B256,
    pub(crate) name: Name,
}

const _: () = assert!(size_of::<Leaf>() == 64);

/// Preimage of a leaf's key: a slot, or an address with the index of the account's storage (0 if it has none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name([u8; 32]);

impl Name {
    const STORAGE: usize = 28;

    pub(crate) const fn of_slot(slot: B256) -> Self {
        Self(slot.0)
    }

    pub(crate) fn of_account(address: &Address, storage: u32) -> Self {
        let mut name = [0; 32];
        name[..20].copy_from_slice(address.as_slice());
        name[Self::STORAGE..].copy_from_slice(&storage.to_le_bytes());
        Self(name)
    }

    pub(crate) const fn slot(&self) -> B256 {
        B256::new(self.0)
    }

    pub(crate) fn address(&self) -> Address {
        Address::from_slice(&self.0[..20])
    }

    pub(crate) fn storage(&self) -> u32 {
        self.0[Self::STORAGE..].iter().rev().fold(0, |index, byte| index << 8 | u32::from(*byte))
    }
}

/// Reference to a node as its parent encodes it: the hash, or the node itself if its RLP is shorter than a hash
/// (Yellow Paper, appendix D).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) bytes: [u8; 32],
    pub(crate) inline: bool,
}

impl Reference {
    pub(crate) const UNKNOWN: Self = Self { bytes: [0; 32], inline: false };

    pub(crate) const fn hashed(hash: B256) -> Self {
        Self { bytes: hash.0, inline: false }
    }

    /// Reference to a node whose RLP has fewer than 32 bytes.
    pub(crate) fn inlined(rlp: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes[..rlp.len()].copy_from_slice(rlp);
        Self { bytes, inline: true }
    }

    /// RLP of a node that is inlined: a short list.
    fn inline(&self) -> &[u8] {
        &self.bytes[..1 + usize::from(self.bytes[0] & 0x3f)]
    }

    pub(crate) fn len(&self) -> usize {
        if self.inline { self.inline().len() } else { 33 }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if self.inline {
            out.extend_from_slice(self.inline());
        } else {
            out.push(0xa0);
            out.extend_from_slice(&self.bytes);
        }
    }

    /// Hash of the node as a root, which is hashed however short it is.
    pub(crate) fn root(&self) -> B256 {
        if self.inline { keccak256(self.inline()) } else { B256::new(self.bytes) }
    }
}
