//! Instructions of the processor that compilers do not choose by themselves.
#![allow(unsafe_code)]

mod clusters;
mod crc32c;
mod prefetch;

pub(crate) use clusters::sum as sum_clusters;
pub(crate) use crc32c::extend as extend_crc32c;
pub use prefetch::prefetch;
