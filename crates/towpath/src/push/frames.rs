//! Frames of modules that change octets: on a byte stream each begins with its length, elsewhere each
//! is a message.

use streams::{Context, Extra, Message, MessageKind, Side};

/// Octets of the longest message in a frame: more than one of any transport here.
const MESSAGE_MAX: usize = 64 << 20;

/// Octets of a byte stream that go into one frame at most: so long the receiver waits for its end.
const PIECE_LEN: usize = 64 << 10;

/// Octets that a module puts around a piece at most.
const AROUND_MAX: usize = 64;

/// EBADMSG: what arrived is no frame.
pub(super) const BAD_MESSAGE: i32 = 74;

/// Puts frames on what carries them, and finds them again.
#[derive(Debug)]
pub(super) struct Frames {
    is_stream: bool,
    /// What arrived and was not taken, from `start` on.
    pending: Vec<u8>,
    start: usize,
}

/// What arrived is no frame of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadFrame;

impl Frames {
    pub(super) fn new(is_stream: bool) -> Frames {
        Frames {
            is_stream,
            pending: Vec::new(),
            start: 0,
        }
    }

    /// The pieces of a message, each of which goes into a frame.
    pub(super) fn pieces<'a>(&self, octets: &'a [u8]) -> Vec<&'a [u8]> {
        match self.is_stream {
            true => octets.chunks(PIECE_LEN).collect(),
            false => vec![octets],
        }
    }

    /// Octets of the longest piece of the peer's.
    pub(super) fn piece_max(&self) -> usize {
        match self.is_stream {
            true => PIECE_LEN,
            false => MESSAGE_MAX,
        }
    }

    /// A message with one frame.
    pub(super) fn frame(&self, context: &mut Context<'_>, body: &[u8]) -> Message {
        let mut block = context.pool().allocate(0, 4 + body.len());
        if self.is_stream {
            block.append(&(body.len() as u32).to_le_bytes());
        }
        block.append(body);
        Message::data(block)
    }

    /// What arrived: its frames are there to be taken.
    pub(super) fn arrived(&mut self, context: &mut Context<'_>, message: Message) {
        self.pending.drain(..self.start);
        self.start = 0;
        for block in &message.data {
            self.pending.extend_from_slice(block.octets());
        }
        message.release(context.pool());
    }

    /// The body of the next whole frame, in `body`; false when there is none.
    /// Errors: its length is none that the peer sends.
    pub(super) fn take(&mut self, body: &mut Vec<u8>) -> Result<bool, BadFrame> {
        body.clear();
        let pending = &self.pending[self.start..];
        if !self.is_stream {
            body.extend_from_slice(pending);
            let had_one = !pending.is_empty();
            self.start = self.pending.len();
            return Ok(had_one);
        }
        let Some((len, rest)) = pending.split_first_chunk() else {
            return Ok(false);
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len > self.piece_max() + AROUND_MAX {
            return Err(BadFrame);
        }
        let Some(found) = rest.get(..len) else {
            return Ok(false);
        };
        body.extend_from_slice(found);
        self.start += 4 + len;
        Ok(true)
    }

    /// Whether a part of a frame is there and its rest is not.
    pub(super) fn has_part(&self) -> bool {
        self.start < self.pending.len()
    }
}

/// The octets of a message in one place.
pub(super) fn octets_of(message: &Message, octets: &mut Vec<u8>) {
    octets.clear();
    for block in &message.data {
        octets.extend_from_slice(block.octets());
    }
}

/// Tells the user that what arrived cannot be understood, and ends the stream.
pub(super) fn fail(context: &mut Context<'_>) {
    let errors = Extra::Errors {
        read: Some(BAD_MESSAGE),
        write: Some(BAD_MESSAGE),
    };
    context.put_next(Side::Read, Message::with_extra(MessageKind::Error, errors));
}
