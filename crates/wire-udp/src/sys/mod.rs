//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod address;
mod coalesced;
mod many;
mod options;
mod segmented;

pub use address::RawAddress;
pub use coalesced::{
    Coalesced, NOBODY, receive_coalesced, receive_coalesced_with, receive_plain_with,
};
pub use many::{ManyReceiver, ManySender};
pub use options::{can_segment, option, receive_drops, set_buffers, set_coalescing, set_option};
pub use segmented::{send_segmented, send_segmented_with};

/// Do not wait: a flag of the calls that take some.
pub const DONT_WAIT: i32 = libc::MSG_DONTWAIT;
