//! Memory that another process writes, behind safe functions.
#![allow(unsafe_code)]

mod segment;

pub(crate) use segment::Segment;
