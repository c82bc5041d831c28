//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod address;
#[cfg(test)]
mod fork_tests;
mod gro;
mod gso;
mod marks;
mod mmsg;
mod options;
mod splice;

pub use address::RawAddress;
pub use gro::{
    Coalesced, NO_SENDER, receive_coalesced, receive_coalesced_with, receive_plain_with,
};
pub use gso::{send_segmented, send_segmented_with};
pub use marks::{IpMarks, receive_with_marks, report_marks};
pub use mmsg::{MmsgReceiver, MmsgSender};
pub use options::{can_segment, option, receive_drops, set_buffers, set_coalescing, set_option};
pub use splice::{Pipe, abandon_datagram, begin_datagram};

/// MSG_DONTWAIT, for the calls that take flags.
pub const DONT_WAIT: i32 = libc::MSG_DONTWAIT;
