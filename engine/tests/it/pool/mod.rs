//! The pool: against a naive model, under attack, and between recovery and engine.

mod adversarial;
mod building;
mod fairness;
mod kit;
mod model;
mod properties;
mod rules;
