//! The three-round protocol.

mod exhaustive;
