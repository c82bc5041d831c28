//! `compress`: messages are sent in DEFLATE (RFC 1951), each on its own.

use super::frames::{BadFrame, Frames, fail, octets_of};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use streams::{Context, Message, MessageKind, Module, ModuleInfo, Side};

/// Shorter messages go as they are: the tables of a code alone are as long.
const SHORT: usize = 64;

/// First octet of a frame: the rest is the message, or its length in 4 octets and DEFLATE.
const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;

/// DEFLATE expresses at most 1,032 octets by one (258 octets by 2 bits), and ends in a few bits.
const RATIO_MAX: usize = 1032;

/// What compression did, in octets before and after.
#[derive(Debug, Default)]
pub(super) struct CompressCounts {
    pub(super) plain: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// Compresses what travels down and expands what travels up.
pub(super) struct CompressModule {
    frames: Frames,
    /// What cannot be expanded ends the stream; where messages may be lost or forged it is dropped.
    is_reliable: bool,
    deflate: Compress,
    inflate: Decompress,
    plain: Vec<u8>,
    body: Vec<u8>,
    counts: Arc<CompressCounts>,
}

impl CompressModule {
    pub(super) fn new(is_stream: bool, is_reliable: bool) -> CompressModule {
        CompressModule {
            frames: Frames::new(is_stream),
            is_reliable,
            deflate: Compress::new(Compression::fast(), false),
            inflate: Decompress::new(false),
            plain: Vec::new(),
            body: Vec::new(),
            counts: Arc::default(),
        }
    }

    pub(super) fn counts(&self) -> Arc<CompressCounts> {
        Arc::clone(&self.counts)
    }

    fn down(&mut self, context: &mut Context<'_>, message: Message) {
        let mut plain = std::mem::take(&mut self.plain);
        octets_of(&message, &mut plain);
        message.release(context.pool());
        for piece in self.frames.pieces(&plain) {
            self.pack(piece);
            let count = |counter: &AtomicU64, octets: usize| {
                counter.fetch_add(octets as u64, Ordering::Relaxed);
            };
            count(&self.counts.plain, piece.len());
            count(&self.counts.sent, self.body.len());
            let frame = self.frames.frame(context, &self.body);
            context.put_next(Side::Write, frame);
        }
        self.plain = plain;
    }

    /// The body of the frame of `piece`: as it is where compression does not make it shorter.
    fn pack(&mut self, piece: &[u8]) {
        self.body.clear();
        if piece.len() >= SHORT && piece.len() <= self.frames.piece_max() {
            self.body.push(DEFLATED);
            self.body
                .extend_from_slice(&(piece.len() as u32).to_le_bytes());
            self.body.reserve(piece.len());
            self.deflate.reset();
            let done = self
                .deflate
                .compress_vec(piece, &mut self.body, FlushCompress::Finish);
            if matches!(done, Ok(Status::StreamEnd)) && self.body.len() <= piece.len() {
                return;
            }
            self.body.clear();
        }
        self.body.push(PLAIN);
        self.body.extend_from_slice(piece);
    }

    fn up(&mut self, context: &mut Context<'_>, message: Message) {
        self.frames.arrived(context, message);
        let mut body = std::mem::take(&mut self.body);
        loop {
            let unpacked = match self.frames.take(&mut body) {
                Ok(false) => break,
                Ok(true) => self.unpack(&body),
                Err(bad) => Err(bad),
            };
            if unpacked.is_ok() {
                let block = context.copy(&self.plain);
                context.put_next(Side::Read, Message::data(block));
                continue;
            }
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            if self.is_reliable {
                fail(context);
                break;
            }
        }
        self.body = body;
    }

    /// The message of a frame, in `plain`.
    fn unpack(&mut self, body: &[u8]) -> Result<(), BadFrame> {
        self.plain.clear();
        match body.split_first() {
            Some((&PLAIN, plain)) => self.plain.extend_from_slice(plain),
            Some((&DEFLATED, rest)) => {
                let (len, deflated) = rest.split_first_chunk().ok_or(BadFrame)?;
                self.inflate(u32::from_le_bytes(*len) as usize, deflated)?;
            }
            _ => return Err(BadFrame),
        }
        Ok(())
    }

    fn inflate(&mut self, len: usize, deflated: &[u8]) -> Result<(), BadFrame> {
        if len > self.frames.piece_max() || len > deflated.len().saturating_mul(RATIO_MAX) {
            return Err(BadFrame);
        }
        self.inflate.reset(false);
        self.plain.reserve_exact(len);
        let finish = FlushDecompress::Finish;
        let mut plain = std::mem::take(&mut self.plain);
        plain.resize(len, 0);
        let done = self.inflate.decompress(deflated, &mut plain, finish);
        let is_whole = self.inflate.total_out() == len as u64;
        self.plain = plain;
        match done {
            Ok(Status::StreamEnd) if is_whole => Ok(()),
            _ => Err(BadFrame),
        }
    }
}

impl Module for CompressModule {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("compress")
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (Side::Write, MessageKind::Data) => self.down(context, message),
            (Side::Read, MessageKind::Data) => self.up(context, message),
            (Side::Read, MessageKind::Control) if self.is_reliable && self.frames.has_part() => {
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
    use crate::push::test_kit::{received, through};

    fn module(is_stream: bool) -> Box<CompressModule> {
        Box::new(CompressModule::new(is_stream, true))
    }

    #[test]
    fn messages_come_out_as_they_went_in_whatever_the_cuts() {
        let messages = [
            vec![],
            vec![7; 100_000],
            b"short".to_vec(),
            (0..70_000_u32)
                .map(|at| (at.wrapping_mul(at) >> 7) as u8)
                .collect(),
        ];
        for cut in [1, 3, 1000, usize::MAX] {
            let all = through(module(true), module(true), &messages, cut);
            assert!(all.concat() == messages.concat(), "cut {cut}");
        }
        let whole = through(module(false), module(false), &messages, usize::MAX);
        assert!(whole == messages);
    }

    #[test]
    fn equal_octets_become_few_and_random_ones_cost_one_octet() {
        let mut module = CompressModule::new(false, true);
        module.pack(&[0; 16_384]);
        assert!(module.body.len() < 200, "{}", module.body.len());
        let mut random = engine::SplitMix64::new(1);
        let noise: Vec<u8> = (0..1000).map(|_| random.next_u64() as u8).collect();
        module.pack(&noise);
        assert_eq!(module.body.len(), 1001);
    }

    #[test]
    fn hostile_frames_are_refused_without_room_for_what_they_promise() {
        let mut module = CompressModule::new(false, true);
        module.pack(&[9; 1000]);
        let good = module.body.clone();
        assert_eq!(module.unpack(&good), Ok(()));
        for (at, value) in [(0, 2), (1, 0xff), (4, 0xff)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(module.unpack(&bad), Err(BadFrame), "octet {at}");
        }
        let cut = &good[..good.len() - 1];
        assert_eq!(module.unpack(cut), Err(BadFrame));
        assert_eq!(module.unpack(&[]), Err(BadFrame));
        assert_eq!(module.unpack(&[DEFLATED, 1, 0]), Err(BadFrame));
        assert_eq!(module.unpack(&[DEFLATED, 0, 0, 0, 4, 3, 0]), Err(BadFrame));
        assert!(module.plain.capacity() < 100_000);
        assert_eq!(received(Box::new(module), &[5, 5]), Err(74));
    }
}
