//! Primitives of the user.

use super::options::of_connection;
use super::{INDICATIONS_MAX, Link, SocketAddress, SocketProvider, local_address, remote_address};
use crate::error::TliError;
use crate::provider::parsed;
use crate::tpi::{Event, Malformed, Primitive, State, TransportOption, number};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};
use streams::{Context, Message, Side};

/// Connections that the kernel keeps before they are indicated.
pub(crate) const BACKLOG: i32 = 1024;

impl SocketProvider {
    /// A message with a control part from above.
    pub(super) fn primitive(&mut self, context: &mut Context<'_>, message: Message) {
        match parsed(&message) {
            Ok(Primitive::DataRequest { .. }) => return self.data_request(context, message),
            Ok(Primitive::ExpeditedRequest { .. }) if self.has_expedited => {
                return self.data_request(context, message);
            }
            Ok(Primitive::ReleaseRequest) => return self.release_request(context, message),
            Ok(primitive) => self.request(context, primitive),
            Err(Malformed::Address(of)) => self.refuse(context, of, TliError::BadAddress, 0),
            Err(Malformed::Options(of)) => self.refuse(context, of, TliError::BadOption, 0),
            Err(Malformed::Fatal) => self.fail(context),
        }
        message.release(context.pool());
    }

    fn request(&mut self, context: &mut Context<'_>, primitive: Primitive) {
        match primitive {
            Primitive::InfoRequest => {
                self.indicate(context, &Primitive::InfoAck(self.information()));
            }
            Primitive::AddressRequest => self.addresses(context),
            Primitive::BindRequest {
                address,
                indications,
            } => self.bind_request(context, &address, indications),
            Primitive::UnbindRequest => self.unbind_request(context),
            Primitive::OptionsRequest { options, flags } => {
                self.options_request(context, &options, flags);
            }
            Primitive::ConnectRequest {
                destination,
                options,
            } => self.connect_request(context, &destination, &options),
            Primitive::ConnectResponse {
                acceptor,
                options,
                sequence,
            } => self.connect_response(context, acceptor, &options, sequence),
            Primitive::DisconnectRequest { sequence } => self.disconnect_request(context, sequence),
            // What only a provider sends.
            _ => self.fail(context),
        }
    }

    fn addresses(&mut self, context: &mut Context<'_>) {
        let socket = self.link.socket();
        let connected = matches!(self.link, Link::Connected(_));
        let primitive = Primitive::AddressAck {
            local: socket
                .map(|socket| local_address(socket))
                .unwrap_or_default(),
            remote: match (socket, connected) {
                (Some(socket), true) => remote_address(socket),
                _ => Vec::new(),
            },
        };
        self.indicate(context, &primitive);
    }

    fn bind_request(&mut self, context: &mut Context<'_>, address: &[u8], indications: u32) {
        if !self.state.advance(Event::BindRequest) {
            return self.refuse(context, number::BIND_REQ, TliError::OutOfState, 0);
        }
        let wanted = self.decode(address);
        if wanted.is_none() && !address.is_empty() {
            self.state.advance(Event::ErrorAck);
            return self.refuse(context, number::BIND_REQ, TliError::BadAddress, 0);
        }
        match self.bind(wanted, indications.min(INDICATIONS_MAX)) {
            Ok(address) => {
                self.state.advance(Event::BindAck);
                let ack = Primitive::BindAck {
                    address,
                    indications: indications.min(INDICATIONS_MAX),
                };
                self.indicate(context, &ack);
            }
            Err(error) => {
                self.state.advance(Event::ErrorAck);
                let (tli, errno) = bind_error(&error);
                self.refuse(context, number::BIND_REQ, tli, errno);
            }
        }
    }

    /// Binds a socket. One that only connects, to an address that it does not care for, gets its
    /// socket when the family is known.
    fn bind(&mut self, wanted: Option<SocketAddress>, limit: u32) -> io::Result<Vec<u8>> {
        if wanted.is_none() && limit == 0 {
            return Ok(self.any.encode());
        }
        let address = wanted.unwrap_or(self.any);
        let socket = Arc::new(self.new_socket(&address)?);
        socket.bind(&address.for_kernel()?)?;
        let bound = local_address(&socket);
        let link = if limit == 0 {
            Link::Bound(socket)
        } else {
            socket.listen(BACKLOG)?;
            Link::Listening {
                socket,
                limit,
                waiting: VecDeque::new(),
            }
        };
        self.set_link(link);
        Ok(bound)
    }

