//! Recovery of transactions from bytes: every type, every reason to refuse one, and a cache that changes only the time.

mod blobs;
mod cached;
mod published;
mod rules;
mod signed;
