//! SCTP for C programs: the socket calls of RFC 6458, as in `towpath_sctp.h`.
//!
//! A socket is a real descriptor: the program's end of a socket pair. No message goes through the pair. It
//! is readable while something waits for the program (one octet is in it), and not writable while a message
//! did not fit or a connection opens (filler is in it). The calls take and give messages themselves, so that
//! each association of a one-to-many socket is full on its own.
//!
//! * `calls` - create, name, open and end sockets and associations.
//! * `live_addresses` - addresses that come and go while associations live.
//! * `send`, `receive` - messages, notifications, and their flags.
//! * `socket` - what was set on a socket and what waits for its program.
//! * `port`, `member` - the thread of an endpoint (`library::sctp::Endpoint`), and its associations.
//! * `partial_delivery` - messages in parts.
//! * `notifications`, `octets` - structures of the header as octets.
//! * `settings`, `options`, `association_options`, `path_options`, `key_options` - socket options.
//!
//! A lock of a [`Port`](port::Port) is taken before that of a socket.

mod association_options;
pub(crate) mod calls;
pub(crate) mod control;
mod key_options;
mod live_addresses;
mod member;
mod notifications;
pub(crate) mod octets;
pub(crate) mod options;
mod partial_delivery;
mod path_options;
mod port;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod settings;
mod socket;

pub(crate) use port::drain_all;
pub(crate) use socket::{SctpSocket, Style};
