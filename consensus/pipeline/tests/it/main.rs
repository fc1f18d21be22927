//! The pipeline alone: scripted consensus, the model engine, every order of events.

mod common;

mod chaos;
mod refusals;
