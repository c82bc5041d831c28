//! `ring=all` and `ring=one` of `shm` and `shm-spin`: one ring for all receivers of a sender, of whom each reads each message out of it, or
//! who share the messages out.
//!
//! The connecting side makes the ring and admits each listener to it. It only sends, and the listening sides only receive. With
//! `ring=all` the receiver that is furthest behind holds it back; one that ends before it ends the circuit, because not all get its
//! messages then. With `ring=one` a message goes to the receiver that claims it first; one that is gone without a close ends the circuit, because it
//! may have taken a message with it.

use super::shm::to_io_error;
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo, Note, OptionHelp, Part,
    Sharing,
};
use crate::options::Options;
use crate::parts::{self, MessageRest};
use channel::{
    Anycast, AnycastSender, Broadcast, BroadcastSender, Fanout, FanoutReceiver, FanoutSender,
    NextMessage,
};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// The option, which both ends have to be given.
pub(super) const RING: OptionHelp = OptionHelp {
    name: "ring",
    values: "each|all|one",
    meaning: "each receiver has rings of its own, or all read one (default with --fan-out N), or share it out (with N@one)",
};

/// The value for one ring that all read.
const ALL: &str = "all";

/// The value for one ring whose messages are shared out.
const ONE: &str = "one";

/// To whom messages go by one ring, if these options ask for such.
pub(super) fn sharing(own: &BTreeMap<String, String>) -> Option<Sharing> {
    match own.get(RING.name)?.as_str() {
        ALL => Some(Sharing::All),
        ONE => Some(Sharing::One),
        _ => None,
    }
}

/// Checks the option, and that nothing else is asked of such a ring.
/// The error is a sentence that names the option and its values.
pub(super) fn check(own: &BTreeMap<String, String>) -> Result<(), String> {
    match own.get(RING.name).map(String::as_str) {
        None | Some("each") => Ok(()),
        Some(ALL | ONE) => match own.keys().find(|name| *name != RING.name) {
            None => Ok(()),
            Some(other) => Err(format!(
                "a ring for several receivers has no {other}=; leave it out, or give ring=each"
            )),
        },
        Some(other) => Err(format!(
            "'{other}' is no value of ring; give each, all or one"
        )),
    }
}

/// What makes circuits with these options reach several listeners: nothing for those with rings or options of their own.
pub(super) fn option_to_many(
    own: &BTreeMap<String, String>,
    wanted: Sharing,
) -> Option<(&'static str, &'static str)> {
    let is_plain = own.is_empty() || sharing(own) == Some(wanted);
    let value = match wanted {
        Sharing::All => ALL,
        Sharing::One => ONE,
    };
    is_plain.then_some((RING.name, value))
}

/// A ring of many receivers that says whether those that are left get all messages.
pub(super) trait Whole: Fanout {
    /// Whether they do, of a ring that had so many receivers.
    fn is_whole(sender: &FanoutSender<Self>, receivers: u32) -> bool;
}

impl Whole for Broadcast {
    #[inline]
    fn is_whole(sender: &BroadcastSender, receivers: u32) -> bool {
        sender.receivers() == receivers
    }
}

impl Whole for Anycast {
    #[inline]
    fn is_whole(sender: &AnycastSender, _receivers: u32) -> bool {
        sender.killed() == 0
    }
}

/// The end that sends to several receivers.
#[derive(Debug)]
pub(super) struct SharedSource<D: Whole> {
    /// None once it is finished.
    sender: Option<FanoutSender<D>>,
    /// Receivers at the start.
    receivers: u32,
    /// Octets of the ring.
    ring_len: u32,
    /// Longest wait of a blocking call.
    timeout: Duration,
    /// System calls of a sender that is finished.
    finished_calls: u64,
}

impl<D: Whole> SharedSource<D> {
    pub(super) fn new(sender: FanoutSender<D>, options: &Options) -> Self {
        SharedSource {
            receivers: sender.receivers(),
            ring_len: sender.geometry().capacity(),
            sender: Some(sender),
            timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            finished_calls: 0,
        }
    }

