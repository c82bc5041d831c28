//! Two endpoints with an association, driven by drawn numbers.

use super::TwoQueues;
use crate::{
    Address, AssociationId, Associations, Deliveries, Event, Instant, Note, Received, SendFlags,
    SplitMix64,
};
use core::time::Duration;

/// Two endpoints and what is on its way between them.
#[derive(Debug)]
pub struct AssociationTwins<E> {
    /// The engines.
    pub ends: [E; 2],
    /// The association of each, while it has one.
    pub ids: [Option<AssociationId>; 2],
    /// Their packets.
    pub packets: TwoQueues,
    /// Bytes submitted at each end, and delivered there that its user has not taken.
    submitted: [u64; 2],
    unread: [u64; 2],
}

impl<E: Associations> AssociationTwins<E> {
    /// Endpoints that listen, with an association from the first to the second that begins at `now`.
    pub fn new(mut ends: [E; 2], now: Instant) -> AssociationTwins<E> {
        for end in &mut ends {
            end.listen(true);
        }
        let mut twins = AssociationTwins {
            ends,
            ids: [None; 2],
            packets: TwoQueues::default(),
            submitted: [0; 2],
            unread: [0; 2],
        };
        twins.open(now);
        twins
    }

    /// Opens an association of the first.
    ///
    /// # Panics
    ///
    /// When there is no room.
    pub fn open(&mut self, now: Instant) {
        let id = self.ends[0].connect(now, &[Address::Station(1)]);
        self.ids = [Some(id.expect("there is room")), None];
        (self.submitted, self.unread) = ([0; 2], [0; 2]);
    }

    /// Submits `len` bytes more.
    pub fn submit(
        &mut self,
        now: Instant,
        end: usize,
        len: u64,
        (flags, note): (SendFlags, &Note),
    ) {
        if let Some(id) = self.ids[end] {
            self.submitted[end] += len;
            self.ends[end].submit(now, id, self.submitted[end], flags, note);
        }
    }

    /// The user takes all that was delivered.
    pub fn consume(&mut self, now: Instant, end: usize) {
        let all = core::mem::take(&mut self.unread[end]);
        if let Some(id) = self.ids[end] {
            self.ends[end].consume(now, id, all);
        }
    }

    /// Puts all that `end` sends on its way.
    pub fn transmit(&mut self, now: Instant, end: usize) {
        self.packets.transmit(&mut self.ends[end], now, end);
    }

    /// A packet arrives at `end`.
    pub fn receive(&mut self, now: Instant, end: usize, packet: &[u8]) {
        let mut deliveries = Deliveries::with_whole_messages();
        let received = Received::new(Address::Station(1 - end as u32), packet);
        self.ends[end].handle_packet(now, received, &mut deliveries);
        let whole = deliveries.whole.iter().flat_map(|whole| &whole.ranges);
        let whole: u64 = whole.map(|range| u64::from(range.end - range.start)).sum();
        let parts = deliveries.bytes.iter();
        let parts: usize = parts.map(|delivery| delivery.bytes.len()).sum();
        self.unread[end] += whole + parts as u64;
        self.packets.log += &format!("{deliveries:?}\n");
        self.take_events(end);
    }

    /// Takes the events of `end`.
    pub fn take_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            match event {
                Event::Accepted(id, _) => {
                    self.ids[end] = Some(id);
                    (self.submitted[end], self.unread[end]) = (0, 0);
                }
                Event::Closed(id, _) if self.ids[end] == Some(id) => self.ids[end] = None,
                _ => {}
            }
            self.packets.log += &format!("{event:?}\n");
        }
    }

    /// The time-outs of both come.
    pub fn time_out(&mut self, now: Instant) {
        for end in 0..2 {
            self.ends[end].handle_timeout(now);
            self.take_events(end);
        }
    }

    /// A short message of `end`, which may be lost, and which the other end's user takes.
    pub fn send_message(
        &mut self,
        random: &mut SplitMix64,
        now: &mut Instant,
        end: usize,
        flags: SendFlags,
    ) {
        *now = *now + Duration::from_micros(random.below(40));
        let len = if random.below(16) == 0 { 300 } else { 64 };
        let flags = SendFlags {
            push: true,
            ..flags
        };
        self.submit(*now, end, len, (flags, &Note::default()));
        self.transmit(*now, end);
        for packet in core::mem::take(&mut self.packets.queues[1 - end]) {
            if random.below(60) > 0 {
                self.receive(*now, 1 - end, &packet);
            }
        }
        self.consume(*now, 1 - end);
    }
}
