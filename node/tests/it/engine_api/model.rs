//! A tree of payloads, and the model of a node that a client drives through it.

use super::beacon::{Driven, Payload, attributes, driven, read};
use crate::kit::{Call, FUNDED, Reference, address, genesis, signed};

use alloy_primitives::{Address, B256, U256};
use phalanx::alloy::genesis::Genesis;
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// Number of payloads of a tree.
const PAYLOADS: usize = 24;

/// Time at which Amsterdam begins: some blocks above the genesis, in every branch.
const AMSTERDAM: u64 = 60;

/// A genesis on Osaka, whose chains pass to Amsterdam.
pub(super) fn passing() -> Genesis {
    let mut genesis = genesis();
    genesis.config.amsterdam_time = Some(AMSTERDAM);
    genesis
}

/// Version of the payloads of a time.
pub(super) const fn fork_at(time: u64) -> u8 {
    if time < AMSTERDAM { 5 } else { 6 }
}

/// A tree of payloads on a genesis, by a node that builds on any of them.
pub(super) fn tree(folder: &Path, rng: &mut ChaCha8Rng) -> Vec<Payload> {
    let maker = Driven::start(&driven(folder, passing()));
    let root = maker.genesis();
    let mut all: Vec<Payload> = Vec::new();
    while all.len() < PAYLOADS {
        // Mostly on a newer one: branches are some blocks long.
        let place = rng.random_range(all.len().saturating_sub(6)..=all.len());
        let (parent, time) = all.get(place).map_or((root, 0), |payload| (payload.hash(), payload.timestamp()));
        maker.head(parent);
        for _ in 0..rng.random_range(0..3) {
            let from = rng.random_range(0..FUNDED);
            let nonce = maker.client.quantity("eth_getTransactionCount", json!([address(from), "pending"]));
            let to = address(rng.random_range(0..FUNDED));
            let call = Call::to(from, u64::try_from(nonce).expect("a nonce"), to, rng.random_range(1..100));
            // One of a branch that was left may wait under the same nonce.
            let _ = maker.client.ask("eth_sendRawTransaction", json!([signed(2, &call, vec![])]));
        }
        let time = time + rng.random_range(1..30);
        let fork = fork_at(time);
        let payload = maker.build(fork, parent, &attributes(fork, time, rng.random()));
        assert_eq!(maker.offer(&payload), ("VALID".into(), Some(payload.hash())));
        all.push(payload);
    }
    maker.stop();
    all
}

/// Facts that a node must know and show.
pub(super) struct Model {
    pub(super) blocks: HashMap<B256, Payload>,
    /// Hashes of the chain, with the genesis.
    pub(super) chain: Vec<B256>,
    held: HashSet<B256>,
    valid: HashSet<B256>,
    safe: Option<usize>,
    pub(super) finalised: Option<usize>,
}

/// A fork choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) head: B256,
    pub(super) safe: B256,
    pub(super) finalised: B256,
}

impl Choice {
    pub(super) const fn of(head: B256) -> Self {
        Self { head, safe: B256::ZERO, finalised: B256::ZERO }
    }
}

impl Model {
    /// A node at its genesis, with the payloads that there are.
    pub(super) fn new(genesis: B256, all: &[Payload]) -> Self {
        let blocks = all.iter().map(|payload| (payload.hash(), payload.clone())).collect();
        let (held, valid) = (HashSet::new(), HashSet::new());
        Self { blocks, chain: vec![genesis], held, valid, safe: None, finalised: None }
    }

    pub(super) fn newest(&self) -> B256 {
        self.chain[self.chain.len() - 1]
    }

    /// The choice that the model has made last.
    pub(super) fn again(&self) -> Choice {
        let safe = self.safe.map_or(B256::ZERO, |height| self.chain[height]);
        Choice { safe, ..Choice::of(self.newest()) }
    }

    /// A payload of the tree with its ancestors, the genesis last.
    pub(super) fn line(&self, hash: B256) -> Vec<B256> {
        let mut line = vec![hash];
        while let Some(payload) = self.blocks.get(&line[line.len() - 1]) {
            line.push(payload.parent());
        }
        line
    }

    /// Notes that the ancestors of a payload are executed, if it extends the newest block.
    pub(super) fn reach(&mut self, parent: B256) {
        let (path, root) = self.path(parent);
        if root == Some(self.chain.len() - 1) {
            self.valid.extend(path);
        }
    }

    fn height(&self, hash: B256) -> Option<usize> {
        self.chain.iter().position(|held| *held == hash)
    }

