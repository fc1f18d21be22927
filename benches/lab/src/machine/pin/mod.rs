//! `--pin`: a run on as many cores as it has threads, worker *i* on core *i* of them (Linux).
//!
//! ```text
//! cores that this process may use ─► topology.rs: an order ─► the first --threads ─┬─► worker i: the i-th alone
//!                                                                                  └─► every other thread: all of these
//! ```
//!
//! A thread inherits the cores of the thread that starts it. So the whole process is confined before a run opens its engine,
//! and the engine's start hook gives threads that a worker starts all cores of the run. Afterwards all threads get back the
//! cores of before.

#[cfg(target_os = "linux")]
mod linux;
mod topology;

#[cfg(target_os = "linux")]
use linux::{allowed, set, tasks};
pub(crate) use topology::Core;

use super::clock;
use crate::error::Usage;
use anyhow::{Context as _, ensure};
use phalanx::{EngineBuilder, ThreadRole, parascheduler::Workers};
use std::{io, path::Path};

/// Thread id.
type Tid = i32;

/// Cores of a run. Dropping it, after its engine, gives the process its former cores back.
#[derive(Debug, Default)]
pub struct Pinned {
    /// Core of worker *i*; empty if nothing is pinned.
    cores: Vec<usize>,
    before: Vec<usize>,
}

/// Refuses more threads than cores to pin them to.
///
/// # Errors
/// If there are too few cores, or the system does not support pinning.
pub fn check(pin: bool, threads: usize) -> Result<(), Usage> {
    if !pin {
        return Ok(());
    }
    let allowed = allowed().map_err(|error| Usage(format!("--pin: {error}")))?.len();
    if threads > allowed {
        let what = format!("--pin needs a core for each of {threads} threads, and this process may use {allowed}");
        return Err(Usage(format!("{what}: lower --threads, or leave out --pin")));
    }
    Ok(())
}

/// The cores that this process may use, as far as they are known.
pub(crate) fn cores() -> io::Result<Vec<Core>> {
    Ok(topology::read(Path::new("/sys/devices/system"), &allowed()?))
}

/// The cores that this process may use, in the order in which threads get them.
pub(crate) fn order() -> io::Result<Vec<usize>> {
    Ok(topology::order(&cores()?))
}

/// Lets the calling thread run on this core only.
pub(crate) fn here(core: usize) -> io::Result<()> {
    set(None, &[core])
}

/// Confines the process to the cores of a run on `threads` threads, if `pin`.
///
/// # Errors
/// If there are too few cores, or the system refuses.
pub fn confine(pin: bool, threads: usize) -> anyhow::Result<Pinned> {
    if !pin {
        return Ok(Pinned::default());
    }
    check(pin, threads)?;
    let mut cores = order().context("--pin: finding cores")?;
    cores.truncate(threads);
    let pinned = Pinned { before: allowed().context("--pin: finding cores")?, cores };
    spread(&pinned.cores).context("--pin: confining the process")?;
    Ok(pinned)
}

impl Pinned {
    /// Pins the threads of an engine as they start, and lets the clocks know them.
    pub(crate) fn place(&self, builder: EngineBuilder) -> EngineBuilder {
        let cores = self.cores.clone();
        builder.with_thread_start(move |role| {
            clock::thread_starts();
            if cores.is_empty() {
                return;
            }
            let place = match role {
                ThreadRole::Worker(index) => cores.get(index..=index),
                _ => None,
            };
            // [`Self::confirm`] checks the effect.
            let _ = set(None, place.unwrap_or(&cores));
        })
    }

    /// Core of each worker, after a check that all threads are on their cores.
    ///
    /// # Errors
    /// If a thread may run elsewhere.
    pub fn confirm(&self, workers: &Workers) -> anyhow::Result<Vec<usize>> {
        if self.cores.is_empty() {
            return Ok(Vec::new());
        }
        let found = workers.install(|| rayon::broadcast(|_| allowed()));
        let taken = self.cores.len().min(found.len());
        for (index, (found, core)) in found.into_iter().zip(&self.cores).enumerate() {
            let found = found.context("--pin: reading a worker's cores")?;
            ensure!(found == [*core], "--pin: worker {index} may run on cores {found:?} instead of {core} alone");
        }
        for (_, found) in tasks().context("--pin: reading the cores of all threads")? {
            let out = found.iter().find(|core| !self.cores.contains(core));
            ensure!(out.is_none(), "--pin: a thread may run on cores {found:?}, and the run has {:?}", self.cores);
        }
        Ok(self.cores[..taken].to_vec())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.cores.is_empty() {
            // Confining worked, so releasing does.
            let _ = spread(&self.before);
        }
    }
}

