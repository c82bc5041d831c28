//! Where a message's time goes.
//!
//! Processes are sampled while they work: where each thread is, in the kernel and in the program,
//! some thousand times a second. The samples divide the processor time that the scheduler counted
//! among the layers of the way and the procedures in them.
//!
//! From the top:
//!
//! * [`recorder`] - sampling processes, by the cycle counter or, where there is none, the clock.
//! * [`count`] - counting what the kernel tells by tracepoints.
//! * [`record`] - the kernel's records.
//! * [`stack`] - from addresses to names: [`kernel`] for the kernel's, [`maps`] and [`image`] for
//!   programs and libraries.
//! * [`layer`] - which layer a stack belongs to.
//! * [`table`] - layers and procedures, sizes side by side.
//! * [`fold`] and [`flame`] - the stacks as a picture.
//! * [`error`] - why there is none.
//! * `sys` - the system calls no library offers safely.
//!
//! What is sampled belongs to the process that ran: over the loopback a sender's time has much of
//! the receiving in it, because the kernel carries a packet up to the receiver's socket at once.

pub mod error;
pub mod flame;
pub mod folded_stacks;
pub mod image;
pub mod kernel;
pub mod layer;
pub mod maps;
pub mod perf_record;
pub mod sampler;
pub mod symbolize;
mod sys;
pub mod table;
pub mod tracepoint;

pub use error::ProfileError;
pub use kernel::KernelSymbols;
pub use sampler::{Recording, SampleClock, Sampler, available};
pub use symbolize::Symbolizer;
