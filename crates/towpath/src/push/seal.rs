//! `seal`: messages are encrypted and authenticated (ChaCha20-Poly1305, RFC 8439) with a key of both
//! ends.
//!
//! Each direction of each circuit has a key of its own: HKDF (RFC 5869) of the key in the file, with
//! 32 random octets of its sender, which go in front of its first frame, and with the sender's side,
//! so that nothing is accepted by who sent it. Frames are numbered: none can be left out, repeated,
//! exchanged or cut off at the end. The record of a whole circuit can be played again to a listener.

use super::frames::{BadFrame, Frames, fail, octets_of};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use std::path::Path;
use streams::{Context, Error, Message, MessageKind, Module, ModuleInfo, Side};

/// Octets of a key, and of the random number of a direction.
const KEY_LEN: usize = 32;

/// Last octet of what is sealed: data follow, or none do.
const MORE: u8 = 0;
const END: u8 = 1;

/// EIO: the system has no random numbers.
const NO_RANDOM: i32 = 5;

/// The key in a file: 32 octets, or 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SealKey([u8; KEY_LEN]);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey(..)")
    }
}

impl SealKey {
    /// Reads a key. Errors: a sentence that says what is wrong with the file and how one is made.
    pub(super) fn read(path: &Path) -> Result<SealKey, String> {
        let octets = std::fs::read(path).map_err(|error| error.to_string())?;
        SealKey::parse(&octets).ok_or_else(|| {
            "a key is 32 octets, or 64 hexadecimal digits; make one with head -c 32 /dev/urandom"
                .into()
        })
    }

    fn parse(octets: &[u8]) -> Option<SealKey> {
        if let Ok(key) = octets.try_into() {
            return Some(SealKey(key));
        }
        let text = std::str::from_utf8(octets).ok()?.trim();
        let mut key = [0; KEY_LEN];
        if text.len() != 2 * KEY_LEN || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (at, octet) in key.iter_mut().enumerate() {
            *octet = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(SealKey(key))
    }

    /// The key of a direction.
    fn of(&self, random: &[u8], sender_connects: bool) -> Result<LessSafeKey, BadFrame> {
        let side: &[u8] = match sender_connects {
            true => b"towpath seal 1 from the connecting side",
            false => b"towpath seal 1 from the listening side",
        };
        let derived = Salt::new(HKDF_SHA256, random).extract(&self.0);
        let info = [side];
        let key = derived.expand(&info, &CHACHA20_POLY1305);
        let key = key.map_err(|_| BadFrame)?;
        Ok(LessSafeKey::new(UnboundKey::from(key)))
    }
}

/// A direction: its key, and the number of its next frame.
struct Direction {
    key: LessSafeKey,
    number: u64,
}

impl Direction {
    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Seals what travels down and opens what travels up.
pub(super) struct Seal {
    key: SealKey,
    connects: bool,
    frames: Frames,
    sending: Option<Direction>,
    receiving: Option<Direction>,
    /// The peer has said that nothing follows.
    has_ended: bool,
    plain: Vec<u8>,
    body: Vec<u8>,
}

impl Seal {
    /// A seal of the end that connects, or of the one that listens.
    pub(super) fn new(key: SealKey, is_stream: bool, connects: bool) -> Seal {
        Seal {
            key,
            connects,
            frames: Frames::new(is_stream),
            sending: None,
            receiving: None,
            has_ended: false,
            plain: Vec::new(),
            body: Vec::new(),
        }
    }

    fn down(&mut self, context: &mut Context<'_>, message: Message) {
        let mut plain = std::mem::take(&mut self.plain);
        octets_of(&message, &mut plain);
        message.release(context.pool());
        for piece in self.frames.pieces(&plain) {
            self.send(context, piece, MORE);
        }
        self.plain = plain;
    }

    fn send(&mut self, context: &mut Context<'_>, piece: &[u8], mark: u8) {
        match self.pack(piece, mark) {
            Ok(()) => {
                let frame = self.frames.frame(context, &self.body);
                context.put_next(Side::Write, frame);
            }
            Err(BadFrame) => fail(context),
        }
    }

    /// The body of a frame: before the first, what the direction's key is made of.
    fn pack(&mut self, piece: &[u8], mark: u8) -> Result<(), BadFrame> {
        self.body.clear();
        if self.sending.is_none() {
            let mut random = [0; KEY_LEN];
            let filled = SystemRandom::new().fill(&mut random);
            filled.map_err(|_| BadFrame)?;
            self.body.extend_from_slice(&random);
            self.sending = Some(Direction {
                key: self.key.of(&random, self.connects)?,
                number: 0,
            });
        }
        let sending = self.sending.as_mut().ok_or(BadFrame)?;
        let at = self.body.len();
        self.body.extend_from_slice(piece);
        self.body.push(mark);
        let nonce = sending.nonce();
        let sealed = &mut self.body[at..];
        let tag = sending
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), sealed)
            .map_err(|_| BadFrame)?;
        self.body.extend_from_slice(tag.as_ref());
        Ok(())
    }

