//! Circuits of `xti-tcp,streams=off`: the functions of XTI straight on sockets, as a compatibility library has them.

use super::{tcp, xti_words};
use crate::connection_info;
use crate::contract::{
    Circuit, CircuitResult, ConnectionInfo, Interest, Listener, NoConnectionInfo, Rendezvous,
};
use crate::options::Options;
use crate::{parts, socket, source_filter};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;
use xti::inet::{self, Setup};
use xti::sockets::SocketEndpoint;
use xti::{Flags, Look, TliError, XtiState};

/// Accepts connections.
pub(super) struct SocketListener {
    end: SocketEndpoint,
    address: SocketAddr,
    setup: Setup,
    options: Options,
}

/// Listens at a free port, with as many connections that may wait.
pub(super) fn listen(
    setup: Setup,
    queue_len: u32,
    options: &Options,
) -> io::Result<SocketListener> {
    let mut end = SocketEndpoint::open(Setup::clone(&setup));
    let address = SocketAddr::new(options.bind_address(), 0);
    let bound = end.bind(&inet::encode(address), queue_len)?;
    Ok(SocketListener {
        end,
        address: inet::decode(&bound.address).ok_or(io::ErrorKind::AddrNotAvailable)?,
        setup,
        options: options.clone(),
    })
}

/// Connects until `deadline`.
pub(super) fn connect(
    setup: Setup,
    to: SocketAddr,
    deadline: Instant,
    options: &Options,
) -> CircuitResult {
    let mut end = SocketEndpoint::open(setup);
    end.bind(&[], 0)?;
    if let Err(error) = end.connect(&inet::encode(to), deadline) {
        let reason = end.receive_disconnect();
        return Err(xti_words::refused(error, reason));
    }
    Ok(Box::new(SocketCircuit::new(end, options)?))
}

impl Listener for SocketListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(socket::rendezvous_of([self.address]))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        loop {
            let call = xti_words::arrived(self.end.listen(deadline))?;
            let mut end = SocketEndpoint::open(Setup::clone(&self.setup));
            self.end.accept(&mut end, call.sequence)?;
            let socket = end.socket().ok_or(io::ErrorKind::NotConnected)?;
            if source_filter::accepts_source(socket, self.options.only_from) {
                return Ok(Box::new(SocketCircuit::new(end, &self.options)?));
            }
        }
    }
}

struct SocketCircuit {
    end: SocketEndpoint,
    read_len: usize,
    /// The rest of a message of which part was taken: it goes first.
    unsent: Vec<u8>,
}

impl SocketCircuit {
    fn new(end: SocketEndpoint, options: &Options) -> io::Result<SocketCircuit> {
        if let Some(socket) = end.socket() {
            socket::set_blocking_timeout(socket, options.blocking_timeout)?;
        }
        Ok(SocketCircuit {
            end,
            read_len: options.read_len,
            unsent: Vec::new(),
        })
    }

    #[inline]
    fn transmit(&mut self, message: &[u8], waits: bool) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.send_rest(waits)?;
        }
        if message.is_empty() {
            return Ok(());
        }
        let sent = self.send_once(message, waits)?;
        if sent < message.len() {
            self.unsent.extend_from_slice(&message[sent..]);
            if waits {
                self.send_rest(waits)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn send_once(&mut self, octets: &[u8], waits: bool) -> io::Result<usize> {
        let sent = match waits {
            true => self.end.send(octets, Flags::default()),
            false => self.end.try_send(octets, Flags::default()),
        };
        sent.map_err(|error| self.why(error))
    }

    #[cold]
    fn send_rest(&mut self, waits: bool) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let rest = std::mem::take(&mut self.unsent);
            let sent = self.send_once(&rest, waits);
            self.unsent = rest;
            self.unsent.drain(..sent?);
        }
        Ok(())
    }

    /// The system's error of a connection that was lost.
    #[cold]
    fn why(&mut self, error: xti::Error) -> io::Error {
        match self.end.receive_disconnect() {
            Ok(end) if error.tli == TliError::Look => io::Error::from_raw_os_error(end.reason),
            _ => error.into(),
        }
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8], waits: bool) -> io::Result<Option<usize>> {
        let len = buffer.len().min(self.read_len);
        let received = match waits {
            true => self.end.receive(&mut buffer[..len]),
            false => self.end.try_receive(&mut buffer[..len]),
        };
        match received {
            Ok(received) => Ok(Some(received.len)),
            Err(error) if error.tli == TliError::Look => match self.end.look() {
                Some(Look::Release) => {
                    self.end.receive_release()?;
                    Ok(None)
                }
                _ => Err(self.why(error)),
            },
            Err(error) if error.tli == TliError::OutOfState && self.has_ended() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.end.state(), XtiState::PeerReleased | XtiState::Idle)
    }
}

impl Circuit for SocketCircuit {
    parts::blocks_by_flag! { transmit, receive }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        self.send_rest(true)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        let released = self.end.send_release();
        released.map_err(|error| self.why(error))
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        match self.end.socket() {
            Some(socket) => socket::wait(socket.as_fd(), interest, deadline),
            None => Ok(()),
        }
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        let socket = self.end.socket().ok_or(connection_info::NOT_READABLE)?;
        tcp::connection_info(socket)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Some(socket) = self.end.socket() {
            effective.extend(socket::buffer_sizes(socket.as_fd()));
            tcp::effective(socket, &mut effective);
        }
        effective.insert("read_len".into(), self.read_len.to_string());
        effective.insert("streams".into(), xti_words::on_off(false));
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = parts::call_counts(self.end.system_calls());
        if let Some(socket) = self.end.socket() {
            tcp::counts(socket, &mut counts);
        }
        counts
    }

    crate::usual_circuit! { send_run send_shared_run recv_run descriptor next_deadline }
}
