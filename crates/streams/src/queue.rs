//! A queue: messages by priority, water marks, and who waits for what.
//!
//! Order: high priority first, then bands 255 to 1, then band 0; in order of arrival in each. Octets
//! and blocks are counted by band; those of high priority count in band 0, as in SVR4.

use crate::block::Pool;
use crate::message::{FlushScope, Message};
use std::collections::VecDeque;

/// When a full queue takes messages again, and when those it refused are woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hysteresis {
    /// Full until below the low water mark; then the refused are woken (OpenSS7).
    #[default]
    Full,
    /// Full until below the high water mark; the refused are woken below the low one (SVR4, illumos).
    Wake,
    /// Full until below the high water mark, and the refused are woken there.
    Off,
}

/// Water marks in octets. The same numbers bound the blocks, so that empty messages fill a queue too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    high: usize,
    low: usize,
}

impl Marks {
    /// Marks.
    ///
    /// # Errors
    ///
    /// A sentence when `high` is 0 or below `low`.
    pub fn new(high: usize, low: usize) -> Result<Marks, String> {
        Marks::constant(high, low).ok_or_else(|| {
            format!(
                "water marks {high}/{low}: the high one is at least 1 and not below the low one"
            )
        })
    }

    /// Marks that are known when the program is built; None as [`Marks::new`] fails.
    pub const fn constant(high: usize, low: usize) -> Option<Marks> {
        if high == 0 || high < low {
            return None;
        }
        Some(Marks { high, low })
    }

    /// The high water mark.
    pub fn high(self) -> usize {
        self.high
    }

    /// The low water mark.
    pub fn low(self) -> usize {
        self.low
    }
}

/// The messages of one band with their counts.
#[derive(Debug)]
struct Band {
    messages: VecDeque<Message>,
    octets: usize,
    blocks: usize,
    marks: Marks,
    /// Above the high water mark (QFULL, QB_FULL).
    full: bool,
    /// A writer was refused and waits (QWANTW, QB_WANTW).
    writer_waits: bool,
}

impl Band {
    fn new(marks: Marks) -> Band {
        Band {
            messages: VecDeque::new(),
            octets: 0,
            blocks: 0,
            marks,
            full: false,
            writer_waits: false,
        }
    }

    #[inline]
    fn charge(&mut self, message: &Message) {
        self.octets += message.octets();
        self.blocks += message.blocks();
        self.full |= self.octets >= self.marks.high || self.blocks >= self.marks.high;
    }

    /// Takes a message off the counts; true when those who were refused are to be woken.
    #[inline]
    fn discharge(&mut self, message: &Message, hysteresis: Hysteresis) -> bool {
        self.octets -= message.octets();
        self.blocks -= message.blocks();
        self.settle(hysteresis)
    }

    #[inline]
    fn settle(&mut self, hysteresis: Hysteresis) -> bool {
        if !self.full && !self.writer_waits {
            return false;
        }
        let below = |mark: usize| self.octets < mark && self.blocks < mark;
        let (below_high, below_low) = (below(self.marks.high), below(self.marks.low.max(1)));
        let (room, wake) = match hysteresis {
            Hysteresis::Full => (below_low, below_low),
            Hysteresis::Wake => (below_high, below_low),
            Hysteresis::Off => (below_high, below_high),
        };
        self.full &= !room;
        let woken = wake && self.writer_waits;
        self.writer_waits &= !wake;
        woken
    }
}

/// What a removal asks the runtime to do: wake those whom a band had refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken(pub bool);

/// A queue of one module and direction.
#[derive(Debug)]
pub struct Queue {
    high: VecDeque<Message>,
    normal: Band,
    /// Bands above 0, the highest first.
    bands: Vec<(u8, Band)>,
    hysteresis: Hysteresis,
    /// The last get found nothing (QWANTR).
    reader_waits: bool,
    /// Ordinary messages do not schedule the service procedure (QNOENB).
    no_enable: bool,
}

impl Queue {
    /// An empty queue. The first message schedules its service procedure.
    pub fn new(marks: Marks, hysteresis: Hysteresis) -> Queue {
        Queue {
            high: VecDeque::new(),
            normal: Band::new(marks),
            bands: Vec::new(),
            hysteresis,
            reader_waits: true,
            no_enable: false,
        }
    }

