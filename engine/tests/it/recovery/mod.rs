//! Bytes to transactions: every type, every reason to refuse one, and a cache that changes nothing but the time it takes.

mod blobs;
mod cached;
mod rules;
mod signed;
