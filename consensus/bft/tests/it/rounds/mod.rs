//! The three-round protocol.

mod attacks;
mod exhaustive;
mod fuzz;
mod golden;
mod lone;
mod restarts;
mod safety;
