//! Datagrams: a provider whose endpoint is the kernel's UDP socket.

use super::options::{OPTIONS_MAX, SocketOptions};
use super::{Setup, Shared, TIDU, arrival, decode, encode, local_address};
use crate::error::TliError;
use crate::provider::{self, EPROTO, flush_queues, indicate, parsed, refuse};
use crate::tpi::{
    Event, Information, Malformed, Primitive, ServiceType, State, datagram_destination, number,
};
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recvfrom, sendto};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use streams::{
    Block, Context, Error, Marks, Message, MessageKind, Module, ModuleInfo, QueueInfo, Side,
};

/// Octets of the longest datagram: 65,535 less the headers of IPv4 and UDP.
pub(crate) const DATAGRAM_MAX: i32 = 65_507;

/// The provider of datagrams: the driver of a stream.
pub(crate) struct UdpProvider {
    setup: Setup,
    marks: Marks,
    state: State,
    socket: Option<Arc<Socket>>,
    options: SocketOptions,
    shared: Arc<Shared>,
    /// A block to receive into.
    spare: Option<Block>,
}

impl UdpProvider {
    /// A provider whose write queue has `marks`; its socket gets `setup`.
    pub(crate) fn new(setup: Setup, marks: Marks) -> UdpProvider {
        UdpProvider {
            setup,
            marks,
            state: State::Unbound,
            socket: None,
            options: SocketOptions::udp(),
            shared: Arc::default(),
            spare: None,
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn set_socket(&mut self, socket: Option<Arc<Socket>>) {
        self.shared.set_socket(socket.clone());
        self.socket = socket;
    }

    /// Changes the state; false, and nothing changes, when the event is not allowed.
    fn on(&mut self, event: Event) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    fn information(&self) -> Information {
        Information {
            tsdu: DATAGRAM_MAX,
            etsdu: -2,
            connect: -2,
            disconnect: -2,
            address: 28,
            options: OPTIONS_MAX as i32,
            tidu: DATAGRAM_MAX,
            service: ServiceType::Datagrams,
            state: self.state as u32,
            flags: 0,
        }
    }

    /// A message with a control part from above. A datagram waits in the queue.
    fn primitive(&mut self, context: &mut Context<'_>, message: Message) {
        match parsed(&message) {
            Ok(Primitive::DatagramRequest { .. }) if self.state == State::Idle => {
                return context.put_queue(Side::Write, message);
            }
            Ok(primitive) => self.request(context, &primitive),
            Err(Malformed::Address(of)) => refuse(context, of, TliError::BadAddress, 0),
            Err(Malformed::Options(of)) => refuse(context, of, TliError::BadOption, 0),
            Err(Malformed::Fatal) => self.fail(context),
        }
        message.release(context.pool());
    }

    fn request(&mut self, context: &mut Context<'_>, primitive: &Primitive) {
        match primitive {
            Primitive::InfoRequest => indicate(context, &Primitive::InfoAck(self.information())),
            Primitive::AddressRequest => {
                let local = self.socket.as_deref().map(local_address);
                let ack = Primitive::AddressAck {
                    local: local.unwrap_or_default(),
                    remote: Vec::new(),
                };
                indicate(context, &ack);
            }
            Primitive::BindRequest { address, .. } => self.bind_request(context, address),
            Primitive::UnbindRequest => self.unbind_request(context),
            Primitive::OptionsRequest { options, flags } => {
                self.options_request(context, options, *flags);
            }
            Primitive::ConnectRequest { .. } => {
                refuse(context, number::CONN_REQ, TliError::NotSupported, 0);
            }
            _ => self.fail(context),
        }
    }

    fn bind_request(&mut self, context: &mut Context<'_>, address: &[u8]) {
        const OF: u32 = number::BIND_REQ;
        if !self.on(Event::BindRequest) {
            return refuse(context, OF, TliError::OutOfState, 0);
        }
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let wanted = match address {
            [] => Some(any),
            address => decode(address),
        };
        let bound = match wanted {
            Some(address) => self.bind(address),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        match bound {
            Ok(address) => {
                self.on(Event::BindAck);
                // No connections wait at an endpoint of datagrams.
                let indications = 0;
                indicate(
                    context,
                    &Primitive::BindAck {
                        address,
                        indications,
                    },
                );
            }
            Err(error) => {
                self.on(Event::ErrorAck);
                let (tli, errno) = super::requests::bind_error(&error);
                refuse(context, OF, tli, errno);
            }
        }
    }

    fn bind(&mut self, address: SocketAddr) -> io::Result<Vec<u8>> {
        let socket = self.plain_socket(address)?;
        self.options.apply(&socket)?;
        socket.bind(&SockAddr::from(address))?;
        let bound = local_address(&socket);
        self.set_socket(Some(Arc::new(socket)));
        Ok(bound)
    }

    /// A socket with the setup, and without the options of the user.
    fn plain_socket(&self, address: SocketAddr) -> io::Result<Socket> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        (self.setup)(&socket)?;
        Ok(socket)
    }

    /// In any state, and it changes none but for a moment in T_IDLE.
    fn options_request(&mut self, context: &mut Context<'_>, octets: &[u8], flags: u32) {
        let counted = self.on(Event::OptionsRequest);
        let plain = self.plain_socket(SocketAddr::from(([0, 0, 0, 0], 0)));
        let socket = self.socket.clone();
        let answer = self.options.answer(octets, flags, socket.as_deref(), plain);
        if counted {
            self.on(super::options::event(&answer));
        }
        indicate(context, &answer);
    }

    fn unbind_request(&mut self, context: &mut Context<'_>) {
        if !self.on(Event::UnbindRequest) {
            return refuse(context, number::UNBIND_REQ, TliError::OutOfState, 0);
        }
        self.set_socket(None);
        flush_queues(context);
        self.on(Event::OkAck);
        let of = number::UNBIND_REQ;
        indicate(context, &Primitive::OkAck { of });
    }

    /// The stream fails.
    fn fail(&mut self, context: &mut Context<'_>) {
        self.set_socket(None);
        self.state = State::Unbound;
        provider::fail_stream(context);
    }

    /// Service procedure of the write queue: a system call a datagram.
    fn send_queued(&mut self, context: &mut Context<'_>) {
        let Some(socket) = self.socket.clone() else {
            return;
        };
        while let Some(mut message) = context.get(Side::Write) {
            message.pull_up(0, context.pool());
            self.shared.sends.fetch_add(1, Ordering::Relaxed);
            match send(&socket, &message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shared.send_blocked.store(true, Ordering::Relaxed);
                    return context.put_back(Side::Write, message);
                }
                Err(error) => self.tell_error(context, &message, &error),
                Ok(()) => {}
            }
            message.release(context.pool());
        }
        self.shared.send_blocked.store(false, Ordering::Relaxed);
    }

    /// A datagram did not leave (T_UDERROR_IND).
    fn tell_error(&mut self, context: &mut Context<'_>, message: &Message, error: &io::Error) {
        let control = message.control.as_ref().map_or(&[][..], Block::octets);
        if context.can_put_next(Side::Read, 0) {
            let indication = Primitive::DatagramError {
                destination: datagram_destination(control).unwrap_or_default().to_vec(),
                errno: error.raw_os_error().unwrap_or(EPROTO) as u32,
            };
            indicate(context, &indication);
        }
    }

    /// Receives what is there while the head has room.
    fn receive_queued(&mut self, context: &mut Context<'_>) {
        let Some(socket) = self.socket.clone() else {
            return;
        };
        if self.shared.received_outside.load(Ordering::Relaxed) {
            return;
        }
        while context.can_put_next(Side::Read, 0) && self.receive_once(context, &socket) {}
    }

    fn receive_once(&mut self, context: &mut Context<'_>, socket: &Socket) -> bool {
        let spare = self.spare.take();
        let mut block = spare.unwrap_or_else(|| context.pool().allocate(0, TIDU));
        self.shared.receives.fetch_add(1, Ordering::Relaxed);
        let mut source = None;
        let received = block.fill(|room| {
            let (len, _, from) = recvfrom(socket, room, RecvFlags::DONTWAIT)?;
            source = from;
            Ok(len)
        });
        if received.is_err() {
            self.spare = Some(block);
            return false;
        }
        let (mut message, spare) = arrival(context.pool(), block);
        self.spare = spare;
        let source = source.and_then(internet_address).map(encode);
        let indication = Primitive::DatagramIndication {
            source: source.unwrap_or_default(),
        };
        message.control = Some(context.copy(&indication.octets()));
        context.put_next(Side::Read, message.into_kind(MessageKind::Proto));
        true
    }
}

fn internet_address(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok()
}

fn send(socket: &Socket, message: &Message) -> io::Result<()> {
    let control = message.control.as_ref().map_or(&[][..], Block::octets);
    let destination = datagram_destination(control).and_then(decode);
    let destination = destination.ok_or(io::ErrorKind::InvalidInput)?;
    let octets = message.data.first().map_or(&[][..], Block::octets);
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendto(socket, octets, flags, &destination)?;
    Ok(())
}

impl Module for UdpProvider {
    fn info(&self) -> ModuleInfo {
        let queue = QueueInfo {
            marks: self.marks,
            packet: (0, DATAGRAM_MAX as usize),
            service: true,
        };
        ModuleInfo {
            name: "inet-udp",
            read: queue,
            write: queue,
        }
    }

    fn open(&mut self, _: &mut Context<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self, context: &mut Context<'_>) {
        self.send_queued(context);
        self.set_socket(None);
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (Side::Write, MessageKind::Proto | MessageKind::HighProto) => {
                self.primitive(context, message);
            }
            (Side::Write, MessageKind::Data) => {
                message.release(context.pool());
                self.fail(context);
            }
            _ => provider::put_other(context, side, message),
        }
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        match side {
            Side::Write => self.send_queued(context),
            Side::Read => self.receive_queued(context),
        }
    }

    fn ready(&mut self, context: &mut Context<'_>) {
        self.receive_queued(context);
        if !context.is_empty(Side::Write) {
            context.enable(Side::Write);
        }
    }
}
