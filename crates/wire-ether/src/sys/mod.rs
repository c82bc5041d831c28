//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod interface;
mod packet;
mod ring;

pub(crate) use interface::interface;
pub(crate) use packet::{drops, join, open};
pub(crate) use ring::{ReceiveRing, RingSizes, SLOT_OVERHEAD, SendRing, open_rings};
