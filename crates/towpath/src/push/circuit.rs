//! The top of a stream on a circuit: the calls of a circuit as those of a stream head.
//!
//! Nothing is deferred: what a call schedules runs before it returns. What the circuit below refuses
//! waits in queues, and goes on in the next call of its user, as the rest of a message does that a
//! socket took in part.

use super::driver::CircuitDriver;
use super::frames;
use super::stack::{ModuleStack, Place, Report};
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo, Note, Part,
    ReceiveCounts,
};
use crate::parts;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use streams::{Hysteresis, Message, MessageKind, Runtime, Side, StreamId, Want};

/// Service procedures that run before the clock is read again: more than modules of one stream have.
const BUDGET: usize = 1024;

/// Sends from shared memory that one message has at most.
const JOINED_MAX: usize = 16;

/// How long a receive waits for room to send before it looks for arrivals again, and the other way
/// round: with something queued, either may end the wait.
const TURN: Duration = Duration::from_millis(1);

/// A circuit with modules on it.
pub(super) struct PushedCircuit {
    runtime: Runtime,
    stream: StreamId,
    is_stream: bool,
    /// Several sends may be one message: no module looks at their boundaries.
    joins_sends: bool,
    words: String,
    reports: Vec<Report>,
    /// Modules below know that no more is sent.
    has_finished: bool,
    /// When its clock began, where a module holds messages by it.
    epoch: Option<Instant>,
    /// What is left of a message that did not fit into the user's buffer.
    rest: Option<Message>,
}

impl PushedCircuit {
    /// `circuit`, which receives `read_len` octets of a stream at a time, below new modules of `stack`.
    /// Errors: that of a module that cannot be on the stream.
    pub(super) fn new(
        circuit: Box<dyn Circuit>,
        stack: &ModuleStack,
        place: Place,
        read_len: usize,
    ) -> io::Result<PushedCircuit> {
        let mut runtime = Runtime::new(Hysteresis::Full);
        let driver = CircuitDriver::new(circuit, place.is_stream, read_len);
        let stream = runtime.open(Box::new(driver)).map_err(from_stream)?;
        let (modules, reports) = stack.make(place)?;
        // The last one pushed is the one below the head.
        for module in modules.into_iter().rev() {
            runtime.push(stream, module).map_err(from_stream)?;
        }
        Ok(PushedCircuit {
            runtime,
            stream,
            is_stream: place.is_stream,
            joins_sends: place.is_stream && stack.only_hands_on(),
            words: stack.words(),
            reports,
            has_finished: false,
            epoch: stack.keeps_time().then(Instant::now),
            rest: None,
        })
    }

    fn below(&self) -> &CircuitDriver {
        let driver = self.runtime.driver::<CircuitDriver>(self.stream);
        driver.expect("the stream is open on a circuit")
    }

