//! smc: shared memory communications (RFC 7609), the kernel's sockets of family AF_SMC.
//!
//! A TCP handshake finds out whether RDMA or an ISM device connects the hosts; where none does, the
//! kernel goes on with TCP, and no socket option says so (`smcss -a` does).

use crate::contract::{CircuitResult, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::options::Options;
use crate::socket;
use crate::transport::tcp::{self, TcpCircuitListener};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// The transport.
#[derive(Debug)]
pub struct Smc;

/// The address family (linux/socket.h), and its protocols over either version of IP.
const AF_SMC: i32 = 43;
const SMCPROTO_SMC: i32 = 0;
const SMCPROTO_SMC6: i32 = 1;

impl Transport for Smc {
    fn name(&self) -> &'static str {
        "smc"
    }

    fn summary(&self) -> &'static str {
        "kernel SMC (RFC 7609), one send a message; falls back to TCP without RDMA or ISM"
    }

    fn class(&self) -> Class {
        Class {
            checksum: "of the RDMA fabric",
            congestion: "of the RDMA fabric",
            offload: "writes into the peer's memory",
            ..tcp::CLASS
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        let probe = new_socket((std::net::Ipv4Addr::LOCALHOST, 0).into());
        probe.map(drop).map_err(|error| Unavailable {
            reason: format!("this kernel gives no SMC socket: {error}"),
            remedy: "load the module smc (modprobe smc), on a kernel built with CONFIG_SMC".into(),
        })
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let address = SocketAddr::new(options.bind_address(), 0);
        let socket = new_socket(address)?;
        tcp::set_up(&socket, options)?;
        Ok(Box::new(TcpCircuitListener::listening(
            socket, address, options,
        )?))
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        let address = socket::decode_address(&rendezvous.bytes)?;
        let socket = new_socket(address)?;
        tcp::set_up(&socket, options)?;
        Ok(Box::new(tcp::connect_socket(socket, address, options)?))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let protocol = match address {
        SocketAddr::V4(_) => SMCPROTO_SMC,
        SocketAddr::V6(_) => SMCPROTO_SMC6,
    };
    let protocol = Protocol::from(protocol);
    Socket::new(Domain::from(AF_SMC), Type::STREAM, Some(protocol))
}
