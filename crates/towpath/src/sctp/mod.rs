//! SCTP in a program: endpoints with one address or several, associations of messages and streams.
//!
//! An [`Endpoint`] binds a UDP socket at each of its addresses (RFC 6951), all with one port. An
//! [`Association`] to a peer uses all addresses of both ends: data leave by the first path while it answers
//! and by another one after its first timeout (RFC 7829). [`Notice`]s tell what became of a path.
//!
//! ```no_run
//! use std::time::Duration;
//! use towpath::sctp::{Endpoint, EndpointConfig, MessageInfo};
//!
//! # fn main() -> std::io::Result<()> {
//! let own = ["10.77.0.1:0".parse().unwrap(), "10.78.0.1:0".parse().unwrap()];
//! let peer = ["10.77.0.2:9899".parse().unwrap(), "10.78.0.2:9899".parse().unwrap()];
//! let endpoint = Endpoint::bind(&own, &EndpointConfig::default())?;
//! let limit = Duration::from_secs(5);
//! let mut association = endpoint.connect(&peer, limit)?;
//! let third = MessageInfo { stream: 3, ..MessageInfo::default() };
//! association.send(b"on the fourth stream", &third, limit)?;
//! association.shutdown(limit)
//! # }
//! ```

mod addresses;
mod association;
pub mod config;
pub mod contexts;
mod endpoint;
mod event_loop;
mod keys;
mod notice;
mod own_addresses;
mod reconfigure;
mod shared_port;

pub use association::{
    Association, AssociationStatus, FailedMessage, MessageInfo, PathInfo, Received,
};
pub use config::EndpointConfig;
pub use endpoint::Endpoint;
pub use engine::Reliability;
pub use engine_sctp::numbers::Port;
pub use engine_sctp::pdu::{ChunkType, HmacId, KeyId};
pub use engine_sctp::{
    AddressChange, AuthSummary, Authentication, PathParameters, PathStatus, ReconfigOutcome,
    RtoBounds, Scheduler, SharedKey, StreamDirection,
};
pub use event_loop::{AssociationStage, EndpointWatch};
pub use notice::Notice;
