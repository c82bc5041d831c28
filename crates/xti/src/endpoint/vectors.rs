//! sndv, rcvv, sndvudata, rcvvudata: from and into several buffers.

use super::{Flags, XtiEndpoint, XtiReceived};
use crate::error::{Error, TliError};
use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

/// Buffers of one call at most (T_IOV_MAX).
pub const BUFFERS_MAX: usize = 16;

impl XtiEndpoint {
    /// Sends what lies in several buffers as one (t_sndv), for a copy more than [`XtiEndpoint::send`].
    /// Errors are those of [`XtiEndpoint::send`]; `BadData` for more than [`BUFFERS_MAX`] buffers.
    pub fn send_vectored(
        &self,
        buffers: &[IoSlice<'_>],
        flags: Flags,
        limit: Duration,
    ) -> Result<usize, Error> {
        self.send(&gather(buffers)?, flags, limit)
    }

    /// Sends what lies in several buffers as one datagram (t_sndvudata).
    /// Errors are those of [`XtiEndpoint::send_datagram`]; `BadData` for more than [`BUFFERS_MAX`] buffers.
    pub fn send_datagram_vectored(
        &self,
        destination: &[u8],
        buffers: &[IoSlice<'_>],
        limit: Duration,
    ) -> Result<(), Error> {
        self.send_datagram(destination, &gather(buffers)?, limit)
    }

    /// Receives into several buffers, one after the other (t_rcvv): waits for the first octets, and takes
    /// what further ones are there.
    /// Errors are those of [`XtiEndpoint::receive`]; `BadData` for more than [`BUFFERS_MAX`] buffers.
    pub fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> Result<XtiReceived, Error> {
        let mut received = XtiReceived {
            len: 0,
            more: false,
            expedited: false,
        };
        for buffer in with_room(buffers)? {
            let part = match received.len {
                0 => self.receive(buffer)?,
                // What ends the data is for the next call.
                _ => match self.try_receive(buffer) {
                    Ok(part) => part,
                    Err(_) => break,
                },
            };
            received.len += part.len;
            (received.more, received.expedited) = (part.more, part.expedited);
            if part.len < buffer.len() {
                break;
            }
        }
        Ok(received)
    }

    /// Receives a datagram into several buffers, one after the other (t_rcvvudata). Its source is put into
    /// `source`, which is empty for a rest. No other thread may receive on the endpoint meanwhile: it might
    /// take a part of the datagram.
    /// Errors are those of [`XtiEndpoint::receive_datagram`]; `BadData` for no room, or for more than [`BUFFERS_MAX`]
    /// buffers.
    pub fn receive_datagram_vectored(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        source: &mut Vec<u8>,
        limit: Duration,
    ) -> Result<XtiReceived, Error> {
        let mut buffers = with_room(buffers)?;
        let first = buffers.next().ok_or(TliError::BadData)?;
        let mut received = self.receive_datagram(first, source, limit)?;
        while received.more {
            let Some(buffer) = buffers.next() else { break };
            let rest = self.try_receive_datagram(buffer, &mut Vec::new())?;
            received.len += rest.len;
            received.more = rest.more;
        }
        Ok(received)
    }
}

fn gather(buffers: &[IoSlice<'_>]) -> Result<Vec<u8>, Error> {
    match buffers.len() <= BUFFERS_MAX {
        true => Ok(buffers
            .iter()
            .flat_map(|buffer| buffer.iter())
            .copied()
            .collect()),
        false => Err(TliError::BadData.into()),
    }
}

/// The buffers that hold something.
fn with_room<'a, 'b>(
    buffers: &'a mut [IoSliceMut<'b>],
) -> Result<impl Iterator<Item = &'a mut IoSliceMut<'b>>, Error> {
    match buffers.len() <= BUFFERS_MAX {
        true => Ok(buffers.iter_mut().filter(|buffer| !buffer.is_empty())),
        false => Err(TliError::BadData.into()),
    }
}
