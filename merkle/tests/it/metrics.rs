//! The metrics that a recorder gets.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::common::life::{backend, config, turn};
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use phalanx_merkle::{Durability, Store, StoreConfig};

type Values = Arc<Mutex<BTreeMap<String, f64>>>;

#[derive(Default)]
struct Board(Values);

struct Cell(Values, String);

impl Cell {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        change(self.0.lock().expect("no panic").entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Cell {
    fn increment(&self, by: u64) {
        self.change(|value| *value += by as f64);
    }

    fn absolute(&self, to: u64) {
        self.change(|value| *value = to as f64);
    }
}

impl GaugeFn for Cell {
    fn increment(&self, by: f64) {
        self.change(|value| *value += by);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| *value -= by);
    }

    fn set(&self, to: f64) {
        self.change(|value| *value = to);
    }
}

impl Board {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: String = key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
        Arc::new(Cell(Arc::clone(&self.0), format!("{}{labels}", key.name())))
    }
}

impl Recorder for Board {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_recorder_gets_the_figures_of_all_writes() {
    let board = Board::default();
    let values = Arc::clone(&board.0);
    let dir = tempfile::tempdir().expect("a directory");
    metrics::with_local_recorder(&board, || {
        let mut store = Store::open(config("file", dir.path(), Durability::Block)).expect("a store");
        (0..12).for_each(|_| turn(&mut store, 5, &mut |_| ()).expect("a turn"));
        let told = values.lock().expect("no panic").clone();
        let value = |name: &str| told.get(name).copied().unwrap_or(-1.0);
        assert_eq!(value("phalanx_store_height"), 11.0);
        let shape = store.shape();
        assert_eq!(value("phalanx_store_next_position"), shape.next_sn as f64);
        assert_eq!(value("phalanx_store_floor"), shape.floor as f64);
        assert_eq!(value("phalanx_store_active_positions"), shape.active as f64);
        // 12 turns: 3 plain, 2 of them repeated; the others stage a sibling, half of them a child and their block, and
        // apply it.
        assert_eq!(value("phalanx_store_blocks_written_total kind=staged"), 9.0 + 2.0 * 6.0);
        assert_eq!(value("phalanx_store_blocks_written_total kind=committed"), 3.0 + 2.0 + 3.0);
        assert_eq!(value("phalanx_store_tips_written_total"), 6.0 + 2.0);
        assert!(value("phalanx_store_entries_written_total") > shape.next_sn as f64);
        assert!(value("phalanx_store_pruned_blocks_total") > 0.0);
        assert!(value("phalanx_store_syncs_total") > 12.0);
        assert_eq!(value("phalanx_store_poisoned_total"), -1.0);
        let written = value("phalanx_store_written_bytes_total");
        let kept: u64 = std::fs::read_dir(dir.path())
            .expect("the directory")
            .map(|entry| entry.expect("an entry").metadata().expect("a file").len())
            .sum();
        assert!(written >= kept as f64, "{written} of {kept}");
        let height = store.height().expect("a block") + 1;
        let prepared = store.prepare(phalanx_merkle::Delta::new(), height).expect("a block");
        drop(store.apply(prepared).expect("a block"));
    });
    assert_eq!(values.lock().expect("no panic").get("phalanx_store_poisoned_total"), Some(&1.0), "a dropped write");
}

/// Bytes beside entries and code of a block that is staged and committed, payload and note apart.
const ROWS: f64 = 400.0;

/// Row bytes per block of a chain in which every block is staged, then committed with a note.
fn rows_per_block(kind: &str, history: usize, updates: u64) -> f64 {
    const BLOCKS: u64 = 50;
    const PAYLOAD: usize = 1000;
    const NOTE: usize = 77;
    let board = Board::default();
    let values = Arc::clone(&board.0);
    let dir = tempfile::tempdir().expect("a directory");
    metrics::with_local_recorder(&board, || {
        let config = StoreConfig::new(backend(kind, &dir.path().join("store"))).with_history(history);
        let mut store = Store::open(config).expect("a store");
        let before = values.lock().expect("no panic").get("phalanx_store_row_bytes_total").copied().unwrap_or(0.0);
        for height in 0..BLOCKS {
            let mut delta = phalanx_merkle::Delta::new();
            (0..updates).for_each(|key| delta.put(&key.to_be_bytes(), &height.to_be_bytes()));
            delta.put_code([height as u8; 32], vec![1; 3000]);
            let tip = store.tip();
            let prepared = store.prepare_on(tip, delta).expect("a block");
            let block = store.add_fork(prepared.with_payload(vec![7; PAYLOAD]).expect("a payload")).expect("a fork");
            store.stage(block).expect("a block").expect("it is not staged yet").write().expect("a write");
            store.apply_fork_noted(block, vec![8; NOTE]).expect("a block").write().expect("a write");
        }
        let all = values.lock().expect("no panic")["phalanx_store_row_bytes_total"] - before;
        all / BLOCKS as f64 - (PAYLOAD + NOTE) as f64
    })
}

/// Writes of a block beside the delta do not grow with history, delta or state.
#[test]
fn what_is_written_beside_the_delta_is_bounded() {
    let kinds = if cfg!(feature = "rocksdb") { &["file", "rocks"][..] } else { &["file"] };
    for kind in kinds {
        for (history, updates) in [(0, 1), (8, 1), (512, 1), (8, 2000)] {
            let rows = rows_per_block(kind, history, updates);
            assert!((200.0..ROWS).contains(&rows), "{kind}, history {history}, {updates} updates: {rows} bytes");
            println!("{kind}, history {history}, {updates} updates: {rows} bytes of rows per block");
        }
    }
}
