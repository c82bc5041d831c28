//! Messages of connections that keep their boundaries (a TSDU that is not 0). A message of the stream
//! without a control part ends one of the user; T_DATA_REQ and T_DATA_IND with MORE_flag do not.

use super::{Flags, Inner, XtiReceived, is_run, parse};
use crate::error::{Error, TliError};
use crate::loopback::TIDU;
use crate::tpi::{Primitive, data_options, number, parse_options, write_data};
use streams::{Message, MessageKind, Priority, Want};

/// What a message of the stream is for a receive: None for an event.
pub(super) struct Piece {
    pub(super) more: bool,
    pub(super) expedited: bool,
}

impl Inner {
    #[inline]
    pub(super) fn keeps_messages(&self) -> bool {
        self.information.tsdu != 0
    }

    /// Puts a message, or a part of one, in pieces that one primitive carries; returns how many octets
    /// the stream took. Expedited ones go in band 1, before others that wait.
    pub(super) fn put_piece_by_piece(
        &mut self,
        octets: &[u8],
        flags: Flags,
        options: &[u8],
    ) -> Result<usize, streams::Error> {
        if flags == Flags::default() && options.is_empty() && self.gathers(octets.len()) {
            return match self.gather(octets)? {
                true => Ok(octets.len()),
                false => Err(streams::Error::WouldBlock),
            };
        }
        self.send_gathered();
        let (number, band) = match flags.expedited {
            true => (number::EXDATA_REQ, Priority::Band(1)),
            false => (number::DATA_REQ, Priority::Band(0)),
        };
        let mut done = 0;
        loop {
            let piece = &octets[done..octets.len().min(done + TIDU)];
            let is_last = done + piece.len() == octets.len();
            let control = write_data(number, !is_last || flags.more);
            let is_plain = is_last && !flags.more && !flags.expedited;
            let control = (!is_plain).then_some(&control[..]);
            let with_options = (done == 0 && !options.is_empty())
                .then(|| options_data_request(!is_last || flags.more, flags.expedited, options));
            let control = with_options.as_deref().or(control);
            let put = self
                .runtime
                .put_message(self.stream, control, Some(piece), band);
            match put {
                Ok(()) => done += piece.len(),
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
            if is_last {
                return Ok(done);
            }
        }
    }

    /// The next octets of a message that wait at the head, up to its end, and what came with it; None when nothing
    /// does.
    pub(super) fn receive_message(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<Option<XtiReceived>, Error> {
        if !self.takes_runs {
            self.take_runs(true);
        }
        if let Some(received) = self.receive_of_run(buffer) {
            return Ok(Some(received));
        }
        let mut received: Option<XtiReceived> = None;
        self.came_with.clear();
        loop {
            let Some(mut message) = self.next_piece()? else {
                return Ok(received);
            };
            if is_run(&message) {
                self.keep_run(message);
                return Ok(received.or_else(|| self.receive_of_run(buffer)));
            }
            let (len, expedited) =
                received.map_or((0, None), |so_far| (so_far.len, Some(so_far.expedited)));
            let Some(piece) = piece_of(&message)
                .filter(|piece| expedited.is_none_or(|expedited| expedited == piece.expedited))
            else {
                self.ahead = Some(message);
                return received.map_or(Err(TliError::Look.into()), |received| Ok(Some(received)));
            };
            if received.is_none() {
                self.note_options(&message);
            }
            let copied = message.copy_data(0, &mut buffer[len..]);
            let mut now = XtiReceived {
                len: len + copied,
                more: true,
                expedited: piece.expedited,
            };
            if copied < message.data_octets() {
                message.trim_front(copied, self.runtime.pool_mut());
                self.rest = Some(message);
                return Ok(Some(now));
            }
            message.release(self.runtime.pool_mut());
            now.more = piece.more;
            if !piece.more || now.len == buffer.len() {
                return Ok(Some(now));
            }
            received = Some(now);
        }
    }

    #[inline]
    fn note_options(&mut self, message: &Message) {
        if let Some(control) = &message.control {
            let options = parse_options(data_options(control.octets()));
            self.came_with = options.unwrap_or_default();
        }
    }

    /// What is next: expedited data before all others, but for the rest of such.
    #[inline]
    pub(super) fn next_piece(&mut self) -> Result<Option<Message>, Error> {
        let is_expedited = |message: &mut Message| message.band() > 0;
        if let Some(expedited) = self.rest.take_if(is_expedited) {
            return Ok(Some(expedited));
        }
        if let Some(expedited) = self.ahead.take_if(is_expedited) {
            return Ok(Some(expedited));
        }
        let has_kept = self.rest.is_some() || self.ahead.is_some() || self.received.is_some();
        let want = match has_kept {
            true => Want::Band(1),
            false => Want::Any,
        };
        match self.runtime.take_blocks(self.stream, want) {
            Ok(message) => Ok(Some(message)),
            Err(_) if has_kept => Ok(self.rest.take().or_else(|| self.ahead.take())),
            Err(streams::Error::WouldBlock) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// T_OPTDATA_REQ.
#[cold]
fn options_data_request(more: bool, expedited: bool, options: &[u8]) -> Vec<u8> {
    let request = Primitive::OptionsDataRequest {
        more,
        expedited,
        options: options.to_vec(),
    };
    request.octets()
}

#[inline]
pub(super) fn piece_of(message: &Message) -> Option<Piece> {
    let (more, expedited) = if message.kind() == MessageKind::Data {
        (false, message.band() > 0)
    } else {
        match parse(message) {
            Ok(Primitive::DataIndication { more }) => (more, false),
            Ok(Primitive::ExpeditedIndication { more }) => (more, true),
            Ok(Primitive::OptionsDataIndication {
                more, expedited, ..
            }) => (more, expedited),
            _ => return None,
        }
    };
    Some(Piece { more, expedited })
}
