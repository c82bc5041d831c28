//! Primitives of the user.

use super::{ConnectionProvider, Ends, Indication, Link, Listening, Passed, Protocol};
use super::{FrameKind, acceptors, introduction};
use crate::error::TliError;
use crate::inet::bind_error;
use crate::provider::{acknowledge, flush_queues, indicate, parsed, refuse};
use crate::tpi::{Event, Malformed, Primitive, ServiceType, State, number};
use std::collections::VecDeque;
use std::io;
use std::sync::PoisonError;
use streams::{Context, Message, Side};

/// Connections that may wait for the user whatever he asks for.
const INDICATIONS_MAX: u32 = 1024;

/// ECONNREFUSED: nobody listens, or the user refused.
pub(super) const REFUSED: u32 = 111;

/// ECONNRESET: the user of the other end ended the connection, or is gone.
pub(super) const RESET: u32 = 104;

impl<P: Protocol> ConnectionProvider<P> {
    /// A message with a control part from above.
    pub(super) fn primitive(&mut self, context: &mut Context<'_>, message: Message) {
        match parsed(&message) {
            Ok(Primitive::DataRequest { .. }) => return self.data_request(context, message),
            Ok(Primitive::ExpeditedRequest { .. }) if self.information().etsdu != -2 => {
                return self.data_request(context, message);
            }
            Ok(Primitive::OptionsDataRequest { options, .. })
                if self.takes_message_options(&options) =>
            {
                return self.data_request(context, message);
            }
            Ok(Primitive::ReleaseRequest) => return self.release_request(context, message),
            Ok(primitive) => {
                let longest = self.information().connect.max(0) as usize;
                let mut said = vec![0; message.data_octets().min(longest)];
                message.copy_data(0, &mut said);
                self.request(context, primitive, &said);
            }
            Err(Malformed::Address(of)) => refuse(context, of, TliError::BadAddress, 0),
            Err(Malformed::Options(of)) => refuse(context, of, TliError::BadOption, 0),
            Err(Malformed::Fatal) => self.fail(context),
        }
        message.release(context.pool());
    }

    /// A request, and what the user says with it.
    fn request(&mut self, context: &mut Context<'_>, primitive: Primitive, said: &[u8]) {
        match primitive {
            Primitive::InfoRequest => indicate(context, &Primitive::InfoAck(self.information())),
            Primitive::AddressRequest => self.addresses(context),
            Primitive::BindRequest {
                address,
                indications,
            } => self.bind_request(context, &address, indications.min(INDICATIONS_MAX)),
            Primitive::UnbindRequest => self.unbind_request(context),
            Primitive::OptionsRequest { options, flags } => {
                self.options_request(context, &options, flags);
            }
            // Options of one connection are not supported, which is no error.
            Primitive::ConnectRequest { destination, .. } => {
                self.connect_request(context, &destination, said);
            }
            Primitive::ConnectResponse {
                acceptor, sequence, ..
            } => {
                self.connect_response(context, acceptor, sequence, said);
            }
            Primitive::DisconnectRequest { sequence } => {
                self.disconnect_request(context, sequence, said);
            }
            // What only a provider sends.
            _ => self.fail(context),
        }
    }

    fn addresses(&mut self, context: &mut Context<'_>) {
        self.take_passed();
        let remote = match &self.ends {
            Ends::Connected(link) => link.peer().to_vec(),
            _ => Vec::new(),
        };
        let local = self.address.clone();
        indicate(context, &Primitive::AddressAck { local, remote });
    }

    /// In any state, and it changes none but for a moment in T_IDLE.
    fn options_request(&mut self, context: &mut Context<'_>, octets: &[u8], flags: u32) {
        self.take_passed();
        let counted = self.state.advance(Event::OptionsRequest);
        let link = match &mut self.ends {
            Ends::Connected(link) | Ends::Connecting(link) => Some(&mut **link),
            Ends::None | Ends::Listening(_) => None,
        };
        let answer = self.protocol.answer_options(link, octets, flags);
        self.adopt();
        if counted {
            self.state.advance(crate::inet::options_event(&answer));
        }
        indicate(context, &answer);
    }

    fn bind_request(&mut self, context: &mut Context<'_>, address: &[u8], indications: u32) {
        const OF: u32 = number::BIND_REQ;
        if !self.state.advance(Event::BindRequest) {
            return refuse(context, OF, TliError::OutOfState, 0);
        }
        match self.bind(address, indications) {
            Ok(()) => {
                self.state.advance(Event::BindAck);
                let address = self.address.clone();
                let ack = Primitive::BindAck {
                    address,
                    indications,
                };
                indicate(context, &ack);
            }
            Err(error) => {
                self.state.advance(Event::ErrorAck);
                let (tli, errno) = bind_error(&error);
                refuse(context, OF, tli, errno);
            }
        }
    }

    fn bind(&mut self, address: &[u8], limit: u32) -> io::Result<()> {
        self.address = self.protocol.bind(address, limit > 0)?;
        if limit > 0 {
            let waiting = VecDeque::new();
            self.set_ends(Ends::Listening(Listening { limit, waiting }));
        }
        Ok(())
    }

    fn unbind_request(&mut self, context: &mut Context<'_>) {
        if !self.state.advance(Event::UnbindRequest) {
            return refuse(context, number::UNBIND_REQ, TliError::OutOfState, 0);
        }
        self.set_ends(Ends::None);
        self.address.clear();
        flush_queues(context);
        self.state.advance(Event::OkAck);
        acknowledge(context, number::UNBIND_REQ);
    }

