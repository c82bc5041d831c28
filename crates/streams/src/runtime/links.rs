//! Multiplexing drivers: streams opened on them, and streams linked below them.

use super::{Occupant, QueueId, Runtime, StreamId};
use crate::error::Error;
use crate::message::{FlushScope, Message};
use crate::module::Side;
use crate::multiplexer::{Leg, LegContext, Multiplexer};
use std::collections::{BTreeMap, VecDeque};

/// Number of a multiplexing driver of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MultiplexerId(u32);

/// Number of a link, of all links that a runtime has had (l_index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(u32);

/// How long a link lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Until the stream closes over which it was made (I_LINK).
    WithStream,
    /// Until it is undone (I_PLINK).
    Persistent,
}

/// A multiplexing driver with its legs.
pub(super) struct Multiplexing {
    /// None while one of its procedures runs.
    driver: Option<Box<dyn Multiplexer>>,
    uppers: BTreeMap<StreamId, u32>,
    lowers: BTreeMap<LinkId, Link>,
    /// Messages that arrived while one of its procedures ran.
    arrived: VecDeque<(Leg, Side, Message)>,
}

/// A stream that is linked below a driver.
struct Link {
    /// The level of the driver's queues.
    level: u32,
    lower: StreamId,
    /// The stream over which it was made, with which it goes.
    control: Option<StreamId>,
}

/// A stream's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linked {
    multiplexer: MultiplexerId,
    link: LinkId,
    /// Its user has closed it: it closes when it is unlinked.
    closed: bool,
}

impl Runtime {
    /// Adds a multiplexing driver.
    pub fn add_multiplexer(&mut self, driver: Box<dyn Multiplexer>) -> MultiplexerId {
        self.multiplexers.push(Multiplexing {
            driver: Some(driver),
            uppers: BTreeMap::new(),
            lowers: BTreeMap::new(),
            arrived: VecDeque::new(),
        });
        MultiplexerId(self.multiplexers.len() as u32 - 1)
    }

    /// Opens a stream over a multiplexing driver.
    ///
    /// # Errors
    ///
    /// That of the driver.
    pub fn open_multiplexer(&mut self, id: MultiplexerId) -> Result<StreamId, Error> {
        let info = self.with_multiplexer(id, |driver, _| driver.upper_info());
        let info = info.ok_or(NO_MULTIPLEXER)?;
        let stream = self.add_head();
        let occupant = Occupant::Leg(id, Leg::Upper(stream));
        let level = self.add_level(occupant, info.read, info.write);
        self.put_below_head(stream, level);
        self.multiplexing(id).uppers.insert(stream, level);
        match self.with_multiplexer(id, |driver, context| driver.open(context, stream)) {
            Some(Ok(())) => Ok(stream),
            other => {
                self.multiplexing(id).uppers.remove(&stream);
                self.take_out(stream, level);
                self.remove_stream(stream);
                Err(other.and_then(Result::err).unwrap_or(NO_MULTIPLEXER))
            }
        }
    }

    /// Links `lower` below the multiplexing driver of `control`: the driver takes the place of its head (I_LINK,
    /// I_PLINK). Its user may do nothing with it but close it until it is unlinked. What waits at its head goes to
    /// the driver.
    ///
    /// # Errors
    ///
    /// No such stream; one without a multiplexing driver at its end; a stream that is linked already, that is a
    /// FIFO, or whose own links lead back to the driver; what the driver says.
    pub fn link(
        &mut self,
        control: StreamId,
        lower: StreamId,
        persistence: Persistence,
    ) -> Result<LinkId, Error> {
        let id = self.multiplexer_of(control)?;
        self.check_unlinked(lower)?;
        if self.leads_to(lower, id) {
            return Err(Error::Invalid("the link would close a circle of drivers"));
        }
        let head = self.stream(lower)?.head_level;
        let below = self.slot(QueueId::new(head, Side::Write)).next;
        if below.is_some_and(|below| below.level() == head) {
            return Err(Error::Invalid("a FIFO has nothing below its head to link"));
        }
        let info = self.with_multiplexer(id, |driver, _| driver.lower_info());
        let info = info.ok_or(NO_MULTIPLEXER)?;
        self.links += 1;
        let link = LinkId(self.links);
        let level = self.add_level(Occupant::Leg(id, Leg::Lower(link)), info.read, info.write);
        let made = Link {
            level,
            lower,
            control: (persistence == Persistence::WithStream).then_some(control),
        };
        self.multiplexing(id).lowers.insert(link, made);
        match self.with_multiplexer(id, |driver, context| driver.link(context, link)) {
            Some(Ok(())) => {}
            other => {
                self.multiplexing(id).lowers.remove(&link);
                self.free_level(level);
                return Err(other.and_then(Result::err).unwrap_or(NO_MULTIPLEXER));
            }
        }
        self.send_collected(lower);
        self.exchange_ends(head, level);
        let high = self.stream_and_level(lower)?.0.take_high();
        self.set_linked(lower, Some((id, link)));
        self.hand_over(high, head, level);
        self.wake_behind(level);
        Ok(link)
    }