    /// A socket that blocks only where a call says so.
    fn new_socket(&self, address: &SocketAddress) -> io::Result<Socket> {
        let socket = self.plain_socket(address)?;
        self.options.apply(&socket)?;
        Ok(socket)
    }

    /// In any state, and it changes none but for a moment in T_IDLE.
    fn options_request(&mut self, context: &mut Context<'_>, octets: &[u8], flags: u32) {
        self.take_passed();
        let counted = self.state.advance(Event::OptionsRequest);
        let plain = self.plain_socket(&self.any);
        let socket = self.link.socket().cloned();
        let answer = self.options.answer(octets, flags, socket.as_deref(), plain);
        if counted {
            self.state.advance(super::options::event(&answer));
        }
        self.indicate(context, &answer);
    }

    /// A socket with the setup, and without the options of the user.
    fn plain_socket(&self, address: &SocketAddress) -> io::Result<Socket> {
        let socket = match address {
            SocketAddress::Internet(address) => Socket::new(
                Domain::for_address(*address),
                Type::STREAM,
                Some(Protocol::TCP),
            ),
            SocketAddress::Unix(_) => Socket::new(Domain::UNIX, Type::STREAM, None),
        }?;
        (self.setup)(&socket)?;
        Ok(socket)
    }

    fn unbind_request(&mut self, context: &mut Context<'_>) {
        if !self.state.advance(Event::UnbindRequest) {
            return self.refuse(context, number::UNBIND_REQ, TliError::OutOfState, 0);
        }
        self.set_link(Link::None);
        self.flush_stream(context);
        self.state.advance(Event::OkAck);
        self.acknowledge(context, number::UNBIND_REQ);
    }

    fn acknowledge(&self, context: &mut Context<'_>, of: u32) {
        self.indicate(context, &Primitive::OkAck { of });
    }

