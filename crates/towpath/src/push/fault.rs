//! `fault`: what its user sends is dropped, delayed and changed, by a seed.

use engine::SplitMix64;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use streams::{Context, Error, Extra, Marks, Message, MessageKind, Module, ModuleInfo, Side};

/// What a fault does to messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FaultSettings {
    /// Share of the messages that are dropped.
    pub(super) drop: f64,
    /// Share of the messages of which one bit is inverted.
    pub(super) corrupt: f64,
    /// How long each message is held.
    pub(super) delay: Duration,
    /// Where the random numbers start.
    pub(super) seed: u64,
}

/// What a fault did.
#[derive(Debug, Default)]
pub(super) struct FaultCounts {
    pub(super) dropped: AtomicU64,
    pub(super) corrupted: AtomicU64,
    pub(super) delayed: AtomicU64,
}

/// Marks of what is held: 100 ms of 40 MB/s.
const MARKS: Marks = match Marks::constant(4 << 20, 1 << 20) {
    Some(marks) => marks,
    None => panic!("4 MiB is above 1 MiB"),
};

/// Drops, delays and changes messages on their way down, so that each direction of a circuit has one
/// of the faults that both its ends have.
pub(super) struct Fault {
    settings: FaultSettings,
    random: SplitMix64,
    /// When the messages of the write queue may go on.
    due: VecDeque<u64>,
    counts: Arc<FaultCounts>,
}

impl Fault {
    pub(super) fn new(settings: FaultSettings) -> Fault {
        Fault {
            settings,
            random: SplitMix64::new(settings.seed),
            due: VecDeque::new(),
            counts: Arc::default(),
        }
    }

    pub(super) fn counts(&self) -> Arc<FaultCounts> {
        Arc::clone(&self.counts)
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.unit() < share
    }

    fn pass_data(&mut self, context: &mut Context<'_>, mut message: Message) {
        if self.happens(self.settings.drop) {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return message.release(context.pool());
        }
        if message.data_octets() > 0 && self.happens(self.settings.corrupt) {
            self.counts.corrupted.fetch_add(1, Ordering::Relaxed);
            message = self.with_wrong_bit(context, message);
        }
        let delay_ns = self.settings.delay.as_nanos() as u64;
        if delay_ns > 0 {
            self.counts.delayed.fetch_add(1, Ordering::Relaxed);
            let due = context.now() + delay_ns;
            if self.due.is_empty() {
                context.enable_at(Side::Write, due);
            }
            self.due.push_back(due);
            context.put_queue(Side::Write, message);
        } else if context.is_empty(Side::Write) && context.can_put_next(Side::Write, 0) {
            context.put_next(Side::Write, message);
        } else {
            self.due.push_back(0);
            context.put_queue(Side::Write, message);
        }
    }

    /// A copy with one bit inverted: others may refer to the octets.
    fn with_wrong_bit(&mut self, context: &mut Context<'_>, message: Message) -> Message {
        let mut octets = vec![0; message.data_octets()];
        message.copy_data(0, &mut octets);
        message.release(context.pool());
        let bit = self.random.below(octets.len() as u64 * 8) as usize;
        octets[bit / 8] ^= 1 << (bit % 8);
        Message::data(context.copy(&octets))
    }
}

impl Module for Fault {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::with_write_service("fault", MARKS)
    }

    /// What is held goes by its time, and what is refused when there is room again: a message that
    /// comes changes neither.
    fn open(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        context.set_no_enable(Side::Write, true);
        Ok(())
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind(), message.extra.as_deref()) {
            (Side::Write, MessageKind::Data, _) => self.pass_data(context, message),
            (_, MessageKind::Flush, Some(&Extra::Flush(request))) => {
                context.flush_and_pass_on(side, request, message);
                if context.is_empty(Side::Write) {
                    self.due.clear();
                }
            }
            // What is no data is not held, but keeps its place behind what is.
            (Side::Write, kind, _) if !kind.is_high_priority() && !context.is_empty(side) => {
                self.due.push_back(self.due.back().copied().unwrap_or(0));
                context.put_queue(side, message);
            }
            _ => context.put_next(side, message),
        }
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        while let Some(&due) = self.due.front() {
            if due > context.now() {
                return context.enable_at(side, due);
            }
            let Some(message) = context.get(side) else {
                return self.due.clear();
            };
            if !context.can_put_next(side, message.band()) {
                return context.put_back(side, message);
            }
            self.due.pop_front();
            context.put_next(side, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use streams::{Hysteresis, Runtime, StreamId};

    /// A pipe whose first end has a fault.
    fn faulty(settings: FaultSettings) -> (Runtime, StreamId, StreamId, Arc<FaultCounts>) {
        let mut runtime = Runtime::new(Hysteresis::Full);
        let (a, b) = runtime.pipe();
        let fault = Fault::new(settings);
        let counts = fault.counts();
        runtime.push(a, Box::new(fault)).expect("a module");
        (runtime, a, b, counts)
    }

    fn received(runtime: &mut Runtime, end: StreamId) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while let Ok(message) = runtime.take_blocks(end, streams::Want::Any) {
            let mut octets = vec![0; message.data_octets()];
            message.copy_data(0, &mut octets);
            all.push(octets);
        }
        all
    }

    #[test]
    fn same_seed_drops_the_same_share_of_messages() {
        let lost = |seed| {
            let drop = 0.2;
            let (mut runtime, a, b, counts) = faulty(FaultSettings {
                drop,
                seed,
                ..FaultSettings::default()
            });
            for number in 0..1000_u32 {
                runtime.write(a, &number.to_le_bytes()).expect("room");
            }
            let got = received(&mut runtime, b);
            let dropped = counts.dropped.load(Ordering::Relaxed);
            assert_eq!(got.len() as u64 + dropped, 1000);
            assert!(
                (150..250).contains(&dropped),
                "{dropped}: 5 deviations are 63"
            );
            got
        };
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
    }

    #[test]
    fn corrupted_message_differs_in_one_bit() {
        let (mut runtime, a, b, counts) = faulty(FaultSettings {
            corrupt: 1.0,
            ..FaultSettings::default()
        });
        for _ in 0..50 {
            runtime.write(a, &[0x55; 100]).expect("room");
        }
        for octets in received(&mut runtime, b) {
            let wrong: u32 = octets.iter().map(|octet| (octet ^ 0x55).count_ones()).sum();
            assert_eq!(wrong, 1);
        }
        assert_eq!(counts.corrupted.load(Ordering::Relaxed), 50);
    }

    #[test]
    fn delayed_messages_go_in_order_when_their_time_has_come() {
        let (mut runtime, a, b, _) = faulty(FaultSettings {
            delay: Duration::from_nanos(100),
            ..FaultSettings::default()
        });
        for now in [0, 10, 150] {
            runtime.set_now(now);
            runtime.run(10);
            runtime.write(a, &now.to_le_bytes()[..1]).expect("room");
        }
        assert_eq!(received(&mut runtime, b), [vec![0], vec![10]]);
        assert_eq!(runtime.next_timer(), Some(250));
        runtime.set_now(249);
        runtime.run(10);
        assert!(received(&mut runtime, b).is_empty());
        runtime.set_now(250);
        runtime.run(10);
        assert_eq!(received(&mut runtime, b), [vec![150]]);
        assert_eq!(runtime.next_timer(), None);
    }
}
