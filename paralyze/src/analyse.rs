use crate::{Batch, Erc20Layout, Simulator, Snapshot, Source, StateKey, VmConfig, declared, erc20, native};
use alloy_primitives::{Address, B256};
use core::ops::Range;
use phalanx_access::{Access, Salt};
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::TxKind,
};
use std::collections::HashMap;

/// Transactions per parallel piece: large enough to hide the cost of a fork, small enough to balance.
const PIECE: usize = 512;

/// Codes whose layout is remembered; beyond it new codes are simulated. A bound on memory, not a tuning knob.
const MAX_LAYOUTS: usize = 1 << 16;

/// The analyser. It remembers the storage layouts of the tokens it has seen.
#[derive(Debug)]
pub struct ParaLyze {
    salt: Salt,
    cfg: VmConfig,
    /// By code hash.
    layouts: HashMap<B256, Learned>,
    pieces: Vec<Piece>,
    simulate_all: bool,
}

/// What is known of a token's code.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    layout: Option<Erc20Layout>,
    /// Simulations that a standard layout did not explain.
    failures: u8,
}

/// Simulations that may fail to show a layout before the code counts as non-standard. A call that reverts early shows
/// nothing, so one is not enough: whoever sends it first would decide for all.
const MAX_FAILURES: u8 = 4;

/// One parallel piece of a batch.
#[derive(Debug, Default)]
struct Piece {
    batch: Batch,
    /// Transactions of unknown tokens, by position in the piece; `batch` holds a placeholder for each.
    pending: Vec<(usize, B256)>,
    rules: Vec<Rule>,
    slots: erc20::Slots,
}

/// Which layer predicts a transaction.
#[derive(Clone, Debug)]
enum Rule {
    Native(Address),
    /// The token, and where its slots are.
    Erc20(Address, Range<usize>),
    Declared(Address),
    /// A precompile of the chain's own, and what it says it touches.
    Precompile(Address, Vec<(StateKey, Access)>),
    /// The layout of this code is to be learned first.
    Learn(B256),
    Simulate,
}

impl ParaLyze {
    /// An analyser for a chain configured by `cfg`; digests are keyed by `salt`.
    pub fn new(salt: Salt, cfg: impl Into<VmConfig>) -> Self {
        let cfg = cfg.into();
        Self { salt, cfg, layouts: HashMap::new(), pieces: Vec::new(), simulate_all: false }
    }

    /// Predicts by simulation alone from now on, to measure what the rules are worth.
    pub const fn simulate_all(&mut self) {
        self.simulate_all = true;
    }

    /// Goes by other rules from now on; what was learned is kept.
    pub fn set_cfg(&mut self, cfg: VmConfig) {
        self.cfg = cfg;
    }

    /// The salt that keys the digests.
    pub const fn salt(&self) -> &Salt {
        &self.salt
    }

