//! Payloads as they arrive: each is kept, and executed if it extends the chain.

use super::{
    client::{Client, Stop},
    fault::Fault,
    proposed::{Broken, Proposed},
    status::Status,
    tree::Invalid,
};
use crate::{error::NodeError, steps::Missed};
use alloy_primitives::B256;
use phalanx::api::{Candidate, ExecId, ExecOutcome, Priority, ViewAt};
use std::{panic::resume_unwind, time::Instant};

/// Result of the execution of a payload on its parent.
#[derive(Debug)]
pub(super) enum Ran {
    Valid(ExecId),
    Invalid(Invalid),
    /// The engine has no room for another block above the committed one.
    Full,
}

/// Facts of a parent that a payload depends on.
#[derive(Clone, Copy, Debug)]
struct Parent {
    /// Name of the execution; `None` for a payload that is not executed.
    exec: Option<ExecId>,
    number: u64,
    timestamp: u64,
}

impl Client {
    /// Judges a payload whose hash is that of its header.
    pub(super) fn take(&mut self, block: Proposed) -> Result<Status, Stop> {
        let hash = block.hash;
        // With an entry that is no transaction the answer has no ancestor, though its descendants and fork choices get it.
        let refusal = |invalid: &Invalid| match block.broken() {
            Some(Broken::Entry(why)) => Status::broken(why.to_string()),
            Some(Broken::Header(_)) | None => Status::invalid(invalid),
        };
        if let Some(invalid) = self.tree.invalid(&hash) {
            return Ok(refusal(invalid));
        }
        if self.tree.is_valid(&hash) || self.chain.height_of(&hash)?.is_some() {
            return Ok(Status::valid(hash));
        }
        let inherited = self.tree.invalid(&block.parent).cloned();
        let invalid = match inherited {
            Some(invalid) => Some(invalid),
            None => match block.broken() {
                Some(Broken::Entry(why) | Broken::Header(why)) => {
                    let parent = self.parent(&block.parent)?.and_then(|parent| parent.exec);
                    Some(Invalid { latest_valid: parent.map(|_| block.parent), why: why.to_string() })
                }
                None => self.misfit(&block)?,
            },
        };
        if let Some(invalid) = invalid {
            self.tree.condemn(hash, &invalid);
            return Ok(refusal(&invalid));
        }
        self.tree.hold(block.clone(), None);
        let journal = self.journal.clone();
        // Written beside the execution, and answered once both are done.
        let (written, judged) = std::thread::scope(|scope| {
            let writing = std::thread::Builder::new().name("phalanx-journal".into());
            let writing = writing.spawn_scoped(scope, || journal.put(&block)).map_err(NodeError::Threads);
            let judged = self.reach(hash);
            (writing.and_then(|writing| writing.join().unwrap_or_else(|panic| resume_unwind(panic))), judged)
        });
        if let Err(error) = written {
            // The client would never send it again.
            self.tree.remove(&hash);
            return Err(Fault::Server(error.to_string()).into());
        }
        judged
    }

    /// Executes a held payload with its ancestors, if it is ahead of the newest block.
    fn reach(&mut self, hash: B256) -> Result<Status, Stop> {
        let (path, root) = self.tree.path(hash);
        let Some(below) = self.chain.height_of(&root)? else { return Ok(Status::syncing()) };
        if below < self.chain.height() {
            return Ok(Status::accepted());
        }
        // What follows may take long.
        self.draft()?;
        for next in path {
            let begun = Instant::now();
            match self.execute(next)? {
                Ran::Valid(_) => self.tree.spent(&next, begun.elapsed()),
                Ran::Invalid(invalid) => return Ok(Status::invalid(&invalid)),
                Ran::Full => return Ok(Status::syncing()),
            }
        }
        Ok(Status::valid(hash))
    }

    /// Parent of a payload, if it is on the chain or held.
    fn parent(&self, hash: &B256) -> Result<Option<Parent>, Stop> {
        if let Some(held) = self.tree.get(hash) {
            let (number, timestamp) = (held.block.number(), held.block.timestamp());
            return Ok(Some(Parent { exec: held.exec, number, timestamp }));
        }
        let Some(height) = self.chain.height_of(hash)? else { return Ok(None) };
        let head = self.chain.head_at(height)?;
        Ok(head.map(|head| Parent { exec: Some(ExecId(head.exec)), number: height, timestamp: head.header.timestamp }))
    }

    /// The reason for which a payload cannot be a child of its parent, if that is known.
    fn misfit(&self, block: &Proposed) -> Result<Option<Invalid>, Stop> {
        let Some(Parent { exec, number, timestamp }) = self.parent(&block.parent)? else { return Ok(None) };
        let why = if Some(block.number()) != number.checked_add(1) {
            format!("its number is {}, and its parent's is {number}", block.number())
        } else if block.timestamp() <= timestamp {
            format!("its time is {}, and its parent's is {timestamp}", block.timestamp())
        } else {
            return Ok(None);
        };
        Ok(Some(Invalid { latest_valid: exec.map(|_| block.parent), why }))
    }

    /// Executes a held payload on its parent, which is executed, and compares the hash. A valid one goes to the disk at once, where
    /// no reader sees it before it is chosen.
    pub(super) fn execute(&mut self, hash: B256) -> Result<Ran, Stop> {
        let lost = || Fault::Server("the payload is no longer held: send it again".into());
        let block = self.tree.get(&hash).ok_or_else(lost)?.block.clone();
        if let Some(invalid) = self.misfit(&block)? {
            self.tree.condemn(hash, &invalid);
            return Ok(Ran::Invalid(invalid));
        }
        let parent = self.parent(&block.parent)?.and_then(|parent| parent.exec).ok_or_else(lost)?;
        let candidate = block.candidate(self.chain.spec.chain_id(), parent);
        let id = candidate.id();
        let why = match self.submit(candidate) {
            Ok(outcome) => {
                let found = self.chain.service.block_hash(ViewAt::Exec(id))?;
                if found == hash {
                    self.steps.stage(id);
                    self.tree.found_valid(&hash, id);
                    return Ok(Ran::Valid(id));
                }
                let ExecOutcome { state_root, receipts_root, gas_used, .. } = outcome;
                format!(
                    "its execution gives block {found}: state root {state_root}, receipts root {receipts_root}, gas {gas_used}"
                )
            }
            Err(Missed::Invalid(failure)) => failure.to_string(),
            Err(Missed::Passing(why)) => {
                tracing::debug!(why, %hash, "the payload is not executed now");
                return Ok(Ran::Full);
            }
            Err(Missed::Final(error)) => return Err(error.into()),
        };
        let invalid = Invalid { latest_valid: Some(block.parent), why };
        self.tree.condemn(hash, &invalid);
        Ok(Ran::Invalid(invalid))
    }

    /// Executes a block. Where the engine has no room, other branches than this one leave it: they are executed again if they are
    /// chosen.
    pub(super) fn submit(&mut self, candidate: Candidate) -> Result<ExecOutcome, Missed> {
        // It may end a builder early, so that the block is built anew.
        self.jobs.ring();
        match self.steps.submit(candidate.clone(), Priority::Speculative) {
            Err(Missed::Passing(_)) => {
                self.steps.keep_only(&[candidate.parent()])?;
                self.steps.submit(candidate, Priority::Speculative)
            }
            done => done,
        }
    }
}