    fn connect_request(&mut self, context: &mut Context<'_>, destination: &[u8], said: &[u8]) {
        const OF: u32 = number::CONN_REQ;
        if !self.state.advance(Event::ConnectRequest) {
            return refuse(context, OF, TliError::OutOfState, 0);
        }
        let mut why = REFUSED;
        match self.protocol.connect(&self.address, destination, said) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.state.advance(Event::ErrorAck);
                return refuse(context, OF, TliError::BadAddress, 0);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.state.advance(Event::ErrorAck);
                return refuse(context, OF, TliError::Access, 0);
            }
            Ok(link) => self.set_ends(Ends::Connecting(Box::new(link))),
            Err(error) => why = error.raw_os_error().map_or(REFUSED, |number| number as u32),
        }
        self.state.advance(Event::OkAck);
        acknowledge(context, OF);
        if matches!(self.ends, Ends::None | Ends::Listening(_)) {
            self.disconnected(context, why, &[]);
        }
    }

    fn connect_response(
        &mut self,
        context: &mut Context<'_>,
        acceptor: u32,
        sequence: u32,
        said: &[u8],
    ) {
        const OF: u32 = number::CONN_RES;
        if !self.state.advance(Event::ConnectResponse) {
            return refuse(context, OF, TliError::OutOfState, 0);
        }
        let here = acceptor == self.token;
        let target = acceptors().get(&acceptor).cloned();
        let name = target.as_ref().map(|target| target.0);
        let error = self.why_not_accepted(name, here, sequence);
        if let Some(error) = error {
            self.state.advance(Event::ErrorAck);
            return refuse(context, OF, error, 0);
        }
        let waiting = self.waiting();
        let Some(mut link) = self.take_indication(sequence) else {
            return;
        };
        self.state.advance(match (here, waiting) {
            (true, _) => Event::OkAckAcceptedHere,
            (false, 1) => Event::OkAckLast,
            (false, _) => Event::OkAckOne,
        });
        link.send_short(FrameKind::Confirm, &introduction(&self.address, said));
        if here {
            self.set_ends(Ends::Connected(Box::new(link)));
        } else if let Some(place) = target.and_then(|(_, place)| place.downcast().ok()) {
            let place: Passed<P::Link> = place;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        }
        acknowledge(context, OF);
    }

    fn why_not_accepted(
        &self,
        target: Option<&str>,
        here: bool,
        sequence: u32,
    ) -> Option<TliError> {
        let Ends::Listening(listening) = &self.ends else {
            return Some(TliError::BadEndpoint);
        };
        let known = |indication: &Indication<P::Link>| indication.sequence == sequence;
        match target {
            None => Some(TliError::BadEndpoint),
            Some(name) if name != self.protocol.name() => Some(TliError::ProviderMismatch),
            _ if !listening.waiting.iter().any(known) => Some(TliError::BadSequence),
            _ if here && listening.waiting.len() > 1 => Some(TliError::IndicationsOut),
            _ => None,
        }
    }

    fn take_indication(&mut self, sequence: u32) -> Option<P::Link> {
        let Ends::Listening(listening) = &mut self.ends else {
            return None;
        };
        let mut waiting = listening.waiting.iter();
        let at = waiting.position(|indication| indication.sequence == sequence)?;
        let taken = listening.waiting.remove(at);
        taken.map(|indication| indication.link)
    }

    /// Indications that wait for the user.
    pub(super) fn waiting(&self) -> usize {
        match &self.ends {
            Ends::Listening(listening) => listening.waiting.len(),
            _ => 0,
        }
    }

    fn disconnect_request(&mut self, context: &mut Context<'_>, sequence: u32, said: &[u8]) {
        const OF: u32 = number::DISCON_REQ;
        let before = self.state;
        if !self.state.advance(Event::DisconnectRequest) {
            return refuse(context, OF, TliError::OutOfState, 0);
        }
        if before == State::WaitResponse {
            let last = self.waiting() == 1;
            let Some(mut link) = self.take_indication(sequence) else {
                self.state.advance(Event::ErrorAck);
                return refuse(context, OF, TliError::BadSequence, 0);
            };
            link.send_short(
                FrameKind::Disconnect,
                &[&REFUSED.to_ne_bytes(), said].concat(),
            );
            self.state.advance(match last {
                true => Event::OkAckLast,
                false => Event::OkAckOne,
            });
            return acknowledge(context, OF);
        }
        if let Ends::Connected(link) | Ends::Connecting(link) = &mut self.ends {
            link.send_short(
                FrameKind::Disconnect,
                &[&RESET.to_ne_bytes(), said].concat(),
            );
        }
        self.set_ends(Ends::None);
        flush_queues(context);
        self.state.advance(Event::OkAck);
        acknowledge(context, OF);
    }

    fn release_request(&mut self, context: &mut Context<'_>, message: Message) {
        self.take_passed();
        let sends = matches!(self.state, State::DataTransfer | State::WaitReleaseRequest);
        if sends && self.service_type() == ServiceType::ConnectionsWithRelease {
            // In order, behind the data.
            context.put_queue(Side::Write, message);
        } else {
            message.release(context.pool());
            self.fail(context);
        }
    }
}
