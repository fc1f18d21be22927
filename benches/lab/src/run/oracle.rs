//! The oracle: executes every block again on sequential revm and compares everything.

use super::{
    drive::{self, Purpose, Setup, Timed},
    trace::{BlockTrace, Ended},
};
use crate::{
    config::{OracleKind, Store},
    ui::Ui,
};
use phalanx::Executor;

/// Results of the oracle, per block.
pub(crate) struct Oracle {
    blocks: Vec<BlockTrace>,
    /// Number of blocks of the run.
    of: usize,
}

impl Oracle {
    /// Oracle over a complete run.
    pub(crate) const fn of_all(blocks: Vec<BlockTrace>) -> Self {
        let of = blocks.len();
        Self { blocks, of }
    }
}

/// Executes `blocks` in order on sequential revm over a store in memory; `None` if the oracle is off.
pub(crate) fn consult(
    setup: &Setup<'_>,
    kind: OracleKind,
    blocks: &[Vec<u32>],
    ui: &Ui,
) -> anyhow::Result<Option<Oracle>> {
    let asked = match kind {
        OracleKind::Off => return Ok(None),
        OracleKind::Sampled => blocks.len().div_ceil(8),
        OracleKind::Full => blocks.len(),
    };
    let unsigned = Setup { signed: &[], purpose: Purpose::Compare, ..*setup };
    let timed = drive::run(&unsigned, Executor::Sequential, setup.threads, &Store::Mem, Some(&blocks[..asked]), ui)?;
    Ok(Some(Oracle { blocks: timed.blocks, of: blocks.len() }))
}

/// Verdict on a run: `match`, `sampled`, `off` or `mismatch`, with the scope of the comparison or the difference.
pub(crate) fn judge(oracle: Option<&Oracle>, run: &Timed) -> (&'static str, String) {
    if let Err(difference) = &run.check {
        return ("mismatch", format!("final state: {difference}"));
    }
    if let Some(difference) = unsound(run) {
        return ("mismatch", difference);
    }
    // An interrupted oracle may have compared nothing.
    let Some(oracle) = oracle.filter(|oracle| !oracle.blocks.is_empty()) else {
        return ("off", format!("{}balances and nonces by arithmetic alone", arithmetic(run)));
    };
    for (height, (ours, truth)) in (1u64..).zip(run.blocks.iter().zip(&oracle.blocks)) {
        if let Some(difference) = differ(ours, truth) {
            return ("mismatch", format!("block {height}: {difference}"));
        }
    }
    if !run.interrupted && run.blocks.len() != oracle.of {
        return ("mismatch", format!("{} blocks, and {} in the first run", run.blocks.len(), oracle.of));
    }
    let compared = run.blocks.len().min(oracle.blocks.len());
    let what = "order, every result and log, gas, receipts root, state root";
    let what = format!("{what}; {}balances by arithmetic", arithmetic(run));
    if compared == run.blocks.len() && oracle.of >= compared {
        let all = if compared == 1 { "the only block".to_owned() } else { format!("all {compared} blocks") };
        ("match", format!("{all}: {what}"))
    } else {
        ("sampled", format!("blocks 1 to {compared} of {}: {what}", run.blocks.len()))
    }
}

/// Final balances that the arithmetic looked at, in words.
const fn arithmetic(run: &Timed) -> &'static str {
    if run.is_sampled { "a sample of the final " } else { "final " }
}

/// Faults that need no oracle, as all transactions of a load are valid: a transaction in no block, in two blocks, or
/// skipped.
fn unsound(run: &Timed) -> Option<String> {
    let executed = run.blocks.iter().flat_map(|block| block.order.iter().zip(&block.results));
    let skipped = executed.clone().find(|(_, result)| result.ended == Ended::Skipped);
    if let Some((tx, _)) = skipped {
        return Some(format!("transaction {tx} of the input was not executed: it was invalid at its position"));
    }
    let mut seen: Vec<u32> = executed.map(|(tx, _)| *tx).collect();
    seen.sort_unstable();
    let in_blocks = seen.len();
    seen.dedup();
    let lost = !run.interrupted && seen.len() != run.input;
    (lost || seen.len() != in_blocks)
        .then(|| format!("{} transactions in, {in_blocks} in blocks, {} distinct", run.input, seen.len()))
}

