//! Congestion control for every engine, in the terms of the documents that define it.
//!
//! A controller is a function of its inputs, like an engine: no clock, no random source, integer
//! arithmetic. It knows neither packets nor sequence numbers of a protocol. An engine reports what
//! it sent, what was acknowledged and what was lost, and asks for two answers: how many bytes may be
//! in flight (the congestion window) and when the next packet may depart (pacing).
//!
//! Where to start reading:
//!
//! * [`selection`] - which controller a user chose, and the words for it.
//! * [`controller`] - [`CongestionController`], what an engine calls and in which order.
//! * [`sample`] - what an engine reports: acknowledgements, RTT samples, losses.
//! * [`new_reno`] - slow start, congestion avoidance, halving (RFC 5681, RFC 6582).
//! * [`ledbat`] - the same, and a reaction to queueing delay; how far it is LEDBAT (RFC 6817).
//! * [`bbr`] - a model of the path: bottleneck bandwidth and minimum RTT (draft-ietf-ccwg-bbr).
//! * [`recovery`] - which losses belong to one recovery episode (RFC 6582).
//! * [`rtt`] - smoothed RTT and retransmission timeout (RFC 6298).
//! * [`pacer`] - departure times at a pacing rate.
//! * [`rate_credit`] - a configured rate limit, which does not depend on the path.
//!
//! An association with several paths has one controller and one RTT estimator for each of them.
#![forbid(unsafe_code)]

pub mod bbr;
pub mod controller;
pub mod ledbat;
pub mod new_reno;
pub mod pacer;
pub mod rate_credit;
pub mod recovery;
pub mod rtt;
pub mod sample;
pub mod selection;

pub use bbr::Bbr;
pub use controller::CongestionController;
pub use ledbat::Ledbat;
pub use new_reno::NewReno;
pub use pacer::Pacer;
pub use rate_credit::{RateCredit, RateLimit};
pub use recovery::RecoveryPoint;
pub use rtt::{RtoBounds, RttEstimator};
pub use sample::{AckSample, LossSample, PacketState, RttSample};
pub use selection::Congestion;

/// Initial window in segments (RFC 6928).
const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// Largest window: no path has more than 1 GiB in flight.
const WINDOW_MAX_BYTES: u64 = 1 << 30;
