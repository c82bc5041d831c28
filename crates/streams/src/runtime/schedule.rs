//! The run list: each queue at most once, first come, first served, run to completion.

use super::{Occupant, QueueId, Runtime, StreamId};
use crate::error::Error;
use crate::message::Message;
use crate::module::{Context, Module};

/// What a procedure is called for.
enum Call {
    Put(crate::Side, Message),
    Service(crate::Side),
    Ready,
}

impl Runtime {
    /// Runs service procedures until none is scheduled or `budget` of them ran; returns how many.
    pub fn run(&mut self, budget: usize) -> usize {
        for done in 0..budget {
            let Some(queue) = self.run_list.pop_front() else {
                return done;
            };
            // Cleared before it runs: what schedules it meanwhile makes it run again.
            self.slot_mut(queue).scheduled = false;
            self.counters.services += 1;
            self.call(queue.level(), Call::Service(queue.side()));
        }
        budget
    }

    /// Whether a service procedure is scheduled.
    pub fn has_work(&self) -> bool {
        !self.run_list.is_empty()
    }

    /// Tells the driver of a stream that its other end is ready.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn ready(&mut self, stream: StreamId) -> Result<(), Error> {
        let driver = self.stream(stream)?.modules.last().copied();
        if let Some(level) = driver {
            self.call(level, Call::Ready);
        }
        Ok(())
    }

    /// Hands the driver of a stream a message that travels up, as if it came from below it.
    ///
    /// # Errors
    ///
    /// No such stream, or one without a driver.
    pub fn deliver(&mut self, stream: StreamId, message: Message) -> Result<(), Error> {
        let driver = self.stream(stream)?.modules.last().copied();
        let level = driver.ok_or(Error::Modules("the stream has no driver"))?;
        self.put(QueueId::new(level, crate::Side::Read), message);
        Ok(())
    }

    /// Runs `action` with the driver of a stream, for a host that looks after its other end, and
    /// hands the driver what arrived at it meanwhile.
    ///
    /// # Errors
    ///
    /// No such stream, or one whose driver is of another type.
    pub fn with_driver<D: Module, T>(
        &mut self,
        stream: StreamId,
        action: impl FnOnce(&mut D, &mut Context<'_>) -> T,
    ) -> Result<T, Error> {
        let level = self.stream(stream)?.modules.last().copied();
        let done = level.and_then(|level| {
            self.with_module(level, |module, context| {
                let module: &mut dyn std::any::Any = module;
                let driver = module.downcast_mut::<D>()?;
                Some(action(driver, context))
            })
        });
        done.flatten()
            .ok_or(Error::Modules("the stream has no such driver"))
    }

    /// The driver of a stream, to look at.
    ///
    /// # Errors
    ///
    /// No such stream, or one whose driver is of another type.
    pub fn driver<D: Module>(&self, stream: StreamId) -> Result<&D, Error> {
        let level = self.stream(stream)?.modules.last();
        let occupant = level.map(|&level| &self.levels[level as usize].occupant);
        let found = match occupant {
            Some(Occupant::Module(module)) => {
                let module: &dyn std::any::Any = module.as_ref();
                module.downcast_ref::<D>()
            }
            _ => None,
        };
        found.ok_or(Error::Modules("the stream has no such driver"))
    }

    /// Messages that wait in the queues of a direction below the head of a stream.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn queued(&self, stream: StreamId, side: crate::Side) -> Result<usize, Error> {
        let levels = self.stream(stream)?.modules.iter();
        Ok(levels
            .map(|&level| self.queue(QueueId::new(level, side)).len())
            .sum())
    }

    /// Schedules the service procedure of a queue, if it has one (qenable).
    #[inline]
    pub(crate) fn enable(&mut self, queue: QueueId) {
        let slot = self.slot_mut(queue);
        if slot.service && !slot.scheduled {
            slot.scheduled = true;
            self.run_list.push_back(queue);
        }
    }

    /// Schedules a head, which has collected what was written.
    pub(crate) fn schedule_head(&mut self, level: u32) {
        let queue = QueueId::new(level, crate::Side::Write);
        let slot = self.slot_mut(queue);
        if !slot.scheduled {
            slot.scheduled = true;
            self.run_list.push_back(queue);
        }
    }

    /// Hands a message to the put procedure of a queue.
    #[inline]
    pub(super) fn put(&mut self, queue: QueueId, message: Message) {
        self.call(queue.level(), Call::Put(queue.side(), message));
    }

    /// Runs a procedure of a level. What arrives at a level that runs waits until it returns, so a
    /// module is never entered twice, and the depth of calls is bounded by the number of levels.
    #[inline]
    fn call(&mut self, level: u32, call: Call) {
        let at = level as usize;
        match std::mem::replace(&mut self.levels[at].occupant, Occupant::Running) {
            Occupant::Module(mut module) => {
                self.enter(module.as_mut(), level, call);
                while let Some((side, message)) = self.levels[at].arrived.pop_front() {
                    self.enter(module.as_mut(), level, Call::Put(side, message));
                }
                self.levels[at].occupant = Occupant::Module(module);
            }
            Occupant::Running => match call {
                Call::Put(side, message) => self.levels[at].arrived.push_back((side, message)),
                Call::Service(side) => self.enable(QueueId::new(level, side)),
                Call::Ready => {}
            },
            Occupant::Head(stream) => {
                self.levels[at].occupant = Occupant::Head(stream);
                match call {
                    Call::Put(_, message) => self.put_at_head(stream, message),
                    Call::Service(_) => self.send_collected(stream),
                    Call::Ready => {}
                }
            }
            Occupant::Leg(id, leg) => {
                self.levels[at].occupant = Occupant::Leg(id, leg);
                match call {
                    Call::Put(side, message) => self.put_at_leg(id, leg, side, message),
                    Call::Service(side) => self.serve_leg(id, leg, QueueId::new(level, side)),
                    Call::Ready => {}
                }
            }
            Occupant::Free => {
                self.levels[at].occupant = Occupant::Free;
                if let Call::Put(_, message) = call {
                    message.release(&mut self.pool);
                }
            }
        }
    }

    #[inline]
    fn enter(&mut self, module: &mut dyn Module, level: u32, call: Call) {
        let context = &mut Context {
            runtime: self,
            level,
        };
        match call {
            Call::Put(side, message) => {
                context.runtime.counters.puts += 1;
                module.put(context, side, message);
            }
            Call::Service(side) => module.service(context, side),
            Call::Ready => module.ready(context),
        }
    }

    /// Runs `action` with the module of a level, which cannot be entered meanwhile.
    pub(super) fn with_module<T>(
        &mut self,
        level: u32,
        action: impl FnOnce(&mut dyn Module, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let at = level as usize;
        let occupant = std::mem::replace(&mut self.levels[at].occupant, Occupant::Running);
        let Occupant::Module(mut module) = occupant else {
            self.levels[at].occupant = occupant;
            return None;
        };
        let mut context = Context {
            runtime: self,
            level,
        };
        let result = action(module.as_mut(), &mut context);
        while let Some((side, message)) = self.levels[at].arrived.pop_front() {
            self.enter(module.as_mut(), level, Call::Put(side, message));
        }
        self.levels[at].occupant = Occupant::Module(module);
        Some(result)
    }
}
