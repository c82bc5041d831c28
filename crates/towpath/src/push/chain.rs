//! Modules between the octets of a program and those of a byte stream, for who holds both.

use super::circuit::from_stream;
use super::stack::{ModuleStack, Place, Report};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use streams::{
    Context, Error, Hysteresis, Message, MessageKind, Module, ModuleInfo, Runtime, Side, StreamId,
    Want,
};

/// Service procedures that run before the clock is read again: more than modules of one stream have.
const BUDGET: usize = 1024;

/// A stream of modules whose bottom is what the caller carries: what goes in at the top comes out
/// below as the octets to send, and what arrives goes the other way.
pub(super) struct ModuleChain {
    runtime: Runtime,
    stream: StreamId,
    reports: Vec<Report>,
    /// When its clock began, where a module holds messages by it.
    epoch: Option<Instant>,
}

impl ModuleChain {
    /// New modules of `stack` at the end of a byte stream that connected or was accepted.
    /// Errors: that of a module that cannot be on the stream.
    pub(super) fn new(stack: &ModuleStack, connects: bool) -> io::Result<ModuleChain> {
        let place = Place {
            is_stream: true,
            is_reliable: true,
            connects,
        };
        let mut runtime = Runtime::new(Hysteresis::Full);
        let bottom = Box::new(Bottom::default());
        let stream = runtime.open(bottom).map_err(from_stream)?;
        let (modules, reports) = stack.make(place)?;
        // The last one pushed is the one below the head.
        for module in modules.into_iter().rev() {
            runtime.push(stream, module).map_err(from_stream)?;
        }
        Ok(ModuleChain {
            runtime,
            stream,
            reports,
            epoch: stack.keeps_time().then(Instant::now),
        })
    }

    /// Whether the queues below the head take more from the program.
    pub(super) fn has_room(&mut self) -> bool {
        self.runtime.can_put(self.stream, 0).unwrap_or(true)
    }

    /// Whether a module holds something of the program's.
    pub(super) fn holds_any(&self) -> bool {
        self.runtime.queued(self.stream, Side::Write).unwrap_or(0) > 0
    }

    /// Takes octets of the program; what is to be sent is appended to `sent`.
    /// Errors: what a module ended the stream with.
    pub(super) fn send(&mut self, octets: &[u8], sent: &mut Vec<u8>) -> io::Result<()> {
        self.tell_time();
        let block = self.runtime.pool_mut().copy(0, octets);
        self.put(Message::data(block), sent)
    }

    /// Tells the modules that the program sends no more. Errors: what a module ended the stream with.
    pub(super) fn send_end(&mut self, sent: &mut Vec<u8>) -> io::Result<()> {
        self.tell_time();
        self.put(Message::new(MessageKind::Control), sent)
    }

    fn put(&mut self, message: Message, sent: &mut Vec<u8>) -> io::Result<()> {
        let put = self.runtime.put_blocks(self.stream, message);
        put.map_err(|(error, _)| from_stream(error))?;
        self.carry_on(sent);
        Ok(())
    }

    /// Runs what is scheduled or due, and appends what is to be sent to `sent`.
    pub(super) fn carry_on(&mut self, sent: &mut Vec<u8>) {
        self.tell_time();
        while self.runtime.has_work() && self.runtime.run(BUDGET) == BUDGET {}
        self.with_bottom(|bottom, _| sent.append(&mut bottom.sent));
    }

    /// Takes octets that arrived; those for the program are appended to `received`.
    /// Fails with `InvalidData` when they are no frame of the peer's modules; else what a module ended the stream
    /// with.
    pub(super) fn receive(&mut self, octets: &[u8], received: &mut Vec<u8>) -> io::Result<()> {
        self.with_bottom(|_, context| {
            let block = context.copy(octets);
            context.put_next(Side::Read, Message::data(block));
        });
        self.take_all(received)
    }

    /// Tells the modules that the peer sends no more.
    /// Errors are those of [`receive`](ModuleChain::receive): a frame was cut off, or the end is not the peer's.
    pub(super) fn receive_end(&mut self, received: &mut Vec<u8>) -> io::Result<()> {
        self.with_bottom(|_, context| {
            context.put_next(Side::Read, Message::new(MessageKind::Control));
        });
        self.take_all(received)
    }

    fn take_all(&mut self, received: &mut Vec<u8>) -> io::Result<()> {
        loop {
            self.tell_time();
            while self.runtime.has_work() && self.runtime.run(BUDGET) == BUDGET {}
            match self.runtime.take_blocks(self.stream, Want::Any) {
                Ok(message) => self.append(message, received),
                Err(Error::WouldBlock) => return Ok(()),
                Err(error) => return Err(from_stream(error)),
            }
        }
    }

    fn append(&mut self, message: Message, received: &mut Vec<u8>) {
        if message.kind() == MessageKind::Data {
            append_data(&message, received);
        }
        message.release(self.runtime.pool_mut());
    }

    fn with_bottom(&mut self, action: impl FnOnce(&mut Bottom, &mut Context<'_>)) {
        let done = self.runtime.with_driver(self.stream, action);
        done.expect("the stream is open on its bottom");
    }

    fn tell_time(&mut self) {
        if let Some(epoch) = self.epoch {
            self.runtime.set_now(epoch.elapsed().as_nanos() as u64);
        }
    }

    /// When a message that a module holds goes on.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let at = self.runtime.next_timer()?;
        Some(self.epoch? + Duration::from_nanos(at))
    }

    /// What the modules counted.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        self.reports.iter().for_each(|report| report(&mut counts));
        counts
    }
}

impl Drop for ModuleChain {
    /// Modules close their files.
    fn drop(&mut self) {
        let _ = self.runtime.close(self.stream);
    }
}

fn append_data(message: &Message, octets: &mut Vec<u8>) {
    for block in &message.data {
        octets.extend_from_slice(block.octets());
    }
}

/// The bottom of the stream: keeps what is to be sent until the caller takes it.
#[derive(Default)]
struct Bottom {
    sent: Vec<u8>,
}

impl Module for Bottom {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("chain")
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match message.kind() {
            MessageKind::Data => append_data(&message, &mut self.sent),
            MessageKind::Ioctl => {
                return context.reply(side, message.into_kind(MessageKind::IoctlNak));
            }
            _ => {}
        }
        message.release(context.pool());
    }
}
