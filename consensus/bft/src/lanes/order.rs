//! From the new cars of a cut to blocks: the same at every replica.

use super::car::Car;
use crate::core::Batch;
use alloy_primitives::Bytes;

/// Content of a block: a batch, or several small ones of one lane.
pub type Block = Batch;

/// Cuts cars, in their order, into blocks of at most `budget` bytes. Linear in the number of transactions.
///
/// Cars of one lane and one beneficiary share a block while they fit; a car is never split, so that frames which its owner formed
/// stay together. A car above the budget has a block of its own. A block has the latest time of its cars.
#[must_use]
pub fn blocks<'a>(cars: impl IntoIterator<Item = &'a Car>, budget: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Vec<&Car> = Vec::new();
    let mut bytes = 0;
    for car in cars {
        let joins = open.last().is_some_and(|last| {
            last.header.body.lane == car.header.body.lane
                && last.batch.beneficiary() == car.batch.beneficiary()
                && bytes + car.batch.bytes() <= budget
        });
        if !joins {
            blocks.extend(close(&open));
            open.clear();
            bytes = 0;
        }
        bytes += car.batch.bytes();
        open.push(car);
    }
    blocks.extend(close(&open));
    blocks
}

fn close(cars: &[&Car]) -> Option<Block> {
    let (first, rest) = cars.split_first()?;
    if rest.is_empty() {
        return Some(first.batch.clone());
    }
    let time = cars.iter().map(|car| car.batch.timestamp_ms()).max().unwrap_or_default();
    let transactions: Vec<Bytes> = cars.iter().flat_map(|car| car.batch.transactions().iter().cloned()).collect();
    Some(Batch::new(time, first.batch.beneficiary(), transactions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{Index, Signed},
        lanes::Header,
    };
    use alloy_primitives::{Address, B256};

    fn car(lane: u16, position: u64, beneficiary: u8, bytes: usize) -> Car {
        let batch = Batch::new(position, Address::with_last_byte(beneficiary), vec![vec![1; bytes].into()]);
        let body = Header { lane: Index(lane), position, parent: B256::ZERO, batch: batch.digest() };
        Car { header: Signed { signer: Index(lane), signature: Bytes::new(), body }, batch, proof: Vec::new() }
    }

    #[test]
    fn cars_of_a_lane_share_a_block_while_they_fit() {
        let cars = [car(0, 1, 1, 100), car(0, 2, 1, 100), car(0, 3, 1, 100), car(1, 1, 1, 100), car(1, 2, 2, 900)];
        let sizes = |budget| blocks(&cars, budget).iter().map(|b| b.transactions().len()).collect::<Vec<_>>();
        assert_eq!(sizes(10_000), [3, 1, 1], "a lane and a beneficiary each");
        assert_eq!(sizes(300), [2, 1, 1, 1], "the third car would be too long, and the last one is alone");
        assert_eq!(blocks(&cars, 10_000)[0].timestamp_ms(), 3);
        assert_eq!(blocks(&[], 1), []);
    }
}
