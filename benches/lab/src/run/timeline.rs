//! Timeline of a run in Chrome's trace format, which <https://ui.perfetto.dev> draws: stages as the engine reports them, and what
//! each worker's processor clock gained in every millisecond.
//!
//! The timeline is an observer around the one that measures. Its own work is inside the timer: a run with a timeline is tagged
//! `traced`.

use crate::machine::clock::StageClock;
use parking_lot::Mutex;
use phalanx::{Observer, Stage};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Time between two looks at the workers' clocks.
const PERIOD: Duration = Duration::from_millis(1);

/// Maximum number of stages and of looks that are kept: some hundred megabytes of a file that no viewer opens anyway.
const MOST: usize = 1_000_000;

/// Share of a period from which on a worker counts as busy.
const BUSY: f64 = 0.05;

/// Number of the first track that belongs to a worker's clock.
const WORKERS: usize = 1000;

/// A stage on a thread. Threads outside of the pool share number 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    stage: Stage,
    thread: usize,
    from: Duration,
    until: Duration,
}

/// A look at the workers' clocks.
#[derive(Debug)]
struct Look {
    at: Duration,
    /// The stage that began last.
    stage: Option<Stage>,
    /// Nanoseconds of each worker.
    spent: Vec<u64>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Stages that have begun, by thread.
    open: Vec<(Stage, usize, Duration)>,
    spans: Vec<Span>,
    looks: Vec<Look>,
    /// Stages and looks beyond the maximum.
    left_out: u64,
}

/// An observer that keeps what it hears, and passes it on.
#[derive(Debug)]
pub(crate) struct Timeline {
    clock: Arc<StageClock>,
    start: Instant,
    seen: Mutex<Seen>,
    ended: AtomicBool,
}

/// A thread that looks at the workers' clocks.
#[derive(Debug)]
pub(crate) struct Watch {
    timeline: Arc<Timeline>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.timeline.ended.store(true, Relaxed);
        // It does nothing that could fail.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Timeline {
    pub(crate) fn new(clock: Arc<StageClock>) -> Arc<Self> {
        Arc::new(Self { clock, start: Instant::now(), seen: Mutex::default(), ended: AtomicBool::new(false) })
    }

    /// Starts to look at the workers' clocks, until the watch is dropped.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn watch(self: &Arc<Self>) -> std::io::Result<Watch> {
        let this = Arc::clone(self);
        let look = move || {
            while !this.ended.load(Relaxed) {
                this.look();
                thread::sleep(PERIOD);
            }
        };
        let thread = thread::Builder::new().name("timeline".into()).spawn(look)?;
        Ok(Watch { timeline: Arc::clone(self), thread: Some(thread) })
    }

    fn look(&self) {
        let spent = self.clock.workers().into_iter().map(|(_, spent)| spent).collect();
        let at = self.start.elapsed();
        let mut seen = self.seen.lock();
        let stage = seen.open.last().map(|(stage, ..)| *stage);
        if seen.looks.len() < MOST {
            seen.looks.push(Look { at, stage, spent });
        } else {
            seen.left_out += 1;
        }
    }

    /// Events of the run, as the process `run` of the file. `name` is that of the run.
    pub(crate) fn events(&self, run: usize, name: &str) -> Vec<Value> {
        let seen = self.seen.lock();
        let mut events = vec![named("process_name", run, 0, name)];
        let mut threads: Vec<usize> = seen.spans.iter().map(|span| span.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        for thread in threads {
            let name = thread.checked_sub(1).map_or("stages outside of the workers".to_owned(), |worker| {
                format!("stages driven by worker {worker}")
            });
            events.push(named("thread_name", run, thread, &name));
        }
        let workers = seen.looks.first().map_or(0, |look| look.spent.len());
        events.extend(
            (0..workers)
                .map(|worker| named("thread_name", run, WORKERS + worker, &format!("worker {worker}: processor"))),
        );
        events.extend(
            seen.spans
                .iter()
                .map(|span| slice(span.stage.name(), (run, span.thread), span.from, span.until, json!({}))),
        );
        for worker in 0..workers {
            busy(&seen.looks, worker, &mut |stage, from, until, share| {
                let name = stage.map_or("between stages", Stage::name);
                events.push(slice(name, (run, WORKERS + worker), from, until, json!({ "busy": share })));
            });
        }
        if seen.left_out > 0 {
            let what = format!("{} stages and looks at clocks are left out", seen.left_out);
            events.push(
                json!({ "name": what, "ph": "i", "s": "p", "pid": run, "tid": 0, "ts": micros(self.start.elapsed()) }),
            );
        }
        events
    }
}