    fn with_below<T>(
        &mut self,
        action: impl FnOnce(&mut CircuitDriver, &mut streams::Context<'_>) -> T,
    ) -> T {
        let done = self.runtime.with_driver(self.stream, action);
        done.expect("the stream is open on a circuit")
    }

    /// Tells the modules the time, where one of them asks for it.
    #[inline]
    fn tell_time(&mut self) {
        if let Some(epoch) = self.epoch {
            self.runtime.set_now(epoch.elapsed().as_nanos() as u64);
        }
    }

    #[inline]
    fn run(&mut self) {
        self.tell_time();
        while self.runtime.has_work() && self.runtime.run(BUDGET) == BUDGET {}
    }

    /// Sends on what waits in queues.
    fn carry_on(&mut self) {
        self.with_below(CircuitDriver::send_waiting);
        self.run();
    }

    /// Messages in the queues of a direction below the head.
    fn queued(&self, side: Side) -> usize {
        self.runtime.queued(self.stream, side).unwrap_or(0)
    }

    #[inline]
    pub(super) fn check_failure(&mut self) -> io::Result<()> {
        self.with_below(|driver, _| driver.take_failure())
    }

    /// Sends that may be one message.
    pub(super) fn sends_a_message(&self) -> usize {
        if self.joins_sends { JOINED_MAX } else { 1 }
    }

    /// Hands one message to the head; false when the queue below it is full.
    #[inline]
    fn put(&mut self, octets: &[u8]) -> io::Result<bool> {
        if !self.runtime.can_put(self.stream, 0).map_err(from_stream)? {
            return Ok(false);
        }
        let block = self.runtime.pool_mut().copy(0, octets);
        self.put_message(Message::data(block))
    }

    /// The same with a message that is made already.
    #[inline]
    pub(super) fn put_message(&mut self, message: Message) -> io::Result<bool> {
        self.tell_time();
        match self.runtime.put_blocks(self.stream, message) {
            Ok(()) => {
                self.run();
                Ok(true)
            }
            Err((streams::Error::WouldBlock, refused)) => {
                refused.release(self.runtime.pool_mut());
                Ok(false)
            }
            Err((error, _)) => Err(from_stream(error)),
        }
    }

    #[inline]
    fn transmit(&mut self, octets: &[u8], limit: Option<Duration>) -> io::Result<()> {
        if self.is_stream && octets.is_empty() {
            return self.check_failure();
        }
        if !self.put(octets)? {
            self.transmit_when_room(octets, limit)?;
        }
        self.check_failure()
    }

    #[cold]
    fn transmit_when_room(&mut self, octets: &[u8], limit: Option<Duration>) -> io::Result<()> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            self.carry_on();
            self.check_failure()?;
            if self.put(octets)? {
                return Ok(());
            }
            self.wait_for_room(deadline)?;
        }
    }

    /// When a message that is held by the clock goes on.
    fn timer(&self) -> Option<Instant> {
        let at = self.runtime.next_timer()?;
        Some(self.epoch? + Duration::from_nanos(at))
    }

    /// `deadline`, or the time at which a message goes on if that is earlier.
    fn or_timer(&self, deadline: Instant) -> Instant {
        self.timer().map_or(deadline, |timer| timer.min(deadline))
    }

    /// Whether a message waits for the circuit below, not only for a module.
    fn is_blocked(&mut self) -> bool {
        self.with_below(|_, context| !context.is_empty(Side::Write))
    }

    /// Waits until the circuit below may have room, or a message that is held may go on.
    /// Fails with `WouldBlock` at the deadline, or at once where there is none.
    fn wait_for_room(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let now = Instant::now();
        let Some(deadline) = deadline.filter(|deadline| now < *deadline) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let until = self.or_timer(deadline);
        if self.timer().is_some() && !self.is_blocked() {
            std::thread::sleep(until.saturating_duration_since(now));
            return Ok(());
        }
        self.with_below(|driver, _| driver.circuit.wait(Interest::Write, until))
    }

    /// Copies a message, or what fits of it: its length, and whether it ends with it. What does not fit is kept for
    /// the next receive if `keep`.
    fn copy_out(&mut self, mut message: Message, buffer: &mut [u8], keep: bool) -> (usize, bool) {
        let len = message.copy_data(0, buffer);
        let is_whole = len == message.data_octets();
        if is_whole || !keep {
            message.release(self.runtime.pool_mut());
        } else {
            message.trim_front(len, self.runtime.pool_mut());
            self.rest = Some(message);
        }
        (len, is_whole)
    }

    /// The next message of data at the head; others have no meaning on a circuit.
    fn next_data(&mut self) -> io::Result<Option<Message>> {
        loop {
            let message = match self.runtime.take_blocks(self.stream, Want::Any) {
                Ok(message) => message,
                Err(streams::Error::WouldBlock) => return Ok(None),
                Err(error) => return Err(from_stream(error)),
            };
            let is_empty_of_stream = self.is_stream && message.data_octets() == 0;
            if message.kind() == MessageKind::Data && !is_empty_of_stream {
                return Ok(Some(message));
            }
            message.release(self.runtime.pool_mut());
        }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        keep: bool,
        block: bool,
    ) -> io::Result<Option<(usize, bool)>> {
        let keep = keep || self.is_stream;
        let message = self.next_message(buffer.len(), block)?;
        Ok(message.map(|message| self.copy_out(message, buffer, keep)))
    }

    /// The next message with its blocks, or what is left of one, after a receive of at least `least` octets where
    /// none waits at the head. None: the end.
    /// Errors: what a module ended the stream with, those of the circuit's receives; `WouldBlock` when nothing came.
    fn next_message(&mut self, least: usize, block: bool) -> io::Result<Option<Message>> {
        let mut deadline = None;
        loop {
            let waits_below = block && self.queued(Side::Write) == 0;
            if let Some(rest) = self.rest.take() {
                return Ok(Some(rest));
            }
            if let Some(message) = self.next_data()? {
                return Ok(Some(message));
            }
            self.check_failure()?;
            if self.below().has_ended {
                return Ok(None);
            }
            match self.pull(least, block, waits_below) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && block && !waits_below =>
                {
                    let now = Instant::now();
                    if now >= *deadline.get_or_insert(now + BLOCKING_TIMEOUT) {
                        return Err(error);
                    }
                }
                pulled => pulled?,
            }
        }
    }

    /// Receives once from the circuit below, and waits in its receive if nothing waits to be sent.
    fn pull(&mut self, least: usize, block: bool, waits_below: bool) -> io::Result<()> {
        if !waits_below && self.queued(Side::Write) > 0 {
            self.carry_on();
        }
        if block && self.queued(Side::Write) > 0 {
            let turn = self.or_timer(Instant::now() + TURN);
            // What waits for the circuit goes on when it has room; what a module holds, by the clock.
            let interest = match self.is_blocked() {
                true => Interest::Write,
                false => Interest::Read,
            };
            self.with_below(|driver, _| driver.circuit.wait(interest, turn))?;
            self.carry_on();
        }
        let pulled = self.with_below(|driver, context| driver.receive(context, least, waits_below));
        self.run();
        pulled
    }

    /// Tells the modules that no more is sent, behind what was.
    fn tell_end(&mut self) -> io::Result<()> {
        if !self.has_finished {
            self.tell_time();
            let end = Message::new(MessageKind::Control);
            let put = self.runtime.put_blocks(self.stream, end);
            put.map_err(|(error, _)| from_stream(error))?;
            self.has_finished = true;
        }
        Ok(())
    }

    /// Sends all that waits in queues.
    fn empty_queues(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        loop {
            self.carry_on();
            self.check_failure()?;
            if self.queued(Side::Write) == 0 {
                return Ok(());
            }
            self.wait_for_room(Some(deadline))?;
        }
    }
}

