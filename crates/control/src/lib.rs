//! The protocol between a measuring process and its workers.
//!
//! The controller sends [`ToWorker`] messages, a worker replies with [`FromWorker`]. They travel in
//! [`Channel`] frames: a length of four octets, checked against a limit, and the message in
//! postcard form. Every read has a deadline. Descriptors may travel with a frame on this host. A
//! job with a byte limit comes with a [`ByteAccount`], on which the worker books what it moves.
//!
//! ```text
//! controller            listening worker        connecting worker
//!   Listen  ------------->
//!           <------------- Listening
//!   Connect ------------------------------------->
//!           <------------------------------------- Connected
//!           <------------- Accepted
//!   Go      ------------->              (the side that receives first)
//!           <------------- Running
//!   Go      ------------------------------------->
//!           <------------------------------------- Running
//!           <------------------------------------- SourceDone
//!   PeerDone ------------>
//!           <------------- Finished
//!           <------------------------------------- Finished
//! ```
//!
//! Where both sides send, each says `SourceDone` while it still receives, and gets a `PeerDone` for the
//! other's, which may come after its own `Finished`. A worker exits when the controller closes the channel.
//!
//! Where several contestants of one host share its time, `GoInTurns` stands for `Go`, with the times of
//! each [`Turn`].
//!
//! A worker may run a program of another project instead: `Serve` starts a server, which is `Serving`
//! once it is ready, until `Stop`; `Run` starts a client. Both end with `Ran`. Agents refuse them.
//!
//! A worker may load its host instead: `Load`, `Running`, `Stop`, `Loaded`.
//!
//! Between two hosts the same messages travel inside session messages: [`session`] has these,
//! [`frame`] their framing, [`caps`] what an agent allows, and [`validate`] the checks of untrusted
//! reports.
//!
//! Everything received is checked before use; nothing in a frame makes the receiver allocate more
//! than the frame is long.
#![forbid(unsafe_code)]

mod byte_account;
pub mod caps;
mod channel;
mod connection;
pub mod frame;
mod message;
mod program;
pub mod session;
mod turns;
pub mod validate;

pub use byte_account::ByteAccount;
pub use caps::{Caps, WORKER_MEMORY_MIN, WorkerQuota};
pub use channel::{Channel, ChannelError, DESCRIPTORS_MAX, FRAME_MAX};
pub use connection::{CONNECTION_VALUES, ConnectionValue, NO_SERIES};
pub use message::{
    Arrivals, CircuitOptions, CircuitReport, ComponentSpec, CpuUse, FromWorker, Job, Limits,
    LoadJob, LoadReport, Mix, Rate, RawSocketGrant, RendezvousFrame, Role, Side, Slice, ToWorker,
    WorkerReport, Workload,
};
pub use program::{
    HostTraffic, PROGRAM_ERRORS_MAX, PROGRAM_OUTPUT_MAX, ProgramExit, ProgramJob, ProgramReport,
    Readiness, ServerJob,
};
pub use turns::{TURNS_MAX, Turn, Turns};

/// Version of the protocol, exchanged first.
pub const PROTOCOL_VERSION: u32 = 10;
