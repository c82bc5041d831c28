//! Two runs by the same numbers that must be the same, such as one of engines that predict and one of engines that do not.

use super::written;
use crate::{Batch, Instant, Protocol, SplitMix64};
use core::fmt::Debug;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

/// Steps of a run.
const STEPS: usize = 2000;

/// Packets on their way between two endpoints, and what is compared besides the engines.
#[derive(Clone, Debug, Default)]
pub struct TwoQueues {
    /// Packets to each end, oldest first.
    pub queues: [VecDeque<Vec<u8>>; 2],
    /// All that engines delivered and said, as text.
    pub log: String,
}

impl TwoQueues {
    /// Puts all that `engine` at `end` sends on its way; user bytes are the lowest octets of their positions.
    pub fn transmit<P: Protocol>(&mut self, engine: &mut P, now: Instant, end: usize) {
        let mut batch = Batch::limited(64, 65_507);
        loop {
            engine.poll_transmit(now, &mut batch);
            if batch.is_empty() {
                return;
            }
            self.queues[1 - end].extend(written(&batch, super::positions));
            self.log += &format!("{}\n", batch.is_held());
            batch.clear();
        }
    }

    /// The oldest packet to `end`, and a number below 40 that says what becomes of it: 0 loses it, so that it is none here,
    /// 1 has changed a bit, 2 has doubled it.
    pub fn next(&mut self, end: usize, random: &mut SplitMix64) -> Option<(Vec<u8>, u64)> {
        let packet = self.queues[end].pop_front();
        let fate = random.below(40);
        let mut packet = packet.filter(|_| fate > 0)?;
        match fate {
            1 => {
                let at = random.below(packet.len() as u64) as usize;
                packet[at] ^= 1 << random.below(8);
            }
            2 => self.queues[end].push_back(packet.clone()),
            _ => {}
        }
        Some((packet, fate))
    }

    /// All that engines and packets are, as text, but for what `take` takes from an engine and `put` gives back to it.
    pub fn text<P: Debug, T>(
        &mut self,
        ends: &mut [P; 2],
        take: impl Fn(&mut P) -> T,
        put: impl Fn(&mut P, T),
    ) -> String {
        let kept = ends.each_mut().map(take);
        let text = format!("{ends:?} {self:?}");
        for (end, kept) in ends.iter_mut().zip(kept) {
            put(end, kept);
        }
        self.log.clear();
        text
    }
}

/// Time in which nothing arrives: a few milliseconds, and now and then one or the other of `time_outs_ms`.
pub fn pause(random: &mut SplitMix64, time_outs_ms: [u64; 2]) -> Duration {
    Duration::from_millis(match random.below(40) {
        0 => time_outs_ms[0],
        1 => time_outs_ms[1],
        _ => random.below(8),
    })
}

/// A run of a test.
pub trait Twin {
    /// The run of `seed`, with or without what is tested.
    fn new(seed: u64, is_tested: bool) -> Self;

    /// A step with drawn acts; `now` may go on.
    fn step(&mut self, random: &mut SplitMix64, now: &mut Instant);

    /// The step of number `count` in the usual order, with few losses.
    fn exchange(&mut self, random: &mut SplitMix64, now: &mut Instant, count: usize);

    /// All that must be the same, as text.
    fn text(&mut self) -> String;

    /// How often what is tested happened, received and sent.
    fn tested(&self) -> [u64; 2];
}

/// Two runs of each seed are the same, compared each so many steps; more than `least` of each kind were tested.
///
/// # Panics
///
/// When they differ, or less was tested.
pub fn assert_twins<T: Twin>(seeds: Range<u64>, compared_every: usize, least: u64) {
    let mut tested = [0, 0];
    for seed in seeds {
        let start = Instant::from_nanos(1_000_000);
        let twin = |is_tested| (T::new(seed, is_tested), start, SplitMix64::new(seed));
        let mut twins = [twin(true), twin(false)];
        for count in 0..STEPS {
            for (run, now, random) in &mut twins {
                match count / 50 % 2 {
                    0 => run.step(random, now),
                    _ => run.exchange(random, now, count),
                }
            }
            if count % compared_every == 0 {
                let [one, other] = twins.each_mut().map(|(run, ..)| run.text());
                assert!(one == other, "seed {seed}, before step {count}");
            }
        }
        let counts = twins[0].0.tested();
        tested = [tested[0] + counts[0], tested[1] + counts[1]];
    }
    assert!(tested.iter().all(|count| *count > least), "{tested:?}");
}
