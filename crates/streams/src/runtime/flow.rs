//! Put and get with flow control: who is refused is noted at the queue that refused, and scheduled
//! when it has room (back-enabling).

use super::{Occupant, QueueId, Runtime};
use crate::message::{Extra, FlushScope, Message, MessageKind};
use crate::module::Side;
use crate::queue::{Marks, Woken};

impl Runtime {
    /// Hands a message to the next queue of its direction. Behind the last one it is dropped. Where
    /// two streams are joined, the writing side of one is the reading side of the other, and a flush
    /// says so from there on (pipemod).
    #[inline]
    pub(crate) fn put_next(&mut self, queue: QueueId, mut message: Message) {
        let Some(next) = self.slot(queue).next else {
            return message.release(&mut self.pool);
        };
        if message.kind() == MessageKind::Flush
            && next.side() != queue.side()
            && let Some(Extra::Flush(request)) = message.extra.as_deref_mut()
        {
            std::mem::swap(&mut request.read, &mut request.write);
        }
        self.put(next, message);
    }

    /// Whether the nearest queue behind this one that has a service procedure, or is the last, takes
    /// a message of `band`.
    #[inline]
    pub(crate) fn can_put_next(&mut self, queue: QueueId, band: u8) -> bool {
        let mut next = self.slot(queue).next;
        while let Some(at) = next {
            let slot = self.slot_mut(at);
            if slot.service || slot.next.is_none() {
                return slot.queue.has_room(band);
            }
            next = slot.next;
        }
        true
    }

    #[inline]
    pub(crate) fn put_queue(&mut self, queue: QueueId, message: Message) {
        if self.queue_mut(queue).put(message) {
            self.enable(queue);
        }
    }

    pub(crate) fn put_back(&mut self, queue: QueueId, message: Message) {
        if self.queue_mut(queue).put_back(message) {
            self.enable(queue);
        }
    }

    pub(crate) fn insert(
        &mut self,
        queue: QueueId,
        at: usize,
        message: Message,
    ) -> Result<(), Message> {
        if self.queue_mut(queue).insert(at, message)? {
            self.enable(queue);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn get(&mut self, queue: QueueId) -> Option<Message> {
        let (message, woken) = self.queue_mut(queue).get()?;
        self.wake_if(queue, woken);
        Some(message)
    }

    pub(crate) fn flush_queue(&mut self, queue: QueueId, band: Option<u8>, scope: FlushScope) {
        let slot = &mut self.levels[queue.level() as usize].slots[queue.side() as usize];
        let woken = match band {
            Some(band) => slot.queue.flush_band(band, scope, &mut self.pool),
            None => slot.queue.flush(scope, &mut self.pool),
        };
        self.wake_if(queue, woken);
    }

    pub(crate) fn set_marks(&mut self, queue: QueueId, band: u8, marks: Marks) {
        let woken = self.queue_mut(queue).set_marks(band, marks);
        self.wake_if(queue, woken);
    }

    #[inline]
    fn wake_if(&mut self, queue: QueueId, woken: Woken) {
        if woken.0 {
            self.counters.wakeups += 1;
            self.back_enable(queue);
        }
    }

    /// A level came or goes: a writer refused behind it would wait for a wake-up that goes to the
    /// wrong one now, and is woken.
    pub(super) fn wake_behind(&mut self, level: u32) {
        for side in [Side::Read, Side::Write] {
            self.back_enable(QueueId::new(level, side));
        }
    }

    /// Schedules the nearest queue before this one that has a service procedure; at a head, its
    /// writers may go on.
    fn back_enable(&mut self, queue: QueueId) {
        let mut back = self.slot(queue).back;
        while let Some(at) = back {
            if self.slot(at).service {
                self.enable(at);
                return;
            }
            if let (Occupant::Head(stream), Side::Write) =
                (&self.levels[at.level() as usize].occupant, at.side())
            {
                let stream = *stream;
                self.writable(stream);
                return;
            }
            back = self.slot(at).back;
        }
    }
}
