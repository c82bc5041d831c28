//! Orderly release, and disconnection.

use super::{Inner, Look, XtiEndpoint, XtiState};
use crate::error::{Error, TliError};
use crate::tpi::{Primitive, RELEASE_DATA, ServiceType};

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnection {
    /// The system's number.
    pub reason: i32,
    /// Number of the connection that was withdrawn before it was accepted.
    pub sequence: u32,
    /// What the peer's user said with it.
    pub user_data: Vec<u8>,
}

impl XtiEndpoint {
    /// Sends no more; what was sent arrives (t_sndrel).
    ///
    /// # Errors
    ///
    /// `NotSupported` by a provider without it, `OutOfState`, `Flow` while the queue is full, `Look` when
    /// the connection was lost.
    pub fn send_release(&self) -> Result<(), Error> {
        self.send_release_with_data(&[])
    }

    /// The same with data for the peer's user (t_sndreldata).
    /// Errors are those of [`XtiEndpoint::send_release`]; `BadData` for more than the provider carries.
    pub fn send_release_with_data(&self, user_data: &[u8]) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.require_release()?;
        let longest = match inner.information.flags & RELEASE_DATA {
            0 => 0,
            _ => inner.information.disconnect,
        };
        Inner::check_said(longest, user_data)?;
        inner.require(&[XtiState::DataTransfer, XtiState::PeerReleased])?;
        if inner.look() == Some(Look::Disconnect) {
            return Err(TliError::Look.into());
        }
        // It goes behind the data, and waits for room like them.
        inner.send_gathered();
        let control = inner
            .runtime
            .pool_mut()
            .copy(0, &Primitive::ReleaseRequest.octets());
        let stream = inner.stream;
        let said = (!user_data.is_empty()).then(|| inner.runtime.pool_mut().copy(0, user_data));
        let message = streams::Message::proto(control, said);
        if let Err((error, message)) = inner.runtime.put_blocks(stream, message) {
            message.release(inner.runtime.pool_mut());
            return Err(match error {
                streams::Error::WouldBlock => TliError::Flow.into(),
                error => error.into(),
            });
        }
        inner.run();
        self.shared.note_if_deferred(&inner);
        inner.state = match inner.state {
            XtiState::DataTransfer => XtiState::Released,
            _ => XtiState::Idle,
        };
        Ok(())
    }

    /// Takes the peer's release (t_rcvrel).
    ///
    /// # Errors
    ///
    /// `NotSupported` by a provider without it, `OutOfState`, `NoRelease` when it has not come, `Look` when
    /// the connection was lost.
    pub fn receive_release(&self) -> Result<(), Error> {
        self.receive_release_data().map(|_| ())
    }

    /// The same with what the peer's user said (t_rcvreldata). Errors are those of [`XtiEndpoint::receive_release`].
    pub fn receive_release_data(&self) -> Result<Vec<u8>, Error> {
        let mut inner = self.lock();
        inner.require_release()?;
        inner.require(&[XtiState::DataTransfer, XtiState::Released])?;
        let said = match inner.look() {
            Some(Look::Release) => inner.said_in_front(),
            Some(Look::Disconnect) => return Err(TliError::Look.into()),
            _ => return Err(TliError::NoRelease.into()),
        };
        inner.take_primitive();
        inner.state = match inner.state {
            XtiState::DataTransfer => XtiState::PeerReleased,
            _ => XtiState::Idle,
        };
        Ok(said)
    }

    /// Ends the connection at once, or refuses one that came (t_snddis).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadSequence`.
    pub fn send_disconnect(&self, sequence: Option<u32>) -> Result<(), Error> {
        self.send_disconnect_with_data(sequence, &[])
    }

    /// The same with data for the peer's user.
    /// Errors are those of [`XtiEndpoint::send_disconnect`]; `BadData` for more than the provider carries.
    pub fn send_disconnect_with_data(
        &self,
        sequence: Option<u32>,
        user_data: &[u8],
    ) -> Result<(), Error> {
        let mut inner = self.lock();
        Inner::check_said(inner.information.disconnect, user_data)?;
        match (inner.state, sequence) {
            (XtiState::Unbound | XtiState::Idle, _) => Err(TliError::OutOfState.into()),
            (XtiState::Incoming, Some(sequence)) => {
                inner.ask_for_ok(&Primitive::DisconnectRequest { sequence }, user_data)?;
                inner.answered();
                Ok(())
            }
            (XtiState::Incoming, None) => Err(TliError::BadSequence.into()),
            _ => {
                inner.take_primitive();
                inner.ask_for_ok(&Primitive::disconnect_request(), user_data)?;
                inner.forget_received();
                inner.state = XtiState::Idle;
                Ok(())
            }
        }
    }

    /// Takes the end of the connection (t_rcvdis).
    ///
    /// # Errors
    ///
    /// `NoDisconnect` when there is none.
    pub fn receive_disconnect(&self) -> Result<Disconnection, Error> {
        let mut inner = self.lock();
        let Some(Primitive::DisconnectIndication { reason, sequence }) = inner.primitive_in_front()
        else {
            return Err(TliError::NoDisconnect.into());
        };
        let user_data = inner.said_in_front();
        inner.take_primitive();
        if inner.state == XtiState::Incoming {
            inner.answered();
        } else {
            inner.state = XtiState::Idle;
        }
        Ok(Disconnection {
            reason: reason as i32,
            sequence,
            user_data,
        })
    }
}

impl Inner {
    fn require_release(&self) -> Result<(), Error> {
        match self.information.service {
            ServiceType::ConnectionsWithRelease => Ok(()),
            ServiceType::Connections | ServiceType::Datagrams => Err(TliError::NotSupported.into()),
        }
    }
}
