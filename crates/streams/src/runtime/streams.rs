//! Opening, pushing, popping and closing.

use super::links::LINKED;
use super::{Level, Occupant, QueueId, Runtime, Slot, Stream, StreamId};
use crate::error::Error;
use crate::head::{HEAD_MARKS, Head};
use crate::message::FlushScope;
use crate::module::{Module, ModuleInfo, QueueInfo, Side};
use crate::queue::Queue;
use std::collections::VecDeque;

/// Modules that may be pushed on a stream.
pub const MODULES_MAX: usize = 64;

/// Service procedures that a close runs so that what was written leaves: with 64 modules over
/// 65,536 octets each, more than a stream that is not blocked needs.
const CLOSE_BUDGET: usize = 4096;

impl Runtime {
    /// Opens a stream over a driver.
    ///
    /// # Errors
    ///
    /// That of the driver.
    pub fn open(&mut self, driver: Box<dyn Module>) -> Result<StreamId, Error> {
        let stream = self.add_head();
        match self.insert_below_head(stream, driver) {
            Ok(()) => Ok(stream),
            Err(error) => {
                self.remove_stream(stream);
                Err(error)
            }
        }
    }

    /// Two streams whose heads are joined crosswise: what is written to one is read from the other.
    /// Modules may be pushed on both.
    pub fn pipe(&mut self) -> (StreamId, StreamId) {
        let ends = (self.add_head(), self.add_head());
        let level = |runtime: &Runtime, stream: StreamId| {
            runtime.stream(stream).map_or(0, |stream| stream.head_level)
        };
        let (a, b) = (level(self, ends.0), level(self, ends.1));
        self.join(QueueId::new(a, Side::Write), QueueId::new(b, Side::Read));
        self.join(QueueId::new(b, Side::Write), QueueId::new(a, Side::Read));
        ends
    }

    /// A stream whose head is joined with itself: what is written is read again (a FIFO).
    pub fn fifo(&mut self) -> StreamId {
        let stream = self.add_head();
        let level = self.stream(stream).map_or(0, |stream| stream.head_level);
        self.join(
            QueueId::new(level, Side::Write),
            QueueId::new(level, Side::Read),
        );
        stream
    }

    /// Puts a module below the head (I_PUSH). What waits at the head stays there.
    ///
    /// # Errors
    ///
    /// That of the module; no such stream; too many modules.
    pub fn push(&mut self, stream: StreamId, module: Box<dyn Module>) -> Result<(), Error> {
        self.check_unlinked(stream)?;
        if self.stream(stream)?.modules.len() > MODULES_MAX {
            return Err(Error::Modules("a stream takes at most 64 modules"));
        }
        self.send_collected(stream);
        self.insert_below_head(stream, module)
    }

    /// Takes the module below the head away (I_POP) and drops what its queues hold.
    ///
    /// # Errors
    ///
    /// No such stream, or no module above the driver.
    pub fn pop(&mut self, stream: StreamId) -> Result<(), Error> {
        self.check_unlinked(stream)?;
        let modules = &self.stream(stream)?.modules;
        let Some(&level) = modules.first() else {
            return Err(Error::Modules("no module to pop"));
        };
        if self.is_driver(level) {
            return Err(Error::Modules("no module to pop above the driver"));
        }
        self.send_collected(stream);
        self.take_out(stream, level);
        Ok(())
    }

