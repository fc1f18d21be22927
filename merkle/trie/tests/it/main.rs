//! The trie from outside: its roots and proofs equal those of another implementation, whatever the history.

mod common;

mod shapes;
mod histories;
mod proofs;
mod refused;
mod witness;
mod work;
