//! Bundles: a folder with the evidence of a difference, and the command that reproduces it.

use super::args::ReplayArgs;
use super::{
    hints::Told,
    line::Line,
    run::{Case, Found, Judged, Ran},
};
use crate::output;
use anyhow::Context as _;
use phalanx::{
    Outcome,
    access::Access,
    paralyze::StateKey,
    revm::primitives::{Address, Bytes, U256},
};
use phalanx_lab::config::word;
use phalanx_workloads::fixtures::{Account, Alloc};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Writes the bundle of an execution: block, hints, both results, the difference, and the command.
pub(crate) fn write(case: &Case<'_>, ran: &Ran, line: &Line, args: &ReplayArgs) -> anyhow::Result<PathBuf> {
    let hints = ran.hints.replace(':', "-");
    let mut root = args.bundle.join(format!("{}-{}-{}t-{hints}", line.number, line.executor, line.threads));
    // An earlier bundle is evidence too.
    for again in 2.. {
        if !root.exists() {
            break;
        }
        root.set_file_name(format!("{}-{}-{}t-{hints}-{again}", line.number, line.executor, line.threads));
    }
    let block = root.join("blocks").join(line.number.to_string());
    let put = |name: &str, value: &Value| output::whole(&root.join(name), format!("{value:#}\n").as_bytes());
    fs::create_dir_all(&block).with_context(|| format!("making {}", block.display()))?;
    for file in case.block.files() {
        copy(&file, &block)?;
    }
    for folder in [Some(case.block.dir.as_path()), case.block.dir.parent()].into_iter().flatten() {
        if folder.join("index.json").is_file() {
            copy(&folder.join("index.json"), &root.join("blocks"))?;
            break;
        }
    }
    put("line.json", &serde_json::to_value(line)?)?;
    put("hints.json", &told(&ran.told))?;
    put("ours.json", &result(&ran.judged))?;
    put("sequential.json", &result(&case.truth))?;
    put("difference.json", &difference(&ran.judged, &case.truth))?;
    let block = std::path::absolute(&block).unwrap_or(block);
    let command = command(&block, line, ran, args);
    output::whole(&root.join("command"), format!("{command}\n").as_bytes())?;
    Ok(root)
}

fn copy(file: &Path, to: &Path) -> anyhow::Result<()> {
    let name = file.file_name().unwrap_or_default();
    fs::copy(file, to.join(name)).map(drop).with_context(|| format!("copying {}", file.display()))
}

/// Command that reproduces the execution.
fn command(block: &Path, line: &Line, ran: &Ran, args: &ReplayArgs) -> String {
    let mut words = vec!["phalanx".to_owned(), "replay".into(), output::quoted(&block.display().to_string())];
    let mut flag = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    flag("executor", line.executor.clone());
    flag("threads", line.threads.to_string());
    match args.hints {
        Some(kind) => flag("hints", kind.to_string()),
        None if !args.artefacts.is_empty() => flag("artefact", ran.hints.clone()),
        None => flag("access", ran.hints.clone()),
    }
    flag("seed", args.seed.to_string());
    if let Some(seed) = line.schedule_seed {
        flag("schedule-seed", seed.to_string());
    }
    flag("traces", word(args.traces));
    flag("repeat", args.repeat().to_string());
    words.join(" ")
}

fn told(told: &Told) -> Value {
    match told {
        Told::Predict => json!("predicted by the engine"),
        Told::Nothing => json!("none"),
        Told::Exceptions(bytes) => json!({ "exceptions": Bytes::copy_from_slice(bytes) }),
        Told::AccessList(rlp, hash) => json!({ "access_list": rlp, "hash": hash }),
        Told::Sets(sets) => {
            let entry = |(key, access): &(StateKey, Access)| format!("{access:?} {key:?}");
            sets.iter().map(|set| set.iter().map(entry).collect::<Vec<_>>()).collect::<Vec<_>>().into()
        }
    }
}

