//! Clients: what they say, the threads that serve them, and a connection for the other side.

mod connection;
mod server;
mod awaited;
mod message;

pub use connection::{Client, ClientSender};
pub(crate) use message::MOST_REPLY;
pub use message::{Acknowledgement, Notice, Reply, Request};
pub(crate) use server::{Clients, Follower, serve};
