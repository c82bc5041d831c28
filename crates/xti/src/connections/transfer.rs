//! Data: from the write queue down, and from the peer up.

use super::events::disconnect_in;
use super::requests::RESET;
use super::{
    Behind, ConnectionProvider, Ends, Frame, FrameKind, Link, Next, Protocol, Waits, runs,
};
use crate::provider::parsed;
use crate::sctp::{self, MessageOptions};
use crate::tpi::{Event, Primitive, State, data_options, number, write_data, write_options};
use std::sync::atomic::Ordering;
use streams::{Block, Context, Message, MessageKind, Side};

impl<P: Protocol> ConnectionProvider<P> {
    /// T_DATA_REQ, or data without a control part: a whole message, or its end.
    pub(super) fn data_request(&mut self, context: &mut Context<'_>, mut message: Message) {
        if self.state == State::Idle {
            self.take_passed();
        }
        if let Some(options) = self.protocol.options_of_messages() {
            message = with_options(context, message, options);
        }
        match self.state {
            State::DataTransfer | State::WaitReleaseRequest => {
                context.put_queue(Side::Write, message);
            }
            // It crossed the end of the connection.
            State::Idle => message.release(context.pool()),
            _ => {
                message.release(context.pool());
                self.fail(context);
            }
        }
    }

    /// Service procedure of the write queue.
    pub(super) fn send_queued(&mut self, context: &mut Context<'_>) {
        while let Ends::Connected(link) = &mut self.ends {
            let Some(message) = context.get(Side::Write) else {
                break;
            };
            if runs::is_run(&message) {
                let Some((rest, octets)) = runs::send(&mut **link, context, message) else {
                    continue;
                };
                self.block_for(octets);
                return context.put_back(Side::Write, rest);
            }
            let Some(kind) = frame_kind(&message) else {
                message.release(context.pool());
                continue;
            };
            if !link.send(kind, &message) {
                self.block_for(message.data_octets());
                return context.put_back(Side::Write, message);
            }
            message.release(context.pool());
            if kind == FrameKind::Release {
                self.released();
            }
        }
        self.blocked = None;
        self.shared.send_blocked.store(false, Ordering::Relaxed);
        match self.shared.sends_on.load(Ordering::Relaxed) {
            true => self.shared.unflushed.store(true, Ordering::Relaxed),
            false => self.flush_below(),
        }
    }

    /// This end sends no more.
    fn released(&mut self) {
        self.state.advance(Event::ReleaseRequest);
        if self.state == State::Idle {
            self.set_ends(Ends::None);
        }
    }

    /// Service procedure of the read queue: up with what is there while the head has room.
    pub(super) fn receive_queued(&mut self, context: &mut Context<'_>) {
        while matches!(
            self.state,
            State::DataTransfer | State::WaitRelease | State::WaitReleaseRequest
        ) && self.has_room_above(context)
        {
            let Ends::Connected(link) = &mut self.ends else {
                return;
            };
            match link.next(context.pool()) {
                Next::Nothing => return,
                Next::Frame(frame) => self.arrived(context, frame),
                Next::Run(message, behind) => {
                    self.run_arrived(context, message);
                    if behind == Behind::Nothing {
                        return;
                    }
                }
                // What the peer sent before is delivered: it did not abort.
                Next::End(why) => self.disconnected(context, why.unwrap_or(RESET), &[]),
            }
        }
    }

    /// Whether the head has room for what comes next, whatever it is.
    #[inline]
    fn has_room_above(&self, context: &mut Context<'_>) -> bool {
        context.can_put_next(Side::Read, 0) && context.can_put_next(Side::Read, EXPEDITED_BAND)
    }

