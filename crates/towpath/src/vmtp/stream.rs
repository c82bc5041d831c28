//! Streams: calls of one client that are in flight together, served and answered in order.

use super::{Call, CallFlags, CallNote, Client, EntityId, Message, Note, Reply};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Calls in flight, at most: as many as the engine takes.
const IN_FLIGHT_MAX: usize = 64;

/// A stream of calls to one server. Calls that are not the last of their run are sent as such, so a
/// stream ends with [`finish`](Stream::finish); one that is dropped before leaves its run open.
pub struct Stream<'a> {
    client: &'a Client<'a>,
    server: EntityId,
    number: u16,
    calls: VecDeque<Call>,
}

impl<'a> Client<'a> {
    /// A stream to `server`.
    pub fn stream(&'a self, server: EntityId) -> Stream<'a> {
        // 0 is no stream.
        let number = self.endpoint.streams.fetch_add(1, Ordering::Relaxed);
        Stream {
            client: self,
            server,
            number: (number % 0xffff) as u16 + 1,
            calls: VecDeque::new(),
        }
    }
}

impl Stream<'_> {
    /// Begins the next call.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when 64 are in flight: take the oldest reply first.
    pub fn begin(&mut self, request: impl Into<Message>) -> io::Result<()> {
        self.submit(request.into(), CallFlags::NONE)
    }

    /// Begins the last call of the run. Errors are those of [`begin`](Stream::begin).
    pub fn finish(&mut self, request: impl Into<Message>) -> io::Result<()> {
        self.submit(request.into(), CallFlags::END_OF_STREAM)?;
        self.client.flush();
        Ok(())
    }

    fn submit(&mut self, request: Message, flags: CallFlags) -> io::Result<()> {
        if self.calls.len() >= IN_FLIGHT_MAX {
            let text = "64 calls of the stream are in flight; take a reply first";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        let note = Note {
            stream: self.number,
            call: CallNote {
                flags,
                ..CallNote::default()
            },
            ..Note::default()
        };
        let call = self.client.begin(self.server, request, &note);
        self.calls.push_back(call);
        Ok(())
    }

    /// The reply to the oldest call, waiting for it up to `limit`; None when none is in flight.
    /// Errors are those of [`Client::call`].
    pub fn next_reply(&mut self, limit: Duration) -> Option<io::Result<Reply>> {
        let call = self.calls.pop_front()?;
        match self.client.take(&call, limit) {
            Some(outcome) => Some(outcome),
            None => {
                self.calls.push_front(call);
                Some(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// Calls in flight.
    pub fn in_flight(&self) -> usize {
        self.calls.len()
    }
}
