//! The analyser: predicts each transaction by the cheapest layer that can.
//!
//! A batch is predicted in pieces, in parallel. Rules and templates come first; then layouts and templates are learned from
//! dry runs (`teach.rs`); the rest is simulated.

use crate::{
    batch::{Batch, Source},
    declared,
    erc20::{self, Erc20Layout},
    key::StateKey,
    native,
    simulate::Simulator,
    snapshot::Snapshot,
    template::{Evaluator, Function, Predicted, Request, Span, Table, Template, TemplateLimits, selector},
    vm::VmConfig,
};
use alloy_primitives::{Address, B256, map::B256Map};
use core::ops::Range;
use phalanx_access::{Access, Salt};
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::TxKind,
};

/// Number of transactions per parallel piece: large enough to hide the cost of a fork, small enough to balance.
pub const PIECE: usize = 512;

/// Maximum number of codes whose layout is kept; further codes are simulated. A bound on memory.
const MAX_LAYOUTS: usize = 1 << 16;

/// Layers that predict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layers {
    /// All layers, cheapest first.
    #[default]
    All,
    /// All but templates: native rule, access lists, the ERC20 rule, simulation.
    WithoutTemplates,
    /// All but the ERC20 rule, to measure templates on ERC20 calls.
    WithoutStandards,
    /// Simulation alone.
    Simulation,
}

/// The analyser. It keeps the storage layouts of known tokens, and templates of other functions.
#[derive(Debug)]
pub struct ParaLyze {
    pub(crate) salt: Salt,
    pub(crate) cfg: VmConfig,
    /// Layouts, by code hash.
    layouts: B256Map<Learned>,
    pub(crate) templates: Table,
    pieces: Vec<Piece>,
    layers: Layers,
}

/// Knowledge of a token's code.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    layout: Option<Erc20Layout>,
    /// Number of simulations that no standard layout explained.
    failures: u8,
}

/// Maximum number of simulations that show no layout, before the code counts as non-standard. A call that reverts early shows
/// none, so one is not enough: the first sender would decide for all.
const MAX_FAILURES: u8 = 4;

/// A parallel piece of a batch.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) batch: Batch,
    /// Transactions that no rule predicts, by index in the piece; `batch` holds a placeholder for each.
    pub(crate) pending: Vec<(usize, Pending)>,
    rules: Vec<Rule>,
    slots: erc20::Slots,
    predicted: Predicted,
}

/// Reason why a transaction has no prediction yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The token layout of this code is unknown.
    Layout(B256),
    /// The function has no template, or none for this path.
    Template(Function),
    /// Only simulation predicts it.
    Simulation,
}

/// Layer that predicts a transaction.
#[derive(Clone, Debug)]
enum Rule {
    Native(Address),
    /// The token, and the indices of its slots.
    Erc20(Address, Range<usize>),
    /// The index of the request, and the called function.
    Template(usize, Function),
    Declared(Address),
    /// A precompile of the chain, and the accesses that it predicts.
    Precompile(Address, Vec<(StateKey, Access)>),
    /// No prediction yet.
    Pending(Pending),
}

/// The last callee, its code hash and function: in most blocks many transactions call the same.
#[derive(Debug, Default)]
struct Recent<'t> {
    callee: Option<(Address, Option<B256>)>,
    function: Option<Called<'t>>,
}

/// A called function.
#[derive(Clone, Copy, Debug)]
struct Called<'t> {
    selector: Option<[u8; 4]>,
    /// Account that the callee delegates to.
    delegate: Option<Address>,
    function: Function,
    /// Template, if it is trusted.
    template: Option<&'t Template>,
}

/// Treatment of a transaction that no rule predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    SetAside,
    Simulate,
}

impl ParaLyze {
    /// Creates an analyser for a chain configured by `cfg`; digests are keyed by `salt`.
    pub fn new(salt: Salt, cfg: impl Into<VmConfig>) -> Self {
        let cfg = cfg.into();
        Self {
            salt,
            cfg,
            layouts: B256Map::default(),
            templates: Table::new(TemplateLimits::default()),
            pieces: Vec::new(),
            layers: Layers::All,
        }
    }

    /// Sets the limits of templates, and drops the learned ones.
    #[must_use]
    pub fn with_template_limits(mut self, limits: TemplateLimits) -> Self {
        self.templates = Table::new(limits);
        self
    }

    /// Sets the layers, and returns the ones before.
    pub const fn use_layers(&mut self, layers: Layers) -> Layers {
        core::mem::replace(&mut self.layers, layers)
    }

