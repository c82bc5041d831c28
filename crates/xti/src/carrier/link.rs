//! The provider's side of a connection of a carrier.

use super::{Carried, Carrier, Piece};
use crate::connections::{Behind, Frame, FrameKind, Link, Next, Sleep, introduction};
use crate::inet::TIDU;
use crate::sctp::{self, MessageOptions};
use crate::tpi::{
    self, RUN_CONTROL, RUN_MESSAGES, RUN_OCTETS, add_to_run, begin_run, run_messages,
};
use socket2::Socket;
use std::borrow::Cow;
use std::io;
use streams::{Block, Message, Pool};

/// EPIPE: the peer takes no more data.
const BROKEN_PIPE: u32 = 32;

/// EMSGSIZE: a message is longer than the protocol carries.
const TOO_LONG: u32 = 90;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Open,
    /// The peer sends no more.
    PeerEnded,
    /// It is lost; the system's number.
    Lost(u32),
}

/// What a receive brought.
enum Received {
    /// A piece of a message, or octets of a stream.
    Piece(Piece),
    Nothing,
    /// The peer sends no more.
    End,
    Failure(io::Error),
}

/// A connection of a carrier.
pub(crate) struct CarriedLink {
    pub(super) connection: Box<dyn Carried>,
    stage: Stage,
    message_max: Option<usize>,
    has_half_close: bool,
    pub(super) reports_options: bool,
    /// The user takes runs.
    pub(super) takes_runs: bool,
    /// What came behind a run and was no message of one.
    behind: Option<Next>,
    /// A message of the user whose end has not come, and an expedited one, which may come between its pieces.
    unfinished: [Unfinished; 2],
    /// A block to receive into.
    spare: Option<Block>,
}

/// Pieces of a message of the user.
#[derive(Default)]
struct Unfinished {
    octets: Vec<u8>,
    /// What the first of them says of the message.
    options: MessageOptions,
}

impl CarriedLink {
    pub(super) fn new(connection: Box<dyn Carried>, of: &dyn Carrier, stage: Stage) -> CarriedLink {
        CarriedLink {
            connection,
            stage,
            message_max: of.message_max(),
            has_half_close: of.has_half_close(),
            reports_options: false,
            takes_runs: false,
            behind: None,
            unfinished: Default::default(),
            spare: None,
        }
    }

    fn lose(&mut self, error: &io::Error) {
        self.stage = Stage::Lost(reason(error));
    }

    /// Whether what is sent goes nowhere.
    #[inline]
    fn is_lost(&mut self) -> bool {
        if self.stage == Stage::PeerEnded && !self.has_half_close {
            self.stage = Stage::Lost(BROKEN_PIPE);
        }
        matches!(self.stage, Stage::Lost(_))
    }

    /// Sends data; false while there is no room.
    fn send_data(&mut self, message: &Message, more: bool, expedited: bool) -> bool {
        if self.is_lost() {
            return true;
        }
        let blocks = &message.data;
        let octets = match &blocks[..] {
            [block] => Cow::Borrowed(block.octets()),
            _ => Cow::Owned(
                blocks
                    .iter()
                    .flat_map(|block| block.octets())
                    .copied()
                    .collect(),
            ),
        };
        let options = match &message.control {
            Some(control) => options_of(control.octets(), expedited),
            None => MessageOptions::default(),
        };
        let is_begun = !self.unfinished[usize::from(expedited)].octets.is_empty();
        match self.message_max {
            Some(longest) if more || is_begun => {
                self.send_piece(&octets, (more, expedited), options, longest)
            }
            _ => self.send_whole(&octets, &options),
        }
    }

    /// A message is sent when its end comes.
    fn send_piece(
        &mut self,
        octets: &[u8],
        (more, expedited): (bool, bool),
        options: MessageOptions,
        longest: usize,
    ) -> bool {
        let unfinished = &mut self.unfinished[usize::from(expedited)];
        let before = unfinished.octets.len();
        if before + octets.len() > longest {
            self.stage = Stage::Lost(TOO_LONG);
            return true;
        }
        if before == 0 {
            unfinished.options = options;
        }
        unfinished.octets.extend_from_slice(octets);
        if more {
            return true;
        }
        let options = unfinished.options;
        let mut message = std::mem::take(&mut unfinished.octets);
        let sent = self.send_whole(&message, &options);
        message.truncate(if sent { 0 } else { before });
        self.unfinished[usize::from(expedited)].octets = message;
        sent
    }

