//! The sending direction.

mod congestion;
mod messages;
mod rate;
mod rtt;
mod sending;

pub(crate) use congestion::Controller;
pub(crate) use messages::MessageEnds;
pub(crate) use rate::Bucket;
pub(crate) use rtt::RoundTrip;
pub(crate) use sending::{Handshake, Sending};
