//! The native fast path: a transfer to an account without code, without an EVM.
//!
//! The fast path takes only transfers that must succeed: any unusual transaction, account or rule goes to revm, which
//! knows the reason. So the rules below are those of success alone, and their order does not matter.

use crate::{
    bal::{Footprint, effects::Sink},
    exec::{
        dag::view::{Change, View},
        overlay::Overlay,
    },
    model::{Fault, Outcome, payments, reward},
    state::{StateError, Value},
};
use alloy_primitives::{Address, B256, Bytes, Log, LogData, U256};
use phalanx_access::Access;
use phalanx_paralyze::{Payments, StateKey, VmConfig};
use revm::{
    context::{BlockEnv, CfgEnv, TxEnv},
    context_interface::{
        Cfg as _, Transaction as _,
        cfg::gas_params::Eip2780TxInfo,
        result::{ExecutionResult, Output, ResultGas, SuccessReason},
    },
    primitives::{
        TxKind,
        eip7708::{ETH_TRANSFER_LOG_ADDRESS, ETH_TRANSFER_LOG_TOPIC},
        hardfork::SpecId,
    },
};

/// Gas before execution, and the minimum gas (EIP-7623).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Intrinsic {
    initial: u64,
    floor: u64,
}

impl Intrinsic {
    fn of(cfg: &VmConfig, tx: &TxEnv) -> Self {
        let is_self_transfer = tx.kind.to() == Some(&tx.caller);
        let moved = Eip2780TxInfo { value: tx.value, is_self_transfer };
        let gas = cfg.gas_params.initial_tx_gas_for_tx(tx, cfg.enable_amsterdam_eip2780.then_some(moved));
        // No spec without it has a floor.
        Self { initial: gas.initial_total_gas(), floor: gas.floor_gas() }
    }

    const fn above(self, other: Self) -> Self {
        Self { initial: self.initial - other.initial, floor: self.floor - other.floor }
    }
}

/// A call, with its gas before execution and its minimum gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) to: Address,
    pub(crate) initial: u64,
    pub(crate) floor: u64,
}

/// The rules of one configuration.
#[derive(Clone, Debug)]
pub(crate) struct FastPath {
    cfg: VmConfig,
    /// Gas of a call without calldata, and of one that moves value to another account.
    call: Intrinsic,
    transfer: Intrinsic,
    /// Gas of a zero byte of calldata, and of any other byte.
    zero: Intrinsic,
    other: Intrinsic,
}

