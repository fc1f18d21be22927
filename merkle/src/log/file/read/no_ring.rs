//! No rings: only Linux has them.

use std::io;

use super::job::{Job, Take};
use crate::types::Error;

/// Ring that does not exist.
#[derive(Debug)]
pub(super) enum Ring {}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) const fn is_ready(&self) -> bool {
        match *self {}
    }

    pub(super) const fn refused(&self) -> Option<&io::Error> {
        match *self {}
    }

    pub(super) fn read(&mut self, _: &Job<'_>, _: Take<'_>) -> Result<(), Error> {
        match *self {}
    }
}