    #[inline]
    fn write(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        let Some(sender) = &mut self.sender else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let has_room = sender.send(message, limit).map_err(to_io_error)?;
        if !D::is_whole(sender, self.receivers) {
            return Err(receiver_ended(sender.killed()));
        }
        match has_room {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

#[cold]
fn receiver_ended(killed: u32) -> io::Error {
    let text = match killed {
        0 => "a receiver of the ring has closed it".to_owned(),
        killed => format!("{killed} of the ring's receivers are gone"),
    };
    io::Error::new(io::ErrorKind::BrokenPipe, text)
}

/// This end only sends, or only receives.
fn one_way<T>() -> io::Result<T> {
    let text = "a ring for several receivers has one direction; give ring=each for both";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

impl<D: Whole> Circuit for SharedSource<D> {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.write(message, Duration::ZERO)
    }

    fn try_recv(&mut self, _buffer: &mut [u8]) -> io::Result<Option<usize>> {
        one_way()
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.write(message, self.timeout)
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, _buffer: &mut [u8]) -> io::Result<Option<Part>> {
        one_way()
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        self.finished_calls += self.sender.take().map_or(0, |sender| sender.system_calls());
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        match (interest, &mut self.sender) {
            (Interest::Read, _) => one_way(),
            (Interest::Write, Some(sender)) => {
                sender.wait_for_room(1, limit).map_err(to_io_error)?;
                Ok(())
            }
            (Interest::Write, None) => Ok(()),
        }
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("send_buffer".into(), self.ring_len.to_string()),
            ("ring_receivers".into(), self.receivers.to_string()),
        ])
    }

    /// The opening is a system call for each receiver.
    fn counts(&self) -> BTreeMap<String, u64> {
        let sender = self.sender.as_ref();
        let calls = sender.map_or(self.finished_calls, FanoutSender::system_calls);
        BTreeMap::from([("send_calls".into(), u64::from(self.receivers) + calls)])
    }

    crate::usual_circuit! { recv send_run send_shared_run recv_run flush descriptor next_deadline }
}

/// An end that receives what is sent to several.
#[derive(Debug)]
pub(super) struct SharedSink<D: Fanout> {
    receiver: FanoutReceiver<D>,
    /// Longest wait of a blocking call.
    timeout: Duration,
    /// What is left of a message received in parts.
    rest: MessageRest,
}

impl<D: Fanout> SharedSink<D> {
    pub(super) fn new(receiver: FanoutReceiver<D>, options: &Options) -> Self {
        SharedSink {
            receiver,
            timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            rest: MessageRest::default(),
        }
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        match self.receiver.receive_within(limit).map_err(to_io_error)? {
            NextMessage::Message(message) => Ok(Some(message.read(0, buffer))),
            NextMessage::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            NextMessage::End => Ok(None),
        }
    }
}

impl<D: Fanout> Circuit for SharedSink<D> {
    fn try_send(&mut self, _message: &[u8]) -> io::Result<()> {
        one_way()
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(buffer, Duration::ZERO)
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(buffer, self.timeout)
    }

    fn send_noted(&mut self, _message: &[u8], _note: &Note) -> io::Result<()> {
        one_way()
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let SharedSink {
            receiver,
            timeout,
            rest,
        } = self;
        let message = match receiver.receive_within(*timeout).map_err(to_io_error)? {
            NextMessage::Message(message) => message,
            NextMessage::Nothing => return Err(io::ErrorKind::WouldBlock.into()),
            NextMessage::End => return Ok(None),
        };
        let len = message.len();
        let front = message.read(0, buffer);
        message.read(front, rest.room(len - front));
        Ok(Some(rest.keep(len, buffer.len())))
    }

    parts::lends_nothing! {}

    /// There is no direction to end.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        if interest == Interest::Read && self.rest.is_empty() {
            self.receiver.wait_for_message(limit).map_err(to_io_error)?;
        }
        Ok(())
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let ring = self.receiver.geometry().capacity().to_string();
        BTreeMap::from([("receive_buffer".into(), ring)])
    }

    /// The opening is a system call.
    fn counts(&self) -> BTreeMap<String, u64> {
        BTreeMap::from([("receive_calls".into(), 1 + self.receiver.system_calls())])
    }

    crate::usual_circuit! { send send_run send_shared_run recv_run flush descriptor next_deadline }
}
