//! Masked reads of accounts: a contract is shown without balance and nonce until an instruction reads them.
//!
//! revm loads a whole account where a call needs only its code. So that a call of a contract does not depend on payments into
//! it, a database may mask both. The instructions that read them reveal the account first: BALANCE, SELFBALANCE,
//! SELFDESTRUCT, CREATE, and a call that sends value. A payment into the contract adds to the shown balance, as it would to
//! the real one, and a revert subtracts it again.

use revm::{
    Database,
    bytecode::opcode::{BALANCE, CALL, CALLCODE, CREATE, CREATE2, SELFBALANCE, SELFDESTRUCT},
    context_interface::ContextError,
    handler::{MainnetContext, instructions::EthInstructions},
    interpreter::{
        Instruction, InstructionContext, InstructionExecResult, InstructionResult,
        instructions::{contract, host, utility::IntoAddress as _},
        interpreter::EthInterpreter,
        interpreter_types::InputsTr as _,
    },
    primitives::{Address, U256},
};

/// Balance and nonce that a mask masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskedAccount {
    /// Balance before the transaction.
    pub balance: U256,
    /// Nonce before the transaction.
    pub nonce: u64,
}

/// A database that may show a contract, which is an account with code, with a balance and a nonce of zero.
pub trait AccountMask: Database {
    /// Reveals an account, to which the transaction has added `gained` since. Returns its masked values, or [`None`] if it is
    /// not masked. The account is unmasked from now on.
    ///
    /// # Errors
    /// If the execution is to end here; also if balance and `gained` exceed 2^256.
    fn reveal(&mut self, address: Address, gained: U256) -> Result<Option<MaskedAccount>, Self::Error>;

    /// Exempts an account that was not loaded yet: it is never masked.
    fn exempt(&mut self, address: Address);

    /// Notes that value is about to be sent to an account, which with it has `gained` from the transaction, even if a revert
    /// takes it back. Where `gained` and the masked balance exceed 2^256 the transfer fails, which takes the sender's gas.
    fn pays(&mut self, address: Address, gained: U256);
}

/// Replaces the instructions that read a balance or a nonce: they reveal the account first. Gas, stack and memory stay as with
/// revm's instructions.
pub(crate) fn install<D: AccountMask>(instructions: &mut EthInstructions<EthInterpreter, MainnetContext<D>>) {
    let table = instructions.instruction_table_mut();
    table[usize::from(BALANCE)] = Instruction::new(balance);
    table[usize::from(SELFBALANCE)] = Instruction::new(selfbalance);
    table[usize::from(CALL)] = Instruction::new(call::<CALL, D>);
    table[usize::from(CALLCODE)] = Instruction::new(call::<CALLCODE, D>);
    table[usize::from(CREATE)] = Instruction::new(create::<false, D>);
    table[usize::from(CREATE2)] = Instruction::new(create::<true, D>);
    table[usize::from(SELFDESTRUCT)] = Instruction::new(selfdestruct);
}

type Context<'a, D> = InstructionContext<'a, MainnetContext<D>, EthInterpreter>;

fn balance<D: AccountMask>(context: Context<'_, D>) -> InstructionExecResult {
    if let Ok(word) = context.interpreter.stack.peek(0) {
        reveal(context.host, word.into_address())?;
    }
    host::balance(context)
}

fn selfbalance<D: AccountMask>(mut context: Context<'_, D>) -> InstructionExecResult {
    reveal_self(&mut context)?;
    host::selfbalance(context)
}

/// A sender of value must have it, and the receiver's balance must not overflow.
fn call<const KIND: u8, D: AccountMask>(mut context: Context<'_, D>) -> InstructionExecResult {
    if let Ok(value) = context.interpreter.stack.peek(2)
        && !value.is_zero()
    {
        reveal_self(&mut context)?;
        if KIND == CALL
            && let Ok(to) = context.interpreter.stack.peek(1)
        {
            pay(context.host, to.into_address(), value);
        }
    }
    contract::call::<KIND, _, _>(context)
}

/// A creation reads and raises the creator's nonce.
fn create<const IS_CREATE2: bool, D: AccountMask>(mut context: Context<'_, D>) -> InstructionExecResult {
    reveal_self(&mut context)?;
    contract::create::<IS_CREATE2, _, _>(context)
}

/// The whole balance moves to another account.
fn selfdestruct<D: AccountMask>(mut context: Context<'_, D>) -> InstructionExecResult {
    reveal_self(&mut context)?;
    host::selfdestruct(context)
}

fn reveal_self<D: AccountMask>(context: &mut Context<'_, D>) -> Result<(), InstructionResult> {
    let address = context.interpreter.input.target_address();
    reveal(context.host, address)
}

