//! Sealing: from an open block to an executed one.

use super::{BuildJob, context};
use crate::{
    bal::Footprint,
    builder::{Built, Dropped, Target, budget::blob_gas},
    engine::protocol,
    exec::run::Run,
    model::{BlockAccessList, BlockError, CandidateTx, Error, Stage, Txs, observe},
    plan::SourceCounts,
    seal::{
        Executed, Ran, Sealing,
        access_list::{Around, check_own, produce},
    },
    state::State,
};
use alloy_consensus::Header;
use alloy_primitives::Bytes;

/// A block with everything that belongs to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed {
    ran: Ran,
    requests: Option<Vec<Bytes>>,
    access_list: Option<BlockAccessList>,
}

impl<'e> BuildJob<'e> {
    /// The run so far, moved or copied.
    pub(super) fn run_so_far(&mut self, take: bool) -> Result<Run<'e>, Error> {
        let Self { resources, session, intake, env, .. } = self;
        let ctx = context(*resources, env, intake.candidates(), None, None);
        if take { session.take(&ctx) } else { session.copy(&ctx) }
    }

    /// Applies the protocol's steps after the transactions.
    pub(super) fn close(&mut self, mut run: Run<'e>) -> Result<Closed, BlockError> {
        let Self { resources, target, env, base, first, record, .. } = self;
        let resources = *resources;
        let (requests, last) = match target {
            Target::Plain(_) => (None, Footprint::default()),
            Target::Whole(template) => observe(resources.observer, Stage::Execute, || {
                protocol::after(resources, env, &template.payload(), run.after.overlay(), &run.outcomes)
            })?,
        };
        let around = base.as_ref().map(|base| Around { base, first, last: &last });
        let access_list = match record {
            Some(record) => {
                let produce = || produce(resources.state, around.as_ref(), env, &run, record).map(|(list, _)| list);
                let list = observe(resources.observer, Stage::Seal, produce).map_err(BlockError::Engine)?;
                if let Target::Whole(template) = target {
                    check_own(&list, &template.payload(), resources.cfg.spec)?;
                }
                Some(list)
            }
            None => None,
        };
        let Run { order, outcomes, after, left: _, stats } = run;
        let mut changes = after.into_changes().map_err(BlockError::Engine)?;
        if let Target::Whole(template) = target {
            State::put_parent(&mut changes, &template.header);
        }
        let ran = Ran { order, outcomes, changes, left: Vec::new(), stats };
        Ok(Closed { ran, requests, access_list })
    }

    /// Builds the block from a run; the empty block if the run cannot be closed.
    pub(super) fn built(&mut self, run: Result<Run<'e>, Error>) -> Built {
        let closed = run.map_err(BlockError::Engine).and_then(|run| self.close(run));
        let (closed, failure) = match closed {
            Ok(closed) => (closed, None),
            Err(error) => (self.empty.clone(), Some(error)),
        };
        let Closed { mut ran, requests, access_list } = closed;
        let count = ran.order.len() as u32;
        let order = core::mem::replace(&mut ran.order, (0..count).collect());
        let txs: Vec<CandidateTx> = order.iter().map(|index| self.candidate(*index)).collect();
        let (sources, frames) = self.origins(&order);
        let resources = self.resources;
        let (state, cfg, observer) = (resources.state, resources.cfg, resources.observer);
        let is_whole = matches!(self.target, Target::Whole(_));
        let executed = observe(observer, Stage::Seal, || {
            let sealing =
                Sealing { is_whole, frames, sources, requests, access_list, ..Sealing::new(state, cfg, &self.env) };
            resources.workers.install(|| Executed::sealed(ran, Txs::Offered(&txs), sealing, observer))
        });
        let dropped: Vec<Dropped> = self
            .dropped
            .iter()
            .map(|(index, reason)| Dropped { candidate: self.candidate(*index), reason: reason.clone() })
            .collect();
        let mut waits = vec![true; self.intake.len()];
        for index in order.iter().chain(self.dropped.iter().map(|(index, _)| index)) {
            waits[*index as usize] = false;
        }
        let waiting = (0..).zip(waits).filter(|(_, waits)| *waits).map(|(index, _)| self.candidate(index));
        let waiting = waiting.chain(self.intake.offered().iter().cloned()).collect();
        let header = self.header(&executed, &txs);
        Built { executed, txs, header, dropped, waiting, failure }
    }

    fn candidate(&self, index: u32) -> CandidateTx {
        self.intake.candidates()[index as usize].clone()
    }

    /// Sources of the predictions of a block's transactions, and the number of frames with a member in it.
    fn origins(&self, order: &[u32]) -> (SourceCounts, usize) {
        let mut sources = SourceCounts::default();
        let mut frames = vec![false; self.intake.frames()];
        for index in order {
            if let Some(source) = self.intake.source(*index) {
                sources.count(source);
                frames[self.intake.frame_of(*index) as usize] = true;
            }
        }
        (sources, frames.into_iter().filter(|has_member| *has_member).count())
    }

    /// Header of a whole block, with the known fields of the outcome.
    fn header(&self, executed: &Executed, txs: &[CandidateTx]) -> Option<Header> {
        let Target::Whole(template) = &self.target else { return None };
        let block = executed.block();
        let mut header = template.header.clone();
        header.gas_used = block.gas_used();
        header.logs_bloom = block.logs_bloom();
        header.receipts_root = block.receipts_root().unwrap_or(header.receipts_root);
        header.requests_hash = block.requests_hash();
        header.block_access_list_hash = block.access_list_hash();
        if header.excess_blob_gas.is_some() {
            header.blob_gas_used = Some(txs.iter().map(|candidate| blob_gas(&*candidate.tx)).sum());
        }
        Some(header)
    }
}
