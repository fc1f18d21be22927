//! Connections with other replicas: each sends on a connection that it dials, and receives on those that it accepts.

mod input;
mod output;
mod link;
#[cfg(test)]
mod tests;

pub(crate) use input::{Check, Inputs, listen};
pub(crate) use link::LinkControl;
pub(crate) use output::{Output, send};
