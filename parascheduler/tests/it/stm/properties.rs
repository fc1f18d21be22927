//! Random programs against the loop.

use super::{THREADS, config, random::random_block, run_checked};
use crate::common::seeds;
use phalanx_parascheduler::Workers;

#[test]
fn any_block_equals_the_loop() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for seed in seeds(200) {
            let block = random_block(seed, if seed % 20 == 0 { 3_000 } else { 150 });
            run_checked(&workers, &block, &config(seed, None), &format!("seed {seed}, {threads} threads"));
        }
    }
}

#[test]
fn any_schedule_equals_the_loop() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for seed in seeds(100) {
            let block = random_block(seed, 120);
            for schedule in 0..3 {
                let what = format!("seed {seed}, schedule {schedule}, {threads} threads");
                run_checked(&workers, &block, &config(seed, Some(schedule)), &what);
            }
        }
    }
}
