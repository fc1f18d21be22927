//! Child processes with a process group of their own: Ctrl-C does not reach them, so an end at once kills them.

use std::{
    collections::BTreeSet,
    io,
    process::{Child, Command},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Process ids of the children that run.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child that [`kill_all`] ends. [`forget`] it once its end is known: the system gives its id to others then.
///
/// # Errors
/// The system cannot start it.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    // Under the lock: no child starts behind the back of `kill_all`.
    let mut running = running();
    let child = command.spawn()?;
    running.insert(child.id());
    Ok(child)
}

/// Takes a child that has ended out of the list.
pub(crate) fn forget(child: &Child) {
    running().remove(&child.id());
}

/// Ends all children by kill -9. None starts any more: the process is about to end.
pub(crate) fn kill_all() {
    let running = running();
    if !running.is_empty() {
        let ids: Vec<_> = running.iter().map(ToString::to_string).collect();
        // The shell has the call, which would be unsafe code here.
        let _ = Command::new("sh").args(["-c", &format!("kill -KILL {}", ids.join(" "))]).status();
    }
    core::mem::forget(running);
}
