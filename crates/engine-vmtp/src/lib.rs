//! VMTP, the Versatile Message Transaction Protocol (RFC 1045): a Request to an entity, and its
//! Response.
//!
//! A message is up to 20 octets in a header, or a segment in groups of 32 blocks of 512 octets. A
//! group leaves as a burst; what is missing of it is asked for with a mask, and sent again alone. A
//! Response acknowledges its Request, the client's next Request the Response: without loss there are
//! no other packets.
//!
//! Where to start reading:
//!
//! * [`config`] - configuration, with reasons.
//! * [`pdu`] - packets, one file each.
//! * [`blocks`] - messages as groups of blocks, and masks.
//! * [`endpoint`] - dispatch: packets, timers and commands to the procedures.
//! * `client`, `server` - the records of a transaction at its two ends.
//! * `procedure/` - one file for each procedure of the protocol: requests and responses sent and
//!   received, notifications, probes, time-outs; forwarding, calls within a host, introductions, and
//!   what managers answer.
//! * `incoming`, `outgoing` - messages on their way in and out; `ready` - in which order.
//! * [`view`] - what an endpoint holds, for its user.
//! * `peers` - round trips, gaps between packets, and which addresses are known to be real.
//!
//! What travels with a message in a [`engine::Note`]: `tag` is the code, 24 bits, of a Request or a
//! Response; `reliability` of no retransmission is a datagram, to which no Response is awaited, or
//! the Response of an idempotent transaction, of which no copy is kept; `call` is the rest: priority,
//! conditional and partial delivery, and what groups and managers are asked.
#![forbid(unsafe_code)]

pub mod blocks;
mod client;
pub mod config;
pub mod endpoint;
mod incoming;
mod outgoing;
pub mod pdu;
mod peers;
mod procedure;
mod ready;
mod records;
mod server;
mod shared;
pub mod view;

pub use config::VmtpConfig;
pub use endpoint::Vmtp;
