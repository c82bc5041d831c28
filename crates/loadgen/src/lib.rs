//! Load generators: the processes that send and receive what a race measures, and how they are started.
//!
//! A *worker* does one job of crate `control` over its standard input and reports what it counted. It knows the transports
//! of crate `towpath` and no race: no plan, no statistics, no other contestant. So an agent, which runs workers for clients
//! on other hosts, links this crate alone, and a program with a transport of its own does too.
//!
//! From the outside in:
//!
//! * [`worker_host`] - hosts that run workers: this one here, others through the same trait.
//! * [`worker_program`] - workers that another program runs: two builds in one race, a user's own transport.
//! * [`worker`] - the worker process: one job, a thread a circuit, programs of other projects.
//! * [`workload`] - the measuring loops, one file each: `source`, `sink`, `bidirectional`, `client`, `server`, `offered`,
//!   `connect`, `transactions`, `responsive`. They are plain threads that count, and read the clock once per run of
//!   messages.
//! * [`turn_schedule`] - when each contestant's turns are.
//! * [`contestant`] - transports with their options, and their text form.
//! * [`clock`] - the clock that all of them read.
#![forbid(unsafe_code)]

pub mod clock;
pub mod contestant;
pub mod turn_schedule;
pub mod worker;
pub mod worker_host;
pub mod worker_program;
pub mod workload;

pub use worker_host::{ClockOffset, LocalHost, WorkerHandle, WorkerHost};
