//! A replica as a part of another program, with the pool of that program.

use crate::kit::{Net, PATIENCE, config, folder};
use alloy_primitives::{B256, Bytes};
use phalanx_net::{Beginning, Doorbell, Embedder, PoolChanges, ProtocolName, ReplicaError};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// State of a program with a replica.
#[derive(Debug, Default)]
struct Program {
    ready: Vec<Bytes>,
    dropped: Vec<B256>,
    resumed: Vec<u64>,
    committed: Vec<u64>,
    /// True if the next block is one too many.
    fails: bool,
    ended: Option<String>,
}

struct Around(Arc<Mutex<Program>>);

impl Embedder for Around {
    fn resumed(&mut self, height: u64) -> Result<(), String> {
        self.0.lock().expect("no panic").resumed.push(height);
        Ok(())
    }

    fn changes(&mut self, most: usize) -> PoolChanges {
        let program = &mut *self.0.lock().expect("no panic");
        let ready = program.ready.drain(..most.min(program.ready.len())).collect();
        PoolChanges { ready, dropped: std::mem::take(&mut program.dropped) }
    }

    fn committed(&mut self, height: u64) -> Result<(), String> {
        let program = &mut *self.0.lock().expect("no panic");
        program.committed.push(height);
        if program.fails { Err("the disk is full".into()) } else { Ok(()) }
    }

    fn ended(&mut self, why: &ReplicaError) {
        self.0.lock().expect("no panic").ended = Some(why.to_string());
    }
}

/// Transactions of a program get into blocks under any leader, and its replica ends with it.
#[test]
fn a_program_has_its_pool_ordered_and_hears_of_every_block() {
    for protocol in [ProtocolName::Pbft, ProtocolName::Sbft, ProtocolName::Autobahn] {
        let folder = folder();
        let mut config = config(4, folder.path());
        config.protocol = protocol;
        let mut net = Net::new(config);
        net.stop(2);
        let (program, doorbell) = (Arc::<Mutex<Program>>::default(), Doorbell::default());
        let embedder = Box::new(Around(Arc::clone(&program)));
        net.try_begin_in(2, Beginning::Usual, (embedder, doorbell.clone())).expect("it starts");
        let with = |act: &dyn Fn(&mut Program)| act(&mut program.lock().expect("no panic"));
        // More than one turn takes.
        let txs = net.others(300);
        with(&|program| program.ready.extend(txs.iter().cloned()));
        doorbell.ring();
        net.settle();
        with(&|program| {
            let height = program.committed.len() as u64;
            assert!(height > 0 && program.committed.iter().copied().eq(1..=height), "{protocol:?}: {program:?}");
            assert_eq!((&program.resumed[..], program.ended.as_ref()), (&[0][..], None));
            program.fails = true;
        });
        net.submit(1);
        let begun = Instant::now();
        while !net.replica(2).has_ended() {
            assert!(begun.elapsed() < PATIENCE, "{protocol:?}");
            net.listen(Duration::from_millis(10));
        }
        let why = net.failed(2);
        assert!(matches!(&why, ReplicaError::Embedder(why) if why == "the disk is full"), "{protocol:?}: {why}");
        with(&|program| assert_eq!(program.ended, Some(why.to_string())));
    }
}
