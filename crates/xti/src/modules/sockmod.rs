//! `sockmod`: what a socket library asks of a stream (I_STR), above a provider of TPI. The state of the socket lies here, and
//! data travel without control parts, so that the library reads and writes.
//!
//! Connects, accepts and binds without a backlog are primitives of the library (T_CONN_REQ, T_CONN_RES, T_BIND_REQ), which
//! pass, and are noted.

use crate::provider::parsed;
use crate::tpi::{Information, Primitive, ServiceType, number, parse};
use streams::{Context, Extra, FlushRequest, Message, MessageKind, Module, ModuleInfo, Side};

/// Commands of the module (SI_*), with what is their data.
pub mod command {
    const I: u32 = (b'I' as u32) << 8;
    /// What the provider can and the socket is: eleven words, [`SocketData`](super::SocketData).
    pub const GETUDATA: u32 = I | 101;
    /// A word: 0 no more is received, 1 sent, 2 both.
    pub const SHUTDOWN: u32 = I | 102;
    /// T_BIND_REQ with as many connections as may wait; the answer is T_BIND_ACK.
    pub const LISTEN: u32 = I | 103;
    /// The own address.
    pub const SETMYNAME: u32 = I | 104;
    /// The peer's address: the stream has a connection, which another one accepted for it.
    pub const SETPEERNAME: u32 = I | 105;
    /// The value is how many octets went down that the provider has not acknowledged; here they are its own from the
    /// put on, and it is 0.
    pub const GETINTRANSIT: u32 = I | 106;
    /// The address of the only peer of a datagram socket: what is written goes there, and others are not heard.
    pub const TCL_LINK: u32 = I | 107;
    /// There is no such peer any more.
    pub const TCL_UNLINK: u32 = I | 108;
    /// Three words: domain, type and protocol of the socket.
    pub const SOCKPARAMS: u32 = I | 109;
}

/// States of a socket, bits of `so_state`.
pub mod so_state {
    /// It has a connection.
    pub const CONNECTED: u32 = 0x2;
    /// It waits for the answer to a connect.
    pub const CONNECTING: u32 = 0x4;
    /// No more is sent.
    pub const CANNOT_SEND: u32 = 0x10;
    /// No more is received.
    pub const CANNOT_RECEIVE: u32 = 0x20;
    /// It has an address.
    pub const BOUND: u32 = 0x400;
}

/// SOCK_STREAM and SOCK_DGRAM, types of sockets.
const STREAM: u32 = 1;
const DATAGRAM: u32 = 2;

/// Octets of the longest name.
const NAME_MAX: usize = 128;

const EPIPE: i32 = 32;
const EINVAL: i32 = 22;
const EPROTOTYPE: i32 = 91;
const ECONNRESET: i32 = 104;
const ENOTCONN: i32 = 107;
const EALREADY: i32 = 114;

/// The answer to [`command::GETUDATA`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketData {
    /// What the provider can.
    pub information: Information,
    /// Bits of [`so_state`].
    pub state: u32,
    /// Domain, type and protocol.
    pub params: [u32; 3],
}

