//! A connection as a stream of octets, for programs that know read and write: module `tirdwr` on it.

use super::connections::time_left;
use super::messages::piece_of;
use super::{Inner, XtiEndpoint, XtiState, is_run};
use crate::error::{Error, TliError};
use crate::modules::Tirdwr;
use crate::provider::EPROTO;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use streams::{Message, MessageKind, Want};

/// A connection that is read and written. Dropped, it ends the connection: by a release if the peer has
/// released, else at once.
pub struct XtiByteStream {
    end: XtiEndpoint,
    limit: Duration,
}

impl XtiEndpoint {
    /// Makes a connection one for read and write (I_PUSH of `tirdwr`); each call waits at most `limit`.
    ///
    /// # Errors
    ///
    /// The endpoint comes back with `OutOfState` without a connection, and with `System` and EPROTO when an event or
    /// expedited data wait, which reads could not tell. Data that wait are read: boundaries of messages are lost.
    pub fn into_byte_stream(self, limit: Duration) -> Result<XtiByteStream, (Error, XtiEndpoint)> {
        let pushed = self.lock().push_tirdwr();
        match pushed {
            Ok(()) => Ok(XtiByteStream { end: self, limit }),
            Err(error) => Err((error, self)),
        }
    }
}

impl Inner {
    fn push_tirdwr(&mut self) -> Result<(), Error> {
        self.require(&[XtiState::DataTransfer])?;
        self.send_gathered();
        self.take_runs(false);
        self.take_over()?;
        Ok(self
            .runtime
            .push(self.stream, Box::new(Tirdwr::default()))?)
    }

    /// What the user has not received, of messages that were taken from the head and of those that wait there, becomes
    /// data at the head. Nothing changes when something else waits.
    fn take_over(&mut self) -> Result<(), Error> {
        let mut waiting = Vec::new();
        while let Ok(message) = self.runtime.take_blocks(self.stream, Want::Any) {
            waiting.push(message);
        }
        // Something that was passed ends the loop, and stays in front of what could be read.
        let rest_is_data = self.runtime.first_kind(self.stream)?.is_none();
        let kept_is_data = [&self.rest, &self.ahead]
            .into_iter()
            .flatten()
            .all(is_ordinary);
        let is_data = rest_is_data && kept_is_data && waiting.iter().all(is_ordinary);
        if is_data {
            let kept = [self.rest.take(), self.ahead.take()];
            waiting.splice(0..0, kept.into_iter().flatten());
            for message in &mut waiting {
                self.strip(message);
            }
            waiting.splice(0..0, self.take_received());
            waiting.retain(|message| message.data_octets() > 0);
        }
        for message in waiting.into_iter().rev() {
            self.runtime.return_blocks(self.stream, message)?;
        }
        match is_data {
            true => Ok(()),
            false => Err(Error {
                tli: TliError::System,
                errno: EPROTO,
            }),
        }
    }

    /// Leaves the data of a message.
    fn strip(&mut self, message: &mut Message) {
        if let Some(control) = message.control.take() {
            self.runtime.pool_mut().release(control);
        }
        let data = std::mem::replace(message, Message::new(MessageKind::Data));
        *message = data.into_kind(MessageKind::Data);
    }

    fn pop_tirdwr(&mut self) -> Result<(), Error> {
        self.run();
        self.runtime.pop(self.stream)?;
        self.run();
        // What acknowledges the module's own disconnect, and what was not read.
        while let Ok(message) = self.runtime.take_blocks(self.stream, Want::Any) {
            message.release(self.runtime.pool_mut());
        }
        self.state = XtiState::Idle;
        Ok(())
    }

    /// Octets that wait at the head; None when none do.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.runtime.read(self.stream, buffer) {
            Ok(len) => Ok(Some(len)),
            Err(streams::Error::WouldBlock) => Ok(None),
            Err(error) => Err(Error::from(error).into()),
        }
    }
}

/// Whether a message is one of ordinary data, or several such.
fn is_ordinary(message: &Message) -> bool {
    is_run(message) || piece_of(message).is_some_and(|piece| !piece.expedited)
}

impl XtiByteStream {
    /// Ends the connection as a drop does, and gives the endpoint back, which is idle (I_POP).
    ///
    /// # Errors
    ///
    /// `System` when the stream has failed.
    pub fn into_endpoint(self) -> Result<XtiEndpoint, Error> {
        self.end.lock().pop_tirdwr()?;
        Ok(self.end)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    fn wait(&self, write: bool, deadline: Instant) -> io::Result<()> {
        let left = time_left(deadline).ok_or(io::ErrorKind::TimedOut)?;
        self.end.wait_below(write, Some(left))?;
        self.end.lock().look_below();
        Ok(())
    }
}

impl Read for XtiByteStream {
    /// 0: the peer has released, or the connection is lost.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = self.deadline();
        loop {
            let mut inner = self.end.lock();
            if let Some(len) = inner.read(buffer)? {
                return Ok(len);
            }
            inner.look_below();
            if let Some(len) = inner.read(buffer)? {
                return Ok(len);
            }
            drop(inner);
            self.wait(false, deadline)?;
        }
    }
}

impl Write for XtiByteStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let deadline = self.deadline();
        loop {
            let mut inner = self.end.lock();
            let stream = inner.stream;
            match inner.runtime.write(stream, octets) {
                Ok(len) => return Ok(len),
                Err(streams::Error::WouldBlock) => {}
                Err(error) => return Err(Error::from(error).into()),
            }
            inner.look_below();
            match inner.runtime.write(stream, octets) {
                Ok(len) => return Ok(len),
                Err(streams::Error::WouldBlock) => {}
                Err(error) => return Err(Error::from(error).into()),
            }
            drop(inner);
            self.wait(true, deadline)?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.end.flush(self.limit)?)
    }
}