fn result(judged: &Judged) -> Value {
    match judged {
        Judged::Invalid(rule) => json!({ "invalid": rule }),
        Judged::Valid(found) => json!({
            "gas_used": found.gas_used,
            "receipts_root": found.receipts_root,
            "logs_bloom": found.logs_bloom,
            "requests_hash": found.requests_hash,
            "access_list_hash": found.access_list_hash,
            "post_state_digest": found.digest,
            "engine_root": found.engine_root,
            "outcomes": found.outcomes.iter().map(outcome).collect::<Vec<_>>(),
        }),
    }
}

fn outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Skipped(reason) => json!({ "invalid": reason.to_string() }),
        Outcome::Executed(result) => json!({
            "success": result.is_success(),
            "gas_used": outcome.gas_used(),
            "output": result.output(),
            "logs": result.logs(),
        }),
    }
}

/// Difference of two results: transactions by position, accounts by their parts, slots by their values, ours first.
fn difference(ours: &Judged, sequential: &Judged) -> Value {
    let (Judged::Valid(ours), Judged::Valid(sequential)) = (ours, sequential) else {
        return if ours == sequential { json!({}) } else { json!({ "verdict": [result(ours), result(sequential)] }) };
    };
    json!({ "receipts": receipts(ours, sequential), "accounts": accounts(&ours.post, &sequential.post) })
}

fn receipts(ours: &Found, sequential: &Found) -> Vec<Value> {
    let (our, their) = (&ours.outcomes, &sequential.outcomes);
    let len = our.len().max(their.len());
    let at = |list: &[Outcome], index: usize| list.get(index).map(outcome);
    let differs = |index: &usize| our.get(*index) != their.get(*index);
    (0..len)
        .filter(differs)
        .map(|index| json!({ "transaction": index, "ours": at(our, index), "sequential": at(their, index) }))
        .collect()
}

fn accounts(ours: &Alloc, sequential: &Alloc) -> Map<String, Value> {
    let addresses: BTreeSet<&Address> = ours.keys().chain(sequential.keys()).collect();
    let differ = addresses.into_iter().filter(|address| ours.get(*address) != sequential.get(*address));
    differ.map(|address| (address.to_string(), account(ours.get(address), sequential.get(address)))).collect()
}

fn account(ours: Option<&Account>, sequential: Option<&Account>) -> Value {
    let head = |account: Option<&Account>| {
        account.map(|account| json!({ "balance": account.balance, "nonce": account.nonce, "code": account.code }))
    };
    let value = |account: Option<&Account>, slot: &U256| {
        account.and_then(|account| account.storage.get(slot)).copied().unwrap_or_default()
    };
    let slots: BTreeSet<&U256> =
        [ours, sequential].into_iter().flatten().flat_map(|account| account.storage.keys()).collect();
    let slots: Map<String, Value> = slots
        .into_iter()
        .map(|slot| (slot, value(ours, slot), value(sequential, slot)))
        .filter(|(_, ours, sequential)| ours != sequential)
        .map(|(slot, ours, sequential)| (format!("{slot:#x}"), json!([ours, sequential])))
        .collect();
    json!({ "ours": head(ours), "sequential": head(sequential), "slots": slots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_slots_that_differ_are_shown_with_both_values() {
        let account = |balance: u64, slots: &[(u64, u64)]| Account {
            balance: U256::from(balance),
            nonce: 1,
            code: Bytes::from_static(&[1]),
            storage: slots.iter().map(|(slot, value)| (U256::from(*slot), U256::from(*value))).collect(),
        };
        let address = Address::with_last_byte;
        let ours = Alloc::from([
            (address(1), account(1, &[(1, 1)])),
            (address(2), account(1, &[(1, 1), (2, 2)])),
            (address(3), account(5, &[])),
        ]);
        let sequential =
            Alloc::from([(address(1), account(1, &[(1, 1)])), (address(2), account(2, &[(1, 1), (3, 3)]))]);
        let shown = Value::Object(accounts(&ours, &sequential));
        let names: Vec<_> = shown.as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, [address(2).to_string(), address(3).to_string()]);
        let second = &shown[&names[0]];
        assert_eq!((&second["ours"]["balance"], &second["sequential"]["balance"]), (&json!("0x1"), &json!("0x2")));
        assert_eq!(second["slots"], json!({ "0x2": ["0x2", "0x0"], "0x3": ["0x0", "0x3"] }));
        assert_eq!(shown[&names[1]]["sequential"], Value::Null);
    }
}
