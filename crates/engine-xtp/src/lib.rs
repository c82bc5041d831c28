//! The Xpress Transport Protocol as sans-I/O engines: unicast, multicast ([`group`]) and router
//! ([`router`]). Version 4.0, and 3.3, 3.5 and 3.6 as far as they are known.
//!
//! XTP separates what other protocols tie together. Error control, flow control, rate and the
//! time of status requests are choices of the sender, made with option bits in each packet; the
//! receiver mostly answers. Packet formats are those of XTP 4.0. What its published descriptions
//! leave open is decided in `docs/decisions/0007-xtp-behaviour.md`, for groups in
//! `0009-xtp-multicast.md`, for 3.x ([`Config::version`]) in `0008-xtp-3x.md`, for congestion
//! control in `0011-xtp-congestion.md`. Comments cite them as "0007, Keys".
//!
//! * [`config`] - configuration, with the reason for each default.
//! * [`endpoint`] - the engine [`Xtp`]; it only dispatches.
//! * `context`, `context_table`, `endpoint_state` - state of one association, lookup by key and
//!   peer, state shared by all.
//! * `cookies`, `unvalidated` - openings whose source may be forged: keys that a host need not
//!   remember, and which opening gives way when there is no room.
//! * `timer_set` - the timers of an association, or of a stream to a group.
//! * `closing` - where the closing of an association stands.
//! * `codec` - the packets of an endpoint's version, chosen once.
//! * `procedure/` - one file a procedure: set-up, packet input, data and control in both
//!   directions, status requests, close, routes; `v3_input` is input of 3.x; `prediction` is a short way for the usual DATA.
//! * `tx/`, `rx/` - parts of each direction: the send queue, of associations and of streams to groups, which coalesces and
//!   cuts packets; WTIMER, rate limits, congestion control (crate `congestion`); the reassembly queue.
//! * `introspection` - state of associations for users to inspect.
//! * [`group`] - multicast: one sender, any number of receivers.
//! * [`router`] - the intermediate system of XTP 3.6.
//! * [`pdu`] - the packet codec.
//!
//! Positions in the send buffer are the sequence numbers on the wire: 64 bits, from 0.
#![forbid(unsafe_code)]

mod closing;
mod codec;
pub mod config;
mod context;
mod context_table;
mod cookies;
pub mod endpoint;
mod endpoint_state;
pub mod group;
mod introspection;
mod live;
pub mod management;
mod numbers;
mod opening;
pub mod pdu;
mod peer_index;
mod procedure;
mod ready_queue;
mod refusals;
mod route_values;
pub mod router;
mod routes;
mod rx;
mod shared_config;
mod slot_index;
mod timer_set;
mod tx;
mod unvalidated;

pub use config::{
    CloseState, Config, Congestion, ErrorControl, FlowControl, Holdings, RateLimit, SpanMeaning,
    StatusRequestKind,
};
pub use endpoint::Xtp;
pub use introspection::{
    AssociationState, AssociationView, ReceivingView, SendingPace, SendingView,
};
pub use router::{RouterConfig, XtpRouter};