    fn send_whole(&mut self, octets: &[u8], options: &MessageOptions) -> bool {
        match self.connection.try_send(octets, options) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                // What the peer said last is told first, unless the message itself is wrong.
                if self.stage != Stage::Open || error.kind() == io::ErrorKind::InvalidInput {
                    self.lose(&error);
                }
                true
            }
        }
    }

    fn frame(kind: FrameKind, octets: Block) -> Next {
        Next::Frame(Frame {
            kind,
            octets,
            options: None,
        })
    }

    fn look_at_opening(&mut self, pool: &mut Pool) -> Next {
        match self.connection.is_open() {
            Ok(false) => Next::Nothing,
            Ok(true) => {
                self.stage = Stage::Open;
                let octets = pool.copy(0, &introduction(self.connection.peer(), &[]));
                CarriedLink::frame(FrameKind::Confirm, octets)
            }
            Err(error) => Next::End(Some(reason(&error))),
        }
    }

    fn receive(&mut self, pool: &mut Pool) -> Next {
        let spare = self.spare.take();
        let mut block = spare.unwrap_or_else(|| pool.allocate(0, TIDU));
        match self.receive_into(&mut block) {
            Received::Piece(piece) if self.is_short(&piece) => self.receive_run(pool, block),
            Received::Piece(piece) => {
                let octets = self.arrived(pool, block);
                self.frame_of(&piece, octets)
            }
            other => {
                self.spare = Some(block);
                self.outcome_of(pool, other)
            }
        }
    }

    fn receive_into(&mut self, block: &mut Block) -> Received {
        let (connection, mut piece) = (&mut self.connection, None);
        let filled = block.fill(|room| {
            piece = connection.try_receive(room)?;
            Ok(piece.map_or(0, |piece| piece.len))
        });
        match (filled, piece) {
            (Ok(_), Some(piece)) => Received::Piece(piece),
            (Ok(_), None) => Received::End,
            (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
            (Err(error), _) => Received::Failure(error),
        }
    }

    /// A frame with a piece of a message, or with octets of a stream.
    fn frame_of(&self, piece: &Piece, octets: Block) -> Next {
        let keeps_messages = self.message_max.is_some();
        let expedited = keeps_messages && piece.options.unordered;
        let kind = match (expedited, keeps_messages && piece.more) {
            (false, false) => FrameKind::Data,
            (false, true) => FrameKind::DataMore,
            (true, false) => FrameKind::Expedited,
            (true, true) => FrameKind::ExpeditedMore,
        };
        Next::Frame(Frame {
            kind,
            octets,
            options: (keeps_messages && self.reports_options).then_some(piece.options),
        })
    }

    /// What came instead of a piece.
    fn outcome_of(&mut self, pool: &mut Pool, received: Received) -> Next {
        match received {
            Received::Failure(error) => {
                self.lose(&error);
                Next::End(Some(reason(&error)))
            }
            Received::End => {
                self.stage = Stage::PeerEnded;
                CarriedLink::frame(FrameKind::Release, pool.copy(0, &[]))
            }
            Received::Piece(_) | Received::Nothing => Next::Nothing,
        }
    }

    /// Whether a piece may be in a run: a whole message that says nothing of itself.
    #[inline]
    fn can_run(&self, piece: &Piece) -> bool {
        self.takes_runs && !piece.more && !piece.options.unordered && !self.reports_options
    }

    #[inline]
    fn is_short(&self, piece: &Piece) -> bool {
        self.can_run(piece) && piece.len <= RUN_OCTETS
    }

    /// The message in `block` with those behind it that are there already.
    fn receive_run(&mut self, pool: &mut Pool, mut block: Block) -> Next {
        let mut control = pool.allocate(0, RUN_CONTROL);
        begin_run(&mut control);
        add_to_run(&mut control, block.len());
        let mut behind = Behind::Perhaps;
        while block.len() < RUN_OCTETS && run_messages(&control) < RUN_MESSAGES {
            let before = block.len();
            match self.receive_into(&mut block) {
                Received::Piece(piece) if self.can_run(&piece) => {
                    add_to_run(&mut control, piece.len);
                }
                Received::Piece(piece) => {
                    let octets = pool.copy(0, &block.octets()[before..]);
                    block.keep(0..before);
                    self.behind = Some(self.frame_of(&piece, octets));
                    break;
                }
                Received::Nothing => {
                    behind = Behind::Nothing;
                    break;
                }
                other => {
                    self.behind = Some(self.outcome_of(pool, other));
                    break;
                }
            }
        }
        let octets = self.arrived(pool, block);
        if run_messages(&control) == 1 && behind == Behind::Perhaps {
            pool.release(control);
            return CarriedLink::frame(FrameKind::Data, octets);
        }
        let run = Message::proto(control, Some(octets));
        Next::Run(run, behind)
    }

    /// The block of an arrival; a short one is copied, so that a queue pins no more than four times its octets.
    fn arrived(&mut self, pool: &mut Pool, mut block: Block) -> Block {
        if block.len() >= TIDU / 4 {
            return block;
        }
        let copy = pool.copy(0, block.octets());
        block.clear();
        self.spare = Some(block);
        copy
    }
}

