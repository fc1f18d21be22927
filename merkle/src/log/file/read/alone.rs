//! A window that is read without a ring, through the page cache.

use super::job::{Job, Take};
use crate::{log::disk::at, log::frames::read_at, types::Error};

/// Reads a window, as many bytes as the file has of it.
///
/// # Errors
/// [`Error::Io`], or the error of `take`.
pub(super) fn read_alone(number: usize, job: &Job<'_>, take: Take<'_>) -> Result<(), Error> {
    let window = &job.windows[number];
    let target = &job.targets[window.target];
    let mut bytes = vec![0; window.len];
    job.counts.began(1);
    let read = read_at(&target.cached, &mut bytes, window.begin);
    job.counts.ended(1, *read.as_ref().unwrap_or(&0));
    let filled = read.map_err(at(&target.path))?;
    take(number, &bytes[..filled])
}