    fn connect_request(&mut self, context: &mut Context<'_>, destination: &[u8], options: &[u8]) {
        if !self.state.advance(Event::ConnectRequest) {
            return self.refuse(context, number::CONN_REQ, TliError::OutOfState, 0);
        }
        let Some(options) = of_connection(options) else {
            self.state.advance(Event::ErrorAck);
            return self.refuse(context, number::CONN_REQ, TliError::BadOption, 0);
        };
        let started = match self.decode(destination) {
            Some(address) => self.start_connect(address, options),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        match started {
            Ok(()) => {
                self.state.advance(Event::OkAck);
                self.acknowledge(context, number::CONN_REQ);
            }
            // A socket of this host is refused at once, one of TCP later.
            Err(error) if is_refused(&error) => {
                self.state.advance(Event::OkAck);
                self.acknowledge(context, number::CONN_REQ);
                self.disconnected(context, &error);
            }
            Err(error) => {
                self.state.advance(Event::ErrorAck);
                let (tli, errno) = bind_error(&error);
                self.refuse(context, number::CONN_REQ, tli, errno);
            }
        }
    }

    fn start_connect(
        &mut self,
        address: SocketAddress,
        mut options: Vec<TransportOption>,
    ) -> io::Result<()> {
        const EINPROGRESS: i32 = 115;
        let socket = match &self.link {
            Link::Bound(socket) => Arc::clone(socket),
            Link::Listening { .. } => return Err(io::ErrorKind::InvalidInput.into()),
            _ => Arc::new(self.new_socket(&address)?),
        };
        self.options.negotiate(&socket, &mut options);
        socket.set_nonblocking(true)?;
        let started = socket.connect(&address.for_kernel()?);
        socket.set_nonblocking(false)?;
        match started {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => Err(error),
            _ => {
                self.set_link(Link::Connecting(socket, options));
                Ok(())
            }
        }
    }

    fn connect_response(
        &mut self,
        context: &mut Context<'_>,
        acceptor: u32,
        options: &[u8],
        sequence: u32,
    ) {
        const OF: u32 = number::CONN_RES;
        if !self.state.advance(Event::ConnectResponse) {
            return self.refuse(context, OF, TliError::OutOfState, 0);
        }
        let here = acceptor == self.token;
        let target = acceptors_shared(acceptor);
        let (error, waiting) = match (&self.link, &target) {
            (Link::Listening { waiting, .. }, Some(_)) => {
                let known = waiting
                    .iter()
                    .any(|indication| indication.sequence == sequence);
                let error = match (known, here && waiting.len() > 1) {
                    (false, _) => Some(TliError::BadSequence),
                    (true, true) => Some(TliError::IndicationsOut),
                    (true, false) => None,
                };
                (error, waiting.len())
            }
            _ => (Some(TliError::BadEndpoint), 0),
        };
        let mut options = of_connection(options);
        let no_options = options.is_none().then_some(TliError::BadOption);
        if let Some(error) = error.or(no_options) {
            self.state.advance(Event::ErrorAck);
            return self.refuse(context, OF, error, 0);
        }
        let Some(socket) = self.take_indication(sequence) else {
            return;
        };
        self.state.advance(match (here, waiting) {
            (true, _) => Event::OkAckAcceptedHere,
            (false, 1) => Event::OkAckLast,
            (false, _) => Event::OkAckOne,
        });
        let mut options = options.take().unwrap_or_default();
        if here {
            self.options.negotiate(&socket, &mut options);
            self.set_link(Link::Connected(Arc::new(socket)));
        } else if let Some(target) = target {
            let mut passed = target.passed.lock().unwrap_or_else(PoisonError::into_inner);
            *passed = Some((socket, options));
        }
        self.acknowledge(context, OF);
    }

    pub(super) fn take_indication(&mut self, sequence: u32) -> Option<Socket> {
        let Link::Listening { waiting, .. } = &mut self.link else {
            return None;
        };
        let at = waiting
            .iter()
            .position(|indication| indication.sequence == sequence)?;
        waiting.remove(at).map(|indication| indication.socket)
    }

    fn disconnect_request(&mut self, context: &mut Context<'_>, sequence: u32) {
        const OF: u32 = number::DISCON_REQ;
        let before = self.state;
        if !self.state.advance(Event::DisconnectRequest) {
            return self.refuse(context, OF, TliError::OutOfState, 0);
        }
        if before == State::WaitResponse {
            let event = match self.waiting() {
                1 => Event::OkAckLast,
                _ => Event::OkAckOne,
            };
            if self.take_indication(sequence).is_none() {
                self.state.advance(Event::ErrorAck);
                return self.refuse(context, OF, TliError::BadSequence, 0);
            }
            self.state.advance(event);
            return self.acknowledge(context, OF);
        }
        if let Some(socket) = self.link.socket() {
            // An abort, not a release: the peer sees a reset.
            let _ = socket.set_linger(Some(std::time::Duration::ZERO));
        }
        self.set_link(Link::None);
        self.flush_stream(context);
        self.state.advance(Event::OkAck);
        self.acknowledge(context, OF);
    }

    pub(super) fn waiting(&self) -> usize {
        match &self.link {
            Link::Listening { waiting, .. } => waiting.len(),
            _ => 0,
        }
    }

    fn release_request(&mut self, context: &mut Context<'_>, message: Message) {
        if matches!(self.state, State::DataTransfer | State::WaitReleaseRequest) {
            // In order, behind the data.
            context.put_queue(Side::Write, message);
        } else {
            message.release(context.pool());
            self.fail(context);
        }
    }
}

/// Nobody listens at an address, or it is none of anybody.
fn is_refused(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound];
    kinds.contains(&error.kind())
}

fn acceptors_shared(token: u32) -> Option<Arc<super::Shared>> {
    let acceptors = super::ACCEPTORS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    acceptors.get(&token).cloned()
}

pub(crate) fn bind_error(error: &io::Error) -> (TliError, i32) {
    match error.kind() {
        io::ErrorKind::AddrInUse => (TliError::AddressBusy, 0),
        io::ErrorKind::AddrNotAvailable => (TliError::NoAddress, 0),
        io::ErrorKind::PermissionDenied => (TliError::Access, 0),
        io::ErrorKind::InvalidInput => (TliError::BadAddress, 0),
        _ => (TliError::System, error.raw_os_error().unwrap_or(5)),
    }
}
