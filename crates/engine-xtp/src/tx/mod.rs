//! The sending direction.

mod congestion_control;
mod message_ends;
mod path_mtu;
mod rate_limits;
mod reported_spans;
mod retransmission_queue;
mod send_queue;
mod send_state;
mod tags;
mod wtimer;

pub(crate) use congestion_control::CongestionControl;
pub(crate) use message_ends::MessageEnds;
pub(crate) use path_mtu::PathMtu;
pub(crate) use rate_limits::{RateLimits, with_floor};
pub(crate) use reported_spans::{missing_ranges, spans_are_valid};
pub(crate) use retransmission_queue::{RANGES_MAX, RetransmissionQueue};
pub(crate) use send_queue::{CutRules, PacketPlan, SendQueue, WaterMarks};
pub(crate) use send_state::{SendState, StatusRequest, SyncHandshake};
pub(crate) use tags::TagPositions;
pub(crate) use wtimer::wtimer;
