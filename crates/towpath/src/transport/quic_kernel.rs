//! quic-kernel: a row for QUIC in the kernel (IPPROTO_QUIC), which is not in Linux yet.
//!
//! Where a kernel has it, a daemon of the user's does its handshakes (tlshd), and its interface may
//! change until it is merged; so this row says what the host has, and runs nowhere.

use crate::contract::{CircuitResult, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::options::Options;
use crate::transport::tcp;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;

/// The transport.
#[derive(Debug)]
pub struct QuicKernel;

/// The protocol's number in the module by Xin Long (github.com/lxin/quic).
const IPPROTO_QUIC: i32 = 261;

impl Transport for QuicKernel {
    fn name(&self) -> &'static str {
        "quic-kernel"
    }

    fn summary(&self) -> &'static str {
        "QUIC in the kernel (IPPROTO_QUIC): says whether the host has it, and runs nowhere yet"
    }

    fn class(&self) -> Class {
        Class {
            encrypted: true,
            checksum: "authenticated encryption",
            congestion: "of the module",
            offload: "none",
            ..tcp::CLASS
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        let protocol = Protocol::from(IPPROTO_QUIC);
        let probe = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol));
        Err(unavailable(probe.map(drop)))
    }

    fn listen(&self, _options: &Options) -> io::Result<Box<dyn Listener>> {
        Err(unsupported())
    }

    fn connect(&self, _: &Rendezvous, _: usize, _: &Options) -> CircuitResult {
        Err(unsupported())
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

/// Why it does not run, by what came of opening a socket.
fn unavailable(opened: io::Result<()>) -> Unavailable {
    match opened {
        Ok(()) => Unavailable {
            reason: "this kernel has IPPROTO_QUIC, and this program does not use it yet".into(),
            remedy: "race quic, which runs in the process".into(),
        },
        Err(error) => Unavailable {
            reason: format!("this kernel gives no QUIC socket (protocol {IPPROTO_QUIC}): {error}"),
            remedy: "none: QUIC is not in Linux yet; race quic, which runs in the process".into(),
        },
    }
}

fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this program does not use the kernel's QUIC yet; use quic",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_names_what_the_kernel_said() {
        let refused = io::Error::from_raw_os_error(libc::EPROTONOSUPPORT);
        let why = unavailable(Err(refused)).reason;
        assert!(why.contains("protocol 261"), "{why}");
        assert!(why.contains("Protocol not supported"), "{why}");
        assert!(unavailable(Ok(())).reason.contains("has IPPROTO_QUIC"));
        assert!(QuicKernel.available(&Options::default()).is_err());
    }
}
