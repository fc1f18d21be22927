//! A node that a scripted consensus client drives over the Engine API.

mod beacon;
mod building;
mod forks;
mod rules;
mod scripts;