impl FastPath {
    /// `None` if it is not `wanted`, or where transfers differ from mainnet's: before empty accounts were cleared, with
    /// some rule of revm switched off, with an extra fee of the chain, or on a foreign EVM.
    pub(crate) fn new(cfg: &VmConfig, wanted: bool) -> Option<Self> {
        // Settings that a chain may change and this path knows, or does not meet.
        let mut usual = CfgEnv::new_with_spec(cfg.spec);
        usual.chain_id = cfg.chain_id;
        usual.tx_chain_id_check = cfg.tx_chain_id_check;
        usual.tx_gas_limit_cap = cfg.tx_gas_limit_cap;
        usual.limit_contract_code_size = cfg.limit_contract_code_size;
        usual.limit_contract_initcode_size = cfg.limit_contract_initcode_size;
        usual.max_blobs_per_tx = cfg.max_blobs_per_tx;
        usual.blob_base_fee_update_fraction = cfg.blob_base_fee_update_fraction;
        let charged_otherwise = cfg.rules().is_some_and(|rules| !rules.runs_as_mainnet());
        if !wanted || charged_otherwise || cfg.cfg != usual || !cfg.spec.is_enabled_in(SpecId::SPURIOUS_DRAGON) {
            return None;
        }
        let to_another = TxKind::Call(Address::repeat_byte(1));
        let of = |data: &'static [u8], value| {
            let data = Bytes::from_static(data);
            Intrinsic::of(cfg, &TxEnv { data, value, kind: to_another, ..TxEnv::default() })
        };
        let (call, transfer) = (of(&[], U256::ZERO), of(&[], U256::ONE));
        let [zero, other] = [&[0], &[1]].map(|byte| of(byte, U256::ZERO).above(call));
        Some(Self { cfg: cfg.clone(), call, transfer, zero, other })
    }

    /// Gas of a call of another account, without access list and authorizations. revm counts twice and byte by byte.
    #[inline]
    fn intrinsic(&self, tx: &TxEnv) -> Intrinsic {
        let bare = if tx.value.is_zero() { self.call } else { self.transfer };
        if tx.data.is_empty() {
            return bare;
        }
        let zeros = tx.data.iter().filter(|byte| **byte == 0).count();
        let (zeros, others) = (zeros as u64, (tx.data.len() - zeros) as u64);
        let sum = |of: fn(&Intrinsic) -> u64| of(&bare) + zeros * of(&self.zero) + others * of(&self.other);
        let intrinsic = Intrinsic { initial: sum(|gas| gas.initial), floor: sum(|gas| gas.floor) };
        debug_assert_eq!(intrinsic, Intrinsic::of(&self.cfg, tx), "gas is linear in both kinds of bytes");
        intrinsic
    }

    /// True if neither the transaction nor its block has an unusual property.
    #[inline]
    fn is_usual(&self, tx: &TxEnv, env: &BlockEnv) -> bool {
        let cfg = &self.cfg;
        let priced = match tx.tx_type {
            0 => true,
            // The price is checked below: a maximum under the base fee cannot be met.
            2 => cfg.spec.is_enabled_in(SpecId::LONDON) && tx.gas_priority_fee.unwrap_or_default() <= tx.gas_price,
            _ => false,
        };
        let own_chain = match tx.chain_id {
            Some(id) => id == cfg.chain_id,
            None => tx.tx_type == 0,
        };
        let fits = tx.gas_limit <= cfg.tx_gas_limit_cap() && tx.gas_limit <= env.gas_limit;
        let plain = tx.access_list.is_empty() && tx.blob_hashes.is_empty() && tx.nonce != u64::MAX;
        let paid = tx.gas_price >= u128::from(env.basefee);
        priced && fits && plain && paid && (own_chain || !cfg.tx_chain_id_check)
    }

    /// Receiver and gas of a transfer without unusual properties.
    #[inline(always)]
    pub(crate) fn quote(&self, tx: &TxEnv, env: &BlockEnv) -> Option<(Address, ResultGas)> {
        let to = self.cfg.plain_receiver(tx).filter(|_| self.is_usual(tx, env))?;
        let Intrinsic { initial, floor } = self.intrinsic(tx);
        let gas = ResultGas::default().with_total_gas_spent(initial).with_floor_gas(floor);
        (initial.max(floor) <= tx.gas_limit).then_some((to, gas))
    }

    /// A call without value and without unusual properties.
    #[inline]
    pub(crate) fn call(&self, tx: &TxEnv, env: &BlockEnv) -> Option<Call> {
        let TxKind::Call(to) = tx.kind else { return None };
        let bare = tx.value.is_zero() && tx.authorization_list.is_empty() && !self.cfg.may_be_precompile(&to);
        if !bare || to == tx.caller || !self.is_usual(tx, env) {
            return None;
        }
        let Intrinsic { initial, floor } = self.intrinsic(tx);
        (initial.max(floor) <= tx.gas_limit).then_some(Call { to, initial, floor })
    }

    /// Balance of the receiver after a transfer of this value; `None` if the transfer may fail, may run code, or costs more than was
    /// quoted, as one that makes its receiver does from Amsterdam on (EIP-2780).
    #[inline]
    pub(crate) fn received(&self, receiver: &Value, value: U256) -> Option<U256> {
        let is_usual = receiver.code.is_none() && !(self.cfg.prices_new_accounts() && receiver.is_empty());
        receiver.number.checked_add(value).filter(|_| is_usual)
    }

    /// Runs a transfer on the values of `view`, and leaves its changes there to be published, and its effects in `footprint`.
    /// `None` if it is not a transfer that surely succeeds; then nothing has happened.
    #[inline]
    pub(crate) fn run(
        &self,
        view: &mut View,
        tx: &TxEnv,
        env: &BlockEnv,
        footprint: Option<&mut Footprint>,
    ) -> Option<ExecutionResult> {
        let (to, gas) = self.quote(tx, env)?;
        let (from, sender) = view.writable(&StateKey::Basic(tx.caller))?;
        let charged = self.charge(tx, env, &gas, &sender)?;
        let (receipt, before) = match view.access(&StateKey::Basic(to))? {
            (id, Access::Credit) => {
                let permitted = view.takes_credits(id) || Fault::CreditToCode.is_seeded();
                (permitted.then_some(Change::Credit(id, tx.value))?, None)
            }
            (_, Access::Read) => return None,
            (_, Access::Write) => {
                let (id, receiver) = view.writable(&StateKey::Basic(to))?;
                let number = self.received(&receiver, tx.value)?;
                (Change::Store(id, Value { number, exists: true, ..receiver }), Some(receiver.number))
            }
        };
        if let Some(footprint) = footprint {
            tell(footprint, tx, &sender, &charged, (&to, before));
        }
        let changes = view.prepare();
        changes.push(Change::Store(from, charged));
        changes.push(receipt);
        Some(self.success(tx, &to, gas))
    }

    /// Runs a transfer while no other thread runs: applies its changes to the state, makes its payments, and leaves its effects in
    /// `footprint`.
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn run_alone(
        &self,
        state: &mut Overlay<'_>,
        tx: &TxEnv,
        env: &BlockEnv,
        footprint: Option<&mut Footprint>,
    ) -> Result<Option<Outcome>, StateError> {
        let Some((to, gas)) = self.quote(tx, env) else { return Ok(None) };
        let Some(sender) = state.codeless(tx.caller)? else { return Ok(None) };
        let Some(charged) = self.charge(tx, env, &gas, &sender) else { return Ok(None) };
        let Some(receiver) = state.codeless(to)? else { return Ok(None) };
        let Some(number) = self.received(&receiver, tx.value) else { return Ok(None) };
        state.set_codeless(tx.caller, &charged);
        state.set_codeless(to, &Value { number, ..receiver });
        let outcome = Outcome::Executed(self.success(tx, &to, gas));
        let mut reward = reward(tx, env, &outcome);
        let mut shares = Vec::new();
        if let Some(rules) = self.cfg.rules() {
            Payments { reward, shares } = payments(rules, tx, env, &outcome, reward);
        }
        state.pay(env.beneficiary, reward)?;
        shares.iter().try_for_each(|(to, amount)| state.pay(*to, *amount))?;
        if let Some(footprint) = footprint {
            tell(footprint, tx, &sender, &charged, (&to, Some(receiver.number)));
            footprint.owe(reward, shares);
        }
        Ok(Some(outcome))
    }

    /// True if `sender` may send and can pay the maximum cost of the transaction.
    #[inline]
    pub(crate) fn may_send(tx: &TxEnv, sender: &Value) -> bool {
        // An account with code does not send (EIP-3607), or sends by delegation.
        sender.code.is_none()
            && sender.nonce == tx.nonce
            && tx.max_balance_spending().is_ok_and(|most| sender.number >= most)
    }

    /// Sender after a transfer for this much gas, if it can pay for it.
    #[inline]
    pub(crate) fn charge(&self, tx: &TxEnv, env: &BlockEnv, gas: &ResultGas, sender: &Value) -> Option<Value> {
        if !Self::may_send(tx, sender) {
            return None;
        }
        let price = tx.effective_gas_price(u128::from(env.basefee));
        // Not more than the maximum, which is covered.
        let fee = U256::from(price.checked_mul(u128::from(gas.tx_gas_used()))?);
        let number = sender.number.checked_sub(tx.value)?.checked_sub(fee)?;
        let steps = u64::from(!Fault::FastPathNonce.is_seeded());
        Some(Value { number, nonce: tx.nonce + steps, exists: true, ..*sender })
    }

    /// Result of a transfer to `to` for this much gas.
    #[inline]
    pub(crate) fn success(&self, tx: &TxEnv, to: &Address, gas: ResultGas) -> ExecutionResult {
        let logs = if self.cfg.spec.is_enabled_in(SpecId::AMSTERDAM) { vec![log(tx, to)] } else { Vec::new() };
        let (reason, output) = (SuccessReason::Stop, Output::Call(Bytes::new()));
        ExecutionResult::Success { reason, gas, logs, output }
    }
}

