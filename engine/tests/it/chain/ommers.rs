//! Rules of ommers.

use super::headers::{child, genesis, named};
use alloy_consensus::Header;
use alloy_primitives::{B256, U256};
use phalanx::chain::{ChainSpec, HeaderError, OmmerError};

/// A chain of ten blocks after genesis, which judges the ommers of the eleventh.
struct Line {
    chain: ChainSpec,
    headers: Vec<Header>,
    /// Ommers that blocks of the line name.
    named: Vec<(usize, B256)>,
}

impl Line {
    fn new() -> Self {
        let chain = named("Homestead");
        let mut headers = vec![genesis(&chain)];
        for number in 1..=11 {
            headers.push(child(&chain, &headers[number - 1], 12));
        }
        Self { chain, headers, named: vec![] }
    }

    /// A valid sibling of block `number`.
    fn sibling(&self, number: usize) -> Header {
        Header { extra_data: b"stale".into(), ..child(&self.chain, &self.headers[number - 1], 13) }
    }

    fn judge(&self, ommers: &[Header]) -> Result<(), OmmerError> {
        self.chain.validate_ommers(&self.headers[11], ommers, |hash| {
            let number = self.headers.iter().position(|header| header.hash_slow() == hash)?;
            let ommers = self.named.iter().filter(|(by, _)| *by == number).map(|(_, hash)| *hash).collect();
            Some((self.headers[number].clone(), ommers))
        })
    }
}

#[test]
fn siblings_of_six_ancestors_may_be_named() {
    let line = Line::new();
    assert_eq!(line.judge(&[]), Ok(()));
    for number in 1..=11 {
        let verdict = line.judge(&[line.sibling(number)]);
        if (5..=10).contains(&number) {
            assert_eq!(verdict, Ok(()), "sibling of block {number}");
        } else {
            assert_eq!(verdict, Err(OmmerError::Unrelated { index: 0 }), "sibling of block {number}");
        }
    }
    assert_eq!(line.judge(&[line.sibling(10), line.sibling(9)]), Ok(()));
    let three = [10, 9, 8].map(|number| line.sibling(number));
    assert_eq!(line.judge(&three), Err(OmmerError::TooMany { len: 3 }));
}

#[test]
fn ancestors_and_already_named_ommers_are_refused() {
    let mut line = Line::new();
    assert_eq!(line.judge(&[line.sibling(10), line.headers[9].clone()]), Err(OmmerError::Ancestor { index: 1 }));
    assert_eq!(line.judge(&[line.sibling(10), line.sibling(10)]), Err(OmmerError::Duplicate { index: 1 }));
    line.named.push((8, line.sibling(7).hash_slow()));
    assert_eq!(line.judge(&[line.sibling(7)]), Err(OmmerError::Duplicate { index: 0 }));
    assert_eq!(line.judge(&[line.sibling(8)]), Ok(()));
    // The parent names an ommer, too.
    line.named.push((10, line.sibling(8).hash_slow()));
    assert_eq!(line.judge(&[line.sibling(8)]), Err(OmmerError::Duplicate { index: 0 }));
}

#[test]
fn ommers_must_be_valid_headers_of_proof_of_work() {
    let line = Line::new();
    let with = |change: &dyn Fn(&mut Header)| {
        let mut ommer = line.sibling(10);
        change(&mut ommer);
        match line.judge(&[ommer]) {
            Err(OmmerError::Header { index: 0, reason }) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(with(&|h| h.number = 9), HeaderError::Number { .. }));
    assert!(matches!(with(&|h| h.difficulty += U256::ONE), HeaderError::Difficulty { .. }));
    assert!(matches!(with(&|h| h.difficulty = U256::ZERO), HeaderError::Difficulty { .. }));
    assert!(matches!(with(&|h| h.gas_limit = 0), HeaderError::GasLimit { .. }));
    assert!(matches!(with(&|h| h.gas_used = h.gas_limit + 1), HeaderError::GasUsed { .. }));
    assert!(matches!(with(&|h| h.timestamp = 0), HeaderError::Timestamp { .. }));
    assert!(matches!(with(&|h| h.base_fee_per_gas = Some(1)), HeaderError::NotDue { .. }));
}

#[test]
fn ommers_end_with_the_merge() {
    let chain = named("Paris");
    let parent = genesis(&chain);
    let block = child(&chain, &parent, 12);
    let verdict = chain.validate_ommers(&block, core::slice::from_ref(&block), |_| None);
    assert_eq!(verdict, Err(OmmerError::TooMany { len: 1 }));
}
