//! Clients: requests of each replica's region, batches of them, and answers.

use super::{
    setting::{Order, Setting},
    world::{Event, Node, World},
};
use alloy_primitives::{Address, Bytes};
use phalanx_bft::{Batch, Input};
use phalanx_world::Facts;

/// Requests of a replica that arrived together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) origin: u16,
    pub(super) txs: u64,
    /// Mean time of arrival, in ns.
    pub(super) sent: u64,
    pub(super) ready: bool,
}

impl<P: Facts> Node<P> {
    /// Takes parts to propose, each once in a view.
    pub(super) fn take(&mut self, parts: Vec<u32>) {
        let Self { pool, taken, .. } = self;
        pool.extend(parts.into_iter().filter(|part| P::OWN_REQUESTS || taken.insert(*part)));
    }
}

impl<P: Facts> World<P> {
    /// Time between two batches of a replica, in ns.
    pub(super) fn period(&self) -> u64 {
        let Setting { tps, n, batch_txs, batch_ms, .. } = self.setting;
        (batch_txs * n as u64 * 1_000_000_000 / tps).min(batch_ms * 1_000_000)
    }

    /// Closes the batch of a replica: what its clients have sent since the last one.
    pub(super) fn seal(&mut self, node: u16, since: u64) {
        let now = self.queue.now();
        let rate =
            |at: u64| (u128::from(at) * u128::from(self.setting.tps) / self.setting.n as u128 / 1_000_000_000) as u64;
        let (due, mut sent) = (rate(now) - rate(since), (since + now) / 2);
        self.queue.after(self.period(), Event::Seal(node, now));
        let txs = match self.setting.clients {
            None => due,
            Some(clients) => {
                let (most, rate) = (self.setting.batch_txs, (self.setting.tps, self.setting.n as u64));
                let free = clients.saturating_sub(self.in_flight);
                let (txs, late) = self.nodes[usize::from(node)].waiting.take(due, free.min(most), rate);
                sent = now.saturating_sub(late);
                txs
            }
        };
        if txs > 0 {
            self.in_flight += txs;
            let part = self.parts.len() as u32;
            self.parts.push(Part { origin: node, txs, sent, ready: false });
            let taken = self.nodes[usize::from(node)].ingest.serve(now, txs * self.setting.costs.ingest_ns);
            let ahead = matches!(self.setting.order, Order::Autobahn | Order::BatchedHotStuff);
            let hand_over = if ahead { self.setting.costs.mempool_ns } else { 0 };
            self.queue.after(taken - now + hand_over, Event::Pool(node, part));
        }
        if !P::OWN_REQUESTS {
            // Clients lose patience as replicas do, and send again.
            let late = self.setting.timeout_ms * 1_000_000;
            let mine = self.nodes[usize::from(node)].mine.iter();
            let again: Vec<u32> = mine.filter(|(_, sent)| *sent + late < now).map(|(part, _)| *part).collect();
            if !again.is_empty() {
                self.serve(node, again);
            }
        }
    }

    /// Gives transactions to their own replica, or to the leader.
    pub(super) fn serve(&mut self, node: u16, parts: Vec<u32>) {
        let now = self.queue.now();
        let leader = self.nodes[usize::from(node)].protocol.leader().0;
        self.nodes[usize::from(node)].mine.extend(parts.iter().map(|part| (*part, now)));
        if P::OWN_REQUESTS || leader == node {
            self.nodes[usize::from(node)].take(parts);
            self.fill(node);
        } else {
            let txs: u64 = parts.iter().map(|part| self.parts[*part as usize].txs).sum();
            let after = self.travel(node, leader, txs * self.setting.costs.tx_bytes);
            if !self.is_apart(node, leader) {
                self.queue.after(after, Event::Forward(leader, parts));
            }
        }
        self.tell_pending(node);
    }

