//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod interface;
mod packet;
mod ring;

pub(crate) use interface::{interface, interface_with_address};
pub(crate) use packet::{drops, open, set_member};
pub(crate) use ring::{ReceiveRing, RingSizes, SLOT_OVERHEAD, SendRing, add_rings, open_rings};
