//! SCTP: the configuration of its endpoints, for transports.

pub mod config;

pub use config::EndpointConfig;