impl Link for CarriedLink {
    fn peer(&self) -> &[u8] {
        self.connection.peer()
    }

    fn said(&self) -> &[u8] {
        &[]
    }

    fn send(&mut self, kind: FrameKind, message: &Message) -> bool {
        match kind {
            FrameKind::Data => self.send_data(message, false, false),
            FrameKind::DataMore => self.send_data(message, true, false),
            FrameKind::Expedited => self.send_data(message, false, true),
            FrameKind::ExpeditedMore => self.send_data(message, true, true),
            FrameKind::Release => match self.connection.finish() {
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
                Ok(()) => true,
            },
            // The provider has none of the others.
            _ => true,
        }
    }

    fn send_run(&mut self, mut octets: &[u8], lengths: impl Iterator<Item = usize>) -> usize {
        let is_lost = self.is_lost();
        let mut sent = 0;
        for len in lengths {
            let (message, rest) = octets.split_at(len);
            if !is_lost && !self.send_whole(message, &MessageOptions::default()) {
                break;
            }
            (octets, sent) = (rest, sent + 1);
        }
        sent
    }

    fn send_short(&mut self, kind: FrameKind, _octets: &[u8]) {
        match kind {
            FrameKind::Disconnect => self.connection.abort(),
            FrameKind::Release => {
                // What waits for room is lost with the circuit, as it is when a socket is closed late.
                let _ = self.connection.finish();
            }
            // The protocol has answered the peer already.
            _ => {}
        }
    }

    fn flush(&mut self) {
        // A wire that failed is told by the next receive.
        let _ = self.connection.flush();
    }

    fn has_unsent(&self) -> bool {
        self.connection.has_unsent()
    }

    fn next(&mut self, pool: &mut Pool) -> Next {
        if let Some(behind) = self.behind.take() {
            return behind;
        }
        match self.stage {
            Stage::Opening => self.look_at_opening(pool),
            Stage::Open => self.receive(pool),
            Stage::PeerEnded => Next::Nothing,
            Stage::Lost(reason) => Next::End(Some(reason)),
        }
    }

    fn has_ended(&mut self, _pool: &mut Pool) -> bool {
        self.connection.is_open().is_err()
    }

    fn sleep(&mut self, room_for: Option<usize>) -> Sleep {
        let (waiter, seen) = self.connection.waiter(room_for.is_some());
        Sleep::By(waiter, seen)
    }

    fn take_wakes(&mut self) {}

    fn waitable(&self) -> Option<Socket> {
        self.connection.socket()
    }

    fn system_calls(&self) -> (u64, u64) {
        self.connection.system_calls()
    }

    fn ring_octets(&self) -> Option<u64> {
        None
    }
}

/// What a message says of itself, by its control part.
fn options_of(control: &[u8], expedited: bool) -> MessageOptions {
    let options = sctp::message_options(tpi::data_options(control));
    MessageOptions {
        unordered: expedited,
        // The provider took none that are wrong.
        ..options.unwrap_or_default()
    }
}

/// The system's number of why a connection is lost.
fn reason(error: &io::Error) -> u32 {
    let number = error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::ConnectionRefused => 111,
        io::ErrorKind::TimedOut => 110,
        io::ErrorKind::ConnectionAborted => 103,
        io::ErrorKind::BrokenPipe => BROKEN_PIPE as i32,
        io::ErrorKind::InvalidInput => TOO_LONG as i32,
        _ => 104,
    });
    number as u32
}
