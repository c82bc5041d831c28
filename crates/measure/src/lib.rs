//! Trials: what is run, how it is timed, and what becomes a result.
//!
//! The crate never prints. It reports progress to an [`Observer`] and writes results through
//! crate `results`; the command line and a library user read the same things.
//!
//! From the top:
//!
//! * [`race`] - a whole race: pilots, blocks in random order, looks, the summary.
//! * [`spec`] - what a race is asked to do, and the cells that follow from it.
//! * [`contestant`] - transports with options of their own, and how they are written.
//! * [`quantity`] - sizes as people write them.
//! * [`trial`] - one trial: two fresh worker processes, set up, started, collected.
//! * [`assemble`] - the numbers of a trial from the reports of its workers.
//! * [`place`] - where workers run: this host here, others through the same trait.
//! * [`stage`] - what surrounds the trials: hosts, the link between them, loads.
//! * [`profiled`] - trials whose workers are sampled: where a message's time goes.
//! * [`packets`] - sizes of packets on the way, sampled in pilots.
//! * [`worker`] - the inside of a worker process.
//! * `workload/` - the measuring loops, one file each: `source`, `sink`, `both`, `client`,
//!   `server`, `offered`, `connect`. They are plain threads; they count, and read the clock once a
//!   run of messages.
#![forbid(unsafe_code)]

pub mod assemble;
pub mod clock;
pub mod contestant;
pub mod environment;
pub mod packet_sizes;
pub mod profiled;
pub mod quantity;
pub mod race;
pub mod spec;
pub mod trial;
pub mod worker;
pub mod worker_host;
mod workload;

pub use environment::Environment;
pub use race::{Observer, Progress, RaceError, run};
pub use spec::{Contest, RaceSpec};
pub use worker_host::{ClockOffset, LocalHost, TestbedHost, WorkerHandle, WorkerHost};