    /// Predicts by simulation alone from now on, to measure the rules against it.
    pub const fn simulate_all(&mut self) {
        self.layers = Layers::Simulation;
    }

    /// Sets the rules of execution. Layouts and templates stay.
    pub fn set_cfg(&mut self, cfg: VmConfig) {
        self.cfg = cfg;
    }

    /// Salt of the digests.
    pub const fn salt(&self) -> &Salt {
        &self.salt
    }

    /// Drops all layouts and templates.
    pub fn forget(&mut self) {
        self.layouts.clear();
        self.templates.clear();
    }

    /// Number of functions that have a template, and the memory of all templates, in bytes, approximately.
    pub fn templates(&self) -> (usize, usize) {
        (self.templates.len(), self.templates.bytes())
    }

    /// Predicts the accesses of each of `txs`, as if it ran on `snapshot` in a block like `env`, and appends the sets to
    /// `batch`. Runs in the current rayon pool.
    ///
    /// Learned layouts and templates depend on the order of `txs` and not on threads.
    pub fn analyse<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], batch: &mut Batch) {
        self.analyse_within(snapshot, env, txs, f64::INFINITY, batch);
    }

    /// Predicts like [`Self::analyse`], into one batch per [`PIECE`] transactions, so that nothing is copied. Reuses the memory of
    /// the batches in `out`.
    pub fn analyse_pieces<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], out: &mut Vec<Batch>) {
        let mut pieces = core::mem::take(&mut self.pieces);
        pieces.resize_with(txs.len().div_ceil(PIECE), Piece::default);
        for (piece, spare) in pieces.iter_mut().zip(out.drain(..)) {
            piece.batch = spare;
        }
        self.analyse_all(snapshot, env, txs, f64::INFINITY, &mut pieces);
        out.extend(pieces.iter_mut().map(|piece| core::mem::take(&mut piece.batch)));
        self.pieces = pieces;
    }

    /// Predicts like [`Self::analyse`], if dry runs cost less than `max_share` of the execution of `txs`. Otherwise returns false
    /// and leaves `batch` unchanged; what was learned until then stays.
    ///
    /// Costs are estimated by gas limits, with little for transfers, and a traced dry run counts as several executions.
    pub fn analyse_within<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        max_share: f64,
        batch: &mut Batch,
    ) -> bool {
        let mut pieces = core::mem::take(&mut self.pieces);
        pieces.resize_with(txs.len().div_ceil(PIECE), Piece::default);
        let is_affordable = self.analyse_all(snapshot, env, txs, max_share, &mut pieces);
        if is_affordable {
            for piece in &pieces {
                for index in 0..piece.batch.len() {
                    batch.append(&piece.batch, index);
                }
            }
        }
        self.pieces = pieces;
        is_affordable
    }

    /// Counts a batch that is not predicted: templates at rest are tried again in time, and [`Self::study`] takes turns.
    pub const fn pass(&mut self) {
        self.templates.tick();
    }

    /// Predicts all pieces, or returns false if that would cost too much.
    fn analyse_all<S: Snapshot>(
        &mut self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        max_share: f64,
        pieces: &mut [Piece],
    ) -> bool {
        self.templates.tick();
        self.predict_all(snapshot, env, txs, pieces, Rest::SetAside, |_| true);
        if self.is_hopeless(txs, pieces, max_share) {
            return false;
        }
        if pieces.iter().any(|piece| piece.pending.iter().any(|(_, why)| matches!(why, Pending::Layout(_)))) {
            self.learn_layouts(snapshot, env, txs, pieces);
            self.predict_pending(snapshot, env, txs, pieces);
        }
        let is_affordable = self.teach(snapshot, env, txs, pieces, max_share);
        if is_affordable {
            self.predict_all(snapshot, env, txs, pieces, Rest::Simulate, |piece| !piece.pending.is_empty());
        }
        is_affordable
    }

    /// Predicts pieces with pending transactions again, by rules, after something was learned.
    pub(crate) fn predict_pending<S: Snapshot>(
        &self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        pieces: &mut [Piece],
    ) {
        self.predict_all(snapshot, env, txs, pieces, Rest::SetAside, |piece| !piece.pending.is_empty());
    }

    /// Returns true if a rule predicts `tx`, perhaps once the layout of a token is known. Otherwise its prediction costs a
    /// simulation. Executes nothing; an allowance is hashed.
    pub fn is_ruled<S: Snapshot>(&self, snapshot: &S, tx: &TxEnv) -> bool {
        let (mut slots, mut requests, mut recent) = (erc20::Slots::default(), Vec::new(), Recent::default());
        match self.rule(snapshot, tx, &mut slots, &mut requests, &mut recent, Rest::SetAside) {
            Rule::Pending(why) => matches!(why, Pending::Layout(_)),
            _ => true,
        }
    }

    /// Predicts one transaction by simulation alone, for a transaction that escaped its prediction.
    pub fn simulate<S: Snapshot>(&self, snapshot: &S, env: &BlockEnv, tx: &TxEnv, batch: &mut Batch) {
        let simulator = &mut None;
        self.simulate_into(simulator, snapshot, env, tx, batch);
    }

    fn predict_all<S: Snapshot>(
        &self,
        snapshot: &S,
        env: &BlockEnv,
        txs: &[&TxEnv],
        pieces: &mut [Piece],
        rest: Rest,
        which: impl Fn(&Piece) -> bool + Sync,
    ) {
        let predict = |(piece, txs): (&mut Piece, &[&TxEnv])| {
            if which(piece) {
                self.predict(snapshot, env, txs, piece, rest);
            }
        };
        if pieces.len() > 1 {
            pieces.par_iter_mut().zip(txs.par_chunks(PIECE)).with_max_len(1).for_each(predict);
        } else {
            pieces.iter_mut().zip(txs.chunks(PIECE)).for_each(predict);
        }
    }

    /// Predicts a piece.
    fn predict<S: Snapshot>(&self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], piece: &mut Piece, rest: Rest) {
        let Piece { batch, pending, rules, slots, predicted } = piece;
        batch.clear();
        pending.clear();
        slots.clear();
        rules.clear();
        let (mut requests, mut recent) = (Vec::new(), Recent::default());
        rules.extend(txs.iter().map(|tx| self.rule(snapshot, tx, slots, &mut requests, &mut recent, rest)));
        slots.hash();
        Evaluator::new(&self.templates, snapshot, env, predicted).predict(&requests, predicted);
        let mut simulator = None;
        for (index, (tx, rule)) in txs.iter().zip(rules.iter()).enumerate() {
            let why = match rule {
                Rule::Native(to) => {
                    native::add(batch, tx, *to);
                    batch.close(Source::Native, &self.salt);
                    continue;
                }
                Rule::Erc20(token, range) => {
                    slots.add(batch, tx.caller, *token, range.clone());
                    batch.close(Source::Erc20, &self.salt);
                    continue;
                }
                Rule::Precompile(to, accesses) => {
                    batch.add(StateKey::Basic(tx.caller), Access::Write);
                    batch.add(StateKey::Basic(*to), Access::Write);
                    for (key, access) in accesses {
                        // It runs, and may read the balance that it credits.
                        batch.add(*key, if *access == Access::Credit { Access::Write } else { *access });
                    }
                    batch.close(Source::Declared, &self.salt);
                    continue;
                }
                Rule::Declared(to) => {
                    declared::add(batch, tx, *to);
                    batch.close(Source::Declared, &self.salt);
                    continue;
                }
                Rule::Template(request, function) => {
                    if let Some(Span { set, hashed }) = predicted.spans[*request].clone() {
                        let from = predicted.inners.partition_point(|(of, _)| *of < hashed.start);
                        let mut inners = predicted.inners[from..].iter().peekable();
                        let hashed = hashed.map(|at| {
                            let (entry, preimage) = &predicted.hashed[at];
                            let inner = inners.next_if(|(of, _)| *of == at).map(|(_, inner)| inner);
                            (entry - set.start, preimage, inner)
                        });
                        batch.add_all(&mut predicted.sets[set.clone()], hashed);
                        batch.close(Source::Template, &self.salt);
                        continue;
                    }
                    if declared::applies(tx) {
                        declared::add(batch, tx, requests[*request].to);
                        batch.close(Source::Declared, &self.salt);
                        continue;
                    }
                    Pending::Template(*function)
                }
                Rule::Pending(why) => *why,
            };
            match rest {
                Rest::SetAside => {
                    pending.push((index, why));
                    batch.push([], Source::Unknown, &self.salt);
                }
                Rest::Simulate => self.simulate_into(&mut simulator, snapshot, env, tx, batch),
            }
        }
    }

    /// Chooses the layer that predicts `tx`.
    fn rule<'t, S: Snapshot>(
        &'t self,
        snapshot: &S,
        tx: &'t TxEnv,
        slots: &mut erc20::Slots,
        requests: &mut Vec<Request<'t>>,
        recent: &mut Recent<'t>,
        rest: Rest,
    ) -> Rule {
        const SIMULATE: Rule = Rule::Pending(Pending::Simulation);
        let to = match tx.kind {
            TxKind::Call(to) if self.layers != Layers::Simulation => to,
            _ => return SIMULATE,
        };
        let code = match recent.callee {
            Some((callee, code)) if callee == to => code,
            _ => {
                let code = snapshot.code_hash(&to);
                *recent = Recent { callee: Some((to, code)), function: None };
                code
            }
        };
        let Some(code) = code else {
            if self.cfg.runs_nothing(tx, &to) {
                return Rule::Native(to);
            }
            let declared = self.cfg.precompile(&to).and_then(|precompile| precompile.accesses(tx));
            return declared.map_or(SIMULATE, |accesses| Rule::Precompile(to, accesses));
        };
        let plain = tx.value.is_zero() && tx.authorization_list.is_empty() && self.layers != Layers::WithoutStandards;
        if let Some(call) = erc20::decode(&tx.data).filter(|_| plain) {
            let learn = Rule::Pending(Pending::Layout(code));
            match self.layouts.get(&code) {
                Some(Learned { layout: Some(layout), .. }) if layout.explains(&call) => {
                    return Rule::Erc20(to, slots.request(tx.caller, call, layout));
                }
                Some(Learned { failures, .. }) if rest == Rest::SetAside && *failures < MAX_FAILURES => return learn,
                None if rest == Rest::SetAside && self.layouts.len() < MAX_LAYOUTS => return learn,
                _ => {}
            }
        }
        let learns = self.layers != Layers::WithoutTemplates && tx.authorization_list.is_empty();
        let called = learns.then(|| match recent.function {
            Some(called) if called.selector == selector(&tx.data) => called,
            _ => {
                let (delegate, function) = self.function(snapshot, tx, code);
                let template = self.templates.trusted(&function);
                let called = Called { selector: function.selector, delegate, function, template };
                recent.function = Some(called);
                called
            }
        });
        if let Some(Called { delegate, function, template: Some(template), .. }) = called {
            requests.push(Request { tx, to, delegate, template });
            return Rule::Template(requests.len() - 1, function);
        }
        if declared::applies(tx) {
            return Rule::Declared(to);
        }
        Rule::Pending(called.map_or(Pending::Simulation, |called| Pending::Template(called.function)))
    }

    /// Returns the function that `tx` calls in the contract of this code, and the account that the contract delegates to.
    pub(crate) fn function<S: Snapshot>(&self, snapshot: &S, tx: &TxEnv, code: B256) -> (Option<Address>, Function) {
        let delegate = self.templates.delegate(&code);
        // A delegation to an account without code runs nothing, and no template has such a code.
        let code = delegate.map_or(code, |delegate| snapshot.code_hash(&delegate).unwrap_or_default());
        (delegate, Function { code, selector: selector(&tx.data) })
    }

    /// Simulates pending calls in order until each kind of call of each code has shown its layout, or has failed too often.
    fn learn_layouts<S: Snapshot>(&mut self, snapshot: &S, env: &BlockEnv, txs: &[&TxEnv], pieces: &[Piece]) {
        let mut simulator = Simulator::new(snapshot, &self.cfg, env);
        for (p, piece) in pieces.iter().enumerate() {
            for (index, why) in &piece.pending {
                let Pending::Layout(code) = why else { continue };
                let tx = txs[p * PIECE + index];
                let (TxKind::Call(token), Some(call)) = (tx.kind, erc20::decode(&tx.data)) else { continue };
                let known = self.layouts.get(code).copied().unwrap_or_default();
                let explained = known.layout.is_some_and(|layout| layout.explains(&call));
                if explained || known.failures >= MAX_FAILURES {
                    continue;
                }
                let set = simulator.simulate(tx).unwrap_or_default();
                let slot = |key: &StateKey| match key {
                    StateKey::Slot(owner, slot) if *owner == token => Some(*slot),
                    _ => None,
                };
                let touched: Vec<_> = set.as_slice().iter().filter_map(|(key, _)| slot(key)).collect();
                // Besides the slots, sender and token. A contract that touches more is no standard token.
                let standard = touched.len() <= call.slots() && set.as_slice().len() <= touched.len() + 2;
                let learned = match erc20::infer(call, tx.caller, &touched, known.layout) {
                    _ if !standard => Learned { failures: MAX_FAILURES, ..known },
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

    /// Returns the layout that was inferred for the token code `hash`.
    pub fn layout(&self, hash: &B256) -> Option<Erc20Layout> {
        self.layouts.get(hash).and_then(|learned| learned.layout)
    }
}

#[cfg(test)]
mod tests;