fn pay<D: AccountMask>(host: &mut MainnetContext<D>, to: Address, value: U256) {
    let journal = &mut host.journaled_state;
    let shown = journal.inner.state.get(&to).map_or(U256::ZERO, |account| account.info.balance);
    journal.database.pays(to, shown.saturating_add(value));
}

/// Reveals an account that is about to be read.
fn reveal<D: AccountMask>(host: &mut MainnetContext<D>, address: Address) -> Result<(), InstructionResult> {
    let journal = &mut host.journaled_state;
    let Some(account) = journal.inner.state.get_mut(&address) else {
        journal.database.exempt(address);
        return Ok(());
    };
    match journal.database.reveal(address, account.info.balance) {
        Ok(None) => Ok(()),
        Ok(Some(MaskedAccount { balance, nonce })) => {
            // The transaction's changes so far were made to zero, and are now made to the real values.
            account.info.balance = account.info.balance.saturating_add(balance);
            account.info.nonce = nonce;
            let original = account.original_info_mut();
            (original.balance, original.nonce) = (balance, nonce);
            Ok(())
        }
        Err(error) => {
            host.error = Err(ContextError::Db(error));
            Err(InstructionResult::FatalExternalError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{Vm, VmConfig};
    use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
    use rand_chacha::ChaCha8Rng;
    use revm::{
        ExecuteEvm as _,
        bytecode::{Bytecode, opcode},
        context::{CfgEnv, TxEnv},
        context_interface::result::ExecutionResult,
        database::{CacheDB, EmptyDB},
        primitives::{AddressSet, B256, Bytes, StorageKey, StorageValue, TxKind, hardfork::SpecId},
        state::{AccountInfo, EvmState},
    };
    use std::collections::BTreeMap;

    const SENDER: Address = Address::repeat_byte(0xee);
    const CONTRACTS: u8 = 4;

    /// Masks every contract until it is revealed, unless that is switched off.
    #[derive(Debug)]
    struct Masking {
        db: CacheDB<EmptyDB>,
        masks: bool,
        masked: AddressSet,
        whole: AddressSet,
        reveals: usize,
    }

    impl Database for Masking {
        type Error = core::convert::Infallible;

        fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Self::Error> {
            let mut info = self.db.basic(address)?;
            if let Some(info) = info.as_mut().filter(|info| !info.is_empty_code_hash())
                && self.masks
                && !self.whole.contains(&address)
            {
                (info.balance, info.nonce) = (U256::ZERO, 0);
                self.masked.insert(address);
            }
            Ok(info)
        }

        fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Self::Error> {
            self.db.code_by_hash(hash)
        }

        fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, Self::Error> {
            self.db.storage(address, slot)
        }

        fn block_hash(&mut self, number: u64) -> Result<B256, Self::Error> {
            self.db.block_hash(number)
        }
    }

    impl Masking {
        fn real(&mut self, address: Address) -> MaskedAccount {
            let Ok(info) = self.db.basic(address);
            info.map(|AccountInfo { balance, nonce, .. }| MaskedAccount { balance, nonce }).expect("it has code")
        }
    }

    impl AccountMask for Masking {
        fn reveal(&mut self, address: Address, gained: U256) -> Result<Option<MaskedAccount>, Self::Error> {
            if !self.masked.remove(&address) {
                return Ok(None);
            }
            self.reveals += 1;
            let real = self.real(address);
            assert!(real.balance.checked_add(gained).is_some());
            Ok(Some(real))
        }

        fn exempt(&mut self, address: Address) {
            self.whole.insert(address);
        }

        // No balance here comes near 2^256.
        fn pays(&mut self, _: Address, _: U256) {}
    }

    fn contract(number: u8) -> Address {
        Address::repeat_byte(0xc0 + number)
    }

    /// Code of calls, reads and creations; each result is stored.
    fn program(rng: &mut ChaCha8Rng) -> Bytes {
        let mut code = Vec::new();
        let push = |code: &mut Vec<u8>, word: u64| {
            code.push(opcode::PUSH8);
            code.extend(word.to_be_bytes());
        };
        let account = |rng: &mut ChaCha8Rng| match rng.random_range(0..8) {
            0 => SENDER,
            1 => Address::repeat_byte(0x11),
            2 => Address::with_last_byte(2),
            _ => contract(rng.random_range(0..CONTRACTS)),
        };
        let push_account = |code: &mut Vec<u8>, rng: &mut ChaCha8Rng| {
            code.push(opcode::PUSH20);
            code.extend(account(rng));
        };
        for slot in 0..rng.random_range(1..7u64) {
            let value = *[0, 0, 1, 5, 60].choose(rng).expect("a value");
            let op = *[
                opcode::BALANCE,
                opcode::SELFBALANCE,
                opcode::CALL,
                opcode::CALL,
                opcode::CALL,
                opcode::CALLCODE,
                opcode::DELEGATECALL,
                opcode::STATICCALL,
                opcode::CREATE,
                opcode::CREATE2,
                opcode::EXTCODEHASH,
                opcode::SELFDESTRUCT,
                opcode::REVERT,
            ]
            .choose(rng)
            .expect("an instruction");
            match op {
                opcode::BALANCE | opcode::EXTCODEHASH | opcode::SELFDESTRUCT => push_account(&mut code, rng),
                opcode::CREATE => [0, 0, value].into_iter().for_each(|word| push(&mut code, word)),
                opcode::CREATE2 => [slot, 0, 0, value].into_iter().for_each(|word| push(&mut code, word)),
                opcode::REVERT => [0, 0].into_iter().for_each(|word| push(&mut code, word)),
                opcode::SELFBALANCE => {}
                _ => {
                    [0; 4].into_iter().for_each(|word| push(&mut code, word));
                    if matches!(op, opcode::CALL | opcode::CALLCODE) {
                        push(&mut code, value);
                    }
                    push_account(&mut code, rng);
                    push(&mut code, rng.random_range(2_000..300_000));
                }
            }
            code.push(op);
            if matches!(op, opcode::SELFDESTRUCT | opcode::REVERT) {
                break;
            }
            push(&mut code, slot);
            code.push(opcode::SSTORE);
        }
        code.into()
    }

    /// Effects of a transaction on each account that it touches.
    type Effects = BTreeMap<Address, (U256, u64, B256, bool, BTreeMap<U256, U256>)>;

    fn effects(state: &EvmState, db: &mut Masking) -> Effects {
        let touched = state.iter().filter(|(_, account)| account.is_touched());
        touched
            .map(|(address, account)| {
                let masked = if db.masked.contains(address) { db.real(*address) } else { MaskedAccount::default() };
                let slots = account.storage.iter().map(|(slot, value)| (*slot, value.present_value)).collect();
                let (balance, nonce) = (account.info.balance + masked.balance, account.info.nonce + masked.nonce);
                (*address, (balance, nonce, account.info.code_hash, account.is_selfdestructed(), slots))
            })
            .collect()
    }

    fn run(spec: SpecId, db: &CacheDB<EmptyDB>, tx: &TxEnv, masks: bool) -> (ExecutionResult, Effects, usize, usize) {
        let (masked, whole) = (AddressSet::default(), AddressSet::default());
        let db = Masking { db: db.clone(), masks, masked, whole, reveals: 0 };
        let mut vm: Vm<Masking> = VmConfig::from(CfgEnv::new_with_spec(spec)).build_with_account_mask(db);
        let done = vm.transact(tx.clone()).expect("a valid transaction");
        let db = &mut vm.ctx.journaled_state.database;
        (done.result, effects(&done.state, db), db.reveals, db.masked.len())
    }

    #[test]
    fn a_mask_changes_no_effect() {
        let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x7e11);
        let (mut reveals, mut unseen, mut succeeded) = (0, 0, 0);
        for case in 0..2_000 {
            let rng = &mut ChaCha8Rng::seed_from_u64(seed + case);
            let specs = [SpecId::HOMESTEAD, SpecId::ISTANBUL, SpecId::LONDON, SpecId::CANCUN, SpecId::OSAKA];
            let spec = *specs.choose(rng).expect("a spec");
            let mut db = CacheDB::new(EmptyDB::default());
            for number in 0..CONTRACTS {
                let code = Bytecode::new_raw(program(rng));
                let balance = U256::from(rng.random_range(0..100u64));
                let nonce = rng.random_range(0..3u64);
                let info =
                    AccountInfo { balance, nonce, code_hash: code.hash_slow(), code: Some(code), account_id: None };
                db.insert_account_info(contract(number), info);
            }
            db.insert_account_info(SENDER, AccountInfo::from_balance(U256::from(u64::MAX)));
            let tx = TxEnv {
                caller: SENDER,
                kind: TxKind::Call(contract(0)),
                value: U256::from(rng.random_range(0..3u64) * 20),
                gas_limit: rng.random_range(30_000..2_000_000),
                ..TxEnv::default()
            };
            let truth = run(spec, &db, &tx, false);
            let ours = run(spec, &db, &tx, true);
            assert_eq!((&ours.0, &ours.1), (&truth.0, &truth.1), "PHALANX_SEED={seed} case {case}, {spec:?}");
            reveals += ours.2;
            unseen += ours.3;
            succeeded += usize::from(ours.0.is_success());
        }
        assert!(
            reveals > 1_000 && unseen > 500 && succeeded > 500,
            "{reveals} reveals, {unseen} unseen, {succeeded} succeed"
        );
    }
}