    #[inline]
    fn arrived(&mut self, context: &mut Context<'_>, frame: Frame) {
        let Frame {
            kind,
            octets,
            options,
        } = frame;
        match kind {
            FrameKind::Data if options.is_none() && self.state != State::WaitReleaseRequest => {
                context.put_next(Side::Read, Message::data(octets));
            }
            FrameKind::Data
            | FrameKind::DataMore
            | FrameKind::Expedited
            | FrameKind::ExpeditedMore
                if self.state != State::WaitReleaseRequest =>
            {
                indicate_data(context, kind, octets, options);
            }
            FrameKind::Release => {
                self.peer_released(context, octets.octets());
                context.pool().release(octets);
            }
            FrameKind::Disconnect => {
                let (reason, said) = disconnect_in(octets.octets());
                self.aborted(context, reason.unwrap_or(RESET), said);
                context.pool().release(octets);
            }
            // No correct peer sends it here.
            _ => {
                context.pool().release(octets);
                self.aborted(context, RESET, &[]);
            }
        }
    }
}

/// Expedited data pass others that wait.
const EXPEDITED_BAND: u8 = 1;

/// T_DATA_IND, T_EXDATA_IND, or T_OPTDATA_IND where options of the message are wanted.
fn indicate_data(
    context: &mut Context<'_>,
    kind: FrameKind,
    octets: Block,
    options: Option<MessageOptions>,
) {
    let expedited = matches!(kind, FrameKind::Expedited | FrameKind::ExpeditedMore);
    let more = matches!(kind, FrameKind::DataMore | FrameKind::ExpeditedMore);
    let control = match (options, expedited) {
        (Some(options), _) => {
            let options = write_options(&sctp::of_message(options));
            let indication = Primitive::OptionsDataIndication {
                more,
                expedited,
                options,
            };
            context.copy(&indication.octets())
        }
        (None, true) => context.copy(&write_data(number::EXDATA_IND, more)),
        (None, false) => context.copy(&write_data(number::DATA_IND, more)),
    };
    let message = Message::proto(control, Some(octets));
    let band = u8::from(expedited) * EXPEDITED_BAND;
    context.put_next(Side::Read, message.in_band(band));
}

/// The message with these options in front of its own: what the user sets later is not of a message that waits.
fn with_options(context: &mut Context<'_>, mut message: Message, options: &[u8]) -> Message {
    let kind = frame_kind(&message);
    let own = message.control.take();
    let all = match &own {
        Some(control) => [options, data_options(control.octets())].concat(),
        None => options.to_vec(),
    };
    let request = Primitive::OptionsDataRequest {
        more: matches!(kind, Some(FrameKind::DataMore | FrameKind::ExpeditedMore)),
        expedited: matches!(kind, Some(FrameKind::Expedited | FrameKind::ExpeditedMore)),
        options: all,
    };
    if let Some(own) = own {
        context.pool().release(own);
    }
    message.control = Some(context.copy(&request.octets()));
    message.into_kind(MessageKind::Proto)
}

/// What a queued message becomes; None for what was never queued by this provider.
fn frame_kind(message: &Message) -> Option<FrameKind> {
    if message.kind() == MessageKind::Data {
        return Some(FrameKind::Data);
    }
    match parsed(message) {
        Ok(Primitive::DataRequest { more: true }) => Some(FrameKind::DataMore),
        Ok(Primitive::DataRequest { more: false }) => Some(FrameKind::Data),
        Ok(Primitive::ExpeditedRequest { more: true }) => Some(FrameKind::ExpeditedMore),
        Ok(Primitive::ExpeditedRequest { more: false }) => Some(FrameKind::Expedited),
        Ok(Primitive::OptionsDataRequest {
            more, expedited, ..
        }) => Some(match (expedited, more) {
            (false, false) => FrameKind::Data,
            (false, true) => FrameKind::DataMore,
            (true, false) => FrameKind::Expedited,
            (true, true) => FrameKind::ExpeditedMore,
        }),
        Ok(Primitive::ReleaseRequest) => Some(FrameKind::Release),
        _ => None,
    }
}
