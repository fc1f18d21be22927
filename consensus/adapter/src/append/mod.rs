//! Append-only files: records that count only at their place, and marks of what was promised.
//!
//! A record is synced before its mark is written. So a crash can only tear the record behind the mark, and damage before it is
//! recognised. Nothing is searched for: what users store cannot pass for a record.

mod tail;
mod disk;
mod mark;
mod record;

pub(crate) use disk::{Held, Unopened, beside, open_or_create, promise, put_at, sync_folder};
pub(crate) use mark::{Mark, START, Unfit, beginning, read_mark};
pub(crate) use record::{HEAD, Link, Place, frame, length, link, unframe};
pub(crate) use tail::keep;
