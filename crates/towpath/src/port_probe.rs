//! Whether the UDP port of a peer is closed, as its host says by ICMP.
//!
//! The kernel reports that to connected sockets alone, and an endpoint with many peers is connected to none. So an opening that is
//! not answered at once asks by a socket of its own: an empty datagram, which every endpoint drops. A report has to quote it, with
//! a port that was chosen at random, before the kernel believes it. Associations that are open end by no such report.

use crate::socket::wildcard_address;
use engine::Address;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long an opening waits for an answer before it asks. Nothing is asked where the peer answers.
pub(crate) const ASK_AFTER: Duration = Duration::from_millis(100);

/// How long after a question the next one follows: it may be lost, and a host sends few such reports a second.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The questions of one opening.
#[derive(Debug)]
pub(crate) struct PortProbe {
    peer: SocketAddr,
    socket: Option<UdpSocket>,
    ask_at: Instant,
}

impl PortProbe {
    /// For an opening to `peer` that begins now; None where there are no UDP ports.
    pub(crate) fn of(peer: Address) -> Option<PortProbe> {
        match peer {
            Address::Socket(peer) if peer.port() != 0 => Some(PortProbe::new(peer)),
            _ => None,
        }
    }

    /// For an opening to the UDP port `peer` that begins now.
    pub(crate) fn new(peer: SocketAddr) -> PortProbe {
        PortProbe {
            peer,
            socket: None,
            ask_at: Instant::now() + ASK_AFTER,
        }
    }

    /// Whether the peer's host has said that nothing listens there. Asks when it is time; a host that cannot be asked says
    /// nothing.
    pub(crate) fn is_closed(&mut self) -> bool {
        let refused = |result: io::Result<usize>| {
            result.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        if let Some(socket) = &self.socket
            && refused(socket.recv(&mut [0; 1]))
        {
            return true;
        }
        if Instant::now() < self.ask_at {
            return false;
        }
        self.ask_at = Instant::now() + ASK_AGAIN;
        if self.socket.is_none() {
            self.socket = connected(self.peer).ok();
        }
        let socket = self.socket.as_ref();
        // On one host the report comes before the send returns, and the next call has it.
        socket.is_some_and(|socket| refused(socket.send(&[])) || refused(socket.recv(&mut [0; 1])))
    }
}

fn connected(peer: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(wildcard_address(&peer))?;
    socket.set_nonblocking(true)?;
    socket.connect(peer)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_port_differs_from_one_that_is_silent() {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let at = silent.local_addr().expect("bound");
        let asked = |probe: &mut PortProbe| {
            probe.ask_at = Instant::now();
            probe.is_closed()
        };
        let mut probe = PortProbe::new(at);
        assert!(!probe.is_closed(), "not yet");
        assert!(!asked(&mut probe));
        drop(silent);
        assert!(asked(&mut probe));
    }
}
