//! Names of blocks, executions and requests.

use crate::env::{BlockEnv, TxPolicy};
use alloy_primitives::{Address, B256, keccak256};
use core::fmt;

/// A block as consensus names it: covers view, author, certificates, whatever that protocol likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub B256);

/// An execution: a block's content on a parent's state. Several [`BlockId`]s may name one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecId(pub B256);

/// A number that a caller gives a request and finds again in its completion.
///
/// The caller chooses it, so its core can decide before the call returns. Tickets of one caller only grow. A
/// completion with an older ticket than the block's last request belongs to a fork that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl ExecId {
    /// Parent of a chain's first block.
    pub const GENESIS: Self = Self(B256::ZERO);

    /// The identity of a payload with digest `payload` executed under `env` and `policy` on `parent`.
    ///
    /// Keccak-256 over fixed-width fields behind a domain tag: injective but for collisions of the hash.
    #[must_use]
    pub fn derive(chain: u64, parent: Self, env: &BlockEnv, policy: TxPolicy, payload: B256) -> Self {
        let mut bytes = Vec::with_capacity(192);
        bytes.extend_from_slice(b"phalanx-exec-1");
        bytes.extend_from_slice(&chain.to_be_bytes());
        bytes.extend_from_slice(parent.0.as_slice());
        for number in [env.height, env.timestamp_ms, env.gas_limit, env.base_fee] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(env.prevrandao.as_slice());
        bytes.extend_from_slice(env.beneficiary.as_slice());
        bytes.push(match policy {
            TxPolicy::Strict => 0,
            TxPolicy::SkipInvalid => 1,
        });
        bytes.extend_from_slice(payload.as_slice());
        Self(keccak256(bytes))
    }

    /// Randomness of a child of this execution on a chain that a consensus orders: Keccak-256 over height, time, beneficiary and parent.
    /// The proposer of the child can influence it.
    pub fn randomness(self, height: u64, timestamp_ms: u64, beneficiary: Address) -> B256 {
        // The tag is that of the first consensus that was bound: chains have it.
        const TAG: &[u8] = b"phalanx-abci-randao-1";
        let numbers = [height.to_be_bytes(), timestamp_ms.to_be_bytes()].concat();
        keccak256([TAG, &numbers[..], beneficiary.as_slice(), self.0.as_slice()].concat())
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", short(&self.0))
    }
}

impl fmt::Display for ExecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "execution {}", short(&self.0))
    }
}

/// The first four bytes: enough for people.
fn short(hash: &B256) -> String {
    hash.as_slice().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_counts() {
        let env = BlockEnv::default();
        let id = |chain, parent, env: &BlockEnv, policy, payload| ExecId::derive(chain, parent, env, policy, payload);
        let base = id(1, ExecId::GENESIS, &env, TxPolicy::Strict, B256::ZERO);
        let one = B256::with_last_byte(1);
        let others = [
            id(2, ExecId::GENESIS, &env, TxPolicy::Strict, B256::ZERO),
            id(1, ExecId(one), &env, TxPolicy::Strict, B256::ZERO),
            id(1, ExecId::GENESIS, &env, TxPolicy::SkipInvalid, B256::ZERO),
            id(1, ExecId::GENESIS, &env, TxPolicy::Strict, one),
            id(1, ExecId::GENESIS, &BlockEnv { height: 1, ..env }, TxPolicy::Strict, B256::ZERO),
            id(1, ExecId::GENESIS, &BlockEnv { timestamp_ms: 1, ..env }, TxPolicy::Strict, B256::ZERO),
            id(1, ExecId::GENESIS, &BlockEnv { gas_limit: 1, ..env }, TxPolicy::Strict, B256::ZERO),
            id(1, ExecId::GENESIS, &BlockEnv { base_fee: 1, ..env }, TxPolicy::Strict, B256::ZERO),
            id(1, ExecId::GENESIS, &BlockEnv { prevrandao: one, ..env }, TxPolicy::Strict, B256::ZERO),
            id(
                1,
                ExecId::GENESIS,
                &BlockEnv { beneficiary: Address::with_last_byte(1), ..env },
                TxPolicy::Strict,
                B256::ZERO,
            ),
        ];
        let mut all = others.to_vec();
        all.push(base);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), others.len() + 1);
    }
}
