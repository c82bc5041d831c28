//! Signals of a head: those that modules send, and events that a user asked to be signalled of (I_SETSIG).
//!
//! No signal of the system is sent: a host that wants SIGPOLL asks for the events after a run.

use super::Head;
use crate::error::Error;
use crate::message::{Extra, Message, MessageKind};
use crate::runtime::{Runtime, StreamId};
use std::ops::{BitOr, BitOrAssign};

/// Signals that wait for a user: more are dropped.
const SIGNALS_MAX: usize = 64;

/// Number of SIGPOLL.
const SIGPOLL: i32 = 29;

/// Events of a head, with the numbers of SVR4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalEvents(u32);

impl SignalEvents {
    /// A message that has not high priority came (S_INPUT).
    pub const INPUT: SignalEvents = SignalEvents(1);
    /// One of high priority came, and is held (S_HIPRI).
    pub const HIGH: SignalEvents = SignalEvents(2);
    /// There is room again for what was refused (S_OUTPUT, S_WRNORM).
    pub const OUTPUT: SignalEvents = SignalEvents(4);
    /// A module sent SIGPOLL (S_MSG).
    pub const MESSAGE: SignalEvents = SignalEvents(8);
    /// The stream failed (S_ERROR).
    pub const ERROR: SignalEvents = SignalEvents(0x10);
    /// It hung up (S_HANGUP).
    pub const HANG_UP: SignalEvents = SignalEvents(0x20);
    /// A message of band 0 came (S_RDNORM).
    pub const NORMAL: SignalEvents = SignalEvents(0x40);
    /// A message of a band above 0 came (S_RDBAND).
    pub const BAND: SignalEvents = SignalEvents(0x80);
    /// There is room again for what was refused in a band above 0, or in band 0 (S_WRBAND).
    pub const OUTPUT_BAND: SignalEvents = SignalEvents(0x100);
    /// With [`SignalEvents::BAND`]: it is urgent (S_BANDURG, which asks for SIGURG). It comes with that alone.
    pub const BAND_URGENT: SignalEvents = SignalEvents(0x200);

    const ALL: u32 = 0x3ff;

    /// The events of a number of SVR4.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a number with others.
    pub fn new(number: u32) -> Result<SignalEvents, Error> {
        match number & !SignalEvents::ALL {
            0 => Ok(SignalEvents(number)),
            _ => Err(Error::Invalid("events of a signal are 1 to 0x200")),
        }
    }

    /// Their number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Whether all of `others` are among them.
    pub fn contains(self, others: SignalEvents) -> bool {
        self.0 & others.0 == others.0
    }

    /// Those that are in both.
    fn and(self, others: SignalEvents) -> SignalEvents {
        SignalEvents(self.0 & others.0)
    }
}

impl BitOr for SignalEvents {
    type Output = SignalEvents;

    fn bitor(self, others: SignalEvents) -> SignalEvents {
        SignalEvents(self.0 | others.0)
    }
}

impl BitOrAssign for SignalEvents {
    fn bitor_assign(&mut self, others: SignalEvents) {
        *self = *self | others;
    }
}

/// What a user is to be told of.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Numbers that modules sent.
    sent: std::collections::VecDeque<i32>,
    asked: SignalEvents,
    happened: SignalEvents,
}

impl Signals {
    /// Something happened: it is kept if the user asked for it.
    #[inline]
    pub(super) fn note(&mut self, events: SignalEvents) {
        self.happened |= events.and(self.asked);
    }

    /// A message comes to wait at the head.
    #[inline]
    pub(super) fn note_arrival(&mut self, message: &Message) {
        if self.asked == SignalEvents::default() {
            return;
        }
        self.note(match message.band() {
            0 => SignalEvents::INPUT | SignalEvents::NORMAL,
            _ if self.asked.contains(SignalEvents::BAND) => {
                SignalEvents::INPUT | SignalEvents::BAND | SignalEvents::BAND_URGENT
            }
            _ => SignalEvents::INPUT,
        });
    }

    /// A module sent a signal.
    pub(super) fn note_sent(&mut self, message: &Message) {
        let Some(&Extra::Signal(signal)) = message.extra.as_deref() else {
            return;
        };
        if self.sent.len() < SIGNALS_MAX {
            self.sent.push_back(signal);
        }
        if signal == SIGPOLL && message.kind() == MessageKind::Signal {
            self.note(SignalEvents::MESSAGE);
        }
    }
}

impl Head {
    pub(super) fn note(&mut self, events: SignalEvents) {
        self.signals.note(events);
    }
}

impl Runtime {
    /// The next signal that a module sent (M_SIG, M_PCSIG).
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn take_signal(&mut self, stream: StreamId) -> Result<Option<i32>, Error> {
        Ok(self.stream_and_level(stream)?.0.signals.sent.pop_front())
    }

    /// Asks for events, instead of those asked for before; for none, nothing is signalled (I_SETSIG).
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn set_signals(&mut self, stream: StreamId, events: SignalEvents) -> Result<(), Error> {
        let signals = &mut self.stream_and_level(stream)?.0.signals;
        signals.asked = events;
        signals.happened = signals.happened.and(events);
        Ok(())
    }

    /// The events that were asked for (I_GETSIG).
    ///
    /// # Errors
    ///
    /// No such stream; [`Error::Invalid`] when none were.
    pub fn signals(&mut self, stream: StreamId) -> Result<SignalEvents, Error> {
        match self.stream_and_level(stream)?.0.signals.asked {
            SignalEvents(0) => Err(Error::Invalid("no event was asked for")),
            asked => Ok(asked),
        }
    }

    /// The events that happened since the last call, of those that were asked for: what a signal would tell. None
    /// where there would be no signal.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn take_signalled(&mut self, stream: StreamId) -> Result<SignalEvents, Error> {
        let signals = &mut self.stream_and_level(stream)?.0.signals;
        Ok(std::mem::take(&mut signals.happened))
    }
}
