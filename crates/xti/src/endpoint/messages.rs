//! Messages of connections that keep their boundaries (a TSDU that is not 0). A message of the stream
//! without a control part ends one of the user; T_DATA_REQ and T_DATA_IND with MORE_flag do not.

use super::{Inner, XtiReceived, parse};
use crate::error::{Error, TliError};
use crate::loopback::TIDU;
use crate::tpi::{Primitive, write_data_request};
use streams::{Message, MessageKind, Priority, Want};

/// What a message of the stream is for a receive.
enum Piece {
    /// The end of a message of the user.
    Last,
    /// A part of one that goes on.
    More,
    /// An event, not data.
    Event,
}

impl Inner {
    #[inline]
    pub(super) fn keeps_messages(&self) -> bool {
        self.information.tsdu != 0
    }

    /// Puts a message, or a part of one, in pieces that one primitive carries; returns how many octets
    /// the stream took.
    pub(super) fn put_piece_by_piece(
        &mut self,
        octets: &[u8],
        more: bool,
    ) -> Result<usize, streams::Error> {
        let control = write_data_request(true);
        let mut done = 0;
        loop {
            let piece = &octets[done..octets.len().min(done + TIDU)];
            let is_last = done + piece.len() == octets.len();
            let control = (!is_last || more).then_some(&control[..]);
            let band = Priority::Band(0);
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

    /// The next octets of a message that wait at the head, up to its end; None when nothing does.
    pub(super) fn receive_message(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<Option<XtiReceived>, Error> {
        let mut received = XtiReceived { len: 0, more: true };
        loop {
            let Some(mut message) = self.next_piece()? else {
                return Ok((received.len > 0).then_some(received));
            };
            let goes_on = match piece_of(&message) {
                Piece::Last => false,
                Piece::More => true,
                Piece::Event => {
                    self.ahead = Some(message);
                    return match received.len {
                        0 => Err(TliError::Look.into()),
                        _ => Ok(Some(received)),
                    };
                }
            };
            let len = message.copy_data(0, &mut buffer[received.len..]);
            received.len += len;
            if len < message.data_octets() {
                message.trim_front(len, self.runtime.pool_mut());
                self.rest = Some(message);
                return Ok(Some(received));
            }
            message.release(self.runtime.pool_mut());
            received.more = goes_on;
            if !goes_on || received.len == buffer.len() {
                return Ok(Some(received));
            }
        }
    }

    #[inline]
    fn next_piece(&mut self) -> Result<Option<Message>, Error> {
        if let Some(message) = self.rest.take().or_else(|| self.ahead.take()) {
            return Ok(Some(message));
        }
        match self.runtime.take_blocks(self.stream, Want::Any) {
            Ok(message) => Ok(Some(message)),
            Err(streams::Error::WouldBlock) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[inline]
fn piece_of(message: &Message) -> Piece {
    if message.kind() == MessageKind::Data {
        return Piece::Last;
    }
    match parse(message) {
        Ok(Primitive::DataIndication { more: true }) => Piece::More,
        Ok(Primitive::DataIndication { more: false }) => Piece::Last,
        _ => Piece::Event,
    }
}
