//! sctp-kernel: the kernel's SCTP (IPPROTO_SCTP), one-to-one sockets (RFC 6458 section 4), one send a
//! message.
//!
//! All messages go on stream 0, in order. The kernel's packets are of IP's protocol 132, which firewalls and
//! address translators between hosts seldom pass.

use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, CircuitResult, Class, ConnectionInfo, Listener, NoConnectionInfo,
    Part, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::transport::tcp;
use crate::{parts, socket, sys};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

/// The transport.
#[derive(Debug)]
pub struct SctpKernel;

/// The protocol's number (IANA).
const IPPROTO_SCTP: i32 = 132;

/// Associations that wait for accept(2): as of TCP.
const BACKLOG: i32 = 1024;

impl Transport for SctpKernel {
    fn name(&self) -> &'static str {
        "sctp-kernel"
    }

    fn summary(&self) -> &'static str {
        "the kernel's SCTP (RFC 9260), one send a message"
    }

    fn class(&self) -> Class {
        Class {
            stream: false,
            half_close: false,
            reach: Reach::Network,
            checksum: "CRC-32c by SCTP",
            congestion: "RFC 9260",
            offload: "segmentation by the kernel",
            ..tcp::CLASS
        }
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        false
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        let probe = new_socket(SocketAddr::new(options.bind_address(), 0), options);
        probe.map(drop).map_err(|error| Unavailable {
            reason: format!("this kernel gives no SCTP socket: {error}"),
            remedy: "load the module sctp (modprobe sctp), on a kernel built with CONFIG_IP_SCTP; \
                     or race sctp, which runs in the process"
                .into(),
        })
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let address = SocketAddr::new(options.bind_address(), 0);
        let socket = new_socket(address, options)?;
        socket.bind(&SockAddr::from(address))?;
        socket::set_blocking_timeout(&socket, Some(BLOCKING_TIMEOUT))?;
        socket.listen(BACKLOG)?;
        let options = options.clone();
        Ok(Box::new(SctpListener { socket, options }))
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        let address = socket::decode_address(&rendezvous.bytes)?;
        let socket = new_socket(address, options)?;
        let timeout = Some(BLOCKING_TIMEOUT);
        socket::connect(&socket, &SockAddr::from(address), timeout)?;
        Ok(Box::new(SctpCircuit::new(socket)))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered option_to_many message_max options check_options connect_all connect_to_many
    }
}

fn new_socket(address: SocketAddr, options: &Options) -> io::Result<Socket> {
    let protocol = Some(Protocol::from(IPPROTO_SCTP));
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, protocol)?;
    set_up(&socket, options)?;
    Ok(socket)
}

fn set_up(socket: &Socket, options: &Options) -> io::Result<()> {
    socket::set_buffers(socket, options.buffers);
    match options.nodelay {
        Some(nodelay) => sys::set_sctp_nodelay(socket.as_fd(), nodelay),
        None => Ok(()),
    }
}

#[derive(Debug)]
struct SctpListener {
    socket: Socket,
    options: Options,
}

impl Listener for SctpListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        socket::listening_address(&self.socket, &self.options)
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        let socket = socket::accept(&self.socket, deadline)?;
        set_up(&socket, &self.options)?;
        socket::set_blocking_timeout(&socket, Some(BLOCKING_TIMEOUT))?;
        Ok(Box::new(SctpCircuit::new(socket)))
    }
}

#[derive(Debug)]
struct SctpCircuit {
    socket: Socket,
    send_calls: u64,
    receive_calls: u64,
    /// The last receive ended within a message: the kernel gives the rest with the next.
    is_within: bool,
}

impl SctpCircuit {
    fn new(socket: Socket) -> SctpCircuit {
        SctpCircuit {
            socket,
            send_calls: 0,
            receive_calls: 0,
            is_within: false,
        }
    }

    #[inline]
    fn write(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        if message.is_empty() {
            let text = "SCTP has no message of 0 bytes; send at least 1 byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.send_calls += 1;
        socket::send_message(&self.socket, message, block)
    }

    /// Up to as much of a message as `buffer` takes, and whether it ends there (MSG_EOR); None at the end.
    fn read(&mut self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<Option<(usize, bool)>> {
        self.receive_calls += 1;
        let mut slices = [IoSliceMut::new(buffer)];
        let mut control = RecvAncillaryBuffer::default();
        let got = recvmsg(self.socket.as_fd(), &mut slices, &mut control, flags);
        let got = got.map_err(socket::to_io_error)?;
        let ends = got.flags.contains(ReturnFlags::EOR);
        Ok((got.bytes > 0).then_some((got.bytes, ends)))
    }

    /// A message, cut off where `buffer` ends.
    fn read_message(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        let flags = match block {
            true => RecvFlags::empty(),
            false => RecvFlags::DONTWAIT,
        };
        while self.is_within {
            let rest = self.read(&mut [0; 4096], flags)?;
            self.is_within = rest.is_some_and(|(_, ends)| !ends);
        }
        let got = self.read(buffer, flags)?;
        self.is_within = got.is_some_and(|(_, ends)| !ends);
        Ok(got.map(|(len, _)| len))
    }
}

impl Circuit for SctpCircuit {
    parts::blocks_by_flag! { write, read_message }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        let got = self.read(buffer, RecvFlags::empty())?;
        self.is_within = got.is_some_and(|(_, ends)| !ends);
        Ok(got.map(|(len, ends)| Part {
            end: ends,
            ..Part::of_stream(len)
        }))
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    parts::ready_as_socket! {}

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NOT_READABLE)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        socket::buffer_sizes(self.socket.as_fd())
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        parts::call_counts((self.send_calls, self.receive_calls))
    }

    crate::usual_circuit! { send_run send_shared_run recv_run flush next_deadline }
}
