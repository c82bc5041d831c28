//! `timod`: requests of a stream head (I_STR) as primitives, their acknowledgements as answers.

use crate::provider::parsed;
use crate::tpi::{Primitive, number, parse};
use streams::{
    Block, Context, Extra, IoctlRequest, Message, MessageKind, Module, ModuleInfo, Side,
};

/// Commands of the module (TI_*), each with a primitive for data where none is named.
pub mod command {
    const T: u32 = (b'T' as u32) << 8;
    /// What the provider can; the request has no data.
    pub const GETINFO: u32 = T | 140;
    /// Options.
    pub const OPTMGMT: u32 = T | 141;
    /// An address.
    pub const BIND: u32 = T | 142;
    /// No address any more; the request has no data.
    pub const UNBIND: u32 = T | 143;
    /// The own address; the request has no data.
    pub const GETMYNAME: u32 = T | 144;
    /// The peer's address; the request has no data.
    pub const GETPEERNAME: u32 = T | 145;
    /// The answer to a connection that came: T_CONN_RES or T_DISCON_REQ.
    pub const SETMYNAME: u32 = T | 146;
    /// A connection or its end: T_CONN_REQ or T_DISCON_REQ.
    pub const SETPEERNAME: u32 = T | 147;
    /// What the provider can, and its state; the request has no data.
    pub const SYNC: u32 = T | 148;
    /// Both addresses; the request has no data.
    pub const GETADDRS: u32 = T | 149;
}

/// EINVAL: data that are not what the command takes.
const INVALID: i32 = 22;

/// EAGAIN: the answer to another request is waited for.
const BUSY: i32 = 11;

/// The module. Messages that belong to no request pass.
#[derive(Debug, Default)]
pub struct Timod {
    /// The request whose acknowledgement is on its way.
    waiting: Option<Message>,
}

impl Timod {
    fn request(&mut self, context: &mut Context<'_>, message: Message) {
        let Some(&Extra::Ioctl(request)) = message.extra.as_deref() else {
            return message.release(context.pool());
        };
        let Some(takes) = primitives_of(request.command) else {
            // Another module, or the driver, knows it or refuses it.
            return context.put_next(Side::Write, message);
        };
        if self.waiting.is_some() {
            return answer(context, message, MessageKind::IoctlNak, BUSY);
        }
        let mut octets = vec![0; message.data_octets()];
        message.copy_data(0, &mut octets);
        let primitive = match takes {
            Takes::Nothing(primitive) => Some(primitive),
            Takes::One(numbers) => parse(&octets)
                .ok()
                .filter(|primitive| numbers.contains(&primitive.number())),
        };
        let Some(primitive) = primitive else {
            return answer(context, message, MessageKind::IoctlNak, INVALID);
        };
        self.waiting = Some(message);
        let control = context.copy(&primitive.octets());
        let down = match primitive.is_high_priority() {
            true => Message::high_proto(control),
            false => Message::proto(control, None),
        };
        context.put_next(Side::Write, down);
    }

    /// An acknowledgement becomes the answer to the request that waits for it.
    fn acknowledged(&mut self, context: &mut Context<'_>, message: Message) {
        let Some(mut request) = self.waiting.take() else {
            return context.put_next(Side::Read, message);
        };
        for block in request.data.drain(..) {
            context.pool().release(block);
        }
        let command = request_of(&request).map_or(0, |request| request.command);
        let value = match parsed(&message) {
            Ok(Primitive::ErrorAck { tli, errno, .. }) => (tli | errno << 8) as i32,
            Ok(Primitive::AddressAck { local, remote }) => {
                let named = match command {
                    command::GETMYNAME => Some(local),
                    command::GETPEERNAME => Some(remote),
                    _ => None,
                };
                let octets = named.map(|address| context.copy(&address));
                request
                    .data
                    .extend(octets.or_else(|| copy_of(context, &message)));
                0
            }
            _ => {
                request.data.extend(copy_of(context, &message));
                0
            }
        };
        message.release(context.pool());
        answer(context, request, MessageKind::IoctlAck, value);
    }
}

/// What a command has for data.
enum Takes {
    /// Nothing: it becomes this.
    Nothing(Primitive),
    /// A primitive with one of these numbers.
    One(&'static [u32]),
}

fn primitives_of(of: u32) -> Option<Takes> {
    use command::*;
    Some(match of {
        GETINFO | SYNC => Takes::Nothing(Primitive::InfoRequest),
        UNBIND => Takes::Nothing(Primitive::UnbindRequest),
        GETMYNAME | GETPEERNAME | GETADDRS => Takes::Nothing(Primitive::AddressRequest),
        OPTMGMT => Takes::One(&[number::OPTMGMT_REQ]),
        BIND => Takes::One(&[number::BIND_REQ]),
        SETMYNAME => Takes::One(&[number::CONN_RES, number::DISCON_REQ]),
        SETPEERNAME => Takes::One(&[number::CONN_REQ, number::DISCON_REQ]),
        _ => return None,
    })
}

fn request_of(message: &Message) -> Option<IoctlRequest> {
    match message.extra.as_deref() {
        Some(&Extra::Ioctl(request)) => Some(request),
        _ => None,
    }
}

fn copy_of(context: &mut Context<'_>, message: &Message) -> Option<Block> {
    let control = message.control.as_ref()?;
    Some(context.copy(control.octets()))
}

fn answer(context: &mut Context<'_>, mut message: Message, kind: MessageKind, value: i32) {
    if let Some(Extra::Ioctl(request)) = message.extra.as_deref_mut() {
        request.value = value;
    }
    context.put_next(Side::Read, message.into_kind(kind));
}

impl Module for Timod {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("timod")
    }

    fn close(&mut self, context: &mut Context<'_>) {
        if let Some(waiting) = self.waiting.take() {
            waiting.release(context.pool());
        }
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (Side::Write, MessageKind::Ioctl) => self.request(context, message),
            (Side::Read, MessageKind::HighProto) => self.acknowledged(context, message),
            _ => context.put_next(side, message),
        }
    }
}
