//! Requests to the kernel by rtnetlink(7) and generic netlink, and its replies.
//!
//! * `message` - encoding of requests, reading of messages and attributes.
//! * `neighbour` - entries of the neighbour table.
//!
//! A [`Netlink`] asks the network namespace of the thread that opened it.
#![forbid(unsafe_code)]

mod message;
mod neighbour;

pub use message::{OpenAttribute, Request, attribute};
pub use neighbour::{add_neighbour, hardware_of};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Reply timeout; the kernel normally replies at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Octets of an answer; the kernel sends at most 32 KiB at once.
const ANSWER_MAX: usize = 32 << 10;

/// A netlink socket of one network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens an rtnetlink socket in the calling thread's namespace. Errors are those of the socket.
    pub fn open() -> io::Result<Netlink> {
        Netlink::of(None)
    }

    /// Opens a generic netlink socket in the calling thread's namespace. Errors are those of the socket.
    pub fn open_generic() -> io::Result<Netlink> {
        Netlink::of(Some(netlink::GENERIC))
    }

    fn of(protocol: Option<Protocol>) -> io::Result<Netlink> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(REPLY_TIMEOUT))?;
        Ok(Netlink {
            socket,
            sequence: 0,
        })
    }

    /// Sends a request and waits for its acknowledgement.
    /// Errors are those of the socket, and the error with which the kernel refuses the request.
    pub fn request(&mut self, request: Request) -> io::Result<()> {
        self.exchange(request, |_, _| {})
    }

    /// The same; gives the body of the reply before the acknowledgement.
    /// Errors are those of [`request`](Netlink::request).
    pub fn request_reply(&mut self, request: Request) -> io::Result<Vec<u8>> {
        let mut reply = Vec::new();
        self.exchange(request, |_, body| reply = body.to_vec())?;
        Ok(reply)
    }

    /// Sends a request, and gives type and body of each message until the acknowledgement or the end of a dump.
    fn exchange(&mut self, request: Request, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.sequence += 1;
        let octets = request.finish(self.sequence);
        rustix::net::send(&self.socket, &octets, SendFlags::empty())?;
        let mut answer = vec![0; ANSWER_MAX];
        loop {
            let (len, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            match message::acknowledgement(&answer[..len], self.sequence) {
                Some(0) => return Ok(()),
                Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                None => {}
            }
            for (kind, body) in message::messages(&answer[..len]) {
                if kind == message::NLMSG_DONE {
                    return Ok(());
                }
                each(kind, body);
            }
        }
    }
}

/// The family and the octets of an address.
pub fn address_octets(address: IpAddr) -> (u8, Vec<u8>) {
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    match address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    }
}
