//! The sending direction.

mod bbr;
mod congestion_control;
mod message_ends;
mod rate_control;
mod rtt;
mod send_state;
mod tags;

pub(crate) use bbr::{AckSample, RttSample};
pub(crate) use congestion_control::CongestionController;
pub(crate) use message_ends::MessageEnds;
pub(crate) use rate_control::{RateCredit, RateLimits};
pub(crate) use rtt::RttEstimator;
pub(crate) use send_state::{SendState, StatusRequest, SyncHandshake};
pub(crate) use tags::TagPositions;
