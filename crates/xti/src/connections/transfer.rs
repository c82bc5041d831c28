//! Data: from the write queue down, and from the peer up.

use super::events::disconnect_in;
use super::requests::RESET;
use super::{ConnectionProvider, Ends, Frame, FrameKind, Link, Next, Protocol};
use crate::provider::parsed;
use crate::tpi::{Event, Primitive, State, number, write_data};
use std::sync::atomic::Ordering;
use streams::{Block, Context, Message, MessageKind, Side};

impl<P: Protocol> ConnectionProvider<P> {
    /// T_DATA_REQ, or data without a control part: a whole message, or its end.
    pub(super) fn data_request(&mut self, context: &mut Context<'_>, message: Message) {
        if self.state == State::Idle {
            self.take_passed();
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
            let Some(kind) = frame_kind(&message) else {
                message.release(context.pool());
                continue;
            };
            if !link.send(kind, &message) {
                self.blocked = Some(message.data_octets());
                self.shared.send_blocked.store(true, Ordering::Relaxed);
                return context.put_back(Side::Write, message);
            }
            message.release(context.pool());
            if kind == FrameKind::Release {
                self.released();
            }
        }
        self.blocked = None;
        if let Ends::Connected(link) = &mut self.ends {
            link.flush();
            self.blocked = link.has_unsent().then_some(0);
        }
        let is_blocked = self.blocked.is_some();
        self.shared
            .send_blocked
            .store(is_blocked, Ordering::Relaxed);
    }

    /// This end sends no more.
    fn released(&mut self) {
        self.on(Event::ReleaseRequest);
        if self.state == State::Idle {
            self.set_ends(Ends::None);
        }
    }

    /// Service procedure of the read queue: up with what is there while the head has room.
    pub(super) fn receive_queued(&mut self, context: &mut Context<'_>) {
        while matches!(
            self.state,
            State::DataTransfer | State::WaitRelease | State::WaitReleaseRequest
        ) && context.can_put_next(Side::Read, 0)
        {
            let Ends::Connected(link) = &mut self.ends else {
                return;
            };
            match link.next(context.pool()) {
                Next::Nothing => return,
                Next::Frame(frame) => self.arrived(context, frame),
                // What the peer sent before is delivered: it did not abort.
                Next::End(why) => self.disconnected(context, why.unwrap_or(RESET), &[]),
            }
        }
    }

    #[inline]
    fn arrived(&mut self, context: &mut Context<'_>, frame: Frame) {
        let Frame { kind, octets } = frame;
        match kind {
            FrameKind::Data if self.state != State::WaitReleaseRequest => {
                context.put_next(Side::Read, Message::data(octets));
            }
            FrameKind::DataMore | FrameKind::Expedited | FrameKind::ExpeditedMore
                if self.state != State::WaitReleaseRequest =>
            {
                self.indicate_data(context, kind, octets);
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

    fn indicate_data(&mut self, context: &mut Context<'_>, kind: FrameKind, octets: Block) {
        let (number, more) = match kind {
            FrameKind::Expedited => (number::EXDATA_IND, false),
            FrameKind::ExpeditedMore => (number::EXDATA_IND, true),
            _ => (number::DATA_IND, true),
        };
        let control = context.copy(&write_data(number, more));
        let message = Message::proto(control, Some(octets));
        // Expedited data pass others that wait.
        let band = u8::from(number == number::EXDATA_IND);
        context.put_next(Side::Read, message.in_band(band));
    }
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
        Ok(Primitive::ReleaseRequest) => Some(FrameKind::Release),
        _ => None,
    }
}