impl SocketData {
    /// As eleven words: lengths of a TIDU, addresses, options and an ETSDU, the service, state and options of the
    /// socket, the length of a TSDU, and the parameters.
    fn octets(&self) -> Vec<u8> {
        let information = &self.information;
        let words = [
            information.tidu as u32,
            information.address as u32,
            information.options as u32,
            information.etsdu as u32,
            information.service as u32,
            self.state,
            0,
            information.tsdu as u32,
            self.params[0],
            self.params[1],
            self.params[2],
        ];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// State and parameters in an answer to [`command::GETUDATA`].
pub fn state_and_params(octets: &[u8]) -> Option<(u32, [u32; 3])> {
    let word = |at: usize| {
        let octets = octets.get(4 * at..4 * at + 4)?;
        Some(u32::from_ne_bytes(octets.try_into().ok()?))
    };
    Some((word(5)?, [word(8)?, word(9)?, word(10)?]))
}

/// The module.
#[derive(Debug)]
pub struct Sockmod {
    data: SocketData,
    names: [Vec<u8>; 2],
    /// The only peer of a datagram socket.
    linked: Option<Vec<u8>>,
    /// The request whose acknowledgement is on its way.
    waiting: Option<Message>,
}

impl Sockmod {
    /// A module above a provider that can this (T_INFO_ACK).
    pub fn new(information: Information) -> Sockmod {
        Sockmod {
            data: SocketData {
                information,
                state: 0,
                params: [0; 3],
            },
            names: [Vec::new(), Vec::new()],
            linked: None,
            waiting: None,
        }
    }

    fn has(&self, state: u32) -> bool {
        self.data.state & state != 0
    }

    fn request(&mut self, context: &mut Context<'_>, message: Message) {
        let Some(&Extra::Ioctl(request)) = message.extra.as_deref() else {
            return message.release(context.pool());
        };
        let mut octets = vec![0; message.data_octets()];
        message.copy_data(0, &mut octets);
        let answered = match request.command {
            command::GETUDATA => Ok(self.data.octets()),
            command::SHUTDOWN => self.shut_down(context, &octets),
            command::LISTEN => return self.listen(context, message, &octets),
            command::SETMYNAME => self.set_name(0, octets, so_state::BOUND),
            command::SETPEERNAME => self.set_name(1, octets, so_state::CONNECTED),
            command::GETINTRANSIT => Ok(Vec::new()),
            command::TCL_LINK => self.link(Some(octets)),
            command::TCL_UNLINK => self.link(None),
            command::SOCKPARAMS => self.set_params(&octets),
            // Another module, or the driver, knows it or refuses it.
            _ => return context.put_next(Side::Write, message),
        };
        match answered {
            Ok(octets) => answer(context, message, MessageKind::IoctlAck, 0, &octets),
            Err(errno) => answer(context, message, MessageKind::IoctlNak, errno, &[]),
        }
    }

    fn set_params(&mut self, octets: &[u8]) -> Result<Vec<u8>, i32> {
        let words: [u8; 12] = octets.try_into().map_err(|_| EINVAL)?;
        let params = [0, 4, 8].map(|at: usize| {
            u32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
        });
        let is_datagrams = self.data.information.service == ServiceType::Datagrams;
        match params[1] {
            STREAM if !is_datagrams => {}
            DATAGRAM if is_datagrams => {}
            _ => return Err(EPROTOTYPE),
        }
        self.data.params = params;
        Ok(Vec::new())
    }

    fn set_name(&mut self, of: usize, name: Vec<u8>, state: u32) -> Result<Vec<u8>, i32> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(EINVAL);
        }
        self.names[of] = name;
        self.data.state |= state;
        self.data.state &= !so_state::CONNECTING;
        Ok(Vec::new())
    }

    fn link(&mut self, peer: Option<Vec<u8>>) -> Result<Vec<u8>, i32> {
        let is_name = peer
            .as_ref()
            .is_none_or(|peer| (1..=NAME_MAX).contains(&peer.len()));
        if self.data.information.service != ServiceType::Datagrams || !is_name {
            return Err(EINVAL);
        }
        self.linked = peer;
        Ok(Vec::new())
    }

    fn shut_down(&mut self, context: &mut Context<'_>, octets: &[u8]) -> Result<Vec<u8>, i32> {
        let how = octets
            .try_into()
            .map(u32::from_ne_bytes)
            .map_err(|_| EINVAL)?;
        if how > 2 {
            return Err(EINVAL);
        }
        if !self.has(so_state::CONNECTED) {
            return Err(ENOTCONN);
        }
        if how != 1 && !self.has(so_state::CANNOT_RECEIVE) {
            self.data.state |= so_state::CANNOT_RECEIVE;
            let read = FlushRequest {
                read: true,
                write: false,
                band: None,
            };
            context.put_next(Side::Read, Message::flush(read));
            context.put_next(Side::Read, Message::new(MessageKind::Data));
        }
        if how != 0 && !self.has(so_state::CANNOT_SEND) {
            self.data.state |= so_state::CANNOT_SEND;
            if self.data.information.service == ServiceType::ConnectionsWithRelease {
                let control = context.copy(&Primitive::ReleaseRequest.octets());
                context.put_next(Side::Write, Message::proto(control, None));
            }
        }
        Ok(Vec::new())
    }

    /// A bind whose acknowledgement is the answer.
    fn listen(&mut self, context: &mut Context<'_>, message: Message, octets: &[u8]) {
        if self.waiting.is_some() {
            return answer(context, message, MessageKind::IoctlNak, EALREADY, &[]);
        }
        match parse(octets) {
            Ok(request) if request.number() == number::BIND_REQ => {
                self.waiting = Some(message);
                let control = context.copy(octets);
                context.put_next(Side::Write, Message::proto(control, None));
            }
            _ => answer(context, message, MessageKind::IoctlNak, EINVAL, &[]),
        }
    }

    /// An acknowledgement: the answer to a request that waits for it, or one for the library.
    fn acknowledged(&mut self, context: &mut Context<'_>, message: Message) {
        let primitive = parsed(&message);
        if let Ok(Primitive::BindAck { address, .. }) = &primitive {
            self.data.state |= so_state::BOUND;
            self.names[0].clone_from(address);
        }
        let Some(request) = self.waiting.take() else {
            return context.put_next(Side::Read, message);
        };
        let control = message.control.as_ref();
        let octets = control.map_or(&[][..], |control| control.octets()).to_vec();
        message.release(context.pool());
        let value = match primitive {
            Ok(Primitive::ErrorAck { tli, errno, .. }) => (tli | errno << 8) as i32,
            _ => 0,
        };
        answer(context, request, MessageKind::IoctlAck, value, &octets);
    }

