//! Shared by the connection-oriented Unix sockets: a listener with an abstract name.

use crate::contract::{BLOCKING_TIMEOUT, CircuitResult, Listener, Reach, Rendezvous};
use crate::options::Options;
use crate::socket;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::time::Instant;

/// Makes a transport's circuit from a connected socket.
pub(crate) type UnixCircuitFactory = fn(Socket, &Options) -> CircuitResult;

/// A listening Unix socket.
pub(crate) struct UnixSocketListener {
    socket: Socket,
    name: String,
    options: Options,
    make_circuit: UnixCircuitFactory,
}

impl UnixSocketListener {
    /// Listens on a new unique name.
    pub(crate) fn bind(
        kind: Type,
        options: &Options,
        make_circuit: UnixCircuitFactory,
    ) -> io::Result<Box<dyn Listener>> {
        let socket = new_socket(kind, options)?;
        let name = socket::unique_name("server");
        socket.bind(&SockAddr::unix(&name)?)?;
        socket::set_blocking_timeout(&socket, Some(BLOCKING_TIMEOUT))?;
        socket.listen(1024)?;
        Ok(Box::new(UnixSocketListener {
            socket,
            name,
            options: options.clone(),
            make_circuit,
        }))
    }
}

fn new_socket(kind: Type, options: &Options) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    socket::set_buffers(&socket, options.buffers);
    Ok(socket)
}

/// Connects to a listener of `kind`.
pub(crate) fn connect(
    kind: Type,
    rendezvous: &Rendezvous,
    options: &Options,
) -> io::Result<Socket> {
    let socket = new_socket(kind, options)?;
    socket::connect(
        &socket,
        &socket::decode_name(&rendezvous.bytes)?,
        options.blocking_timeout,
    )?;
    Ok(socket)
}

impl Listener for UnixSocketListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous::new(
            Reach::Host,
            socket::encode_name(&self.name),
        ))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        let socket = socket::accept(&self.socket, deadline)?;
        // Accepted Unix sockets inherit neither option; each end's options apply to what it sends.
        socket::set_buffers(&socket, self.options.buffers);
        socket::set_blocking_timeout(&socket, self.options.blocking_timeout)?;
        (self.make_circuit)(socket, &self.options)
    }
}
