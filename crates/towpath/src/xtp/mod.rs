//! XTP 4.0 as a library, for programs that use the protocol outside races.
//!
//! An [`Endpoint`] is a UDP port, or an address on IP or Ethernet ([`EndpointAddress`]), with any number of circuits (XTP calls them associations), which
//! may be used from different threads. Circuits are byte streams, or keep message boundaries.
//!
//! ```
//! use std::time::Duration;
//! use towpath::xtp::{Endpoint, EndpointConfig};
//!
//! let limit = Duration::from_secs(5);
//! let config = EndpointConfig::default();
//! let server = Endpoint::bind("127.0.0.1:0".parse()?, &config)?;
//! server.listen(true);
//! let address = server.local_addr();
//! let serving = std::thread::spawn(move || -> std::io::Result<()> {
//!     let mut circuit = server.accept(limit)?;
//!     let mut buffer = [0; 64];
//!     while let Some(len) = circuit.recv(&mut buffer, limit)? {
//!         circuit.send(&buffer[..len], limit)?;
//!     }
//!     circuit.close(limit)
//! });
//!
//! let client = Endpoint::bind("127.0.0.1:0".parse()?, &config)?;
//! let mut circuit = client.connect(address, limit)?;
//! circuit.send(b"hello", limit)?;
//! let mut buffer = [0; 64];
//! assert_eq!(circuit.recv(&mut buffer, limit)?, Some(5));
//! circuit.close(limit)?;
//! serving.join().expect("the server does not panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A transaction is a request and its reply in one round trip, set-up and close included:
//!
//! ```
//! use std::time::Duration;
//! use towpath::xtp::{Endpoint, EndpointConfig};
//!
//! let limit = Duration::from_secs(5);
//! let server = Endpoint::bind("127.0.0.1:0".parse()?, &EndpointConfig::default())?;
//! server.listen(true);
//! let address = server.local_addr();
//! let serving = std::thread::spawn(move || -> std::io::Result<Endpoint> {
//!     let mut request = [0; 64];
//!     let (accepted, len) = server.accept_request(&mut request, limit)?;
//!     accepted.reply(&request[..len], limit)?;
//!     // The reply is repeated for as long as the endpoint lives.
//!     Ok(server)
//! });
//!
//! let client = Endpoint::bind("127.0.0.1:0".parse()?, &EndpointConfig::default())?;
//! let mut reply = [0; 64];
//! let len = client.transact(address, b"what time is it?", &mut reply, limit)?;
//! assert_eq!(&reply[..len], b"what time is it?");
//! serving.join().expect("the server does not panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`config`] - configuration of an endpoint, in a program and as command-line options.
//! * [`endpoint_address`] - where an endpoint is: on UDP, IP or Ethernet.
//! * [`endpoint`] - listen, accept, connect, transactions, datagrams.
//! * [`circuit`] - send, receive, close.
//! * [`supervision`] - openings of peers that a user decides about.
//! * [`tracing`] - packet traces of live endpoints.
//! * `ring_capture` - what crosses the rings of a shortcut, in the capture of a process.
//! * [`contexts`] - reports on the associations of live endpoints.
//! * [`lend`] - zero-copy: buffers lent to a circuit until they are acknowledged.
//! * [`live`] - options that change while an association lives.
//! * [`ask`] - questions about contexts, routes and counters, which hosts of XTP 3.x answer to those they allow.
//! * [`ping`] - questions that hosts and routers of XTP 3.x echo.
//! * [`group`] - reliable multicast.
//! * [`router`] - a router (intermediate system) of XTP 3.6.
//!
//! A `limit` is the longest wait of a call; [`Duration::MAX`](std::time::Duration::MAX) means for ever.
//!
//! For the program's own event loop see [`Endpoint::watch`]: readiness of all circuits on one
//! descriptor.

pub mod ask;
pub mod circuit;
pub mod config;
pub mod contexts;
pub mod endpoint;
pub mod endpoint_address;
pub mod group;
pub mod lend;
pub mod live;
pub(crate) mod option_values;
pub mod ping;
mod ring_capture;
pub mod router;
pub(crate) mod shortcut;
pub mod supervision;
pub mod tracing;
mod transactions;

pub use circuit::{Circuit, Tags};
pub use config::EndpointConfig;
pub(crate) use config::{LONG_PACKET_LEN, lent_packet_len};
pub use endpoint::{Endpoint, EndpointWatch};
pub use endpoint_address::EndpointAddress;
pub use engine::{Address, AssociationId, Framing};
pub use engine_xtp::{Config, Congestion, ErrorControl, FlowControl, RateLimit, StatusRequestKind};
pub use lend::{Buffer, LendError, LendOutcome, ReturnedBuffer};
pub use live::LiveOption;
pub use shortcut::Shortcut;
pub use supervision::{Opening, OpeningRequest, Refusal};
pub use transactions::AcceptedRequest;
pub use wire::trace::TraceLog;
pub use wire_shortcut::RingReport;

/// A path from the environment. Ignored in a set-user-ID program, which would otherwise write a file wherever its
/// caller likes.
pub(crate) fn environment_path(variable: &str) -> Option<std::path::PathBuf> {
    let own = rustix::process::getuid() == rustix::process::geteuid();
    let path = std::env::var_os(variable).filter(|path| own && !path.is_empty());
    path.map(std::path::PathBuf::from)
}
