//! CPU time of a message, by layer and function.
//!
//! Processes are sampled some thousand times a second while they run: the kernel and user stack of
//! each thread. The samples divide the CPU time, as counted by the scheduler, among layers and
//! functions.
//!
//! From the top:
//!
//! * [`sampler`] - samples processes by the cycle counter or, where there is none, the clock.
//! * [`tracepoint`] - counters of kernel tracepoints.
//! * [`calls`] - calls of kernel routines: by the [`function_tracer`] for a [`function_list`], or by tracepoints.
//! * `tracefs` - where the kernel's tracefs is.
//! * [`perf_record`] - parser of perf records.
//! * [`symbolize`] - from addresses to names: [`kernel`] for the kernel, [`maps`] and [`image`] for
//!   programs and libraries.
//! * [`layer`] - which layer a stack belongs to.
//! * [`table`] - layers and functions, message sizes side by side; [`call_table`] - calls of kernel routines.
//! * [`folded_stacks`] and [`flame`] - the stacks as a flame graph.
//! * [`stack_text`] - the stacks as text; [`flame_difference`] - two profiles against each other.
//! * [`error`] - why there is no profile.
//! * `sys` - system calls without a safe wrapper in a library.
//!
//! Samples belong to the process that ran: over the loopback a sender's time includes much of the
//! receive path, because the kernel delivers a packet up to the receiver's socket at once.

pub mod call_table;
pub mod calls;
pub mod error;
pub mod flame;
pub mod flame_difference;
pub mod folded_stacks;
pub mod function_list;
pub mod function_tracer;
pub mod image;
pub mod kernel;
pub mod layer;
pub mod maps;
pub mod perf_record;
pub mod sampler;
pub mod stack_text;
pub mod symbolize;
mod sys;
pub mod table;
mod tracefs;
pub mod tracepoint;

pub use calls::CallCounting;
pub use error::ProfileError;
pub use function_list::FunctionList;
pub use function_tracer::NoFunctionTracer;
pub use kernel::KernelSymbols;
pub use sampler::{Recording, SampleClock, Sampler, available};
pub use symbolize::Symbolizer;
