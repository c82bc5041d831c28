//! The sending direction.

mod bottleneck;
mod congestion;
mod messages;
mod rate;
mod rtt;
mod sending;
mod tags;

pub(crate) use bottleneck::{Sight, Trip};
pub(crate) use congestion::Controller;
pub(crate) use messages::MessageEnds;
pub(crate) use rate::{Bucket, Limits};
pub(crate) use rtt::RoundTrip;
pub(crate) use sending::{Handshake, Request, Sending};
pub(crate) use tags::Tags;