    /// Held blocks up to `hash`, oldest first, and the height of the block that they are on.
    pub(super) fn path(&self, hash: B256) -> (Vec<B256>, Option<usize>) {
        let (mut path, mut root) = (Vec::new(), hash);
        while self.height(root).is_none() && self.held.contains(&root) {
            path.push(root);
            root = self.blocks[&root].parent();
        }
        path.reverse();
        (path, self.height(root))
    }

    pub(super) fn offer(&mut self, hash: B256) -> (String, Option<B256>) {
        let valid = ("VALID".to_owned(), Some(hash));
        if self.height(hash).is_some() || self.valid.contains(&hash) {
            return valid;
        }
        self.held.insert(hash);
        match self.path(hash) {
            (_, None) => ("SYNCING".into(), None),
            (_, Some(below)) if below + 1 < self.chain.len() => ("ACCEPTED".into(), None),
            (path, Some(_)) => {
                self.valid.extend(path);
                valid
            }
        }
    }

    /// Moves to a head, and marks blocks. Returns the state, or the code of an error.
    pub(super) fn choose(&mut self, choice: Choice) -> Result<&'static str, i64> {
        let Choice { head, safe, finalised } = choice;
        let (path, fork) = self.path(head);
        let Some(fork) = fork else { return Ok("SYNCING") };
        let floor = self.finalised.unwrap_or(0);
        if path.is_empty() && fork < floor {
            return Ok("VALID");
        }
        let chain: Vec<B256> = self.chain[..=fork].iter().chain(&path).copied().collect();
        let find = |hash: B256| match chain.iter().position(|held| *held == hash) {
            _ if hash.is_zero() => Ok(None),
            Some(height) => Ok(Some(height)),
            None => Err(-38002),
        };
        if fork < floor {
            return Err(-38006);
        }
        let (safe, finalised) = match find(safe).and_then(|safe| Ok((safe, find(finalised)?))) {
            Ok(found) => found,
            Err(code) => {
                // The head is executed, and left again.
                self.valid.extend(path);
                return Err(code);
            }
        };
        for left in self.chain.drain(fork + 1..) {
            self.held.insert(left);
            self.valid.insert(left);
        }
        path.iter().for_each(|hash| _ = self.held.remove(hash));
        self.chain = chain;
        self.finalised = finalised.filter(|height| *height >= floor).or(self.finalised);
        self.safe = safe.or(self.safe.filter(|height| *height <= fork)).max(self.finalised);
        self.forget_final();
        Ok("VALID")
    }

    /// Drops payloads that can never be chosen.
    fn forget_final(&mut self) {
        let floor = self.finalised.unwrap_or(0) as u64;
        let blocks = &self.blocks;
        self.held.retain(|hash| blocks[hash].number() > floor);
        self.valid.retain(|hash| self.held.contains(hash));
    }

    /// What was offered is there again, and not executed yet.
    pub(super) fn restart(&mut self) {
        self.forget_executed();
        self.forget_final();
    }

    /// Forgets which blocks beside the chain are executed.
    pub(super) fn forget_executed(&mut self) {
        self.valid.clear();
    }

    pub(super) fn compare(&self, node: &Driven) {
        assert_eq!(node.tagged("latest"), self.chain.last().copied());
        let at = |height: Option<usize>| height.map(|height| self.chain[height]);
        assert_eq!(node.tagged("safe"), at(self.safe));
        assert_eq!(node.tagged("finalized"), at(self.finalised));
    }

    /// Compares every account with stock revm on the chain of the head.
    pub(super) fn compare_state(&self, node: &Driven) {
        let mut reference = Reference::new(&passing());
        let mut withdrawn = U256::ZERO;
        for hash in &self.chain[1..] {
            let payload = &self.blocks[hash];
            reference.block(&payload.block().header, *hash, &payload.txs());
            withdrawn += U256::from(10).pow(U256::from(18));
        }
        for account in 0..FUNDED {
            let info = reference.account(address(account));
            let nonce = node.client.quantity("eth_getTransactionCount", json!([address(account), "latest"]));
            assert_eq!((node.balance(address(account)), nonce), (info.balance, u128::from(info.nonce)), "{account}");
        }
        for hash in &self.chain[1..] {
            let recipient: Address = read(&self.blocks[hash].body["feeRecipient"]);
            assert_eq!(node.balance(recipient), reference.account(recipient).balance, "{recipient}");
        }
        assert_eq!(node.balance(Address::repeat_byte(0xdd)), withdrawn);
    }
}
