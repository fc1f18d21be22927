//! Random scripts of payloads, forks, heads, duplicates and restarts against a model, and stock revm on the head's chain.

use super::beacon::{Driven, Payload, attributes, driven};
use crate::kit::{Call, FUNDED, Reference, address, genesis, signed};
use alloy_primitives::{Address, B256, U256};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// Number of payloads of a tree.
const PAYLOADS: usize = 24;

/// Number of steps of a script.
const STEPS: usize = 120;

/// A tree of payloads on a genesis, by a node that builds on any of them.
fn tree(folder: &Path, rng: &mut ChaCha8Rng) -> Vec<Payload> {
    let maker = Driven::start(&driven(folder, genesis()));
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
        let payload = maker.build(5, parent, &attributes(5, time + rng.random_range(1..30), rng.random()));
        assert_eq!(maker.offer(&payload), ("VALID".into(), Some(payload.hash())));
        all.push(payload);
    }
    maker.node.stop();
    all
}

/// Facts that a node must know and show.
struct Model {
    blocks: HashMap<B256, Payload>,
    /// Hashes of the chain, with the genesis.
    chain: Vec<B256>,
    held: HashSet<B256>,
    valid: HashSet<B256>,
    safe: Option<usize>,
    finalised: Option<usize>,
}

impl Model {
    fn height(&self, hash: B256) -> Option<usize> {
        self.chain.iter().position(|held| *held == hash)
    }

    /// Held blocks up to `hash`, oldest first, and the height of the block that they are on.
    fn path(&self, hash: B256) -> (Vec<B256>, Option<usize>) {
        let (mut path, mut root) = (Vec::new(), hash);
        while self.height(root).is_none() && self.held.contains(&root) {
            path.push(root);
            root = self.blocks[&root].parent();
        }
        path.reverse();
        (path, self.height(root))
    }

    fn offer(&mut self, hash: B256) -> (String, Option<B256>) {
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
    fn choose(&mut self, head: B256, safe: B256, finalised: B256) -> Result<&'static str, i64> {
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
        let (safe, finalised) = (find(safe)?, find(finalised)?);
        if fork < floor {
            return Err(-38006);
        }
        for left in self.chain.drain(fork + 1..) {
            self.held.insert(left);
            self.valid.insert(left);
        }
        path.iter().for_each(|hash| _ = self.held.remove(hash));
        self.chain = chain;
        self.finalised = finalised.filter(|height| *height >= floor).or(self.finalised);
        self.safe = safe.or(self.safe.filter(|height| *height <= fork)).max(self.finalised);
        let floor = self.finalised.unwrap_or(0) as u64;
        let blocks = &self.blocks;
        self.held.retain(|hash| blocks[hash].number() > floor);
        self.valid.retain(|hash| self.held.contains(hash));
        Ok("VALID")
    }

    fn restart(&mut self) {
        self.held.clear();
        self.valid.clear();
    }

    fn compare(&self, node: &Driven) {
        assert_eq!(node.tagged("latest"), self.chain.last().copied());
        let at = |height: Option<usize>| height.map(|height| self.chain[height]);
        assert_eq!(node.tagged("safe"), at(self.safe));
        assert_eq!(node.tagged("finalized"), at(self.finalised));
    }

    /// Compares every account with stock revm on the chain of the head.
    fn compare_state(&self, node: &Driven) {
        let mut reference = Reference::new(&genesis());
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
            let recipient: Address = super::beacon::read(&self.blocks[hash].body["feeRecipient"]);
            assert_eq!(node.balance(recipient), reference.account(recipient).balance, "{recipient}");
        }
        assert_eq!(node.balance(Address::repeat_byte(0xdd)), withdrawn);
    }
}

fn script(seed: u64) {
    eprintln!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let all = tree(&folder.path().join("maker"), &mut rng);
    let settings = driven(&folder.path().join("node"), genesis());
    let mut node = Driven::start(&settings);
    let blocks = all.iter().map(|payload| (payload.hash(), payload.clone())).collect();
    let mut model = Model {
        blocks,
        chain: vec![node.genesis()],
        held: HashSet::new(),
        valid: HashSet::new(),
        safe: None,
        finalised: None,
    };
    for step in 0..STEPS {
        let payload = &all[rng.random_range(0..all.len())];
        match rng.random_range(0..20) {
            0 => {
                node.node.stop();
                node = Driven::start(&settings);
                model.restart();
            }
            1 => {
                // Invalid wherever it is, also where its ancestors are executed for it.
                let wrong = payload.with("stateRoot", json!(B256::repeat_byte(1)));
                assert_ne!(node.offer(&wrong).0, "VALID", "step {step}");
                let (path, root) = model.path(payload.parent());
                if root == Some(model.chain.len() - 1) {
                    model.valid.extend(path);
                }
            }
            2..10 => {
                let expected = model.offer(payload.hash());
                for _ in 0..rng.random_range(1..3) {
                    assert_eq!(node.offer(payload), expected, "step {step}");
                }
            }
            kind => {
                let head = payload.hash();
                let mut line = vec![head];
                while let Some(payload) = model.blocks.get(&line[line.len() - 1]) {
                    line.push(payload.parent());
                }
                let mut mark = |odds: f64| match rng.random_bool(odds) {
                    true => line[rng.random_range(0..line.len())],
                    false => B256::ZERO,
                };
                let (safe, finalised) = (mark(0.5), if kind == 19 { mark(0.5) } else { B256::ZERO });
                let state = super::beacon::state(head, safe, finalised);
                match model.choose(head, safe, finalised) {
                    Err(code) => {
                        assert_eq!(
                            node.error("engine_forkchoiceUpdatedV3", &json!([state, null])),
                            code,
                            "step {step}"
                        );
                    }
                    Ok("VALID") => {
                        assert_eq!(node.choose(head, safe, finalised), ("VALID".into(), Some(head)), "step {step}")
                    }
                    Ok(other) => assert_eq!(node.choose(head, safe, finalised), (other.into(), None), "step {step}"),
                }
            }
        }
        model.compare(&node);
    }
    // The whole tree in order, and its highest block: nothing that came before stands in the way.
    let floor = model.finalised.unwrap_or(0);
    all.iter().for_each(|payload| _ = (node.offer(payload), model.offer(payload.hash())));
    let on_final = |payload: &&Payload| matches!(model.path(payload.hash()), (_, Some(fork)) if fork >= floor);
    if let Some(highest) = all.iter().filter(on_final).max_by_key(|payload| payload.number()).map(Payload::hash)
        && model.choose(highest, B256::ZERO, B256::ZERO) == Ok("VALID")
    {
        node.head(highest);
    }
    model.compare(&node);
    model.compare_state(&node);
    node.node.stop();
}

#[test]
fn random_scripts_end_in_the_state_of_the_heads_chain() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, scripts) = (number("PHALANX_SEED", 1), number("PHALANX_SCRIPTS", 4));
    (first..first + scripts).for_each(script);
}
