//! A node whose engine must rewind and cannot.

use phalanx_adapter::{Handshake, MemoryJournal, Node, OpenError, Solo};
use phalanx_engine_api::{ExecutionEngine as _, Limits, RetryCause, Ticket};
use phalanx_sim::model::{Costs, Disk, ModelEngine, model_tx};
use std::sync::Arc;

#[test]
fn a_full_disk_is_a_retry_and_no_fork() {
    let engine = Arc::new(ModelEngine::open(1, Limits::default(), Costs::default(), Disk::default()));
    let mut solo = Solo::new(MemoryJournal::default(), 1_000);
    solo.send(model_tx(1, b"hello"));
    let (mut node, _) = Node::open(engine.clone(), solo, 0).expect("both are empty");
    let mut now = 0;
    while engine.status().committed.height < 5 {
        now += 1_000;
        node.poll(now).expect("nothing is wrong");
        engine.run();
    }
    let mut journal = node.close().into_journal();
    journal.lose_from(4);
    let open = || Node::open(engine.clone(), Solo::new(journal.clone(), 1_000), now).map(|(_, found)| found);
    let before = engine.status();
    engine.set_disk_room(Some(0));
    assert_eq!(open(), Err(OpenError::Retry { height: 3, cause: RetryCause::DiskFull }));
    assert_eq!(engine.status(), before, "nothing has changed");
    engine.set_disk_room(None);
    assert!(matches!(open(), Ok(Handshake::Rewind { height: 3, .. })));
    // A finalised block cannot be rewound: that is a fork, which no retry heals.
    engine.finalise(Ticket(1), 2).expect("committed");
    journal.lose_from(2);
    let open = Node::open(engine.clone(), Solo::new(journal, 1_000), now).map(|(_, found)| found);
    assert!(matches!(open, Err(OpenError::Fatal(_))));
}
