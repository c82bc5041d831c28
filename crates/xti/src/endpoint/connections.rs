//! bind, unbind, connect, listen, accept.

use super::{Inner, XtiEndpoint, XtiState};
use crate::error::{Error, TliError};
use crate::tpi::{Primitive, TransportOption, parse_options, write_options};
use std::time::{Duration, Instant};

/// What a bind gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The address.
    pub address: Vec<u8>,
    /// Connections that may wait.
    pub queue_len: u32,
}

/// A connection that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XtiCall {
    /// Address of the peer.
    pub address: Vec<u8>,
    /// Its number, for the answer.
    pub sequence: u32,
    /// What the peer's user said with it.
    pub user_data: Vec<u8>,
    /// Options that this end asked for with its connect, each with what became of it.
    pub options: Vec<TransportOption>,
}

/// What goes with a connect or an accept.
#[derive(Clone, Copy, Debug, Default)]
pub struct With<'a> {
    /// Options of this connection alone, which may be of several levels.
    pub options: &'a [TransportOption],
    /// Data for the peer's user.
    pub user_data: &'a [u8],
}

impl XtiEndpoint {
    /// Binds to an address, empty for any; up to `queue_len` connections may wait (t_bind).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadAddress`, `AddressBusy`, `NoAddress`, `Access`, `System`.
    pub fn bind(&self, address: &[u8], queue_len: u32) -> Result<Bound, Error> {
        let mut inner = self.lock();
        inner.require(&[XtiState::Unbound])?;
        let request = Primitive::BindRequest {
            address: address.to_vec(),
            indications: queue_len,
        };
        match inner.ask(&request)? {
            Primitive::BindAck {
                address,
                indications,
            } => {
                (inner.state, inner.queue_len) = (XtiState::Idle, indications);
                Ok(Bound {
                    address,
                    queue_len: indications,
                })
            }
            _ => Err(TliError::Protocol.into()),
        }
    }

