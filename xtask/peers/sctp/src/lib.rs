//! Other stacks of SCTP against ours.
//!
//! * [`stack`] - one interface to every stack: ours, sctp-proto, dcsctp, usrsctp.
//! * [`exchange`] - two ends and what lies between them, in virtual time, with faults.
//! * [`bench`] - messages a second, both ends in one thread.
//! * [`sys`] - an allocator that counts, for tests.
//! * [`capture`] - the packets of an exchange as a file for tshark.
#![deny(unsafe_code)]

pub mod bench;
pub mod capture;
pub mod exchange;
pub mod stack;
pub mod sys;
