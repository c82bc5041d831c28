//! The Xpress Transport Protocol 4.0, unicast, as a pure engine.
#![forbid(unsafe_code)]

pub mod pdu;
