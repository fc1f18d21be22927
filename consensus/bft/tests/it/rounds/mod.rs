//! The votes of the three-round protocol.

mod exhaustive;
