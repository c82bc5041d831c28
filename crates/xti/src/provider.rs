//! What all providers do alike: answers, tokens, failure.

use crate::error::TliError;
use crate::tpi::{
    self, Malformed, OptionStatus, OptionsAction, Primitive, number, parse_options, write_options,
};
use std::sync::atomic::{AtomicU32, Ordering};
use streams::{Context, Extra, FlushRequest, FlushScope, Message, MessageKind, Side};

/// EPROTO: the user broke the protocol where there is no answer to say so.
pub(crate) const EPROTO: i32 = 71;

/// A sequence number that names no indication.
pub(crate) const NO_SEQUENCE: u32 = u32::MAX;

static NEXT_TOKEN: AtomicU32 = AtomicU32::new(1);

/// A token by which connections are passed to a stream (ACCEPTOR_id); no two providers have one.
pub(crate) fn new_token() -> u32 {
    NEXT_TOKEN.fetch_add(1, Ordering::Relaxed)
}

/// The primitive of a message.
pub(crate) fn parsed(message: &Message) -> tpi::Parsed {
    let control = message.control.as_ref().ok_or(Malformed::Fatal)?;
    tpi::parse(control.octets())
}

/// Sends a primitive up.
pub(crate) fn indicate(context: &mut Context<'_>, primitive: &Primitive) {
    let control = context.copy(&primitive.octets());
    let message = match primitive.is_high_priority() {
        true => Message::high_proto(control),
        false => Message::proto(control, None),
    };
    context.put_next(Side::Read, message);
}

/// Sends a primitive up, with data of the user behind it where there are some.
pub(crate) fn indicate_with(context: &mut Context<'_>, primitive: &Primitive, data: &[u8]) {
    let control = context.copy(&primitive.octets());
    let data = (!data.is_empty()).then(|| context.copy(data));
    context.put_next(Side::Read, Message::proto(control, data));
}

/// Refuses a request (T_ERROR_ACK).
pub(crate) fn refuse(context: &mut Context<'_>, of: u32, tli: TliError, errno: i32) {
    let primitive = Primitive::ErrorAck {
        of,
        tli: tli as u32,
        errno: errno as u32,
    };
    indicate(context, &primitive);
}

/// Acknowledges a request (T_OK_ACK).
pub(crate) fn acknowledge(context: &mut Context<'_>, of: u32) {
    indicate(context, &Primitive::OkAck { of });
}

/// Tells the head that the stream has failed.
pub(crate) fn fail_stream(context: &mut Context<'_>) {
    let errors = Extra::Errors {
        read: Some(EPROTO),
        write: Some(EPROTO),
    };
    context.put_next(Side::Read, Message::with_extra(MessageKind::Error, errors));
}

/// Empties both queues of a provider, and those above it that lead up.
pub(crate) fn flush_queues(context: &mut Context<'_>) {
    context.flush(Side::Write, None, FlushScope::Data);
    context.flush(Side::Read, None, FlushScope::Data);
    let up = FlushRequest {
        read: true,
        write: false,
        band: None,
    };
    context.put_next(Side::Read, Message::flush(up));
}

/// The answer to T_OPTMGMT_REQ of a provider that has no options: each is not supported.
pub(crate) fn answer_without_options(octets: &[u8], flags: u32) -> Primitive {
    let refused = |tli: TliError| Primitive::ErrorAck {
        of: number::OPTMGMT_REQ,
        tli: tli as u32,
        errno: 0,
    };
    if OptionsAction::from_number(flags).is_none() {
        return refused(TliError::BadFlag);
    }
    let options = parse_options(octets).filter(|options| !options.is_empty());
    let Some(mut options) = options else {
        return refused(TliError::BadOption);
    };
    for option in &mut options {
        option.status = Some(OptionStatus::NotSupported);
    }
    Primitive::OptionsAck {
        options: write_options(&options),
        flags: OptionStatus::NotSupported as u32,
    }
}

/// What is neither data nor a primitive: a flush is done and turned round, a request of the head is refused.
pub(crate) fn put_other(context: &mut Context<'_>, side: Side, message: Message) {
    match (side, message.kind()) {
        (Side::Write, MessageKind::Flush) => {
            if let Some(&Extra::Flush(request)) = message.extra.as_deref() {
                context.flush_and_turn(request);
            }
        }
        (Side::Write, MessageKind::Ioctl) => {
            context.reply(side, message.into_kind(MessageKind::IoctlNak));
        }
        _ => message.release(context.pool()),
    }
}
