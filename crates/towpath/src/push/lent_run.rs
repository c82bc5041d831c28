//! Runs of sends from memory that is shared: it is lent to the stream, not copied.

use super::circuit::PushedCircuit;
use crate::contract::Circuit;
use std::io;
use std::sync::Arc;
use streams::{Block, Lender, Message, MessageKind};

/// A message of the user's that blocks refer to.
struct SharedMessage(Arc<[u8]>);

impl Lender for SharedMessage {
    fn octets(&self) -> &[u8] {
        &self.0
    }
}

impl PushedCircuit {
    /// Sends `message` up to `count` times; returns how often, at least once. What travels down refers to it. On a byte
    /// stream whose modules only hand on, a message of the stream has the blocks of several sends.
    pub(super) fn send_lent_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        let lent = Block::lent(Box::new(SharedMessage(Arc::clone(message))));
        let mut done = 0;
        while done < count {
            let sends = self.sends_a_message().min(count - done);
            let mut joined = Message::new(MessageKind::Data);
            joined.data.extend((0..sends).map(|_| lent.duplicate()));
            if !self.put_message(joined)? {
                break;
            }
            done += sends;
        }
        match done {
            0 => self.send(message).map(|()| 1),
            done => self.check_failure().map(|()| done),
        }
    }
}
