//! Accepting connections: from TCP, from peers' circuits, and from a program in this process.

use super::entrance::Entrance;
use super::limits::is_exhausted;
use super::{CHUNK_MAX, LISTENER_TOKEN, LocalSocket, Tunnel, TunnelSource};
use rustix::event::epoll;
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

/// How long nothing is accepted when descriptors or ports have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

impl Tunnel {
    /// Whether another connection may be accepted now.
    fn has_room(&self) -> bool {
        self.exhausted_until.is_none() && self.connections.len() < self.connections_max
    }

    pub(super) fn accept_connections(&mut self, todo: &mut Vec<u64>) {
        while self.has_room() {
            let TunnelSource::Tcp(entrances, peer) = &self.source else {
                return;
            };
            let accepted = entrances.iter().find_map(Entrance::accept);
            let ((tcp, client), sort) = match accepted {
                None => return,
                Some(Ok(accepted)) => accepted,
                // It was gone before it was accepted; others may be pending.
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Some(Err(error)) => {
                    self.pause_exhausted();
                    self.log_failure("cannot accept a connection", &error);
                    break;
                }
            };
            self.counts.opened += 1;
            keep_queue_short(&tcp, client);
            match self.endpoint.begin_connect_sorted(*peer, sort) {
                Ok(circuit) => {
                    let added = self.add(Box::new(tcp), circuit, false, Some(client.ip()));
                    todo.extend(self.settle("cannot carry a connection", added));
                }
                Err(error) => {
                    tcp.reset(Some(&error));
                    self.settle("cannot open an association", Err(error));
                }
            }
        }
        self.accept_paused = true;
        self.set_listener_interest(epoll::EventFlags::empty());
    }

    pub(super) fn accept_circuits(&mut self, todo: &mut Vec<u64>) {
        while self.has_room() {
            if let TunnelSource::Tcp(..) = self.source {
                return;
            }
            let Ok(circuit) = self.endpoint.try_accept() else {
                return;
            };
            self.counts.opened += 1;
            let peer = circuit.peer();
            let (socket, connecting, counted): (io::Result<Box<dyn LocalSocket>>, _, _) =
                match &mut self.source {
                    TunnelSource::Xtp(target) => {
                        let socket = connect(*target);
                        let socket = socket.map(|tcp| -> Box<dyn LocalSocket> { Box::new(tcp) });
                        (socket, true, Some(peer.ip()))
                    }
                    TunnelSource::External(external) => {
                        let socket = (external.make_socket)(peer, circuit.id());
                        (socket, false, None)
                    }
                    TunnelSource::Tcp(..) => return,
                };
            let added = match socket {
                Ok(socket) => self.add(socket, circuit, connecting, counted),
                Err(error) => {
                    // Not dropped, which would look like an end to the peer.
                    let _ = circuit.abort();
                    Err(error)
                }
            };
            todo.extend(self.settle("cannot connect to the target", added));
        }
    }

    /// Counts and logs a connection that could not be carried.
    pub(super) fn settle(&mut self, what: &str, added: io::Result<u64>) -> Option<u64> {
        match added {
            Ok(token) => Some(token),
            Err(error) => {
                self.counts.broken += 1;
                if is_exhausted(&error) {
                    self.pause_exhausted();
                }
                self.log_failure(what, &error);
                None
            }
        }
    }

    fn pause_exhausted(&mut self) {
        self.exhausted_until = Some(Instant::now() + EXHAUSTED_PAUSE);
    }

    fn log_failure(&mut self, what: &str, error: &io::Error) {
        self.log.line(Instant::now(), &format!("{what}: {error}"));
    }

    /// The program handed sockets over, wants circuits back, or has received for this thread.
    pub(super) fn on_wakeup(&mut self, todo: &mut Vec<u64>) {
        // Cleared first: what is handed over from here on signals it again.
        let _ = rustix::io::read(self.watch.wakeup(), &mut [0; 8]);
        self.accept_external(todo);
        self.take_back_wanted(todo);
        let mut ready = Vec::new();
        let accepts = self.watch.take_for_tunnel(&mut ready);
        self.note_ready(&mut ready, accepts, todo);
    }

    /// Accepts the sockets that a program handed over.
    fn accept_external(&mut self, todo: &mut Vec<u64>) {
        let TunnelSource::External(external) = &self.source else {
            return;
        };
        let mut all = Vec::new();
        let disconnected = loop {
            match external.incoming.try_recv() {
                Ok(more) => all.push(more),
                Err(error) => break error == TryRecvError::Disconnected,
            }
        };
        if disconnected && !self.source_closed {
            self.source_closed = true;
            self.endpoint.listen(false);
        }
        for (socket, circuit) in all {
            match self.remove_lent(circuit.id()) {
                true => {}
                false => self.counts.opened += 1,
            }
            let added = self.add(socket, circuit, false, None);
            todo.extend(self.settle("cannot carry a connection", added));
        }
    }

    /// Accepts again once there is room.
    pub(super) fn resume_accepting(&mut self) {
        if self.accept_paused && self.has_room() {
            self.accept_paused = false;
            self.set_listener_interest(epoll::EventFlags::IN);
        }
    }

    fn set_listener_interest(&self, flags: epoll::EventFlags) {
        let TunnelSource::Tcp(entrances, _) = &self.source else {
            return;
        };
        for entrance in entrances {
            let token = epoll::EventData::new_u64(LISTENER_TOKEN);
            // Cannot fail: the descriptor is registered.
            let _ = epoll::modify(&self.epoll, &entrance.listener, token, flags);
        }
    }
}

/// Limits what the kernel queues for the tunnel of a client on this host to what one read takes.
///
/// There is no path to fill between the two, and each byte of a queue of megabytes, as the kernel lets it grow to, is
/// fetched from beyond the processor's own cache (docs/performance.md, Shared memory).
fn keep_queue_short(tcp: &TcpStream, client: SocketAddr) {
    let own = tcp.local_addr().map(|own| own.ip());
    if client.ip().is_loopback() || own.is_ok_and(|own| own == client.ip()) {
        // As far as net.core.rmem_max lets it. Where it cannot be set, the connection is slower.
        let _ = SockRef::from(tcp).set_recv_buffer_size(CHUNK_MAX);
    }
}

/// Starts a non-blocking connect to `target`.
fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&target.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn queue_of_a_local_client_is_as_long_as_a_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it is bound");
        let _client = TcpStream::connect(at).expect("it listens");
        let (tcp, client) = listener.accept().expect("a client");
        keep_queue_short(&tcp, client);
        let Ok(limit) = std::fs::read_to_string("/proc/sys/net/core/rmem_max") else {
            eprintln!(
                "SKIPPED: this kernel shows net.core.rmem_max in the first network namespace only"
            );
            return;
        };
        let limit: usize = limit.trim().parse().expect("a number");
        let len = SockRef::from(&tcp).recv_buffer_size().expect("a socket");
        // The kernel doubles what it is told, for its own use (socket(7)).
        assert_eq!(len, 2 * CHUNK_MAX.min(limit));
    }
}
