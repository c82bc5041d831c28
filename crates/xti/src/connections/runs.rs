//! Runs: several messages of the user, or of the peer, as one message of the stream (`tpi::run`).

use super::requests::RESET;
use super::{ConnectionProvider, Link, Protocol};
use crate::carrier::CarriedProtocol;
use crate::tpi::{self, State, forget_sent, run_lengths};
use streams::{Context, Message, Side};

/// Whether a message is a run.
#[inline]
pub(super) fn is_run(message: &Message) -> bool {
    let control = message.control.as_ref();
    control.is_some_and(|control| tpi::is_run(control.octets()))
}

/// Sends a run; what has no room comes back, with the octets of its first message.
#[inline]
pub(super) fn send(
    link: &mut impl Link,
    context: &mut Context<'_>,
    mut message: Message,
) -> Option<(Message, usize)> {
    let (Some(control), [block]) = (&mut message.control, &mut message.data[..]) else {
        message.release(context.pool());
        return None;
    };
    let sent = link.send_run(block.octets(), run_lengths(control.octets(), 0));
    let Some(next) = run_lengths(control.octets(), sent).next() else {
        message.release(context.pool());
        return None;
    };
    let octets: usize = run_lengths(control.octets(), 0).take(sent).sum();
    forget_sent(control, sent);
    block.keep(octets..block.len());
    Some((message, next))
}

impl ConnectionProvider<CarriedProtocol> {
    /// The user takes runs from here on, or no longer.
    pub(crate) fn take_runs(&mut self, takes: bool) {
        self.protocol.take_runs(takes);
        self.adopt();
    }
}

impl<P: Protocol> ConnectionProvider<P> {
    /// A run of the library's.
    pub(super) fn run_request(&mut self, context: &mut Context<'_>, message: Message) {
        if !self.is_whole(&message) {
            message.release(context.pool());
            return self.fail(context);
        }
        match self.protocol.options_of_messages() {
            None => self.data_request(context, message),
            Some(_) => self.split_run(context, message),
        }
    }

    /// Whether the messages of a run are those of its data, and none is longer than the protocol carries.
    fn is_whole(&self, message: &Message) -> bool {
        let (Some(control), [block]) = (&message.control, &message.data[..]) else {
            return false;
        };
        let longest = usize::try_from(self.protocol.information().tsdu).unwrap_or(0);
        let lengths = || run_lengths(control.octets(), 0);
        longest > 0
            && lengths().all(|len| len <= longest)
            && lengths().sum::<usize>() == block.len()
    }

    /// Each message with options of its own.
    fn split_run(&mut self, context: &mut Context<'_>, mut message: Message) {
        if let (Some(control), [block]) = (&message.control, &mut message.data[..]) {
            for len in run_lengths(control.octets(), 0) {
                let one = Message::data(block.split_to(len));
                self.data_request(context, one);
            }
        }
        message.release(context.pool());
    }

    /// Messages of the peer.
    #[inline]
    pub(super) fn run_arrived(&mut self, context: &mut Context<'_>, message: Message) {
        if self.state == State::WaitReleaseRequest {
            message.release(context.pool());
            return self.aborted(context, RESET, &[]);
        }
        context.put_next(Side::Read, message);
    }
}
