//! What a socket library does on an endpoint with module `sockmod`: beside the functions of XTI that make connections,
//! whose primitives the module sees, its requests.

use super::{Inner, XtiEndpoint, XtiState};
use crate::error::{Error, TliError};
use crate::modules::{Sockmod, sockmod_command as command, state_and_params};
use crate::tpi::{Primitive, ServiceType, parse};
use streams::Priority;

/// Which direction a shutdown ends (shutdown(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// No more is received.
    Read = 0,
    /// No more is sent.
    Write = 1,
    /// Neither.
    Both = 2,
}

impl XtiEndpoint {
    /// Makes the endpoint one of a socket library (I_PUSH of `sockmod`), of a domain, such as AF_INET: from here on
    /// [`XtiEndpoint::receive`] of no octets is the peer's end, and a lost connection is its error.
    ///
    /// # Errors
    ///
    /// `System` when the module cannot be pushed.
    pub fn push_sockmod(&self, domain: u32) -> Result<(), Error> {
        let mut inner = self.lock();
        let module = Sockmod::new(inner.information);
        let (stream, kind) = (inner.stream, inner.information.service);
        inner.runtime.push(stream, Box::new(module))?;
        let kind: u32 = if kind == ServiceType::Datagrams { 2 } else { 1 };
        let params = [domain, kind, 0].map(u32::to_ne_bytes).concat();
        inner.ask_module(command::SOCKPARAMS, &params).map(drop)
    }

    /// Binds with a backlog (SI_LISTEN of an endpoint without address); returns the address.
    /// Errors are those of [`XtiEndpoint::bind`].
    pub fn socket_listen(&self, address: &[u8], backlog: u32) -> Result<Vec<u8>, Error> {
        let mut inner = self.lock();
        inner.require(&[XtiState::Unbound])?;
        let request = Primitive::BindRequest {
            address: address.to_vec(),
            indications: backlog,
        };
        let octets = inner.ask_module(command::LISTEN, &request.octets())?;
        match parse(&octets) {
            Ok(Primitive::BindAck {
                address,
                indications,
            }) => {
                (inner.state, inner.queue_len) = (XtiState::Idle, indications);
                Ok(address)
            }
            _ => Err(TliError::Protocol.into()),
        }
    }

    /// The endpoint has accepted the connection of `peer` (SI_SETPEERNAME).
    ///
    /// # Errors
    ///
    /// `System` for an address that is none.
    pub fn socket_accepted(&self, peer: &[u8]) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.ask_module(command::SETPEERNAME, peer).map(drop)
    }

    /// Ends a direction, behind what was sent (SI_SHUTDOWN).
    ///
    /// # Errors
    ///
    /// `System` with ENOTCONN without a connection.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.ask_module(command::SHUTDOWN, &(how as u32).to_ne_bytes())?;
        self.shared.note_if_deferred(&inner);
        Ok(())
    }

    /// A datagram socket has one peer from here on, or again none (SI_TCL_LINK, SI_TCL_UNLINK).
    ///
    /// # Errors
    ///
    /// `System` on connections.
    pub fn socket_link(&self, peer: Option<&[u8]>) -> Result<(), Error> {
        let command = match peer {
            Some(_) => command::TCL_LINK,
            None => command::TCL_UNLINK,
        };
        let answered = self.lock().ask_module(command, peer.unwrap_or_default());
        answered.map(drop)
    }

    /// Writes a datagram for the only peer, without waiting.
    ///
    /// # Errors
    ///
    /// `Flow` without room; `System` when the stream has failed.
    pub fn socket_write(&self, octets: &[u8]) -> Result<(), Error> {
        let mut inner = self.lock();
        let (stream, band) = (inner.stream, Priority::Band(0));
        let put = inner.runtime.put_message(stream, None, Some(octets), band);
        self.shared.note_if_deferred(&inner);
        match put {
            Err(streams::Error::WouldBlock) => Err(TliError::Flow.into()),
            other => Ok(other?),
        }
    }

    /// Bits of `so_state` ([`crate::modules::so_state`]; SI_GETUDATA).
    ///
    /// # Errors
    ///
    /// `System` where there is no such module.
    pub fn socket_state(&self) -> Result<u32, Error> {
        let octets = self.lock().ask_module(command::GETUDATA, &[])?;
        let found = state_and_params(&octets);
        found
            .map(|(state, _)| state)
            .ok_or(TliError::Protocol.into())
    }
}

impl Inner {
    /// A request of a module, and its answer (I_STR).
    fn ask_module(&mut self, command: u32, octets: &[u8]) -> Result<Vec<u8>, Error> {
        self.send_gathered();
        self.runtime.request(self.stream, command, octets)?;
        let answer = match self.runtime.take_answer(self.stream) {
            Err(streams::Error::WouldBlock) => {
                self.run();
                self.runtime.take_answer(self.stream)
            }
            other => other,
        };
        let answer = answer?;
        match answer.value {
            0 => Ok(answer.octets),
            value => Err(Error {
                tli: TliError::from_number(value as u32 & 0xff),
                errno: value >> 8,
            }),
        }
    }
}