    /// Data that the library writes.
    fn write(&mut self, context: &mut Context<'_>, message: Message) {
        if self.has(so_state::CANNOT_SEND) {
            message.release(context.pool());
            return fail(context, None, EPIPE);
        }
        let Some(peer) = &self.linked else {
            return context.put_next(Side::Write, message);
        };
        let request = Primitive::DatagramRequest {
            destination: peer.clone(),
            options: Vec::new(),
        };
        let control = context.copy(&request.octets());
        let mut datagram = message.into_kind(MessageKind::Proto);
        datagram.control = Some(control);
        context.put_next(Side::Write, datagram);
    }

    /// Primitives of the provider: data lose their control part, and ends become what reads understand.
    fn up(&mut self, context: &mut Context<'_>, mut message: Message) {
        let primitive = parsed(&message);
        match primitive {
            Ok(Primitive::DataIndication { .. }) => {
                if let Some(control) = message.control.take() {
                    context.pool().release(control);
                }
                return self.up_data(context, message.into_kind(MessageKind::Data));
            }
            Ok(Primitive::DatagramIndication { source, .. }) if self.is_of_another(&source) => {}
            Ok(Primitive::ConnectConfirm { responding, .. }) => {
                // An address that is too long is not kept.
                let _ = self.set_name(1, responding, so_state::CONNECTED);
                return context.put_next(Side::Read, message);
            }
            Ok(Primitive::ReleaseIndication) => {
                if !self.has(so_state::CANNOT_RECEIVE) {
                    context.put_next(Side::Read, Message::new(MessageKind::Data));
                }
                self.data.state |= so_state::CANNOT_RECEIVE;
            }
            Ok(Primitive::DisconnectIndication { reason, .. }) if self.has(so_state::CONNECTED) => {
                self.data.state &= !so_state::CONNECTED;
                self.data.state |= so_state::CANNOT_SEND | so_state::CANNOT_RECEIVE;
                let reason = if reason == 0 {
                    ECONNRESET
                } else {
                    reason as i32
                };
                fail(context, Some(reason), EPIPE);
            }
            Ok(Primitive::DisconnectIndication { .. }) => {
                self.data.state &= !so_state::CONNECTING;
                return context.put_next(Side::Read, message);
            }
            _ => return context.put_next(Side::Read, message),
        }
        message.release(context.pool());
    }

    fn up_data(&mut self, context: &mut Context<'_>, message: Message) {
        match self.has(so_state::CANNOT_RECEIVE) || message.data_octets() == 0 {
            true => message.release(context.pool()),
            false => context.put_next(Side::Read, message),
        }
    }

    fn is_of_another(&self, source: &[u8]) -> bool {
        self.linked.as_ref().is_some_and(|peer| peer != source)
    }

    /// Primitives of the library.
    fn down(&mut self, context: &mut Context<'_>, message: Message) {
        if let Ok(Primitive::ConnectRequest { .. }) = parsed(&message) {
            self.data.state |= so_state::CONNECTING;
        }
        context.put_next(Side::Write, message);
    }
}

/// The head fails: writes always, reads where an error is given.
fn fail(context: &mut Context<'_>, read: Option<i32>, write: i32) {
    let errors = Extra::Errors {
        read,
        write: Some(write),
    };
    context.put_next(Side::Read, Message::with_extra(MessageKind::Error, errors));
}

fn answer(
    context: &mut Context<'_>,
    mut message: Message,
    kind: MessageKind,
    value: i32,
    octets: &[u8],
) {
    for block in message.data.drain(..) {
        context.pool().release(block);
    }
    if !octets.is_empty() {
        let block = context.copy(octets);
        message.data.push(block);
    }
    if let Some(Extra::Ioctl(request)) = message.extra.as_deref_mut() {
        request.value = value;
    }
    context.put_next(Side::Read, message.into_kind(kind));
}

impl Module for Sockmod {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("sockmod")
    }

    fn close(&mut self, context: &mut Context<'_>) {
        if let Some(waiting) = self.waiting.take() {
            waiting.release(context.pool());
        }
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (Side::Write, MessageKind::Data) => self.write(context, message),
            (Side::Read, MessageKind::Data) => self.up_data(context, message),
            (Side::Write, MessageKind::Ioctl) => self.request(context, message),
            (Side::Write, MessageKind::Proto) => self.down(context, message),
            (Side::Read, MessageKind::HighProto) => self.acknowledged(context, message),
            (Side::Read, MessageKind::Proto) => self.up(context, message),
            _ => context.put_next(side, message),
        }
    }
}
