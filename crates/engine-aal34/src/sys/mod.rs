//! Instructions that not every processor has.
#![allow(unsafe_code)]

#[cfg_attr(target_arch = "x86_64", path = "crc10_x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "crc10_other.rs")]
pub(crate) mod crc10;
