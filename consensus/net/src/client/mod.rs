//! Clients: what they say, the threads that serve them, and a connection for the other side.

mod connection;
mod server;
mod message;

pub use connection::{Client, ClientSender};
pub use message::{Notice, Reply, Request};
pub(crate) use server::{Clients, Follower, serve};
