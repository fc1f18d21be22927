//! Random requests, with jobs that end in any order and fail in any way. No value is lost or dropped too early, and
//! only a job commits.
//!
//! `PHALANX_DESK_RUNS` sets the number of runs; `PHALANX_DESK_SEED` runs one seed.

use super::*;

/// Runs of an ordinary test, each of [`STEPS`] steps.
const RUNS: u64 = 300;
const STEPS: u64 = 400;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

/// A desk whose values are distinct numbers.
struct Run {
    desk: Desk<u64>,
    rng: Rng,
    jobs: Vec<Job>,
    /// Known candidates, and some that were dropped.
    candidates: Vec<Candidate>,
    /// Values that the desk holds, with their blocks.
    live: BTreeMap<u64, ExecId>,
    values: u64,
    /// Committed chain, as far as jobs have completed it.
    chain: Vec<ExecId>,
    /// Number of blocks that jobs have committed, rewound or not.
    committed: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let limits = Limits { depth: 5, siblings: 3, bytes: 1 << 10 };
        let desk = Desk::open(1, limits, rows(0), 0).with_rows(1 + seed % 4);
        let (jobs, candidates, live) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { desk, rng: Rng(seed), jobs, candidates, live, values: 0, chain: vec![ExecId::GENESIS], committed: 0 }
    }

    fn any(&mut self) -> ExecId {
        let newest = self.candidates.len().min(12) as u64;
        match self.rng.below(newest + 1) {
            0 => self.desk.status().committed.exec,
            back => self.candidates[self.candidates.len() - back as usize].id(),
        }
    }

    fn submit(&mut self) {
        let again = self.any();
        if self.rng.below(3) == 0
            && let Some(candidate) = self.desk.candidate(again).cloned()
        {
            _ = self.desk.submit(Ticket(9), candidate, Priority::Speculative);
            return;
        }
        let parent = self.any();
        let height = match self.desk.candidate(parent) {
            Some(block) => block.env().height + 1,
            None => self.desk.height() + 1,
        };
        let candidate = block(parent, height, self.rng.below(4));
        let priority = [Priority::Build, Priority::Speculative, Priority::Decided][self.rng.below(3) as usize];
        if self.desk.submit(Ticket(self.rng.below(9)), candidate.clone(), priority).is_ok() {
            if self.rng.below(4) > 0 {
                self.candidates.retain(|old| self.desk.candidate(old.id()).is_some());
            }
            self.candidates.push(candidate);
        }
    }

    fn failure(&mut self) -> Failure {
        match self.rng.below(4) {
            0 => Failure::Superseded,
            1 => Failure::Fatal(FatalCause::Io("test".into())),
            2 => Failure::Invalid(InvalidCause::GasLimit),
            _ => DISK_FULL,
        }
    }

    fn value(&mut self, id: ExecId) -> u64 {
        self.values += 1;
        self.live.insert(self.values, id);
        self.values
    }

    fn complete(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let job = self.jobs.swap_remove(self.rng.below(self.jobs.len() as u64) as usize);
        if self.rng.below(16) == 0 {
            let why = self.failure();
            return self.desk.failed(job, why);
        }
        match job.kind {
            JobKind::Execute if self.rng.below(16) == 0 => self.desk.executed(job, Err(InvalidCause::Environment)),
            JobKind::Execute => {
                let value = self.value(job.id);
                self.desk.executed(job, Ok(value));
            }
            JobKind::Root => {
                if self.desk.wants(job) {
                    let old = self.desk.value(job.id).expect("executed");
                    self.live.remove(old).expect("not dropped");
                }
                let value = self.value(job.id);
                self.desk.rooted(job, value, outcome(job.id));
            }
            JobKind::Stage => self.desk.staged(job, Ok(())),
            JobKind::Commit => {
                let path = self.desk.pending().expect("what the job is for").path().to_vec();
                for id in &path {
                    // From now on they are rows.
                    self.live.remove(self.desk.value(*id).expect("rooted")).expect("not dropped");
                }
                self.committed += path.len() as u64;
                self.chain.extend(path);
                self.desk.committed(job, Ok(()));
            }
        }
    }

    fn rewind(&mut self) {
        let back = self.rng.below(4) as usize;
        let to = self.chain[self.chain.len().saturating_sub(1 + back)];
        if let Ok(below) = self.desk.check_rewind(to) {
            let height = below.unwrap_or(self.desk.height());
            self.chain.truncate(height as usize + 1);
            self.desk.rewound(Ticket(0), height, to);
        }
    }

    fn step(&mut self) {
        match self.rng.below(128) {
            0..36 => self.submit(),
            36..80 => self.complete(),
            80..92 => {
                let id = self.any();
                _ = self.desk.stage(Ticket(3), id);
            }
            92..106 => {
                let tip = self.any();
                _ = self.desk.commit(Ticket(1), tip, CommitMeta::default());
            }
            106..109 => {
                let leaves = [self.any(), self.any()];
                _ = self.desk.keep_only(&leaves);
            }
            109 => self.rewind(),
            110 => {
                let height = self.desk.height().saturating_sub(2);
                if self.desk.check_finalise(height) == Ok(true) {
                    self.desk.finalised(height);
                }
            }
            111 => self.desk.quiesce(Ticket(2)),
            _ => self.desk.resume(),
        }
        if self.rng.below(2) == 0 {
            self.jobs.extend(self.desk.start());
        }
        self.check();
    }

    fn check(&mut self) {
        let kinds: BTreeSet<_> = self.jobs.iter().map(|job| job.kind).collect();
        assert_eq!(kinds.len(), self.jobs.len(), "a resource does one thing at a time");
        for value in self.desk.take_dropped() {
            let id = self.live.remove(&value).expect("dropped once, and never a committed block");
            assert!(self.jobs.iter().all(|job| job.id != id), "{id} is worked on");
            assert_ne!(self.desk.value(id), Some(&value), "{id} is there");
        }
        let status = self.desk.status();
        assert_eq!(Some(&status.committed.exec), self.chain.last());
        assert_eq!(status.committed.height as usize + 1, self.chain.len());
        assert!(status.finalised <= status.committed.height);
        for (height, id) in status.staged {
            let path = self.desk.path(id).expect("it descends from what is committed");
            assert_eq!(height, self.desk.height() + path.len() as u64);
            assert!(path.iter().all(|id| self.desk.outcome(*id).is_some()), "staged on what is not rooted");
        }
    }

    /// Drains the desk; only rows are left.
    fn close(mut self) {
        events(&mut self.desk);
        self.desk.quiesce(Ticket(77));
        loop {
            self.jobs.extend(self.desk.start());
            if self.jobs.is_empty() {
                break;
            }
            self.complete();
            self.check();
        }
        self.check();
        let told = events(&mut self.desk);
        assert_eq!(told.last(), Some(&EngineEvent::Quiesced { ticket: Ticket(77) }));
        assert!(self.live.is_empty(), "{:?}", self.live);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn no_value_is_lost_or_dropped_too_early() {
    let runs = number("PHALANX_DESK_RUNS").unwrap_or(RUNS);
    let seeds = number("PHALANX_DESK_SEED").map_or(0..runs, |seed| seed..seed + 1);
    for seed in seeds {
        // Shown if the run fails.
        println!("PHALANX_DESK_SEED={seed}");
        let mut run = Run::new(seed);
        (0..STEPS).for_each(|_| run.step());
        run.close();
    }
}

#[test]
fn runs_get_somewhere() {
    let committed: u64 = (0..50)
        .map(|seed| {
            let mut run = Run::new(seed);
            (0..STEPS).for_each(|_| run.step());
            run.committed
        })
        .sum();
    assert!(committed > 250, "{committed} blocks in 50 runs say little");
}