/// The first difference between two executions of a block.
pub(crate) fn differ(ours: &BlockTrace, truth: &BlockTrace) -> Option<String> {
    if ours.order != truth.order {
        return Some("another order of transactions".into());
    }
    if let Some(at) = ours.results.iter().zip(&truth.results).position(|(ours, truth)| ours != truth) {
        let (input, ended, there) = (ours.order[at], ours.results[at].ended, truth.results[at].ended);
        let what = if ended == there { "with another gas, output or log than" } else { "otherwise than" };
        return Some(format!(
            "transaction {at} of the block (input {input}) {} {what} on sequential revm",
            word(ended)
        ));
    }
    if ours.results.len() != truth.results.len() {
        return Some(format!("{} results, sequential revm: {}", ours.results.len(), truth.results.len()));
    }
    if ours.gas_used != truth.gas_used {
        return Some(format!("gas used {}, sequential revm: {}", ours.gas_used, truth.gas_used));
    }
    if ours.receipts_root != truth.receipts_root {
        return Some(format!("receipts root {:?}, sequential revm: {:?}", ours.receipts_root, truth.receipts_root));
    }
    if let (Some(ours), Some(truth)) = (ours.access_list, truth.access_list)
        && ours != truth
    {
        return Some(format!("hash of the access list {ours}, sequential revm: {truth}"));
    }
    (ours.state_root != truth.state_root)
        .then(|| format!("state root {}, sequential revm: {}", ours.state_root, truth.state_root))
}

const fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Succeeded => "succeeded",
        Ended::Failed => "failed",
        Ended::Skipped => "was skipped",
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::TxTrace;
    use super::*;
    use phalanx::{
        Outcome,
        revm::{
            context_interface::result::{ExecutionResult, InvalidTransaction, ResultGas},
            primitives::{B256, Bytes},
        },
    };

    fn reverted(why: &'static [u8]) -> Outcome {
        let output = Bytes::from_static(why);
        Outcome::Executed(ExecutionResult::Revert { gas: ResultGas::default(), logs: vec![], output })
    }

    fn executed() -> Outcome {
        reverted(b"")
    }

    /// A run of four transactions in blocks with these members.
    fn run(blocks: &[&[u32]]) -> Timed {
        let mut timed = Timed::new("dag".into(), 1);
        timed.input = 4;
        timed.blocks = blocks
            .iter()
            .map(|order| BlockTrace {
                order: order.to_vec(),
                results: order.iter().map(|_| TxTrace::new(&executed())).collect(),
                receipts_root: Some(B256::ZERO),
                state_root: B256::ZERO,
                gas_used: 0,
                access_list: Some(B256::ZERO),
            })
            .collect();
        timed
    }

    #[test]
    fn a_lost_repeated_or_skipped_transaction_is_a_mismatch() {
        let verdict = |timed: &Timed| judge(None, timed).0;
        assert_eq!(verdict(&run(&[&[2, 0], &[1, 3]])), "off");
        assert_eq!(verdict(&run(&[&[2, 0], &[1]])), "mismatch", "lost");
        assert_eq!(verdict(&run(&[&[2, 0], &[1, 3, 0]])), "mismatch", "twice");
        let mut skipped = run(&[&[2, 0], &[1, 3]]);
        let invalid = Outcome::Skipped(InvalidTransaction::NonceTooHigh { tx: 1, state: 0 });
        skipped.blocks[1].results[0] = TxTrace::new(&invalid);
        assert_eq!(verdict(&skipped), "mismatch", "skipped");
        let mut interrupted = run(&[&[2, 0]]);
        interrupted.interrupted = true;
        assert_eq!(verdict(&interrupted), "off", "the rest was not to be executed");
    }

    #[test]
    fn every_part_of_a_block_is_compared() {
        let truth = || Oracle { blocks: run(&[&[0, 1, 2, 3]]).blocks, of: 1 };
        let verdict = |change: fn(&mut Timed)| {
            let mut timed = run(&[&[0, 1, 2, 3]]);
            change(&mut timed);
            judge(Some(&truth()), &timed).0
        };
        assert_eq!(verdict(|_| {}), "match");
        assert_eq!(verdict(|timed| timed.blocks[0].order.swap(0, 1)), "mismatch");
        assert_eq!(verdict(|timed| timed.blocks[0].gas_used = 1), "mismatch");
        assert_eq!(verdict(|timed| timed.blocks[0].results[3] = TxTrace::new(&reverted(b"why"))), "mismatch");
        assert_eq!(verdict(|timed| timed.blocks[0].results.truncate(3)), "mismatch");
        assert_eq!(verdict(|timed| timed.blocks[0].receipts_root = None), "mismatch");
        assert_eq!(verdict(|timed| timed.blocks[0].access_list = Some(B256::repeat_byte(1))), "mismatch");
        assert_eq!(verdict(|timed| timed.blocks[0].access_list = None), "match", "not every run makes them");
        assert_eq!(verdict(|timed| timed.blocks[0].state_root.0[0] = 1), "mismatch");
        assert_eq!(verdict(|timed| timed.check = Err("a balance".into())), "mismatch");
        assert_eq!(verdict(|timed| timed.blocks = run(&[&[0, 1], &[2, 3]]).blocks), "mismatch");
    }
}
