//! Bounds of the cost of a connection: sockets, time and bytes. The only place of the node that owns sockets of clients.
//!
//! ```text
//!  accept ─► listener: a place, or status 503 ─► socket: deadlines of every read and write ─► HTTP, WebSocket
//!                                                  └── connection: bytes of requests and answers, out of two pools
//! ```
//!
//! - `listener` accepts at most so many sockets, and refuses others before it reads from them.
//! - `stream` is a socket of TCP or of this machine. `socket` closes a connection that is idle, sends too slowly or does not read. `pace` decides that, `connection` has the books.
//! - `pool` counts bytes, of a connection and of all.
//! - `web` decides by `Host` and `Origin` which web pages may call.
//!
//! Nothing here knows what is said on a connection.

mod connection;
mod listener;
mod pace;
mod pool;
mod socket;
mod stream;
mod web;

pub(crate) use connection::{Connection, Cut, Patience};
pub(crate) use listener::{Accepted, Listener, Places};
pub(crate) use pace::Pace;
pub(crate) use pool::{Account, Full, Held, Pool};
pub(crate) use socket::Socket;
pub(crate) use web::Web;