    /// Undoes a link of the driver of `control` (I_UNLINK, I_PUNLINK): the lower stream has its head again. One
    /// whose user has closed it meanwhile closes now.
    ///
    /// # Errors
    ///
    /// No such stream; one without a multiplexing driver at its end; a number that is no link of the driver.
    pub fn unlink(&mut self, control: StreamId, link: LinkId) -> Result<(), Error> {
        let id = self.multiplexer_of(control)?;
        if !self.multiplexing(id).lowers.contains_key(&link) {
            return Err(Error::Invalid("the driver has no such link"));
        }
        self.undo_link(id, link);
        Ok(())
    }

    /// The links of the driver at the end of a stream, each with the stream that is linked.
    ///
    /// # Errors
    ///
    /// No such stream; one without a multiplexing driver at its end.
    pub fn links(&self, control: StreamId) -> Result<Vec<(LinkId, StreamId)>, Error> {
        let id = self.multiplexer_of(control)?;
        let lowers = self.multiplexers[id.0 as usize].lowers.iter();
        Ok(lowers.map(|(link, made)| (*link, made.lower)).collect())
    }

    fn undo_link(&mut self, id: MultiplexerId, link: LinkId) {
        self.with_multiplexer(id, |driver, context| driver.unlink(context, link));
        let Some(made) = self.multiplexing(id).lowers.remove(&link) else {
            return;
        };
        self.clear_level(made.level);
        if let Some(lower) = self.streams[made.lower.0 as usize].as_ref() {
            let head = lower.head_level;
            self.exchange_ends(made.level, head);
            self.wake_behind(head);
        }
        self.free_level(made.level);
        let is_closed = self.set_linked(made.lower, None);
        self.writable(made.lower);
        if is_closed {
            // It was there: nothing else closes a linked stream.
            let _ = self.close(made.lower);
        }
    }

    /// A stream that was opened on a driver closes: its own links go first.
    pub(super) fn close_upper(&mut self, stream: StreamId) {
        let Ok(id) = self.multiplexer_of(stream) else {
            return;
        };
        let lowers = self.multiplexing(id).lowers.iter();
        let own = lowers.filter(|(_, made)| made.control == Some(stream));
        let own: Vec<LinkId> = own.map(|(link, _)| *link).collect();
        for link in own {
            self.undo_link(id, link);
        }
        self.with_multiplexer(id, |driver, context| driver.close(context, stream));
        self.multiplexing(id).uppers.remove(&stream);
    }

    /// A linked stream is closed by its user: whether that waits for the end of the link.
    pub(super) fn close_later(&mut self, stream: StreamId) -> bool {
        let found = self.streams.get_mut(stream.0 as usize);
        let linked = found
            .and_then(Option::as_mut)
            .and_then(|stream| stream.linked.as_mut());
        linked.map(|linked| linked.closed = true).is_some()
    }

    /// EINVAL for a stream that is linked.
    pub(super) fn check_unlinked(&self, stream: StreamId) -> Result<(), Error> {
        match self.stream(stream)?.linked {
            Some(_) => Err(LINKED),
            None => Ok(()),
        }
    }

    fn multiplexing(&mut self, id: MultiplexerId) -> &mut Multiplexing {
        &mut self.multiplexers[id.0 as usize]
    }

    /// The driver at the end of a stream.
    fn multiplexer_of(&self, stream: StreamId) -> Result<MultiplexerId, Error> {
        let end = self.stream(stream)?.modules.last();
        match end.map(|level| &self.levels[*level as usize].occupant) {
            Some(Occupant::Leg(id, _)) => Ok(*id),
            _ => Err(NO_MULTIPLEXER),
        }
    }

    /// Whether a stream's end, and what is linked below it, lead to a driver.
    fn leads_to(&self, stream: StreamId, wanted: MultiplexerId) -> bool {
        let Ok(id) = self.multiplexer_of(stream) else {
            return false;
        };
        let mut below = self.multiplexers[id.0 as usize].lowers.values();
        id == wanted || below.any(|made| self.leads_to(made.lower, wanted))
    }

