//! Framing of every control connection, without any socket: octets in, messages out.
//!
//! A frame is a length of four octets, little-endian, and one message in postcard form that fills
//! it exactly. No memory is allocated for an announced length.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most octets of a frame to an agent: a job of 64 circuits with the addresses of all.
pub const REQUEST_MAX: usize = 64 << 10;

/// Most octets of a frame from an agent: the report of a worker.
pub const RESPONSE_MAX: usize = crate::FRAME_MAX;

/// Octets of a frame's header.
pub(crate) const HEADER_LEN: usize = 4;

/// Why a frame is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It exceeds the limit.
    #[error("a frame of {len} octets exceeds the limit of {limit}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// Its octets are no message, or more than one.
    #[error("a frame that is no message")]
    Malformed,
}

/// A message as a frame of at most `limit` octets.
///
/// # Errors
///
/// [`FrameError::TooLong`].
pub fn encode(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, FrameError> {
    let body = postcard::to_stdvec(message).map_err(|_| FrameError::Malformed)?;
    let len = body.len();
    if len > limit {
        return Err(FrameError::TooLong { len, limit });
    }
    let mut frame = Vec::with_capacity(HEADER_LEN + len);
    frame.extend_from_slice(&(len as u32).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The length of the body that a header announces.
pub(crate) fn body_len(header: [u8; HEADER_LEN], limit: usize) -> Result<usize, FrameError> {
    match u32::from_le_bytes(header) as usize {
        len if len > limit => Err(FrameError::TooLong { len, limit }),
        len => Ok(len),
    }
}

/// The message that a frame's body is.
pub(crate) fn decode_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Malformed),
    }
}

/// Collects received octets and decodes frames.
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    octets: Vec<u8>,
    consumed: usize,
}

impl FrameDecoder {
    /// A decoder of frames of at most `limit` octets.
    pub fn new(limit: usize) -> FrameDecoder {
        FrameDecoder {
            limit,
            octets: Vec::new(),
            consumed: 0,
        }
    }

    /// Appends received octets.
    pub fn push(&mut self, octets: &[u8]) {
        if self.consumed > 0 {
            self.octets.drain(..self.consumed);
            self.consumed = 0;
        }
        self.octets.extend_from_slice(octets);
    }

    /// Whether an incomplete frame is buffered.
    pub fn is_partial(&self) -> bool {
        self.octets.len() > self.consumed
    }

    /// The next message; None when more octets are needed.
    ///
    /// # Errors
    ///
    /// A [`FrameError`]; the decoder is unusable after that.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let waiting = &self.octets[self.consumed..];
        let Some((head, rest)) = waiting.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = body_len(*head, self.limit)?;
        let Some(body) = rest.get(..len) else {
            return Ok(None);
        };
        let message = decode_body(body)?;
        self.consumed += HEADER_LEN + len;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoder_reassembles_split_frames() {
        let one = encode(&("first".to_owned(), 1u32), 100).expect("it fits");
        let two = encode(&("second".to_owned(), 2u32), 100).expect("it fits");
        let all = [one, two].concat();
        for step in 1..all.len() {
            let mut frames = FrameDecoder::new(100);
            let mut seen = Vec::new();
            for part in all.chunks(step) {
                frames.push(part);
                while let Some(message) =
                    frames.next_message::<(String, u32)>().expect("good frames")
                {
                    seen.push(message.1);
                }
            }
            assert_eq!(seen, [1, 2]);
            assert!(!frames.is_partial());
        }
    }

    #[test]
    fn length_limit_is_exact() {
        let text = "x".repeat(98);
        let exact = encode(&text, 99).expect("one octet of length and 98 of text");
        assert!(matches!(
            encode(&text, 98),
            Err(FrameError::TooLong { len: 99, limit: 98 })
        ));
        let mut frames = FrameDecoder::new(99);
        frames.push(&exact);
        assert_eq!(frames.next_message::<String>(), Ok(Some(text)));
        for len in [100u32, u32::MAX] {
            let mut frames = FrameDecoder::new(99);
            frames.push(&len.to_le_bytes());
            assert!(matches!(
                frames.next_message::<String>(),
                Err(FrameError::TooLong { .. })
            ));
        }
    }

    #[test]
    fn trailing_or_missing_octets_are_malformed() {
        for body in [&[][..], &[5, b'a'], &[1, b'a', b'b'], &[1, 0xff]] {
            let mut frames = FrameDecoder::new(99);
            frames.push(&(body.len() as u32).to_le_bytes());
            frames.push(body);
            assert_eq!(frames.next_message::<String>(), Err(FrameError::Malformed));
        }
    }
}
