//! What the socket has to say: connections that come, that are made, that end.

use super::{Indication, Link, SocketProvider, remote_address};
use crate::provider::NO_SEQUENCE;
use crate::tpi::{Event, Primitive, State, write_options};
use socket2::Socket;
use std::io;
use std::sync::{Arc, PoisonError};
use streams::{Context, Extra, Message};

/// The reason of a disconnection when the kernel has no number for it: ECONNABORTED.
const ABORTED: i32 = 103;

impl SocketProvider {
    pub(super) fn look_at_socket(&mut self, context: &mut Context<'_>) {
        self.take_passed();
        match &self.link {
            Link::Listening { .. } => self.accept_waiting(context),
            Link::Connecting(..) => self.look_at_connect(context),
            Link::Connected(_) => self.receive_queued(context),
            Link::None | Link::Bound(_) => {}
        }
    }

    /// A connection that another stream accepted for this one.
    pub(super) fn take_passed(&mut self) {
        let mut passed = self
            .shared
            .passed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let connection = passed.take();
        drop(passed);
        if let Some((socket, mut options)) = connection
            && self.state.advance(Event::PassConnection)
        {
            // What one of them does not bear, T_CURRENT shows.
            let _ = self.options.apply(&socket);
            self.options.negotiate(&socket, &mut options);
            self.set_link(Link::Connected(Arc::new(socket)));
        }
    }

    /// Indicates connections that came, as many as may wait for the user.
    fn accept_waiting(&mut self, context: &mut Context<'_>) {
        while let Some(socket) = self.accept_next() {
            let sequence = self.next_sequence;
            // NO_SEQUENCE is never given.
            self.next_sequence = (sequence + 1) % NO_SEQUENCE;
            let source = remote_address(&socket);
            if let Link::Listening { waiting, .. } = &mut self.link {
                waiting.push_back(Indication { sequence, socket });
            }
            self.state.advance(Event::ConnectIndication);
            self.indicate(context, &Primitive::ConnectIndication { source, sequence });
        }
    }

    fn accept_next(&mut self) -> Option<Socket> {
        let Link::Listening {
            socket,
            limit,
            waiting,
        } = &self.link
        else {
            return None;
        };
        if waiting.len() >= *limit as usize {
            return None;
        }
        socket.set_nonblocking(true).ok()?;
        let accepted = loop {
            match socket.accept() {
                Ok((socket, _)) => break Some(socket),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => break None,
            }
        };
        let socket = accepted?;
        (self.setup)(&socket).ok()?;
        Some(socket)
    }

    fn look_at_connect(&mut self, context: &mut Context<'_>) {
        let Link::Connecting(socket, options) = &self.link else {
            return;
        };
        let (socket, options) = (Arc::clone(socket), write_options(options));
        match (socket.take_error(), socket.peer_addr()) {
            (Ok(None), Ok(_)) => {
                self.state.advance(Event::ConnectConfirm);
                let responding = remote_address(&socket);
                self.set_link(Link::Connected(socket));
                let confirm = Primitive::ConnectConfirm {
                    responding,
                    options,
                };
                self.indicate(context, &confirm);
            }
            (Ok(Some(error)) | Err(error), _) => self.disconnected(context, &error),
            // Still on its way.
            (Ok(None), Err(_)) => {}
        }
    }

    /// A thread that read the socket directly was informed that the connection is lost.
    pub(super) fn failed_outside(&mut self, context: &mut Context<'_>, message: &Message) {
        let errno = match message.extra.as_deref() {
            Some(&Extra::Errors { read, .. }) => read.unwrap_or(ABORTED),
            _ => ABORTED,
        };
        self.disconnected(context, &io::Error::from_raw_os_error(errno));
    }

    /// The connection is lost.
    pub(super) fn disconnected(&mut self, context: &mut Context<'_>, error: &io::Error) {
        let connected = matches!(self.link, Link::Connected(_));
        if !self.state.advance(Event::DisconnectIndication) {
            return;
        }
        self.set_link(Link::None);
        if connected {
            self.flush_stream(context);
        }
        let indication = Primitive::DisconnectIndication {
            reason: error.raw_os_error().unwrap_or(ABORTED) as u32,
            sequence: NO_SEQUENCE,
        };
        self.indicate(context, &indication);
    }

    /// The peer sends no more.
    pub(super) fn peer_released(&mut self, context: &mut Context<'_>) {
        if !self.state.advance(Event::ReleaseIndication) {
            return;
        }
        if self.state == State::Idle {
            self.set_link(Link::None);
        }
        self.indicate(context, &Primitive::ReleaseIndication);
    }
}
