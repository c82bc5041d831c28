//! Memory that another process writes, behind safe functions.
#![allow(unsafe_code)]

#[cfg(not(all(test, feature = "loom")))]
mod segment;
#[cfg(all(test, feature = "loom"))]
#[path = "model_segment.rs"]
mod segment;
#[cfg(all(test, not(feature = "loom")))]
pub(crate) mod stepping;

#[cfg(not(all(test, feature = "loom")))]
mod window;

pub(crate) use segment::Segment;
#[cfg(not(all(test, feature = "loom")))]
pub(crate) use window::Window;
