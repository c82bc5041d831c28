//! The bottom of a stream on a circuit: messages that travel down are sent on the circuit, what it
//! receives travels up.

use crate::contract::Circuit;
use std::io;
use streams::{
    Block, Context, Error, Extra, Marks, Message, MessageKind, Module, ModuleInfo, Side,
};

/// One message waits for the circuit, no more: what is above it waits where the modules' own marks
/// say.
const MARKS: Marks = match Marks::constant(1, 0) {
    Some(marks) => marks,
    None => panic!("1 is above 0"),
};

/// Octets of a receive of messages, longer ones of which come in several blocks.
const BLOCK_LEN: usize = 65_536;

/// A circuit as the driver of a stream.
pub(super) struct CircuitDriver {
    pub(super) circuit: Box<dyn Circuit>,
    is_stream: bool,
    receive_len: usize,
    /// The first blocks of a message whose last has not come.
    partial: Option<Message>,
    /// The peer has ended its direction.
    pub(super) has_ended: bool,
    /// What a send of a message failed with that the user no longer waits for.
    failure: Option<io::Error>,
}

impl CircuitDriver {
    /// A driver on `circuit`, which receives `read_len` octets at a time where it has no messages.
    pub(super) fn new(
        circuit: Box<dyn Circuit>,
        is_stream: bool,
        read_len: usize,
    ) -> CircuitDriver {
        CircuitDriver {
            circuit,
            is_stream,
            receive_len: if is_stream {
                read_len.max(1)
            } else {
                BLOCK_LEN
            },
            partial: None,
            has_ended: false,
            failure: None,
        }
    }

    /// The error of an earlier send, once.
    #[inline]
    pub(super) fn take_failure(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Sends a message; returns it, or what is left of it, when the circuit has no room.
    #[inline]
    fn transmit(&mut self, context: &mut Context<'_>, mut message: Message) -> Option<Message> {
        if message.data.len() > 1 {
            if self.is_stream {
                return self.transmit_blocks(context, message);
            }
            message.pull_up(0, context.pool());
        }
        let octets = message.data.first().map_or(&[][..], Block::octets);
        if !(self.is_stream && octets.is_empty()) {
            match self.circuit.try_send(octets) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(message),
                Err(error) => {
                    self.failure.get_or_insert(error);
                }
            }
        }
        message.release(context.pool());
        None
    }

    /// Sends octets of a stream, block by block.
    fn transmit_blocks(
        &mut self,
        context: &mut Context<'_>,
        mut message: Message,
    ) -> Option<Message> {
        let mut sent = 0;
        for block in &message.data {
            match self.circuit.try_send(block.octets()) {
                Ok(()) => sent += block.len(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    message.trim_front(sent, context.pool());
                    return Some(message);
                }
                Err(error) => {
                    self.failure.get_or_insert(error);
                    break;
                }
            }
        }
        message.release(context.pool());
        None
    }

    /// Sends what waits while the circuit takes it; whether all of it went.
    pub(super) fn send_waiting(&mut self, context: &mut Context<'_>) -> bool {
        while let Some(message) = context.get(Side::Write) {
            if let Some(refused) = self.transmit(context, message) {
                context.put_back(Side::Write, refused);
                return false;
            }
        }
        true
    }

    /// Receives once and hands it up. A message of which only a part came waits for the rest.
    /// Errors are those of the circuit's receives.
    pub(super) fn receive(
        &mut self,
        context: &mut Context<'_>,
        least: usize,
        block: bool,
    ) -> io::Result<()> {
        let room = if self.is_stream {
            self.receive_len
        } else {
            self.receive_len.max(least)
        };
        let mut arrived = context.pool().allocate(0, room);
        let (mut got_any, mut is_whole) = (false, true);
        let circuit = &mut self.circuit;
        let filled = arrived.fill(|room| {
            let part = match (block, self.is_stream) {
                (true, false) => circuit.receive_part(room)?.map(|part| (part.len, part.end)),
                (true, true) => circuit.recv(room)?.map(|len| (len, true)),
                (false, _) => circuit.try_recv(room)?.map(|len| (len, true)),
            };
            got_any = part.is_some();
            let (len, end) = part.unwrap_or((0, true));
            is_whole = end;
            Ok(len)
        });
        if filled.is_err() || !got_any {
            context.pool().release(arrived);
            if filled.is_ok() && !self.has_ended {
                self.has_ended = true;
                context.put_next(Side::Read, Message::new(MessageKind::Control));
            }
            return filled.map(drop);
        }
        let mut message = self
            .partial
            .take()
            .unwrap_or_else(|| Message::new(MessageKind::Data));
        message.data.push(arrived);
        if is_whole {
            context.put_next(Side::Read, message);
        } else {
            self.partial = Some(message);
        }
        Ok(())
    }
}

impl Module for CircuitDriver {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::with_write_service("circuit", MARKS)
    }

    /// Only the user's calls look whether the circuit has room again: each look is a call of it.
    fn open(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        context.set_no_enable(Side::Write, true);
        Ok(())
    }

    fn close(&mut self, context: &mut Context<'_>) {
        self.send_waiting(context);
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (message.kind(), message.extra.as_deref()) {
            (MessageKind::Data, _) => {
                let waits = match context.is_empty(Side::Write) {
                    true => self.transmit(context, message),
                    false => Some(message),
                };
                if let Some(message) = waits {
                    context.put_queue(Side::Write, message);
                }
            }
            (MessageKind::Flush, Some(&Extra::Flush(request))) => context.flush_and_turn(request),
            (MessageKind::Ioctl, _) => {
                context.reply(side, message.into_kind(MessageKind::IoctlNak));
            }
            _ => message.release(context.pool()),
        }
    }

    fn service(&mut self, context: &mut Context<'_>, _: Side) {
        self.send_waiting(context);
    }

    fn ready(&mut self, context: &mut Context<'_>) {
        self.send_waiting(context);
    }
}