/// Log of a transfer (EIP-7708).
fn log(tx: &TxEnv, to: &Address) -> Log {
    let word = |address: &Address| B256::left_padding_from(address.as_slice());
    let topics = vec![ETH_TRANSFER_LOG_TOPIC, word(&tx.caller), word(to)];
    let data = Bytes::copy_from_slice(&tx.value.to_be_bytes::<32>());
    Log { address: ETH_TRANSFER_LOG_ADDRESS, data: LogData::new_unchecked(topics, data) }
}

/// Reports the effects of a transfer: on the sender, and on a receiver with its balance before, if that was seen.
pub(crate) fn tell(
    sink: &mut impl Sink,
    tx: &TxEnv,
    sender: &Value,
    charged: &Value,
    receiver: (&Address, Option<U256>),
) {
    sink.account(&tx.caller);
    tell_charge(sink, sender, charged);
    let (to, before) = receiver;
    sink.account(to);
    match before {
        Some(before) => sink.balance(before, before + tx.value),
        None => sink.credit(tx.value),
    }
}

/// Reports the effects of a transaction on its sender, the account named last.
#[inline]
pub(crate) fn tell_charge(sink: &mut impl Sink, sender: &Value, charged: &Value) {
    if charged.number != sender.number {
        sink.balance(sender.number, charged.number);
    }
    sink.nonce(sender.nonce, charged.nonce);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn gas_before_execution_is_that_of_revm() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let mut specs = 0;
        for spec in (0..=SpecId::AMSTERDAM as u8).filter_map(SpecId::try_from_u8) {
            let cfg = VmConfig::from(CfgEnv::new_with_spec(spec));
            let Some(path) = FastPath::new(&cfg, true) else { continue };
            specs += 1;
            for _ in 0..100 {
                let len = rng.random_range(0..300);
                let data = (0..len).map(|_| if rng.random_bool(0.4) { 0 } else { rng.random() }).collect();
                let (kind, value) = (TxKind::Call(Address::repeat_byte(1)), U256::from(rng.random_range(0..2)));
                let tx = TxEnv { data, kind, value, ..TxEnv::default() };
                assert_eq!(path.intrinsic(&tx), Intrinsic::of(&cfg, &tx), "{spec:?}: {}", tx.data);
            }
        }
        assert!(specs > 5, "{specs}");
    }
}
