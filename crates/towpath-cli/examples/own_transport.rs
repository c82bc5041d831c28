//! A transport of one's own in a race, by a program of one's own:
//!
//!     cargo build --release -p towpath-cli --example own_transport
//!     towpath race tcp tcp-narrow,program=target/release/examples/own_transport
//!
//! This one is `tcp` with socket buffers of 64 KiB; `towpath/examples/add_transport.rs` has a
//! transport written from the ground up.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use towpath::{
    CircuitResult, Class, Listener, OptionHelp, Options, Rendezvous, Transport, Unavailable,
};

struct TcpNarrow;

/// What it builds on.
fn tcp() -> &'static dyn Transport {
    towpath::find("tcp").expect("tcp is built in")
}

fn narrow(options: &Options) -> Options {
    Options {
        buffers: Some(64 << 10),
        ..options.clone()
    }
}

impl Transport for TcpNarrow {
    fn name(&self) -> &'static str {
        "tcp-narrow"
    }

    fn summary(&self) -> &'static str {
        "TCP with socket buffers of 64 KiB"
    }

    fn class(&self) -> Class {
        tcp().class()
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        tcp().available(options)
    }

    fn options(&self) -> &[OptionHelp] {
        tcp().options()
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        tcp().check_options(own)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        tcp().listen(&narrow(options))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        tcp().connect(rendezvous, index, &narrow(options))
    }

    towpath::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

fn main() -> ExitCode {
    loadgen::worker_program::serve("own_transport 1", &[&TcpNarrow])
}