    /// Names of the modules from the head down, the driver last (I_LIST).
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn modules(&mut self, stream: StreamId) -> Result<Vec<&'static str>, Error> {
        let levels = self.stream(stream)?.modules.clone();
        let names = levels.into_iter();
        Ok(names
            .filter_map(|level| self.with_module(level, |module, _| module.info().name))
            .collect())
    }

    /// Closes a stream: what was written may leave, then modules go from the top down, the driver
    /// last. The other end of a pipe hangs up.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn close(&mut self, stream: StreamId) -> Result<(), Error> {
        self.stream(stream)?;
        if self.close_later(stream) {
            return Ok(());
        }
        self.run(CLOSE_BUDGET);
        self.hang_up_peer(stream);
        self.close_upper(stream);
        while let Some(&level) = self.stream(stream)?.modules.first() {
            self.take_out(stream, level);
        }
        self.forget_names(stream);
        let head = self.stream(stream)?.head_level;
        let passed = self.passed_to(head);
        self.remove_stream(stream);
        for stream in passed {
            // One that was closed meanwhile is gone already.
            let _ = self.close(stream);
        }
        Ok(())
    }

    pub(crate) fn stream_and_level(&mut self, id: StreamId) -> Result<(&mut Head, u32), Error> {
        let stream = self.streams.get_mut(id.0 as usize).and_then(Option::as_mut);
        let stream = stream.ok_or(Error::BadStream)?;
        if stream.linked.is_some() {
            return Err(LINKED);
        }
        Ok((&mut stream.head, stream.head_level))
    }

    pub(super) fn stream(&self, id: StreamId) -> Result<&Stream, Error> {
        let stream = self.streams.get(id.0 as usize).and_then(Option::as_ref);
        stream.ok_or(Error::BadStream)
    }

    pub(super) fn add_head(&mut self) -> StreamId {
        let free = self.streams.iter().position(Option::is_none);
        let at = free.unwrap_or(self.streams.len());
        let id = StreamId(at as u32);
        let info = QueueInfo {
            marks: HEAD_MARKS,
            packet: (0, usize::MAX),
            service: false,
        };
        let head_level = self.add_level(Occupant::Head(id), info, info);
        let stream = Stream {
            head: Head::default(),
            head_level,
            modules: Vec::new(),
            linked: None,
        };
        match self.streams.get_mut(at) {
            Some(place) => *place = Some(stream),
            None => self.streams.push(Some(stream)),
        }
        id
    }

    pub(super) fn add_level(
        &mut self,
        occupant: Occupant,
        read: QueueInfo,
        write: QueueInfo,
    ) -> u32 {
        let slot = |info: QueueInfo| Slot {
            queue: Queue::new(info.marks, self.hysteresis),
            service: info.service,
            scheduled: false,
            next: None,
            back: None,
        };
        let level = Level {
            occupant,
            slots: [slot(read), slot(write)],
            arrived: VecDeque::new(),
        };
        match self.free_levels.pop() {
            Some(at) => {
                self.levels[at as usize] = level;
                at
            }
            None => {
                self.levels.push(level);
                self.levels.len() as u32 - 1
            }
        }
    }

    /// Puts a module between a head and what was below it.
    fn insert_below_head(
        &mut self,
        stream: StreamId,
        module: Box<dyn Module>,
    ) -> Result<(), Error> {
        self.stream(stream)?;
        let ModuleInfo { read, write, .. } = module.info();
        let level = self.add_level(Occupant::Module(module), read, write);
        self.put_below_head(stream, level);
        match self.with_module(level, |module, context| module.open(context)) {
            Some(Err(error)) => {
                self.take_out(stream, level);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Puts a level between the head of a stream that is there and what was below it.
    pub(super) fn put_below_head(&mut self, stream: StreamId, level: u32) {
        let head = self.stream(stream).map_or(0, |stream| stream.head_level);
        let (head_read, head_write) = (
            QueueId::new(head, Side::Read),
            QueueId::new(head, Side::Write),
        );
        let below_write = self.slot(head_write).next;
        let below_read = self.slot(head_read).back;
        self.join(head_write, QueueId::new(level, Side::Write));
        self.join(QueueId::new(level, Side::Read), head_read);
        if let Some(below) = below_write {
            self.join(
                QueueId::new(level, Side::Write),
                self.past_loop(below, level),
            );
        }
        if let Some(below) = below_read {
            self.join(
                self.past_loop(below, level),
                QueueId::new(level, Side::Read),
            );
        }
        if let Some(stream) = self.streams[stream.0 as usize].as_mut() {
            stream.modules.insert(0, level);
        }
        self.refresh_packets(stream);
        self.wake_behind(level);
    }

    /// In a FIFO what is below the head is the head: its queues are now those of the new module.
    fn past_loop(&self, below: QueueId, level: u32) -> QueueId {
        let is_head = matches!(
            self.levels[below.level() as usize].occupant,
            Occupant::Head(_)
        );
        let own = self
            .slot(QueueId::new(level, Side::Read))
            .next
            .map(QueueId::level);
        if is_head && own == Some(below.level()) {
            QueueId::new(level, below.side())
        } else {
            below
        }
    }

    pub(super) fn join(&mut self, from: QueueId, to: QueueId) {
        self.slot_mut(from).next = Some(to);
        self.slot_mut(to).back = Some(from);
    }

    /// Closes a module, joins its neighbours and drops what it holds.
    pub(super) fn take_out(&mut self, stream: StreamId, level: u32) {
        self.with_module(level, |module, context| module.close(context));
        self.clear_level(level);
        self.wake_behind(level);
        self.bridge(level);
        for (_, message) in self.levels[level as usize].arrived.drain(..) {
            message.release(&mut self.pool);
        }
        self.free_level(level);
        if let Some(stream) = self.streams[stream.0 as usize].as_mut() {
            stream.modules.retain(|module| *module != level);
        }
        self.refresh_packets(stream);
    }

    /// Joins the neighbours of a level. At the bottom of a FIFO its two queues are neighbours.
    fn bridge(&mut self, level: u32) {
        let ends = |side| {
            let slot = self.slot(QueueId::new(level, side));
            (slot.back, slot.next)
        };
        let (read, write) = (ends(Side::Read), ends(Side::Write));
        if write.1.is_some_and(|next| next.level() == level) {
            self.join_ends(write.0, read.1);
        } else {
            self.join_ends(read.0, read.1);
            self.join_ends(write.0, write.1);
        }
        for side in [Side::Read, Side::Write] {
            let slot = self.slot_mut(QueueId::new(level, side));
            (slot.next, slot.back) = (None, None);
        }
    }

    fn join_ends(&mut self, back: Option<QueueId>, next: Option<QueueId>) {
        if let Some(back) = back {
            self.slot_mut(back).next = next;
        }
        if let Some(next) = next {
            self.slot_mut(next).back = back;
        }
    }

    fn is_driver(&self, level: u32) -> bool {
        self.slot(QueueId::new(level, Side::Write)).next.is_none()
    }

    /// The head cuts what users write for the module below it.
    fn refresh_packets(&mut self, stream: StreamId) {
        let Ok(levels) = self.stream(stream).map(|stream| stream.modules.clone()) else {
            return;
        };
        let first = levels.first().copied();
        let packet =
            first.and_then(|level| self.with_module(level, |module, _| module.info().write.packet));
        if let Ok((head, _)) = self.stream_and_level(stream) {
            head.set_packet(packet);
        }
    }

    fn hang_up_peer(&mut self, stream: StreamId) {
        let Ok(head) = self.stream(stream).map(|stream| stream.head_level) else {
            return;
        };
        let mut next = self.slot(QueueId::new(head, Side::Write)).next;
        while let Some(queue) = next {
            if let Occupant::Head(peer) = self.levels[queue.level() as usize].occupant {
                if peer != stream {
                    self.put_at_head(peer, crate::Message::new(crate::MessageKind::HangUp));
                }
                return;
            }
            if let Occupant::Leg(..) = self.levels[queue.level() as usize].occupant {
                // The far end is linked below a driver, which is told as a head would be.
                if queue.side() == Side::Read {
                    self.put(queue, crate::Message::new(crate::MessageKind::HangUp));
                }
                return;
            }
            next = self.slot(queue).next;
        }
    }

    /// Drops a head; the ends that pointed to it lead nowhere.
    pub(super) fn remove_stream(&mut self, stream: StreamId) {
        let Some(gone) = self.streams[stream.0 as usize].take() else {
            return;
        };
        for side in [Side::Read, Side::Write] {
            let queue = QueueId::new(gone.head_level, side);
            self.flush_queue(queue, None, FlushScope::All);
            let (back, next) = (self.slot(queue).back, self.slot(queue).next);
            self.join_ends(back, None);
            self.join_ends(None, next);
        }
        self.free_level(gone.head_level);
        gone.head.release(&mut self.pool);
    }
}