    fn up(&mut self, context: &mut Context<'_>, message: Message) {
        self.frames.arrived(context, message);
        let mut body = std::mem::take(&mut self.body);
        loop {
            let opened = match self.frames.take(&mut body) {
                Ok(false) => break,
                Ok(true) => self.open_frame(&mut body),
                Err(bad) => Err(bad),
            };
            match opened {
                Ok(Some(plain)) => {
                    let block = context.copy(plain);
                    context.put_next(Side::Read, Message::data(block));
                }
                Ok(None) => {}
                Err(BadFrame) => {
                    fail(context);
                    break;
                }
            }
        }
        self.body = body;
    }

    /// What a frame holds; None for the one that ends the direction.
    fn open_frame<'a>(&mut self, body: &'a mut [u8]) -> Result<Option<&'a [u8]>, BadFrame> {
        let sealed = match self.receiving {
            Some(_) => body,
            None => {
                let (random, sealed) = body.split_at_mut_checked(KEY_LEN).ok_or(BadFrame)?;
                self.receiving = Some(Direction {
                    key: self.key.of(random, !self.connects)?,
                    number: 0,
                });
                sealed
            }
        };
        let receiving = self.receiving.as_mut().ok_or(BadFrame)?;
        let nonce = receiving.nonce();
        let opened = receiving.key.open_in_place(nonce, Aad::empty(), sealed);
        let opened = opened.map_err(|_| BadFrame)?;
        match opened.split_last() {
            Some((&MORE, plain)) if !self.has_ended => Ok(Some(plain)),
            Some((&END, [])) => {
                self.has_ended = true;
                Ok(None)
            }
            _ => Err(BadFrame),
        }
    }
}

impl Module for Seal {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("seal")
    }

    fn open(&mut self, _: &mut Context<'_>) -> Result<(), Error> {
        let random = SystemRandom::new().fill(&mut [0; 1]);
        random.map_err(|_| Error::Failed(NO_RANDOM))
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (Side::Write, MessageKind::Data) => self.down(context, message),
            (Side::Read, MessageKind::Data) => self.up(context, message),
            // The user ends its direction: the peer can tell that from a cut.
            (Side::Write, MessageKind::Control) => {
                self.send(context, &[], END);
                context.put_next(side, message);
            }
            (Side::Read, MessageKind::Control) if !self.has_ended => {
                fail(context);
                message.release(context.pool());
            }
            _ => context.put_next(side, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::test_kit::{received_all, sent, through};

    fn seal(key: u8, is_stream: bool, connects: bool) -> Box<Seal> {
        Box::new(Seal::new(SealKey([key; KEY_LEN]), is_stream, connects))
    }

    fn messages() -> Vec<Vec<u8>> {
        vec![b"first".to_vec(), vec![3; 70_000], vec![], b"last".to_vec()]
    }

    #[test]
    fn sealed_messages_are_opened_by_the_other_side_with_the_key() {
        for cut in [1, 1000, usize::MAX] {
            let all = through(seal(1, true, true), seal(1, true, false), &messages(), cut);
            assert!(all.concat() == messages().concat(), "cut {cut}");
        }
        let all = through(
            seal(1, false, false),
            seal(1, false, true),
            &messages(),
            usize::MAX,
        );
        assert!(all == messages());
        let octets = sent(seal(1, false, true), &messages()).concat();
        assert!(!octets.windows(5).any(|part| part == b"first"));
    }

    #[test]
    fn what_was_not_sealed_for_this_place_is_refused() {
        let frames = sent(seal(1, false, true), &messages());
        let opened =
            |frames: &[Vec<u8>], key, connects| received_all(seal(key, false, connects), frames);
        assert_eq!(opened(&frames, 1, false).map(|all| all.len()), Ok(4));
        assert_eq!(opened(&frames, 2, false), Err(74), "another key");
        assert_eq!(opened(&frames, 1, true), Err(74), "sent back to its sender");
        let mut left_out = frames.clone();
        left_out.remove(1);
        assert_eq!(opened(&left_out, 1, false), Err(74), "one left out");
        let mut swapped = frames.clone();
        swapped.swap(2, 3);
        assert_eq!(opened(&swapped, 1, false), Err(74), "two exchanged");
        for bit in 0..frames[0].len() * 8 {
            let mut wrong = frames.clone();
            wrong[0][bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(&wrong, 1, false), Err(74), "bit {bit}");
        }
        assert_eq!(opened(&[vec![0; 31]], 1, false), Err(74), "too short");
    }

    #[test]
    fn keys_are_octets_or_digits() {
        assert_eq!(SealKey::parse(&[7; 32]), Some(SealKey([7; 32])));
        let digits = format!("{}\n", "0a".repeat(32));
        assert_eq!(SealKey::parse(digits.as_bytes()), Some(SealKey([10; 32])));
        for wrong in ["", "0a", &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(SealKey::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
