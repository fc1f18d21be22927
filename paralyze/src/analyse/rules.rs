//! The choice of a layer for each transaction: rules and templates first, without execution.

use super::{
    chunk::{Pending, Rest, Rule},
    layouts::{MAX_FAILURES, MAX_LAYOUTS},
    paralyze::{Layers, Learned, ParaLyze},
};
use crate::{
    declared, erc20,
    snapshot::Snapshot,
    template::{Function, Request, Template, selector},
};
use alloy_primitives::{Address, B256};
use revm::{context::TxEnv, primitives::TxKind};

/// A called function.
#[derive(Clone, Copy, Debug)]
struct Called<'t> {
    /// Account that the callee delegates to.
    delegate: Option<Address>,
    function: Function,
    /// Template, if it is trusted.
    template: Option<&'t Template>,
}

impl ParaLyze {
    /// Returns true if a rule predicts `tx`, perhaps once the layout of a token is known. Otherwise its prediction costs a
    /// simulation. Executes nothing; an allowance is hashed.
    pub fn is_ruled<S: Snapshot>(&self, snapshot: &S, tx: &TxEnv) -> bool {
        match self.rule(snapshot, tx, &mut erc20::Slots::default(), &mut Vec::new(), Rest::SetAside) {
            Rule::Pending(why) => matches!(why, Pending::Layout(_)),
            _ => true,
        }
    }

    /// Chooses the layer that predicts `tx`.
    pub(super) fn rule<'t, S: Snapshot>(
        &'t self,
        snapshot: &S,
        tx: &'t TxEnv,
        slots: &mut erc20::Slots,
        requests: &mut Vec<Request<'t>>,
        rest: Rest,
    ) -> Rule {
        const SIMULATE: Rule = Rule::Pending(Pending::Simulation);
        let to = match tx.kind {
            TxKind::Call(to) if self.layers != Layers::Simulation => to,
            _ => return SIMULATE,
        };
        let Some(code) = snapshot.code_hash(&to) else {
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
        let called = learns.then(|| {
            let (delegate, function) = self.function(snapshot, tx, code);
            Called { delegate, function, template: self.templates.trusted(&function) }
        });
        if let Some(Called { delegate, function, template: Some(template) }) = called {
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
}