/// Lets every thread of the process run on these cores. Further rounds find threads that start meanwhile.
fn spread(cores: &[usize]) -> io::Result<()> {
    const ROUNDS: usize = 8;
    let mut cores = cores.to_vec();
    cores.sort_unstable();
    for _ in 0..ROUNDS {
        let elsewhere: Vec<Tid> =
            tasks()?.into_iter().filter(|(_, found)| *found != cores).map(|(thread, _)| thread).collect();
        if elsewhere.is_empty() {
            break;
        }
        elsewhere.into_iter().try_for_each(|thread| set(Some(thread), &cores))?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "threads are bound to cores on Linux only"))
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> io::Result<Vec<usize>> {
    unsupported()
}

#[cfg(not(target_os = "linux"))]
fn set(_: Option<Tid>, _: &[usize]) -> io::Result<()> {
    unsupported()
}

#[cfg(not(target_os = "linux"))]
fn tasks() -> io::Result<Vec<(Tid, Vec<usize>)>> {
    unsupported()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use phalanx::{
        Engine, GenesisAccount,
        merkle::{Backend, StoreConfig},
        revm::primitives::{Address, U256},
    };
    use std::{collections::BTreeSet, fs};

    /// Names of all threads of this process whose cores are `cores`, both as in `/proc`.
    fn named(cores: &str) -> Vec<String> {
        let mut names = Vec::new();
        for task in fs::read_dir("/proc/self/task").expect("threads").flatten() {
            // A thread of another test may end meanwhile.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
                line.trim().to_owned()
            };
            if field("Cpus_allowed_list") == cores {
                names.push(field("Name"));
            }
        }
        names.sort_unstable();
        names
    }

    fn listed(cores: &[usize]) -> String {
        let cores: BTreeSet<usize> = cores.iter().copied().collect();
        match cores.iter().copied().collect::<Vec<_>>()[..] {
            [first, .., last] if last - first + 1 == cores.len() => format!("{first}-{last}"),
            _ => cores.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
        }
    }

    /// The only test that confines the process: two at once would restore each other's cores.
    #[test]
    fn every_thread_is_pinned_and_released_afterwards() {
        let before = allowed().expect("cores");
        // Fewer than all cores, if possible, so that confinement is visible.
        let threads = if before.len() > 2 { 2 } else { before.len() };
        let dir = tempfile::tempdir().expect("a folder");
        let pinned = confine(true, threads).expect("cores");
        assert_eq!(pinned.cores.len(), threads);
        let store = StoreConfig::new(Backend::File(dir.path().to_path_buf())).with_checkpoint_bytes(1 << 16);
        let builder = Engine::builder().with_threads(threads).with_store(store);
        let mut engine = pinned.place(builder).build().expect("an engine");
        // A worker starts the thread that writes the checkpoint.
        let many = (0..50_000u64).map(|rank| GenesisAccount {
            address: Address::left_padding_from(&(1 << 32 | rank).to_be_bytes()),
            balance: U256::ONE,
            ..GenesisAccount::default()
        });
        engine.genesis(many).expect("a sound genesis");
        assert_eq!(pinned.confirm(engine.workers()).expect("all are there"), pinned.cores);
        for core in &pinned.cores {
            let workers = named(&core.to_string()).iter().filter(|name| name.starts_with("phalanx-worker")).count();
            // On a machine of one core other tests' workers are there, too.
            assert!(workers == 1 || before.len() == 1, "core {core}: {:?}", named(&core.to_string()));
        }
        assert!(named(&listed(&pinned.cores)).contains(&"phalanx-persist".to_owned()));
        drop((engine, pinned));
        assert_eq!(allowed().expect("cores"), before);
        assert!(tasks().expect("threads").into_iter().all(|(_, cores)| cores == before));
    }

    #[test]
    fn an_unpinned_run_is_not_confined() {
        let pinned = confine(false, usize::MAX).expect("nothing to do");
        assert!(pinned.cores.is_empty() && check(false, usize::MAX).is_ok());
        let Usage(why) = check(true, 1 << 20).expect_err("there are fewer cores");
        assert!(why.contains("--pin needs a core for each of 1048576 threads"), "{why}");
    }
}
