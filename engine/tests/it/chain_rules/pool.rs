//! The pool of a chain with an extra fee and forced transactions.

use super::{COUNTER, DataFee, data_fee};
use crate::kit::call;
use phalanx::{
    ChainRules, ExtraFee, ForcedTx, RecoveredTx,
    pool::{Account, Accounts, Admission, Pool, PoolConfig, Refusal},
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::{Address, B256, U256},
    },
};
use std::{convert::Infallible, sync::Arc};

/// Every account has the same balance.
struct Equal(U256);

impl Accounts for Equal {
    type Error = Infallible;

    fn account(&self, _: &Address) -> Result<Account, Infallible> {
        Ok(Account { balance: self.0, ..Account::default() })
    }
}

/// Costs the block's number in wei.
#[derive(Debug)]
struct ByNumber;

impl ExtraFee for ByNumber {
    fn fee(&self, _: &TxEnv, env: &BlockEnv) -> U256 {
        env.number
    }
}

fn pool(fee: Arc<dyn ExtraFee>) -> Pool {
    let rules = ChainRules::new().with_extra_fee(Address::repeat_byte(0xc1), fee).with_forced_transactions();
    Pool::new(PoolConfig { window: 8, ..PoolConfig::default() }).with_rules(Arc::new(rules))
}

fn add(pool: &mut Pool, tx: TxEnv, balance: U256) -> Admission {
    let hash = B256::with_last_byte(pool.len() as u8);
    let Ok(admission) = pool.add(Arc::new(RecoveredTx::unsigned(hash, tx)), &Equal(balance));
    admission
}

const GAS: u64 = 300_000 * 100;

#[test]
fn a_sender_must_be_able_to_pay_the_extra_fee_of_each_transaction() {
    let tx = |nonce| TxEnv { data: vec![7; 100].into(), ..call(1, nonce, COUNTER, 5) };
    let cost = U256::from(GAS + 5) + data_fee(&tx(0));
    let refused = add(&mut pool(Arc::new(DataFee)), tx(0), cost - U256::ONE);
    let balance = cost - U256::ONE;
    assert!(
        matches!(refused, Admission::Refused(Refusal::Funds { cost: asked, balance: held }) if (asked, held) == (cost, balance))
    );
    for (balance, second) in [(cost * U256::from(2), true), (cost * U256::from(2) - U256::ONE, false)] {
        let mut pool = pool(Arc::new(DataFee));
        let Admission::Admitted { tx: pooled, is_ready: true, .. } = add(&mut pool, tx(0), balance) else { panic!() };
        assert_eq!(*pooled.most_cost(), cost);
        let added = add(&mut pool, tx(1), balance);
        assert!(matches!(added, Admission::Admitted { is_ready, .. } if is_ready == second), "{added:?}");
    }
}

#[test]
fn extra_fees_are_those_of_the_next_block() {
    let mut pool = pool(Arc::new(ByNumber));
    let enough = U256::from(GAS + 9);
    for number in [8, 9, 10] {
        pool.set_env(BlockEnv { number: U256::from(number), ..BlockEnv::default() });
        let added = add(&mut pool, call(number as u8, 0, COUNTER, 0), enough);
        assert_eq!(matches!(added, Admission::Admitted { .. }), number < 10, "{added:?}");
    }
    pool.set_env(BlockEnv { number: U256::MAX, ..BlockEnv::default() });
    let added = add(&mut pool, call(11, 0, COUNTER, 0), U256::MAX);
    assert!(matches!(added, Admission::Refused(Refusal::CostOverflow)), "{added:?}");
}

#[test]
fn forced_transactions_are_not_pooled() {
    let forced = ForcedTx { from: Address::repeat_byte(1), mint: 5, ..ForcedTx::default() }.env();
    for mut pool in [pool(Arc::new(DataFee)), Pool::new(PoolConfig::default())] {
        let added = add(&mut pool, forced.clone(), U256::MAX);
        assert!(matches!(added, Admission::Refused(Refusal::Forced)), "{added:?}");
    }
}