    /// Predicts what each of `txs` touches if it ran on `snapshot` in a block like `env`, and appends the sets to
    /// `batch`. Runs in the current rayon pool.
    ///
    /// A token seen for the first time is simulated once, in the order of `txs`, so that what is learned does not depend
    /// on threads.
    pub fn analyse<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], batch: &mut Batch) {
        let mut pieces = core::mem::take(&mut self.pieces);
        pieces.resize_with(txs.len().div_ceil(PIECE), Piece::default);
        let predict = |(piece, txs): (&mut Piece, &[&TxEnv])| self.predict(snapshot, env, txs, piece, true);
        if pieces.len() > 1 {
            pieces.par_iter_mut().zip(txs.par_chunks(PIECE)).for_each(predict);
        } else {
            pieces.iter_mut().zip(txs.chunks(PIECE)).for_each(predict);
        }
        if pieces.iter().any(|piece| !piece.pending.is_empty()) {
            self.learn(snapshot, env, txs, &pieces);
            pieces.par_iter_mut().zip(txs.par_chunks(PIECE)).for_each(|(piece, txs)| {
                if !piece.pending.is_empty() {
                    self.predict(snapshot, env, txs, piece, false);
                }
            });
        }
        for piece in &pieces {
            for index in 0..piece.batch.len() {
                batch.append(&piece.batch, index);
            }
        }
        self.pieces = pieces;
    }

    /// How much of the gas of `txs` no rule predicts, as a share of their limits: what would have to be simulated, which
    /// costs as much as executing it. O(transactions), without hashing or execution.
    pub fn unruled_share<S: Snapshot>(&self, snapshot: &S, txs: &[TxEnv]) -> f64 {
        let (mut unruled, mut total) = (0u128, 0u128);
        let mut slots = erc20::Slots::default();
        for tx in txs {
            let gas = u128::from(tx.gas_limit);
            total += gas;
            slots.clear();
            if matches!(self.rule(snapshot, tx, &mut slots, true), Rule::Simulate) {
                unruled += gas;
            }
        }
        if total == 0 { 0.0 } else { unruled as f64 / total as f64 }
    }

    /// Predicts one transaction by simulation alone: what the engine asks for one that escaped its prediction.
    pub fn simulate<S: Snapshot>(&self, snapshot: &S, env: &BlockEnv, tx: &TxEnv, batch: &mut Batch) {
        let simulator = &mut None;
        self.simulate_into(simulator, snapshot, env, tx, batch);
    }

    /// Predicts a piece. While `learning`, calls of tokens with an unknown layout are set aside.
    fn predict<S: Snapshot>(&self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], piece: &mut Piece, learning: bool) {
        let Piece { batch, pending, rules, slots } = piece;
        batch.clear();
        pending.clear();
        slots.clear();
        rules.clear();
        rules.extend(txs.iter().map(|tx| self.rule(snapshot, tx, slots, learning)));
        slots.hash();
        let mut simulator = None;
        for (index, (tx, rule)) in txs.iter().zip(rules.iter()).enumerate() {
            match rule {
                Rule::Native(to) => {
                    native::add(batch, tx, *to);
                    batch.close(Source::Native, &self.salt);
                }
                Rule::Erc20(token, range) => {
                    slots.add(batch, tx.caller, *token, range.clone());
                    batch.close(Source::Erc20, &self.salt);
                }
                Rule::Declared(to) => {
                    declared::add(batch, tx, *to);
                    batch.close(Source::Declared, &self.salt);
                }
                Rule::Precompile(to, accesses) => {
                    batch.add(StateKey::Basic(tx.caller), Access::Write);
                    batch.add(StateKey::Basic(*to), Access::Write);
                    for (key, access) in accesses {
                        // It runs, and may look at what it credits.
                        batch.add(*key, if *access == Access::Credit { Access::Write } else { *access });
                    }
                    batch.close(Source::Declared, &self.salt);
                }
                Rule::Learn(code) => {
                    pending.push((index, *code));
                    batch.push([], Source::Unknown, &self.salt);
                }
                Rule::Simulate => self.simulate_into(&mut simulator, snapshot, env, tx, batch),
            }
        }
    }

    /// Which layer is to predict `tx`.
    fn rule<S: Snapshot>(&self, snapshot: &S, tx: &TxEnv, slots: &mut erc20::Slots, learning: bool) -> Rule {
        let to = match tx.kind {
            TxKind::Call(to) if !self.simulate_all => to,
            _ => return Rule::Simulate,
        };
        let Some(code) = snapshot.code_hash(&to) else {
            if self.cfg.runs_nothing(tx, &to) {
                return Rule::Native(to);
            }
            let declared = self.cfg.precompile(&to).and_then(|precompile| precompile.accesses(tx));
            return declared.map_or(Rule::Simulate, |accesses| Rule::Precompile(to, accesses));
        };
        let plain = tx.value.is_zero() && tx.authorization_list.is_empty();
        if let Some(call) = erc20::decode(&tx.data).filter(|_| plain) {
            match self.layouts.get(&code) {
                Some(Learned { layout: Some(layout), .. }) if layout.explains(&call) => {
                    return Rule::Erc20(to, slots.ask(tx.caller, call, layout));
                }
                Some(Learned { failures, .. }) if learning && *failures < MAX_FAILURES => return Rule::Learn(code),
                None if learning && self.layouts.len() < MAX_LAYOUTS => return Rule::Learn(code),
                _ => {}
            }
        }
        if declared::applies(tx) { Rule::Declared(to) } else { Rule::Simulate }
    }

    /// Simulates pending calls in order until each kind of call of each code has shown its layout, or has failed to too
    /// often.
    fn learn<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], pieces: &[Piece]) {
        let mut simulator = Simulator::new(snapshot, &self.cfg, env);
        for (p, piece) in pieces.iter().enumerate() {
            for (index, code) in &piece.pending {
                let tx = txs[p * PIECE + index];
                let (TxKind::Call(token), Some(call)) = (tx.kind, erc20::decode(&tx.data)) else { continue };
                let known = self.layouts.get(code).copied().unwrap_or_default();
                let explained = known.layout.is_some_and(|layout| layout.explains(&call));
                if explained || known.failures >= MAX_FAILURES {
                    continue;
                }
                let set = simulator.simulate(tx).unwrap_or_default();
                let touched: Vec<_> = set
                    .as_slice()
                    .iter()
                    .filter_map(|(key, _)| match key {
                        StateKey::Slot(owner, slot) if *owner == token => Some(*slot),
                        _ => None,
                    })
                    .collect();
                let learned = match erc20::infer(call, tx.caller, &touched, known.layout) {
                    Some(layout) => Learned { layout: Some(layout), ..known },
                    None => Learned { failures: known.failures + 1, ..known },
                };
                self.layouts.insert(*code, learned);
            }
        }
    }

    fn simulate_into<'a, S: Snapshot>(
        &self,
        simulator: &mut Option<Simulator<'a, S>>,
        snapshot: &'a S,
        env: &BlockEnv,
        tx: &TxEnv,
        batch: &mut Batch,
    ) {
        let simulator = simulator.get_or_insert_with(|| Simulator::new(snapshot, &self.cfg, env));
        match simulator.simulate(tx) {
            Some(set) => batch.push(set.as_slice().iter().copied(), Source::Simulated, &self.salt),
            None => {
                batch.add(StateKey::Basic(tx.caller), Access::Write);
                if let TxKind::Call(to) = tx.kind {
                    batch.add(StateKey::Basic(to), Access::Write);
                }
                batch.close(Source::Unknown, &self.salt);
            }
        }
    }

    /// The layout that was inferred for the token code `hash`.
    pub fn layout(&self, hash: &B256) -> Option<Erc20Layout> {
        self.layouts.get(hash).and_then(|learned| learned.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::{
        bytecode::Bytecode,
        context::CfgEnv,
        database::{CacheDB, EmptyDB},
        primitives::{Bytes, U256, keccak256},
        state::AccountInfo,
    };

    /// A token in thirty instructions: `transfer` moves from keccak(caller ‖ 7) to keccak(to ‖ 7), whatever the selector.
    fn token_code() -> Bytes {
        let mut code = vec![0x60, 7, 0x60, 0x20, 0x52]; // mstore(32, 7)
        let balance = |owner: &[u8]| {
            let mut c = owner.to_vec(); // push owner
            c.extend_from_slice(&[0x5f, 0x52, 0x60, 0x40, 0x5f, 0x20]); // mstore(0, owner); keccak(0, 64)
            c
        };
        code.extend(balance(&[0x33])); // caller
        code.extend_from_slice(&[0x60, 36, 0x35, 0x81, 0x54, 0x03, 0x90, 0x55]); // sstore(s, sload(s) - amount)
        code.extend(balance(&[0x60, 4, 0x35])); // calldataload(4)
        code.extend_from_slice(&[0x60, 36, 0x35, 0x81, 0x54, 0x01, 0x90, 0x55, 0x00]);
        code.into()
    }

    fn world() -> (CacheDB<EmptyDB>, Address, B256) {
        let token = Address::repeat_byte(0xee);
        let code = Bytecode::new_raw(token_code());
        let hash = code.hash_slow();
        let mut db = CacheDB::new(EmptyDB::default());
        db.insert_account_info(token, AccountInfo::default().with_code(code));
        for i in 1..=100u8 {
            let owner = Address::repeat_byte(i);
            db.insert_account_info(owner, AccountInfo { balance: U256::from(1u64 << 60), ..Default::default() });
            let mut preimage = [0; 64];
            preimage[..32].copy_from_slice(owner.into_word().as_slice());
            preimage[63] = 7;
            db.insert_account_storage(token, keccak256(preimage).into(), U256::from(1_000)).expect("in memory");
        }
        (db, token, hash)
    }

    fn transfer(from: u8, token: Address, to: u8, amount: u64) -> TxEnv {
        let mut data = vec![0xa9, 0x05, 0x9c, 0xbb];
        data.extend_from_slice(Address::repeat_byte(to).into_word().as_slice());
        data.extend_from_slice(&U256::from(amount).to_be_bytes::<32>());
        TxEnv {
            caller: Address::repeat_byte(from),
            kind: TxKind::Call(token),
            data: data.into(),
            gas_limit: 100_000,
            gas_price: 1,
            chain_id: Some(1),
            ..Default::default()
        }
    }

    #[test]
    fn what_no_rule_predicts_is_told_by_its_gas() {
        let (db, token, _) = world();
        let paralyze = ParaLyze::new(Salt::new(1), CfgEnv::default());
        let call = |to, data: Vec<u8>, gas_limit| TxEnv {
            kind: TxKind::Call(to),
            data: data.into(),
            gas_limit,
            ..TxEnv::default()
        };
        let native = call(Address::repeat_byte(7), vec![], 100);
        let mut transfer = vec![0xa9, 0x05, 0x9c, 0xbb];
        transfer.extend([0; 64]);
        let (learnable, unruled) = (call(token, transfer, 100), call(token, vec![1], 300));
        assert!(paralyze.unruled_share(&db, &[native.clone(), learnable.clone()]) < f64::EPSILON);
        assert!((paralyze.unruled_share(&db, &[native, learnable, unruled]) - 0.6).abs() < 1e-9);
        assert!(paralyze.unruled_share(&db, &[]) < f64::EPSILON);
    }

    #[test]
    fn a_token_is_learned_from_one_simulation_and_then_predicted_as_it_runs() {
        let (db, token, hash) = world();
        let txs: Vec<_> = (0..1_500u32).map(|i| transfer(1 + (i % 50) as u8, token, 51 + (i % 50) as u8, 5)).collect();
        let refs: Vec<_> = txs.iter().collect();
        let env = BlockEnv::default();
        let mut paralyze = ParaLyze::new(Salt::new(1), CfgEnv::default());
        let mut batch = Batch::new();
        paralyze.analyse(&db, &env, &refs, &mut batch);
        assert_eq!(paralyze.layout(&hash).map(|l| l.balances), Some(7));
        let mut simulator = Simulator::new(&db, &VmConfig::default(), &env);
        for (i, tx) in txs.iter().enumerate() {
            assert_eq!(batch.source(i), Source::Erc20, "transaction {i}");
            let mut predicted = batch.sets().get(i).to_vec();
            let mut actual = simulator.simulate(tx).expect("valid").as_slice().to_vec();
            predicted.sort();
            actual.sort();
            assert_eq!(predicted, actual, "transaction {i}");
            let digest =
                |(key, access): &(StateKey, Access)| (phalanx_access::Key::digest(key, paralyze.salt()), *access);
            let digests: Vec<_> = batch.sets().get(i).iter().map(digest).collect();
            assert_eq!(batch.digests(i), digests);
        }
    }

    #[test]
    fn a_call_that_reverts_first_does_not_hide_the_layout() {
        let (db, token, hash) = world();
        // Without gas to run, the first two show nothing.
        let poor = |from| TxEnv { gas_limit: 21_700, ..transfer(from, token, 60, 5) };
        let txs = [poor(1), poor(2), transfer(3, token, 61, 5), transfer(4, token, 62, 5)];
        let refs: Vec<_> = txs.iter().collect();
        let mut paralyze = ParaLyze::new(Salt::new(1), CfgEnv::default());
        let mut batch = Batch::new();
        paralyze.analyse(&db, &BlockEnv::default(), &refs, &mut batch);
        assert_eq!(paralyze.layout(&hash).map(|l| l.balances), Some(7));
        assert_eq!(batch.source(3), Source::Erc20);
        // A code that never shows one is given up.
        let mut stubborn = ParaLyze::new(Salt::new(1), CfgEnv::default());
        let txs: Vec<_> = (1..=20).map(poor).collect();
        for round in 0..3 {
            batch.clear();
            stubborn.analyse(&db, &BlockEnv::default(), &txs.iter().collect::<Vec<_>>(), &mut batch);
            assert!((0..20).all(|i| batch.source(i) != Source::Erc20), "round {round}");
        }
        assert_eq!(stubborn.layouts[&hash].failures, MAX_FAILURES);
    }

    #[test]
    fn predictions_do_not_depend_on_threads() {
        let (db, token, _) = world();
        let txs: Vec<_> = (0..3_000u32)
            .map(|i| match i % 3 {
                0 => transfer(1 + (i % 90) as u8, token, 91, 5),
                1 => TxEnv { kind: TxKind::Call(Address::repeat_byte(200)), ..transfer(2, token, 3, 1) },
                _ => TxEnv { kind: TxKind::Create, data: Bytes::new(), ..transfer(3, token, 3, 1) },
            })
            .collect();
        let refs: Vec<_> = txs.iter().collect();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
            let mut batch = Batch::new();
            pool.install(|| {
                ParaLyze::new(Salt::new(1), CfgEnv::default()).analyse(&db, &BlockEnv::default(), &refs, &mut batch);
            });
            (0..batch.len()).map(|i| (batch.source(i), batch.sets().get(i).to_vec())).collect::<Vec<_>>()
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(8));
        assert_eq!(one[2].0, Source::Simulated);
        assert!(one[2].1.iter().any(|(k, a)| matches!(k, StateKey::Code(_)) && *a == Access::Write));
    }

    #[test]
    fn rules_give_way_where_they_do_not_hold() {
        let (db, token, _) = world();
        let base = TxEnv { data: Bytes::new(), ..transfer(1, token, 2, 1) };
        let to = |address| TxEnv { kind: TxKind::Call(address), value: U256::ONE, ..base.clone() };
        let precompile = to(Address::with_last_byte(4));
        let contract = to(token);
        let itself = to(base.caller);
        let zero = TxEnv { value: U256::ZERO, ..to(Address::repeat_byte(2)) };
        let poor = TxEnv { caller: Address::repeat_byte(0xdd), ..to(token) };
        let listed = TxEnv {
            access_list: vec![revm::context_interface::transaction::AccessListItem {
                address: token,
                storage_keys: vec![B256::with_last_byte(3)],
            }]
            .into(),
            tx_type: 1,
            ..base.clone()
        };
        let txs = [&precompile, &contract, &itself, &zero, &poor, &listed];
        let mut batch = Batch::new();
        ParaLyze::new(Salt::new(1), CfgEnv::default()).analyse(&db, &BlockEnv::default(), &txs, &mut batch);
        let sources: Vec<_> = (0..txs.len()).map(|i| batch.source(i)).collect();
        use Source::{Declared, Native, Simulated, Unknown};
        assert_eq!(sources, [Simulated, Simulated, Native, Native, Unknown, Declared]);
        assert_eq!(batch.sets().get(2), [(StateKey::Basic(base.caller), Access::Write)]);
        assert_eq!(batch.sets().get(3)[1].1, Access::Write, "a zero transfer may delete an empty account");
        assert!(batch.sets().get(4).iter().any(|(key, _)| *key.address() == token));
        assert!(batch.sets().get(5).contains(&(StateKey::Slot(token, U256::from(3)), Access::Write)));
    }
}