    /// Gives the address up (t_unbind).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `Look` when a connection or data wait.
    pub fn unbind(&self) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.require(&[XtiState::Idle])?;
        if inner.look().is_some() {
            return Err(TliError::Look.into());
        }
        inner.ask_for_ok(&Primitive::UnbindRequest, &[])?;
        (inner.state, inner.queue_len) = (XtiState::Unbound, 0);
        Ok(())
    }

    /// Starts a connection (t_connect with O_NONBLOCK); [`XtiEndpoint::receive_connect`] ends it.
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadAddress`, `System`.
    pub fn start_connect(&self, address: &[u8]) -> Result<(), Error> {
        self.start_connect_with(address, With::default())
    }

    /// The same with data for the peer's user, who gets them with the connection, and with options.
    /// Errors are those of [`XtiEndpoint::start_connect`]; `BadData` for more than the provider carries
    /// ([`Information::connect`](crate::tpi::Information::connect)), `BadOption` for more than it takes.
    pub fn start_connect_with(&self, address: &[u8], with: With<'_>) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.require(&[XtiState::Idle])?;
        Inner::check_said(inner.information.connect, with.user_data)?;
        let request = Primitive::ConnectRequest {
            destination: address.to_vec(),
            options: write_options(with.options),
        };
        inner.ask_for_ok(&request, with.user_data)?;
        inner.state = XtiState::Connecting;
        Ok(())
    }

    /// Connects, at most until `deadline` (t_connect).
    /// Errors are those of [`XtiEndpoint::start_connect`]; `Look` when the peer refused: see
    /// [`XtiEndpoint::receive_disconnect`]; `NoData` at the deadline, and the connection is still on its way.
    pub fn connect(&self, address: &[u8], deadline: Instant) -> Result<(), Error> {
        self.start_connect(address)?;
        loop {
            match self.receive_connect() {
                Err(Error {
                    tli: TliError::NoData,
                    ..
                }) => {}
                other => return other,
            }
            let left = time_left(deadline).ok_or(TliError::NoData)?;
            self.wait_below(true, Some(left))?;
        }
    }

    /// Ends a connect when the peer has answered (t_rcvconnect with O_NONBLOCK).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `NoData` while it has not, `Look` when it refused.
    pub fn receive_connect(&self) -> Result<(), Error> {
        self.receive_connect_call().map(|_| ())
    }

    /// The same, with who answered and what that user said. Errors are those of [`XtiEndpoint::receive_connect`].
    pub fn receive_connect_call(&self) -> Result<XtiCall, Error> {
        let mut inner = self.lock();
        inner.require(&[XtiState::Connecting])?;
        inner.look_below();
        match inner.primitive_in_front() {
            Some(Primitive::ConnectConfirm {
                responding,
                options,
            }) => {
                let user_data = inner.said_in_front();
                inner.take_primitive();
                inner.state = XtiState::DataTransfer;
                Ok(XtiCall {
                    address: responding,
                    sequence: 0,
                    user_data,
                    options: parse_options(&options).unwrap_or_default(),
                })
            }
            Some(_) => Err(TliError::Look.into()),
            None => Err(TliError::NoData.into()),
        }
    }

    /// The next connection that came, at most until `deadline` (t_listen).
    ///
    /// # Errors
    ///
    /// `BadQueueLength` for an end that accepts none, `QueueFull` when as many as allowed wait for
    /// an answer, `NoData` at the deadline, `Look` when a connection was withdrawn.
    pub fn listen(&self, deadline: Instant) -> Result<XtiCall, Error> {
        loop {
            if let Some(call) = self.lock().listen_once()? {
                return Ok(call);
            }
            let left = time_left(deadline).ok_or(TliError::NoData)?;
            self.wait_below(false, Some(left))?;
        }
    }

    /// Accepts a connection on another endpoint, which is bound if it was not (t_accept).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadSequence`, `BadEndpoint`, `ProviderMismatch`, `AcceptorListens` when the other
    /// end listens itself, `Look` when an event waits.
    pub fn accept(&self, on: &XtiEndpoint, sequence: u32) -> Result<(), Error> {
        self.accept_with(on, sequence, With::default())
    }

    /// The same with data for the peer's user, and with options: T_CURRENT of the accepting end shows what
    /// became of them.
    /// Errors are those of [`XtiEndpoint::accept`]; `BadData` for more than the provider carries, `BadOption` for
    /// more than it takes.
    pub fn accept_with(
        &self,
        on: &XtiEndpoint,
        sequence: u32,
        with: With<'_>,
    ) -> Result<(), Error> {
        if self.shared.provider != on.shared.provider {
            return Err(TliError::ProviderMismatch.into());
        }
        let mut listener = self.lock();
        listener.require(&[XtiState::Incoming])?;
        let mut acceptor = on.lock();
        acceptor.require(&[XtiState::Unbound, XtiState::Idle])?;
        if acceptor.queue_len > 0 {
            return Err(TliError::AcceptorListens.into());
        }
        Inner::check_said(listener.information.connect, with.user_data)?;
        let response = Primitive::ConnectResponse {
            acceptor: on.shared.token,
            options: write_options(with.options),
            sequence,
        };
        listener.ask_for_ok(&response, with.user_data)?;
        listener.answered();
        acceptor.look_below();
        acceptor.state = XtiState::DataTransfer;
        Ok(())
    }

    /// Accepts the only connection that waits on this endpoint, which no longer listens (t_accept of
    /// an endpoint on itself).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadSequence`, `IndicationsOut` when others wait.
    pub fn accept_here(&self, sequence: u32) -> Result<(), Error> {
        self.accept_here_with(sequence, With::default())
    }

    /// The same with data for the peer's user, and with options: T_CURRENT shows what became of them.
    /// Errors are those of [`XtiEndpoint::accept_here`]; `BadData` for more than the provider carries, `BadOption`
    /// for more than it takes.
    pub fn accept_here_with(&self, sequence: u32, with: With<'_>) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.require(&[XtiState::Incoming])?;
        if inner.outstanding > 1 {
            return Err(TliError::IndicationsOut.into());
        }
        let response = Primitive::ConnectResponse {
            acceptor: self.shared.token,
            options: write_options(with.options),
            sequence,
        };
        Inner::check_said(inner.information.connect, with.user_data)?;
        inner.ask_for_ok(&response, with.user_data)?;
        (inner.outstanding, inner.state) = (0, XtiState::DataTransfer);
        Ok(())
    }
}

impl Inner {
    fn listen_once(&mut self) -> Result<Option<XtiCall>, Error> {
        self.require(&[XtiState::Idle, XtiState::Incoming])?;
        if self.queue_len == 0 {
            return Err(TliError::BadQueueLength.into());
        }
        if self.outstanding >= self.queue_len {
            return Err(TliError::QueueFull.into());
        }
        if self.look().is_none() {
            self.look_below();
        }
        match self.primitive_in_front() {
            Some(Primitive::ConnectIndication { source, sequence }) => {
                let user_data = self.said_in_front();
                self.take_primitive();
                self.outstanding += 1;
                self.state = XtiState::Incoming;
                Ok(Some(XtiCall {
                    address: source,
                    sequence,
                    user_data,
                    options: Vec::new(),
                }))
            }
            Some(_) => Err(TliError::Look.into()),
            None => Ok(None),
        }
    }

    /// One of the connections that waited was accepted or refused.
    pub(super) fn answered(&mut self) {
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.state = XtiState::Idle;
        }
    }
}

pub(super) fn time_left(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}