    /// Proposes what waits, as far as the protocol takes it.
    pub(super) fn fill(&mut self, node: u16) {
        loop {
            let state = &mut self.nodes[usize::from(node)];
            if state.pool.is_empty() || state.protocol.room() == 0 {
                return;
            }
            // Blocks of HotStuff are filled by the protocol, from single batches.
            let chained = matches!(self.setting.order, Order::VanillaHotStuff | Order::BatchedHotStuff);
            let most = if chained { 1 } else { self.setting.car_batches as u64 * self.setting.batch_txs };
            let (mut parts, mut txs) = (Vec::new(), 0);
            while txs < most
                && let Some(part) = state.pool.pop_front()
            {
                txs += self.parts[part as usize].txs;
                parts.push(part);
            }
            let parts: Vec<u32> = parts.into_iter().filter(|part| !self.parts[*part as usize].ready).collect();
            if parts.is_empty() {
                continue;
            }
            let batch = self.batch(&parts);
            self.nodes[usize::from(node)].seen.insert(batch.digest());
            self.call(node, |protocol, now, out| protocol.on_input(now, Input::Batch(batch), out));
        }
    }

    /// A batch that names its parts, with an entry for every ten transactions.
    fn batch(&mut self, parts: &[u32]) -> Batch {
        self.number += 1;
        let mut entries = vec![Bytes::copy_from_slice(&self.number.to_be_bytes())];
        for part in parts {
            entries.push(Bytes::copy_from_slice(&part.to_be_bytes()));
            let fill = (self.parts[*part as usize].txs / 10).saturating_sub(1);
            entries.extend((0..fill).map(|_| Bytes::from_static(&[1])));
        }
        Batch::new(0, Address::ZERO, entries)
    }

    pub(super) fn txs(&self, batches: &[&Batch]) -> u64 {
        batches.iter().flat_map(|batch| parts_of(batch)).map(|part| self.parts[part as usize].txs).sum()
    }

    pub(super) fn tell_pending(&mut self, node: u16) {
        if !P::OWN_REQUESTS {
            let oldest = self.nodes[usize::from(node)].mine.keys().next().map(|part| u64::from(*part));
            let (now, mut out) = (self.queue.now() / 1_000, Vec::new());
            self.nodes[usize::from(node)].protocol.on_input(now, Input::Pending(oldest), &mut out);
            self.absorb(node, out);
        }
    }

    /// A transaction's client has its answer.
    pub(super) fn answer(&mut self, part: u32) {
        let now = self.queue.now();
        let known = &mut self.parts[part as usize];
        if !known.ready {
            known.ready = true;
            self.in_flight -= known.txs;
            self.series.note(known.sent, now, known.txs);
            self.answers.push((known.sent / 1_000, (now - known.sent) / 1_000));
            if now >= self.setting.warm_up_ms * 1_000_000 {
                self.ready_txs += known.txs;
            }
        }
    }
}

/// Transactions of a replica that are due and find no client free.
#[derive(Debug, Default)]
pub(super) struct Waiting(u64);

impl Waiting {
    /// Takes up to `most` transactions, `due` ones more than before among them. Returns their number, and the mean time for which
    /// they have waited, in ns, at a rate of `tps` per second of `n` replicas. The oldest go first.
    pub(super) fn take(&mut self, due: u64, most: u64, (tps, n): (u64, u64)) -> (u64, u64) {
        self.0 += due;
        let txs = self.0.min(most);
        let behind = self.0 - txs / 2;
        self.0 -= txs;
        let waited = u128::from(behind) * u128::from(n) * 1_000_000_000 / u128::from(tps);
        (txs, u64::try_from(waited).unwrap_or(u64::MAX))
    }
}

/// Parts that a batch names.
pub(super) fn parts_of(batch: &Batch) -> impl Iterator<Item = u32> + '_ {
    batch.transactions().iter().filter_map(|entry| <[u8; 4]>::try_from(&entry[..]).ok()).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_wait_for_clients_and_count_from_when_they_were_due() {
        let mut waiting = Waiting::default();
        let rate = (4_000, 4);
        // 100 are due and none can be sent; a second later 1,000 more are, and 500 of the oldest go.
        assert_eq!(waiting.take(100, 0, rate), (0, 100_000_000));
        assert_eq!(waiting.take(1_000, 500, rate), (500, 850_000_000));
        assert_eq!(waiting.take(0, 10_000, rate), (600, 300_000_000));
    }
}
