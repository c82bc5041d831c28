//! The ends of the tests.

use engine_sctp::numbers::Port;
use engine_sctp::{Scheduler, SctpConfig};
use sctp_peers::stack::{Dcsctp, Ours, SctpProto, Stack, Usrsctp};
use std::path::Path;

/// Another stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Usrsctp,
    SctpProto,
    Dcsctp,
}

/// How our end is set: dcsctp knows one port of its peer, and only that.
pub fn config(seed: u64) -> SctpConfig {
    SctpConfig {
        seed,
        packet_len: 1200,
        local_port: Some(Port(5000)),
        ..SctpConfig::default()
    }
}

/// The same with a scheduler under which long messages take turns.
pub fn interleaving(seed: u64) -> SctpConfig {
    SctpConfig {
        interleave: true,
        scheduler: Scheduler::RoundRobin,
        ..config(seed)
    }
}

/// Our end.
pub fn ours(seed: u64) -> Box<dyn Stack> {
    Box::new(Ours::new(config(seed)))
}

/// The other end; None, and a line that says so, if it is not there.
pub fn theirs(peer: Peer, listens: bool) -> Option<Box<dyn Stack>> {
    theirs_with(peer, listens, false)
}

/// The same, and whether it interleaves messages, which sctp-proto cannot.
pub fn theirs_with(peer: Peer, listens: bool, interleaves: bool) -> Option<Box<dyn Stack>> {
    match peer {
        Peer::SctpProto => Some(Box::new(SctpProto::new())),
        Peer::Dcsctp if interleaves => Some(Box::new(Dcsctp::interleaving(1200))),
        Peer::Dcsctp => Some(Box::new(Dcsctp::new(1200, 0))),
        Peer::Usrsctp => {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let settings = if interleaves { "I" } else { "" };
            match Usrsctp::start(folder, listens, settings) {
                Ok(started) => Some(Box::new(started)),
                Err(reason) => {
                    println!("SKIPPED: {reason}; interoperation with usrsctp was not tested");
                    None
                }
            }
        }
    }
}
