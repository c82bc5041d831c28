//! Network configuration by rtnetlink(7) and generic netlink.
//!
//! * `message` - encoding of requests: headers and attributes.
//! * `link`, `address`, `route`, `qdisc`, `mptcp` - the requests a testbed makes.
//!
//! A [`Netlink`] configures the network namespace of the thread that opened it.

mod address;
mod link;
mod message;
mod mptcp;
mod qdisc;
mod route;

pub(crate) use address::{add_address, add_neighbour};
pub(crate) use link::{InterfaceConfig, add_veth, configure_interface, is_running};
pub(crate) use mptcp::{announce_address, mptcp_family, set_mptcp_limits};
pub(crate) use qdisc::{TokenBucket, add_netem, add_token_bucket, backlog_octets};
pub(crate) use route::add_route;

use message::Request;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Reply timeout; the kernel normally replies at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A reply has an error code and the begin of the request.
const ANSWER_MAX: usize = 8192;

/// A netlink socket of one network namespace.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens an rtnetlink socket in the calling thread's namespace.
    pub(crate) fn open() -> io::Result<Netlink> {
        Netlink::of(None)
    }

    /// Opens a generic netlink socket in the calling thread's namespace.
    pub(crate) fn open_generic() -> io::Result<Netlink> {
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
    fn request(&mut self, request: Request) -> io::Result<()> {
        self.request_reply(request).map(drop)
    }

    /// The same; gives the reply before the acknowledgement.
    fn request_reply(&mut self, request: Request) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let octets = request.finish(self.sequence);
        rustix::net::send(&self.socket, &octets, SendFlags::empty())?;
        let mut answer = [0; ANSWER_MAX];
        let mut reply = Vec::new();
        loop {
            let (len, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            match message::acknowledgement(&answer[..len], self.sequence) {
                Some(0) => return Ok(reply),
                Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                None => reply = answer[..len].to_vec(),
            }
        }
    }
}
