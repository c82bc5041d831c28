//! STREAMS in user space: full-duplex streams of messages between a user and a driver, with modules
//! in between. It knows no protocol.
//!
//! * [`block`], [`message`] - octets with reference counts, and the messages made of them.
//! * [`queue`] - messages by priority, water marks, hysteresis; who was refused and who waits.
//! * [`module`] - the contract of a module and of a driver: put and service procedures.
//! * [`multiplexer`] - the contract of a driver of several streams, with others linked below it.
//! * [`runtime`] - streams of levels with two queues each, flow control along them, the run list.
//! * [`head`] - what users call: read, write, messages with control parts, requests, poll.
//! * [`modules`] - modules that come with it.
//!
//! A message goes as far as put procedures hand it on; where one queues it, the queue's service
//! procedure is scheduled and [`Runtime::run`] carries it further. A [`Runtime`] is used by one
//! thread at a time: it is its own perimeter, and for several threads it goes behind a lock.
//!
//! ```
//! use streams::{Hysteresis, Runtime};
//!
//! let mut runtime = Runtime::new(Hysteresis::Full);
//! let (a, b) = runtime.pipe();
//! runtime.push(b, Box::new(streams::modules::Meter::default()))?;
//! runtime.write(a, b"over the pipe")?;
//! runtime.run(100);
//! let mut buffer = [0; 32];
//! let len = runtime.read(b, &mut buffer)?;
//! assert_eq!(&buffer[..len], b"over the pipe");
//! # Ok::<(), streams::Error>(())
//! ```
#![forbid(unsafe_code)]
// The module of the page is built and run as a test.
#![cfg_attr(doctest, doc = include_str!("../../../docs/streams.md"))]

pub mod block;
mod error;
pub mod head;
pub mod message;
pub mod module;
pub mod modules;
pub mod multiplexer;
pub mod queue;
pub mod runtime;

pub use block::{Block, Lender, Pool};
pub use error::Error;
pub use head::{Answer, Got, Priority, ReadControl, ReadMode, Readiness, SignalEvents, Want};
pub use message::{
    Extra, FlushRequest, FlushScope, HeadOptions, IoctlRequest, Message, MessageKind,
};
pub use module::{Context, Module, ModuleInfo, QueueInfo, Side};
pub use multiplexer::{Leg, LegContext, Multiplexer};
pub use queue::{Hysteresis, Marks, Queue};
pub use runtime::{Counters, LinkId, MultiplexerId, Passed, Persistence, Runtime, StreamId};