/// Passes on the times in which a worker was busy: neighbouring periods of one stage together, with the share of the processor.
fn busy(looks: &[Look], worker: usize, tell: &mut dyn FnMut(Option<Stage>, Duration, Duration, f64)) {
    let mut open: Option<(Option<Stage>, Duration, Duration, u64)> = None;
    let mut end = |open: &mut Option<(Option<Stage>, Duration, Duration, u64)>| {
        if let Some((stage, from, until, spent)) = open.take() {
            tell(stage, from, until, spent as f64 / (until - from).as_nanos().max(1) as f64);
        }
    };
    for pair in looks.windows(2) {
        let [before, after] = pair else { continue };
        let spent = after.spent[worker].saturating_sub(before.spent[worker]);
        let is_busy = spent as f64 > BUSY * (after.at - before.at).as_nanos() as f64;
        match &mut open {
            Some((stage, _, until, sum)) if is_busy && *stage == before.stage => {
                (*until, *sum) = (after.at, *sum + spent)
            }
            _ => {
                end(&mut open);
                open = is_busy.then_some((before.stage, before.at, after.at, spent));
            }
        }
    }
    end(&mut open);
}

fn micros(of: Duration) -> f64 {
    of.as_nanos() as f64 / 1e3
}

/// Name of a process or a track.
fn named(what: &str, run: usize, track: usize, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": run, "tid": track, "args": { "name": name } })
}

fn slice(name: &str, (run, track): (usize, usize), from: Duration, until: Duration, args: Value) -> Value {
    json!({ "name": name, "ph": "X", "pid": run, "tid": track, "ts": micros(from), "dur": micros(until.saturating_sub(from)), "args": args })
}

/// The file of all runs' events.
pub(crate) fn file(events: &[Value], command: &str) -> String {
    json!({ "displayTimeUnit": "ms", "otherData": { "command": command }, "traceEvents": events }).to_string()
}

/// Number of this thread's track.
fn track() -> usize {
    rayon::current_thread_index().map_or(0, |worker| worker + 1)
}

impl Observer for Timeline {
    fn enter(&self, stage: Stage) {
        self.clock.enter(stage);
        let (thread, at) = (track(), self.start.elapsed());
        self.seen.lock().open.push((stage, thread, at));
    }

    fn leave(&self, stage: Stage) {
        let until = self.start.elapsed();
        let mut seen = self.seen.lock();
        // A stage may end on another thread than it began on.
        if let Some(at) = seen.open.iter().rposition(|(open, ..)| *open == stage) {
            let (stage, thread, from) = seen.open.remove(at);
            if seen.spans.len() < MOST {
                seen.spans.push(Span { stage, thread, from, until });
            } else {
                seen.left_out += 1;
            }
        }
        drop(seen);
        self.clock.leave(stage);
    }

    fn fork(&self, stage: Stage, pieces: usize) {
        self.clock.fork(stage, pieces);
    }

    fn join(&self, stage: Stage) {
        self.clock.join(stage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_kept_with_their_times() {
        let timeline = Timeline::new(StageClock::new());
        timeline.enter(Stage::Execute);
        timeline.enter(Stage::Seal);
        timeline.leave(Stage::Seal);
        timeline.leave(Stage::Execute);
        timeline.leave(Stage::Merkle);
        let events = timeline.events(3, "dag");
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(slices.iter().map(|slice| slice["name"].as_str().unwrap()).collect::<Vec<_>>(), ["seal", "execute"]);
        let [inner, outer] = [0, 1].map(|at| {
            let number = |field: &str| slices[at][field].as_f64().unwrap();
            (number("ts"), number("ts") + number("dur"))
        });
        assert!(outer.0 <= inner.0 && inner.1 <= outer.1, "{inner:?} in {outer:?}");
        assert!(events.iter().all(|event| event["pid"] == 3));
        assert!(file(&events, "phalanx bench run").contains("\"command\":\"phalanx bench run\""));
    }

    #[test]
    fn neighbouring_busy_periods_of_a_stage_are_one_slice() {
        let ms = Duration::from_millis;
        let look = |at: u64, stage: Stage, spent: u64| Look { at: ms(at), stage: Some(stage), spent: vec![spent] };
        let (a, b) = (Stage::Execute, Stage::Merkle);
        let looks =
            [look(0, a, 0), look(1, a, 1_000_000), look(2, a, 1_500_000), look(3, b, 1_510_000), look(4, b, 2_510_000)];
        let mut told = Vec::new();
        busy(&looks, 0, &mut |stage, from, until, share| told.push((stage, from, until, share)));
        assert_eq!(
            told,
            [(Some(a), ms(0), ms(2), 0.75), (Some(b), ms(3), ms(4), 1.0)],
            "the period from 2 to 3 is idle"
        );
    }
}
