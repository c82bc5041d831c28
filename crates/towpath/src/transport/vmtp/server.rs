//! The end of a circuit that is called.

use super::end::{End, NOT_ANSWERED, no_way_back, would_block};
use crate::connection_info;
use crate::contract::{Circuit, ConnectionInfo, Interest, NoConnectionInfo, Note, Part};
use crate::parts::{self, MessageRest, first_part, hand_out};
use driver::transactions::{Message, Request};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use wire::Wire;

/// An entity that is called: a receive takes a request, a send answers it.
pub(super) struct ServerCircuit<W: Wire + Send + 'static> {
    end: End<W>,
    /// The request that was received and is not answered.
    open: Option<Request>,
    /// Memory of a request that was received, for the next reply.
    spare: Vec<u8>,
    rest: MessageRest,
}

impl<W: Wire + Send + 'static> ServerCircuit<W> {
    pub(super) fn new(end: End<W>) -> Self {
        ServerCircuit {
            end,
            open: None,
            spare: Vec::new(),
            rest: MessageRest::default(),
        }
    }

    /// Answers the open request with nothing.
    fn release_open(&mut self) {
        // Nobody awaits a reply to a datagram.
        let open = self.open.take();
        if let Some(request) = open.filter(|_| !self.end.is_one_way) {
            let note = Note {
                tag: Some(u64::from(NOT_ANSWERED)),
                ..Note::default()
            };
            self.end.endpoint.reply_noted(request, &[][..], &note);
        }
    }

    fn take(&mut self, request: Option<Request>) -> io::Result<Vec<u8>> {
        let mut request = request.ok_or_else(would_block)?;
        let octets = std::mem::take(&mut request.octets);
        self.open = Some(request);
        Ok(octets)
    }

    /// Copies a request into the user's buffer.
    fn hand_out(&mut self, request: Vec<u8>, buffer: &mut [u8]) -> usize {
        let len = hand_out(&request, buffer);
        self.end.keep_spare(&mut self.spare, request);
        len
    }

    fn try_take(&mut self) -> io::Result<Vec<u8>> {
        self.release_open();
        let mut request = self.end.endpoint.try_receive();
        if request.is_none() {
            self.end.endpoint.poll_once();
            request = self.end.endpoint.try_receive();
        }
        self.take(request)
    }

    fn await_request(&mut self) -> io::Result<Vec<u8>> {
        self.release_open();
        let request = self.end.endpoint.receive(self.end.recv_timeout).ok();
        self.take(request)
    }

    fn answer(&mut self, message: Message) -> io::Result<()> {
        self.end.check_len(message.len())?;
        if self.end.is_one_way {
            return Err(no_way_back());
        }
        let request = self.open.take().ok_or_else(|| {
            let text = "no request is open; a server of vmtp sends only in answer to one";
            io::Error::new(io::ErrorKind::NotConnected, text)
        })?;
        let endpoint = &self.end.endpoint;
        endpoint.reply_noted(request, message, &Note::default());
        Ok(())
    }
}

impl<W: Wire + Send + 'static> Circuit for ServerCircuit<W> {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send(message)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let request = self.try_take()?;
        Ok(Some(self.hand_out(request, buffer)))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let message = self.end.message(&mut self.spare, message);
        self.answer(message)
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, _count: usize) -> io::Result<usize> {
        self.answer(Arc::clone(message).into()).map(|()| 1)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let request = self.await_request()?;
        Ok(Some(self.hand_out(request, buffer)))
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let request = self.await_request()?;
        Ok(Some(first_part(&request, buffer, &mut self.rest)))
    }

    parts::lends_nothing! {}

    fn flush(&mut self) -> io::Result<()> {
        self.end.endpoint.flush_replies();
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end.endpoint.flush();
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let rest = deadline.saturating_duration_since(Instant::now());
        if interest == Interest::Read {
            self.release_open();
            self.end.endpoint.wait_request(rest);
        }
        self.flush()
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::TRANSACTIONS)
    }

    engine::forward! { self.end;
        fn effective(&self) -> BTreeMap<String, String>;
        fn counts(&self) -> BTreeMap<String, u64>;
    }

    crate::usual_circuit! { send_run recv_run descriptor next_deadline }
}

impl<W: Wire + Send + 'static> Drop for ServerCircuit<W> {
    fn drop(&mut self) {
        self.release_open();
        self.end.endpoint.flush();
    }
}
