//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod namespace;
mod offload;
mod segments;
mod steer;
mod tap;

pub(crate) use namespace::{leave_network, leave_users};
pub(crate) use offload::single_frames;
pub(crate) use segments::{receive_segments, send_segments};
pub(crate) use steer::steer_receiving;
pub(crate) use tap::{Offloads, open_tap};