    /// Puts a message behind those of its class (putq). True: the service procedure is to be
    /// scheduled - always for high priority and, unless disabled, for any band above 0, and for band
    /// 0 when the reader found nothing last.
    #[inline]
    pub fn put(&mut self, message: Message) -> bool {
        let high = message.kind().is_high_priority();
        let band = message.band();
        let class = self.class(band);
        class.charge(&message);
        if high {
            self.high.push_back(message);
            return true;
        }
        class.messages.push_back(message);
        !self.no_enable && (band > 0 || self.reader_waits)
    }

    /// Puts a message back in front of its class (putbq). True: the service procedure is to be
    /// scheduled, which is so only if the reader found nothing last: one that puts back and returns
    /// runs again when those below have room. Not even high priority schedules here, or a procedure
    /// that puts back would run for ever.
    pub fn put_back(&mut self, message: Message) -> bool {
        let class = self.class(message.band());
        class.charge(&message);
        if message.kind().is_high_priority() {
            self.high.push_front(message);
        } else {
            class.messages.push_front(message);
        }
        self.reader_waits && !self.no_enable
    }

    /// Puts a message in front of the one that is number `at` of all, counted from the first; behind the last where `at`
    /// is their number (insq). True: the service procedure is to be scheduled, which is so only if the reader found
    /// nothing last and the queue may be scheduled, also for high priority.
    ///
    /// # Errors
    ///
    /// The message comes back when it would be in front of one of a higher class, or behind one of a lower class.
    pub fn insert(&mut self, at: usize, message: Message) -> Result<bool, Message> {
        let (high, band) = (message.kind().is_high_priority(), message.band());
        let before = match high {
            true => 0,
            false => self.high.len() + self.messages_above(band),
        };
        let class = self.class(band);
        let len = match high {
            true => self.high.len(),
            false => class.messages.len(),
        };
        let Some(place) = at.checked_sub(before).filter(|place| *place <= len) else {
            return Err(message);
        };
        let class = self.class(band);
        class.charge(&message);
        match high {
            true => self.high.insert(place, message),
            false => class.messages.insert(place, message),
        }
        Ok(self.reader_waits && !self.no_enable)
    }

