//! The system calls behind `--pin`.

use rustix::{
    io::Errno,
    thread::{CpuSet, Pid, RawPid, sched_getaffinity, sched_setaffinity},
};
use std::{fs, io};

/// The cores that the calling thread may run on, in order.
pub(super) fn allowed() -> io::Result<Vec<usize>> {
    Ok(cores(&sched_getaffinity(None)?))
}

/// Lets a thread, the calling one if `None`, run on these cores only. An ended thread is no error.
pub(super) fn set(thread: Option<RawPid>, cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    living(sched_setaffinity(thread.and_then(Pid::from_raw), &set)).map(|_| ())
}

/// All threads of the process, with the cores that they may run on, in order.
pub(super) fn tasks() -> io::Result<Vec<(RawPid, Vec<usize>)>> {
    let mut tasks = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let Some(thread) = task?.file_name().to_str().and_then(|name| name.parse::<RawPid>().ok()) else { continue };
        let set = living(sched_getaffinity(Pid::from_raw(thread)))?;
        tasks.extend(set.map(|set| (thread, cores(&set))));
    }
    Ok(tasks)
}

fn cores(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// `None` if the thread has ended.
fn living<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Err(Errno::SRCH) => Ok(None),
        result => Ok(Some(result?)),
    }
}
