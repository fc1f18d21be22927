//! Latencies of a whole node, exact to the microsecond of virtual time.

use crate::cluster::{Cluster, Net, Setup};
use phalanx_bft::pbft::Pbft;
use phalanx_sim::model::Costs;
use phalanx_world::Facts;

fn certified_after_three_delays_or_two_and_execution<P: Facts>() {
    for n in [4, 7] {
        for delay in [10, 1_000] {
            for execute in [0, 1, 2, 3, 5] {
                let costs = Costs { execute_us: execute * delay, ..Costs::default() };
                let mut cluster = Net::<P>::new(Setup { delay, costs, ..Setup::new(n) });
                cluster.run(50_000);
                let at = cluster.now() + 100;
                cluster.submit(100, 1);
                cluster.run(1_000_000);
                let last = (0..n).map(|node| cluster.times[&(node, 1)]).max().expect("nodes");
                let expected = delay * 3.max(2 + execute);
                // The primary executes from the start, backups from the proposal on.
                assert_eq!(last - at, expected, "n = {n}, delay = {delay}, execution = {execute}");
            }
        }
    }
}

#[test]
fn a_block_is_certified_and_committed_everywhere_after_three_delays_or_two_and_its_execution() {
    certified_after_three_delays_or_two_and_execution::<Pbft>();
}

#[test]
fn a_stream_of_batches_is_committed_in_order_with_one_root_everywhere() {
    let costs = Costs { execute_us: 300, stage_us: 100, flip_us: 20, ..Costs::default() };
    let mut cluster = Cluster::new(Setup { costs, interval: 16, batch_txs: 4, ..Setup::new(4) });
    (0..400).for_each(|number| cluster.submit(number * 150, number));
    cluster.run(3_000_000);
    let height = cluster.lowest();
    assert!(height >= 100, "height {height}");
    assert!((0..4).all(|node| cluster.height(node) == height && cluster.root(node) == cluster.root(0)));
    assert!(cluster.halted.is_empty());
}
