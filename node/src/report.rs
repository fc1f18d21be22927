//! Reports of halts in the node's folder. One of a divergence outlives restarts: no node goes on behind it.

use crate::error::NodeError;
use phalanx_abci::Halt;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

/// Field of a report that only a divergence has: the digest of the others.
const THEIRS: &str = "theirs";

/// Keeps the report of a halt, also through a power cut. If it cannot be written, the log has it.
pub(crate) fn keep(folder: &Path, why: &Halt) {
    let (name, report) = report(why);
    let path = folder.join(&name);
    match write(folder, &name, &report.to_string()) {
        Ok(()) => tracing::error!(path = %path.display(), "the report of the halt is kept"),
        Err(error) => tracing::error!(%error, %report, "the report of the halt is not kept"),
    }
}

/// Refuses a start while the report of a divergence is in the folder. A report that is no JSON counts as one.
///
/// CometBFT's handshake hands over blocks without votes: a node that has another result would commit it there.
pub(crate) fn refuse_divergence(folder: &Path) -> Result<(), NodeError> {
    let failed = |source| NodeError::Reports { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let height = name.strip_prefix("halt-").and_then(|rest| rest.strip_suffix(".json"));
        if height.is_none_or(|height| height.parse::<u64>().is_err()) {
            continue;
        }
        let report = serde_json::from_slice::<Value>(&fs::read(&path).map_err(failed)?);
        if report.map_or(true, |report| report.get(THEIRS).is_some()) {
            return Err(NodeError::Divergent { path });
        }
    }
    Ok(())
}

/// Writes a whole file, or none.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}.unfinished"));
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(unfinished, folder.join(name))?;
    // The name is on the disk once the folder is. Other systems than Unix open no folders.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// Name and content of the report on a halt: enough to execute the block again, and to compare.
fn report(why: &Halt) -> (String, Value) {
    let (height, mut report) = match why {
        Halt::Divergence(found) => {
            let votes: Vec<_> =
                found.votes.iter().map(|(voter, digest)| json!({ "validator": voter, "digest": digest })).collect();
            let mut report = json!({
                "hash": found.hash, "ours": found.ours, THEIRS: found.theirs, "power": found.power, "total": found.total,
                "votes": votes,
            });
            let (candidate, outcome) = &found.block;
            let env = candidate.env();
            report["block"] = json!({
                "execution": candidate.id().0, "parent": candidate.parent().0, "timestampMs": env.timestamp_ms,
                "prevrandao": env.prevrandao, "beneficiary": env.beneficiary, "gasLimit": env.gas_limit,
                "baseFee": env.base_fee, "transactions": candidate.payload().txs(),
            });
            let statuses: Vec<u8> = outcome.txs.iter().map(|status| *status as u8).collect();
            report["outcome"] = json!({
                "stateRoot": outcome.state_root, "receiptsRoot": outcome.receipts_root,
                "transactionsRoot": outcome.transactions_root, "gasUsed": outcome.gas_used, "statuses": statuses,
            });
            (found.height, report)
        }
        Halt::Engine { height, .. } | Halt::Host { height, .. } => (*height, json!({})),
        other => (0, json!({ "reason": other.to_string() })),
    };
    (report["height"], report["reason"]) = (json!(height), json!(why.to_string()));
    (format!("halt-{height}.json"), report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::api::{Failure, FatalCause};

    #[test]
    fn only_reports_of_divergences_and_broken_ones_refuse_a_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path();
        assert!(refuse_divergence(&place.join("none")).is_ok());
        keep(place, &Halt::Engine { height: 3, why: Failure::Fatal(FatalCause::Io("gone".into())) });
        assert!(place.join("halt-3.json").is_file());
        for (name, text) in [("halt-4.json.unfinished", "{"), ("halt-x.json", "{"), ("halt.json", "{")] {
            fs::write(place.join(name), text).expect("written");
        }
        assert!(refuse_divergence(place).is_ok());
        for text in ["{\"theirs\":1}", "", "{\"the"] {
            let path = place.join("halt-4.json");
            fs::write(&path, text).expect("written");
            let refused = refuse_divergence(place).expect_err("a divergence");
            assert!(matches!(&refused, NodeError::Divergent { path: named } if *named == path), "{refused}");
            fs::remove_file(path).expect("removed");
        }
    }
}
