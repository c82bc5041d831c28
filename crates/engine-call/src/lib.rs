//! `call`, the least a protocol of transactions can be: a request and its reply, at most once.
//!
//! It exists as the example of [`engine::Transactions`], as `bare` is for associations: every test of
//! a host of transactions runs with it, and a new protocol of this kind can start as a copy.
//!
//! * [`pdu`] - the one packet: 40 octets of header and a block of a message.
//! * [`endpoint`] - dispatch: packets, timers and calls to the two ends of a transaction.
//! * `client` - a transaction as its caller sees it: the request is repeated until the reply comes.
//! * `server` - as the called entity sees it: executed once, the reply repeated until acknowledged.
//! * `incoming`, `transmission` - messages on their way in, block by block, and out.
//!
//! A message is repeated whole; there is neither flow nor congestion control. A lost block costs a
//! time-out, which doubles each time.
#![forbid(unsafe_code)]

mod client;
pub mod endpoint;
mod incoming;
pub mod pdu;
mod server;
mod transmission;

pub use endpoint::{Call, CallConfig};
