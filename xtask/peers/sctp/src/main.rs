//! `sctp-peers bench engine-sctp|sctp-proto|dcsctp SIZE SECONDS` - messages of SIZE bytes per second,
//! both ends in one thread.
#![forbid(unsafe_code)]

use engine_sctp::SctpConfig;
use sctp_peers::bench;
use sctp_peers::stack::{Dcsctp, Ours, SctpProto, Stack};
use std::error::Error;

/// Octets of a packet of the stacks that let us choose: what an Ethernet frame holds behind IPv4 and
/// UDP headers.
const PACKET_LEN: usize = 1472;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bench", stack, size, seconds] => {
            let [mut sender, mut receiver] = [end(stack, 1)?, end(stack, 2)?];
            let ends: [&mut dyn Stack; 2] = [&mut *sender, &mut *receiver];
            println!("{}", bench::run(ends, size.parse()?, seconds.parse()?)?);
            Ok(())
        }
        _ => Err("see the top of this file for how to call it".into()),
    }
}

fn end(stack: &str, seed: u64) -> Result<Box<dyn Stack>, String> {
    match stack {
        "engine-sctp" => Ok(Box::new(Ours::new(SctpConfig {
            seed,
            ..SctpConfig::default()
        }))),
        "sctp-proto" => Ok(Box::new(SctpProto::new())),
        "dcsctp" => Ok(Box::new(Dcsctp::new(PACKET_LEN, 0))),
        other => Err(format!("no stack is called {other}")),
    }
}
