//! A node that a scripted consensus client drives over the Engine API.

mod beacon;
mod building;
mod connections;
mod encodings;
mod blobs;
mod deaths;
mod fixtures;
mod forks;
mod large;
mod model;
mod rules;
mod scripts;
