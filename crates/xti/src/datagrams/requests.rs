//! What providers of datagrams (T_CLTS) do alike: the requests of TPI, and which message goes where.

use crate::error::TliError;
use crate::inet::{bind_error, options_event};
use crate::provider::{self, acknowledge, flush_queues, indicate, parsed, refuse};
use crate::tpi::{
    Event, Information, Malformed, Primitive, ServiceType, State, datagram_destination, number,
};
use std::io;
use streams::{Context, Message, MessageKind, Side};

/// What differs between them.
pub(crate) trait DatagramService {
    fn state_mut(&mut self) -> &mut State;

    /// The address that it is bound to; empty before that.
    fn address(&self) -> &[u8];

    /// The longest datagram, the longest address and the longest options, octets, and the flags of TPI.
    fn limits(&self) -> (i32, i32, i32, u32);

    /// Errors become those of the bind.
    fn bind(&mut self, address: &[u8]) -> io::Result<()>;

    fn unbind(&mut self);

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive;

    fn send_queued(&mut self, context: &mut Context<'_>);

    fn receive_queued(&mut self, context: &mut Context<'_>);
}

/// A message from above or below.
pub(crate) fn put(
    provider: &mut impl DatagramService,
    context: &mut Context<'_>,
    side: Side,
    message: Message,
) {
    match (side, message.kind()) {
        (Side::Write, MessageKind::Proto | MessageKind::HighProto) => {
            handle_primitive(provider, context, message);
        }
        (Side::Write, MessageKind::Data) => {
            message.release(context.pool());
            fail(provider, context);
        }
        _ => provider::put_other(context, side, message),
    }
}

/// The service procedure of a queue.
pub(crate) fn service(provider: &mut impl DatagramService, context: &mut Context<'_>, side: Side) {
    match side {
        Side::Write => provider.send_queued(context),
        Side::Read => provider.receive_queued(context),
    }
}

/// The other end is ready.
pub(crate) fn ready(provider: &mut impl DatagramService, context: &mut Context<'_>) {
    provider.receive_queued(context);
    if !context.is_empty(Side::Write) {
        context.enable(Side::Write);
    }
}

/// The stream closes: what is queued leaves.
pub(crate) fn close(provider: &mut impl DatagramService, context: &mut Context<'_>) {
    provider.send_queued(context);
    provider.unbind();
}

/// A message with a control part from above. A datagram waits in the queue.
fn handle_primitive(
    provider: &mut impl DatagramService,
    context: &mut Context<'_>,
    message: Message,
) {
    if *provider.state_mut() == State::Idle && destination_of(&message).is_some() {
        return context.put_queue(Side::Write, message);
    }
    match parsed(&message) {
        Ok(primitive) => handle_request(provider, context, &primitive),
        Err(Malformed::Address(of)) => refuse(context, of, TliError::BadAddress, 0),
        Err(Malformed::Options(of)) => refuse(context, of, TliError::BadOption, 0),
        Err(Malformed::Fatal) => fail(provider, context),
    }
    message.release(context.pool());
}

/// Where a datagram goes; None when it is none.
pub(crate) fn destination_of(message: &Message) -> Option<&[u8]> {
    let control = message.control.as_ref()?;
    datagram_destination(control.octets())
}

fn handle_request(
    provider: &mut impl DatagramService,
    context: &mut Context<'_>,
    primitive: &Primitive,
) {
    match primitive {
        Primitive::InfoRequest => indicate(context, &Primitive::InfoAck(information(provider))),
        Primitive::AddressRequest => {
            let (local, remote) = (provider.address().to_vec(), Vec::new());
            indicate(context, &Primitive::AddressAck { local, remote });
        }
        Primitive::BindRequest { address, .. } => bind_request(provider, context, address),
        Primitive::UnbindRequest => unbind_request(provider, context),
        // In any state, and it changes none but for a moment in T_IDLE.
        Primitive::OptionsRequest { options, flags } => {
            let counted = provider.state_mut().advance(Event::OptionsRequest);
            let answer = provider.answer_options(options, *flags);
            if counted {
                provider.state_mut().advance(options_event(&answer));
            }
            indicate(context, &answer);
        }
        Primitive::ConnectRequest { .. } => {
            refuse(context, number::CONN_REQ, TliError::NotSupported, 0);
        }
        _ => fail(provider, context),
    }
}

fn information(provider: &mut impl DatagramService) -> Information {
    let (longest, address, options, flags) = provider.limits();
    Information {
        tsdu: longest,
        etsdu: -2,
        connect: -2,
        disconnect: -2,
        address,
        options,
        tidu: longest,
        service: ServiceType::Datagrams,
        state: *provider.state_mut() as u32,
        flags,
    }
}

fn bind_request(provider: &mut impl DatagramService, context: &mut Context<'_>, address: &[u8]) {
    const OF: u32 = number::BIND_REQ;
    if !provider.state_mut().advance(Event::BindRequest) {
        return refuse(context, OF, TliError::OutOfState, 0);
    }
    match provider.bind(address) {
        Ok(()) => {
            provider.state_mut().advance(Event::BindAck);
            let ack = Primitive::BindAck {
                address: provider.address().to_vec(),
                // No connections wait at an endpoint of datagrams.
                indications: 0,
            };
            indicate(context, &ack);
        }
        Err(error) => {
            provider.state_mut().advance(Event::ErrorAck);
            let (tli, errno) = bind_error(&error);
            refuse(context, OF, tli, errno);
        }
    }
}

fn unbind_request(provider: &mut impl DatagramService, context: &mut Context<'_>) {
    if !provider.state_mut().advance(Event::UnbindRequest) {
        return refuse(context, number::UNBIND_REQ, TliError::OutOfState, 0);
    }
    provider.unbind();
    flush_queues(context);
    provider.state_mut().advance(Event::OkAck);
    acknowledge(context, number::UNBIND_REQ);
}

/// The stream fails: the user broke the protocol where there is no answer to say so.
fn fail(provider: &mut impl DatagramService, context: &mut Context<'_>) {
    provider.unbind();
    *provider.state_mut() = State::Unbound;
    provider::fail_stream(context);
}
