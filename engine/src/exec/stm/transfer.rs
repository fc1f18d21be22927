//! A native transfer in Block-STM, without an EVM.

use super::{Block, Executed};
use crate::{
    bal::Footprint,
    exec::fast_path::{self, FastPath},
    model::Outcome,
    state::Value,
};
use phalanx_paralyze::StateKey;
use phalanx_parascheduler::{Execution, Interrupt, View, Write};
use revm::context::TxEnv;

impl Block<'_, '_, '_, '_> {
    /// Runs a transfer without an EVM, if `tx` is a transfer that surely succeeds.
    pub(super) fn transfer(
        &self,
        path: &FastPath,
        tx: &TxEnv,
        view: &mut View<'_, Self>,
    ) -> Result<Option<Execution<Self>>, Interrupt> {
        let env = self.ctx.env;
        let Some((to, gas)) = path.quote(tx, env) else { return Ok(None) };
        let sender = view.read(&StateKey::Basic(tx.caller))?;
        let Some(charged) = path.charge(tx, env, &gas, &sender) else { return Ok(None) };
        let (receipt, before) = if self.rules.prices_new {
            let receiver = view.read(&StateKey::Basic(to))?;
            let Some(number) = path.received(&receiver, tx.value) else { return Ok(None) };
            (Write::Value(Value { number, ..receiver }), Some(receiver.number))
        } else if view.read(&StateKey::Code(to))?.code.is_none() {
            (Write::Credit(tx.value), None)
        } else {
            return Ok(None);
        };
        let outcome = Outcome::Executed(path.success(tx, &to, gas));
        let paid = self.payments(tx, &outcome);
        let mut writes = vec![(StateKey::Basic(tx.caller), Write::Value(charged)), (StateKey::Basic(to), receipt)];
        self.pay_all(&paid, false, view, &mut writes)?;
        let footprint = self.ctx.record.map(|_| {
            let mut footprint = Box::<Footprint>::default();
            fast_path::tell(&mut *footprint, tx, &sender, &charged, (&to, before));
            footprint.owe(paid.reward, paid.shares);
            footprint
        });
        Ok(Some(Execution { output: Ok(Executed { outcome, footprint }), writes }))
    }
}
