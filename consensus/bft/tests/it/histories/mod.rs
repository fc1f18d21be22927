//! Histories of every protocol, drawn from seeds: what a replica does in them is pinned, and its log restores it after every step.
//!
//! A history has loss, repetition, restarts, late signatures, and a replica that is cut off. Beside it run probes: copies of a replica take
//! a message in which one field is changed, all of whose signatures count as right, or the log up to a record. So the checks of a
//! replica stand alone, for any number of traitors, in states that a real network has got into.
//!
//! A change of behaviour changes the pins: the failure prints the new ones. One that was not meant to is a defect.

mod pins;
mod history;
mod trace;
mod change;
