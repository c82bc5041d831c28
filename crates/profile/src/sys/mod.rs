//! System calls without a safe wrapper in a library.

#![allow(unsafe_code)]

mod event;
mod ring;
mod tracing;

pub(crate) use event::{Event, EventKind};
pub(crate) use ring::Ring;
pub(crate) use tracing::mount_tracing;
