//! What the other ends have to say: connections that come, that are made, that end.

use super::requests::REFUSED;
use super::split_introduction;
use super::{ConnectionProvider, Ends, FrameKind, Indication, Link, Next, Protocol};
use crate::provider::{NO_SEQUENCE, flush_queues, indicate, indicate_with};
use crate::tpi::{Event, Primitive, State};
use std::sync::atomic::Ordering;
use streams::{Context, Pool};

impl<P: Protocol> ConnectionProvider<P> {
    pub(super) fn look_at_ends(&mut self, context: &mut Context<'_>) {
        self.take_passed();
        match &self.ends {
            Ends::Listening(_) => self.look_at_listener(context),
            Ends::Connecting(_) => self.look_at_connect(context),
            Ends::Connected(_) => self.receive_queued(context),
            Ends::None => {}
        }
    }

    /// Indicates connections that came, as many as may wait for the user, and those that were withdrawn.
    fn look_at_listener(&mut self, context: &mut Context<'_>) {
        self.withdraw_ended(context);
        while let Some(indication) = self.next_indication(context.pool()) {
            let (source, sequence) = (indication.link.peer().to_vec(), indication.sequence);
            let said = indication.link.said().to_vec();
            if let Ends::Listening(listening) = &mut self.ends {
                listening.waiting.push_back(indication);
            }
            self.state.advance(Event::ConnectIndication);
            let indication = Primitive::ConnectIndication { source, sequence };
            indicate_with(context, &indication, &said);
        }
    }

    /// The next connection that is whole. Those of which a part has come are looked at again.
    fn next_indication(&mut self, pool: &mut Pool) -> Option<Indication<P::Link>> {
        let Ends::Listening(listening) = &mut self.ends else {
            return None;
        };
        if listening.waiting.len() >= listening.limit as usize {
            return None;
        }
        let whole = self.protocol.accept(pool);
        let look_soon = &self.shared.look_soon;
        look_soon.store(self.protocol.is_arriving(), Ordering::Relaxed);
        let sequence = self.next_sequence;
        let link = whole?;
        // NO_SEQUENCE is never given.
        self.next_sequence = (sequence + 1) % NO_SEQUENCE;
        Some(Indication { sequence, link })
    }

    /// Tells which connections ended before they were answered.
    fn withdraw_ended(&mut self, context: &mut Context<'_>) {
        while let Some(sequence) = self.take_ended(context.pool()) {
            let event = match self.waiting() {
                0 => Event::DisconnectLastIndication,
                _ => Event::DisconnectOneIndication,
            };
            self.state.advance(event);
            let reason = REFUSED;
            indicate(
                context,
                &Primitive::DisconnectIndication { reason, sequence },
            );
        }
    }

    fn take_ended(&mut self, pool: &mut Pool) -> Option<u32> {
        let Ends::Listening(listening) = &mut self.ends else {
            return None;
        };
        let mut waiting = listening.waiting.iter_mut();
        let at = waiting.position(|one| one.link.has_ended(pool))?;
        listening.waiting.remove(at).map(|one| one.sequence)
    }

    fn look_at_connect(&mut self, context: &mut Context<'_>) {
        let Ends::Connecting(link) = &mut self.ends else {
            return;
        };
        match link.next(context.pool()) {
            Next::Nothing => {}
            Next::Frame(frame) if frame.kind == FrameKind::Confirm => {
                let introduction = split_introduction(frame.octets.octets());
                let (responding, said) = introduction.unwrap_or_default();
                let (responding, said) = (responding.to_vec(), said.to_vec());
                context.pool().release(frame.octets);
                self.state.advance(Event::ConnectConfirm);
                if let Ends::Connecting(link) = std::mem::replace(&mut self.ends, Ends::None) {
                    self.set_ends(Ends::Connected(link));
                }
                let confirm = Primitive::ConnectConfirm {
                    responding,
                    options: Vec::new(),
                };
                indicate_with(context, &confirm, &said);
            }
            Next::Frame(frame) => {
                let (_, said) = disconnect_in(frame.octets.octets());
                let said = said.to_vec();
                context.pool().release(frame.octets);
                self.disconnected(context, REFUSED, &said);
            }
            // No connection has data before its confirmation.
            Next::Run(message, _) => message.release(context.pool()),
            Next::End(why) => self.disconnected(context, why.unwrap_or(REFUSED), &[]),
        }
    }

    /// The connection is lost or was refused.
    pub(super) fn disconnected(&mut self, context: &mut Context<'_>, reason: u32, said: &[u8]) {
        if !self.state.advance(Event::DisconnectIndication) {
            return;
        }
        // An end that listens goes on when a connect of its own was refused.
        if !matches!(self.ends, Ends::Listening(_)) {
            self.set_ends(Ends::None);
        }
        let sequence = NO_SEQUENCE;
        let indication = Primitive::DisconnectIndication { reason, sequence };
        indicate_with(context, &indication, said);
    }

    /// The other user ended the connection: what waits here is dropped before that is told.
    pub(super) fn aborted(&mut self, context: &mut Context<'_>, reason: u32, said: &[u8]) {
        if self.state.after(Event::DisconnectIndication).is_some() {
            flush_queues(context);
        }
        self.disconnected(context, reason, said);
    }

    /// The peer sends no more.
    pub(super) fn peer_released(&mut self, context: &mut Context<'_>, said: &[u8]) {
        if !self.state.advance(Event::ReleaseIndication) {
            return;
        }
        if self.state == State::Idle {
            self.set_ends(Ends::None);
        }
        indicate_with(context, &Primitive::ReleaseIndication, said);
    }
}

/// Reason and data of a frame that ends a connection.
pub(super) fn disconnect_in(octets: &[u8]) -> (Option<u32>, &[u8]) {
    match octets.split_first_chunk() {
        Some((reason, said)) => (Some(u32::from_ne_bytes(*reason)), said),
        None => (None, &[]),
    }
}