    /// Its messages, from the first one.
    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        let bands = self.bands.iter().map(|(_, band)| band);
        let ordinary = bands.chain([&self.normal]);
        let ordinary = ordinary.flat_map(|band| &band.messages);
        self.high.iter().chain(ordinary)
    }

    /// Ordinary messages of bands above `band`.
    fn messages_above(&self, band: u8) -> usize {
        let above = self.bands.iter().filter(|(number, _)| *number > band);
        above.map(|(_, class)| class.messages.len()).sum()
    }

    /// Takes the first message (getq), and says whether those whom its band refused are to be woken.
    /// None, and the next message will schedule: the queue is empty.
    #[inline]
    pub fn get(&mut self) -> Option<(Message, Woken)> {
        let hysteresis = self.hysteresis;
        if let Some(message) = self.high.pop_front() {
            self.reader_waits = false;
            let woken = self.normal.discharge(&message, hysteresis);
            return Some((message, Woken(woken)));
        }
        let bands = self.bands.iter_mut().map(|(_, band)| band);
        for band in bands.chain([&mut self.normal]) {
            if let Some(message) = band.messages.pop_front() {
                self.reader_waits = false;
                let woken = band.discharge(&message, hysteresis);
                return Some((message, Woken(woken)));
            }
        }
        self.reader_waits = true;
        None
    }

    /// The first message.
    pub fn first(&self) -> Option<&Message> {
        let bands = self.bands.iter().map(|(_, band)| band);
        let ordinary = || {
            bands
                .chain([&self.normal])
                .find_map(|band| band.messages.front())
        };
        self.high.front().or_else(ordinary)
    }

    /// Whether a message of `band` would be taken. Who is refused is noted, and woken later.
    #[inline]
    pub fn has_room(&mut self, band: u8) -> bool {
        let class = match self.existing(band) {
            Some(class) => class,
            None => return true,
        };
        class.writer_waits |= class.full;
        !class.full
    }

    /// Whether a message of `band` is refused now; nobody is noted.
    pub fn is_full(&self, band: u8) -> bool {
        match band {
            0 => self.normal.full,
            _ => self
                .bands
                .iter()
                .any(|(number, class)| *number == band && class.full),
        }
    }

    /// Whether there is a message of `band` (I_CKBAND).
    pub fn has_band(&self, band: u8) -> bool {
        match band {
            0 => !self.normal.messages.is_empty(),
            _ => {
                let same =
                    |(number, class): &(u8, Band)| *number == band && !class.messages.is_empty();
                self.bands.iter().any(same)
            }
        }
    }

    /// Removes messages in the scope, of all bands and of high priority (flushq).
    pub fn flush(&mut self, scope: FlushScope, pool: &mut Pool) -> Woken {
        let mut woken = self.flush_high(scope, pool);
        woken |= flush_band(&mut self.normal, scope, self.hysteresis, pool);
        for (_, band) in &mut self.bands {
            woken |= flush_band(band, scope, self.hysteresis, pool);
        }
        Woken(woken)
    }

    /// Removes messages of one band (flushband); of band 0 with all that has high priority, if the
    /// scope is everything.
    pub fn flush_band(&mut self, band: u8, scope: FlushScope, pool: &mut Pool) -> Woken {
        let mut woken = false;
        if band == 0 && scope == FlushScope::All {
            woken |= self.flush_high(scope, pool);
        }
        let hysteresis = self.hysteresis;
        if let Some(class) = self.existing(band) {
            woken |= flush_band(class, scope, hysteresis, pool);
        }
        Woken(woken)
    }

    /// Ordinary messages no longer schedule (noenable), or do so again (enableok).
    pub fn set_no_enable(&mut self, no_enable: bool) {
        self.no_enable = no_enable;
    }

    /// Whether the service procedure may be scheduled by hand (qenable does not ask, enableq does).
    pub fn may_enable(&self) -> bool {
        !self.no_enable
    }

    /// New water marks of a band (strqset). Those who were refused and have room now are woken.
    pub fn set_marks(&mut self, band: u8, marks: Marks) -> Woken {
        let hysteresis = self.hysteresis;
        let class = self.class(band);
        class.marks = marks;
        class.full |= class.octets >= marks.high || class.blocks >= marks.high;
        Woken(class.settle(hysteresis))
    }

    /// Octets of a band; those of high priority count in band 0.
    pub fn octets(&self, band: u8) -> usize {
        match band {
            0 => self.normal.octets,
            _ => {
                let same = |(number, _): &&(u8, Band)| *number == band;
                self.bands
                    .iter()
                    .find(same)
                    .map_or(0, |(_, class)| class.octets)
            }
        }
    }

    /// Messages of all classes.
    pub fn len(&self) -> usize {
        let bands: usize = self.bands.iter().map(|(_, band)| band.messages.len()).sum();
        self.high.len() + self.normal.messages.len() + bands
    }

    /// Whether there is no message.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.high.is_empty()
            && self.normal.messages.is_empty()
            && self.bands.iter().all(|(_, band)| band.messages.is_empty())
    }

    fn flush_high(&mut self, scope: FlushScope, pool: &mut Pool) -> bool {
        for _ in 0..self.high.len() {
            let Some(message) = self.high.pop_front() else {
                break;
            };
            if scope == FlushScope::All || message.kind().is_data() {
                self.normal.octets -= message.octets();
                self.normal.blocks -= message.blocks();
                message.release(pool);
            } else {
                self.high.push_back(message);
            }
        }
        self.normal.settle(self.hysteresis)
    }

    /// The class of a band, made if it is not there with the marks of the queue.
    #[inline]
    fn class(&mut self, band: u8) -> &mut Band {
        if band == 0 {
            return &mut self.normal;
        }
        let at = self.bands.partition_point(|(number, _)| *number > band);
        if self.bands.get(at).is_none_or(|(number, _)| *number != band) {
            self.bands.insert(at, (band, Band::new(self.normal.marks)));
        }
        &mut self.bands[at].1
    }

    #[inline]
    fn existing(&mut self, band: u8) -> Option<&mut Band> {
        if band == 0 {
            return Some(&mut self.normal);
        }
        let mut bands = self.bands.iter_mut();
        bands.find_map(|(number, class)| (*number == band).then_some(class))
    }
}

fn flush_band(band: &mut Band, scope: FlushScope, hysteresis: Hysteresis, pool: &mut Pool) -> bool {
    for _ in 0..band.messages.len() {
        let Some(message) = band.messages.pop_front() else {
            break;
        };
        if scope == FlushScope::All || message.kind().is_data() {
            band.octets -= message.octets();
            band.blocks -= message.blocks();
            message.release(pool);
        } else {
            band.messages.push_back(message);
        }
    }
    band.settle(hysteresis)
}