    /// Marks a stream as linked or not; whether its user has closed it.
    fn set_linked(&mut self, stream: StreamId, link: Option<(MultiplexerId, LinkId)>) -> bool {
        let Some(stream) = self.streams[stream.0 as usize].as_mut() else {
            return false;
        };
        let linked = link.map(|(multiplexer, link)| Linked {
            multiplexer,
            link,
            closed: false,
        });
        let old = std::mem::replace(&mut stream.linked, linked);
        old.is_some_and(|old| old.closed)
    }

    /// `to` gets the place that `from` has above a stream.
    fn exchange_ends(&mut self, from: u32, to: u32) {
        let write = self.slot(QueueId::new(from, Side::Write)).next;
        let read = self.slot(QueueId::new(from, Side::Read)).back;
        self.slot_mut(QueueId::new(from, Side::Write)).next = None;
        self.slot_mut(QueueId::new(from, Side::Read)).back = None;
        if let Some(write) = write {
            self.join(QueueId::new(to, Side::Write), write);
        }
        if let Some(read) = read {
            self.join(read, QueueId::new(to, Side::Read));
        }
    }

    /// What waits at a head goes to the driver.
    fn hand_over(&mut self, high: Option<Message>, head: u32, level: u32) {
        if let Some(high) = high {
            self.put(QueueId::new(level, Side::Read), high);
        }
        while let Some(message) = self.get(QueueId::new(head, Side::Read)) {
            self.put(QueueId::new(level, Side::Read), message);
        }
    }

    /// The level of a leg's queues.
    pub(crate) fn leg_level(&self, multiplexer: u32, leg: Leg) -> Option<u32> {
        let multiplexing = self.multiplexers.get(multiplexer as usize)?;
        match leg {
            Leg::Upper(stream) => multiplexing.uppers.get(&stream).copied(),
            Leg::Lower(link) => Some(multiplexing.lowers.get(&link)?.level),
        }
    }

    pub(crate) fn legs(&self, multiplexer: u32) -> Vec<Leg> {
        let Some(multiplexing) = self.multiplexers.get(multiplexer as usize) else {
            return Vec::new();
        };
        let uppers = multiplexing.uppers.keys().map(|stream| Leg::Upper(*stream));
        let lowers = multiplexing.lowers.keys().map(|link| Leg::Lower(*link));
        uppers.chain(lowers).collect()
    }

    /// Runs `action` with a driver, then hands it what arrived meanwhile. None while one of its procedures runs.
    fn with_multiplexer<T>(
        &mut self,
        id: MultiplexerId,
        action: impl FnOnce(&mut dyn Multiplexer, &mut LegContext<'_>) -> T,
    ) -> Option<T> {
        let mut driver = self.multiplexers.get_mut(id.0 as usize)?.driver.take()?;
        let mut context = LegContext {
            runtime: self,
            multiplexer: id.0,
        };
        let result = action(driver.as_mut(), &mut context);
        while let Some((leg, side, message)) = context.runtime.multiplexing(id).arrived.pop_front()
        {
            context.runtime.counters.puts += 1;
            driver.put(&mut context, leg, side, message);
        }
        self.multiplexing(id).driver = Some(driver);
        Some(result)
    }

    /// A message comes to a driver from a leg.
    pub(super) fn put_at_leg(&mut self, id: MultiplexerId, leg: Leg, side: Side, message: Message) {
        self.multiplexing(id)
            .arrived
            .push_back((leg, side, message));
        // One that runs takes it when it returns.
        self.with_multiplexer(id, |_, _| ());
    }

    /// A queue of a leg is served, later if the driver runs.
    pub(super) fn serve_leg(&mut self, id: MultiplexerId, leg: Leg, queue: QueueId) {
        let served = self.with_multiplexer(id, |driver, context| {
            driver.service(context, leg, queue.side());
        });
        if served.is_none() {
            self.enable(queue);
        }
    }

    /// Drops what a level's queues hold, and what is scheduled for them.
    pub(super) fn clear_level(&mut self, level: u32) {
        for side in [Side::Read, Side::Write] {
            let queue = QueueId::new(level, side);
            self.flush_queue(queue, None, FlushScope::All);
            // Those it refused wait for nobody now.
            self.slot_mut(queue).service = false;
            self.run_list.retain(|scheduled| *scheduled != queue);
        }
        self.forget_timers(level);
    }

    /// A level's number may be another's.
    pub(super) fn free_level(&mut self, level: u32) {
        self.levels[level as usize].occupant = Occupant::Free;
        self.free_levels.push(level);
    }
}

pub(super) const LINKED: Error =
    Error::Invalid("the stream is linked below a multiplexing driver: unlink it first");

const NO_MULTIPLEXER: Error = Error::Invalid("the stream does not end at a multiplexing driver");
