//! One file a transport.

pub mod null;
pub mod tcp;
