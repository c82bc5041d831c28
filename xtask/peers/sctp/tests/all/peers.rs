//! The ends of the tests.

use engine_sctp::SctpConfig;
use engine_sctp::numbers::Port;
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

/// Our end.
pub fn ours(seed: u64) -> Box<dyn Stack> {
    Box::new(Ours::new(config(seed)))
}

/// The other end; None, and a line that says so, if it is not there.
pub fn theirs(peer: Peer, listens: bool) -> Option<Box<dyn Stack>> {
    match peer {
        Peer::SctpProto => Some(Box::new(SctpProto::new())),
        Peer::Dcsctp => Some(Box::new(Dcsctp::new(1200, 0))),
        Peer::Usrsctp => {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
            match Usrsctp::start(folder, listens) {
                Ok(started) => Some(Box::new(started)),
                Err(reason) => {
                    println!("SKIPPED: {reason}; interoperation with usrsctp was not tested");
                    None
                }
            }
        }
    }
}
