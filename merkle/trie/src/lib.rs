//! Ethereum's state root, updated block by block in memory: Merkle-Patricia tries of accounts and of their slots, hashed
//! with Keccak-256 side by side in vector registers.
//!
//! ```text
//! Changes ──sort──► shape ──► leaves ──► branches, level by level ──► top ──► root
//! any order         new nodes beside the old, only on changed paths
//! ```
//!
//! The trie keeps hashes and keys, and no values: the store has those, and [`Values`] reads the few that an update needs
//! besides its changes. Each block makes a [`Version`], which shares all other nodes with its parent. Forks are versions of
//! the same parent, a revert discards a version, and [`Trie::advance`] drops the oldest. The root depends on the state
//! alone, not on the order of changes, threads or lanes.
//!
//! [`Trie::witness`] collects the nodes that a block reads and changes, and [`Partial`] executes on these alone.
//!
//! ```
//! use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, address, keccak256};
//! use phalanx_trie::{Account, Changes, Config, Fate, Trie, Values, Wipe};
//!
//! /// A store with one account.
//! struct Store(Address, Account);
//!
//! impl Values for Store {
//!     type Error = core::convert::Infallible;
//!
//!     fn account(&self, address: &Address) -> Result<Option<Account>, Self::Error> {
//!         Ok((*address == self.0).then_some(self.1))
//!     }
//!
//!     fn slot(&self, _: &Address, _: &B256) -> Result<U256, Self::Error> {
//!         Ok(U256::ZERO)
//!     }
//! }
//!
//! let alice = address!("00000000000000000000000000000000000a11ce");
//! let account = Account { nonce: 1, balance: U256::from(10), code_hash: KECCAK256_EMPTY };
//! let store = Store(alice, account);
//! let mut trie = Trie::new(Config::default());
//! let mut block = Changes::new();
//! block.account(keccak256(alice), alice, Fate::Set(account), Wipe::Nothing);
//! let block = trie.update(trie.oldest(), &block, &store)?;
//!
//! let proof = trie.prove(block.version, &alice, &[], &store)?;
//! assert_eq!(proof.account, Some(account));
//! assert_eq!(keccak256(&proof.nodes[0]), block.root);
//! # Ok::<(), phalanx_trie::Error<core::convert::Infallible>>(())
//! ```

mod versions;

mod partial;

mod update;

mod hash;

mod grow;

mod nodes;

mod types;

pub use partial::{Nodes, Owner, Partial, PartialError, Place};
pub use phalanx_hash_lanes::Lanes;
pub use types::{Account, AccountChange, Changes, Error, Fate, SlotChange, Values, Wipe, Work};
pub use versions::{AccountProof, Config, SlotProof, Trie, Updated, Version};
