//! The pool against a naive one, under attack, and at work between recovery and engine.

mod adversarial;
mod building;
mod fairness;
mod kit;
mod model;
mod properties;
mod rules;