pub(super) fn from_stream(error: streams::Error) -> io::Error {
    match error {
        streams::Error::Failed(frames::BAD_MESSAGE) => {
            let text = "what arrived is no frame of the peer's modules, or was cut off: give both ends \
                        the same push=, and with seal the same key";
            io::Error::new(io::ErrorKind::InvalidData, text)
        }
        error => io::Error::from_raw_os_error(error.errno()),
    }
}

impl Drop for PushedCircuit {
    /// What waits leaves if the circuit takes it; modules close their files.
    fn drop(&mut self) {
        let _ = self.tell_end();
        let _ = self.runtime.close(self.stream);
    }
}

impl Circuit for PushedCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, None)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let received = self.receive(buffer, false, false)?;
        Ok(received.map(|(len, _)| len))
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, Some(BLOCKING_TIMEOUT))
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let received = self.receive(buffer, false, true)?;
        Ok(received.map(|(len, _)| len))
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        match message.is_empty() || count == 0 {
            true => self.send_run(message, count),
            false => self.send_lent_run(message, count),
        }
    }

    /// What arrived is lent: no message is copied out of its blocks, and `buffer` gets the rest of one alone of which the
    /// user has a part.
    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        let mut arrived = ReceiveCounts::default();
        if self.rest.is_some() {
            let received = self.receive(buffer, false, true)?;
            return Ok(received.map(|(len, _)| {
                arrived.add(len);
                arrived
            }));
        }
        while arrived.calls < calls as u64 {
            match self.next_message(buffer.len(), true) {
                Ok(Some(message)) => {
                    arrived.add(message.data_octets());
                    message.release(self.runtime.pool_mut());
                }
                Err(error) if arrived.calls == 0 => return Err(error),
                Ok(None) if arrived.calls == 0 => return Ok(None),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(Some(arrived))
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        let received = self.receive(buffer, true, true)?;
        Ok(received.map(|(len, end)| match self.is_stream {
            true => Part::of_stream(len),
            false => Part {
                len,
                end,
                note: Note::default(),
            },
        }))
    }

    parts::lends_nothing! {}

    fn flush(&mut self) -> io::Result<()> {
        self.empty_queues()?;
        self.with_below(|driver, _| driver.circuit.flush())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.empty_queues()?;
        self.tell_end()?;
        self.empty_queues()?;
        self.with_below(|driver, _| driver.circuit.finish())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.carry_on();
        let queued = self.queued(Side::Write) > 0;
        let readable = self.rest.is_some()
            || matches!(self.runtime.readable(self.stream), Ok((messages, _)) if messages > 0);
        if interest == Interest::Read && readable {
            return Ok(());
        }
        // What waits for room ends the wait too: it goes on with the user's next call.
        let deadline = match queued && interest == Interest::Read {
            true => self.or_timer(deadline.min(Instant::now() + TURN)),
            false => self.or_timer(deadline),
        };
        self.with_below(|driver, _| driver.circuit.wait(interest, deadline))?;
        self.carry_on();
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below().circuit.descriptor()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let below = self.below().circuit.next_deadline();
        below.into_iter().chain(self.timer()).min()
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.below().circuit.effective();
        if !self.words.is_empty() {
            effective.insert("push".into(), self.words.clone());
        }
        effective
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        self.below().circuit.connection_info()
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = self.below().circuit.counts();
        self.reports.iter().for_each(|report| report(&mut counts));
        counts
    }

    crate::usual_circuit! { send_run }
}
