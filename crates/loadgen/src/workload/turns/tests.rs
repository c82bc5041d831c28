//! The recorder of turns against arrivals whose counts are known, and against a machine that drifts.

use super::*;
use crate::turn_schedule::{TurnPlan, TurnSchedule};
use random::SplitMix64;

const MS: u64 = 1_000_000;

/// Turns that begin at these times, ms: 2 ms do not count, 20 ms do.
fn turns(begins_ms: &[u64]) -> Turns {
    let turn = |&begin: &u64| Turn {
        begin_ns: begin * MS,
        counted_from_ns: (begin + 2) * MS,
        end_ns: (begin + 22) * MS,
    };
    Turns {
        windows: begins_ms.iter().map(turn).collect(),
        over_ns: 10_000 * MS,
    }
}

fn slice(at_ns: u64, messages: u64) -> Slice {
    Slice {
        at_ns,
        messages,
        bytes: messages * 64,
    }
}

/// The messages of each turn.
fn counts(slices: &[Slice]) -> Vec<u64> {
    let pairs = slices.windows(2);
    pairs
        .map(|pair| pair[1].messages - pair[0].messages)
        .collect()
}

#[test]
fn only_the_counted_part_of_each_turn_counts() {
    let mut recorder = TurnSlices::new(&turns(&[100, 300]));
    // A message every 10 us in both turns, 2200 in each; readings at odd times.
    let mut messages = 0;
    for begin in [100, 300] {
        for step in 1..=2200_u64 {
            messages += 1;
            if step % 7 == 0 {
                recorder.record(slice(begin * MS + step * 10_000, messages));
            }
        }
    }
    let slices = recorder.finish();
    assert_eq!(slices.len(), 3);
    for count in counts(&slices) {
        assert!((1992..=2000).contains(&count), "{count}");
    }
    let clock: Vec<u64> = slices.iter().map(|slice| slice.at_ns).collect();
    assert_eq!(
        clock,
        [102 * MS, 122 * MS, 142 * MS],
        "the clock runs in turns alone"
    );
}

#[test]
fn turn_without_arrivals_counts_as_empty_and_keeps_its_time() {
    let mut recorder = TurnSlices::new(&turns(&[100, 200, 300]));
    recorder.record(slice(101 * MS, 10));
    recorder.record(slice(301 * MS, 20));
    recorder.record(slice(322 * MS, 1020));
    let slices = recorder.finish();
    let found = counts(&slices);
    assert_eq!(found[..2], [0, 0]);
    assert!((950..=1000).contains(&found[2]), "{found:?}");
    assert_eq!(TurnSlices::new(&turns(&[100, 200])).finish().len(), 3);
}

#[test]
fn arrivals_in_the_turn_of_another_are_late() {
    let mut recorder = TurnSlices::new(&turns(&[100, 200]));
    recorder.record(slice(110 * MS, 700));
    recorder.record(slice(122 * MS + GAP_NS, 900));
    assert_eq!(
        recorder.late_fraction(),
        0.0,
        "the next one has not begun to count"
    );
    recorder.record(slice(125 * MS, 1000));
    assert_eq!(recorder.late_fraction(), 0.1);
    recorder.record(slice(201 * MS, 1500));
    recorder.record(slice(230 * MS, 2000));
    assert_eq!(recorder.late_fraction(), 0.05);
}

#[test]
fn receiver_reads_the_clock_often_only_near_the_end_of_a_turn() {
    let recorder = TurnSlices::new(&turns(&[100]));
    let amid = |at_ns: u64| recorder.is_amid_turn(at_ns);
    assert!(!amid(99 * MS), "the turn has not begun");
    assert!(amid(100 * MS) && amid(121 * MS));
    assert!(!amid(122 * MS - NEAR_END_NS) && !amid(130 * MS));
}

#[test]
fn gate_without_turns_is_open_and_past_turns_are_over() {
    let flags = WorkerFlags::default();
    let mut gate = TurnGate::of(&flags);
    assert!(gate.wait(u64::MAX - 1, &flags) && gate.counts(0));
    assert_eq!(gate.number(), None);
    let past = Turns {
        over_ns: 0,
        ..turns(&[1, 30])
    };
    let flags = WorkerFlags::new(None).in_turns(Some(past));
    assert!(!TurnGate::of(&flags).wait(0, &flags));
}

#[test]
fn gate_waits_for_its_turn_and_ends_with_a_stop() {
    let now = now_ns();
    let long = Turn {
        begin_ns: now + MS,
        counted_from_ns: now + 2 * MS,
        end_ns: now + 3_600_000 * MS,
    };
    let windows = Turns {
        windows: vec![long],
        over_ns: long.end_ns,
    };
    let flags = WorkerFlags::new(None).in_turns(Some(windows));
    let mut gate = TurnGate::of(&flags);
    assert!(gate.wait(now, &flags));
    assert!(now_ns() >= long.begin_ns);
    assert!(!gate.counts(long.begin_ns) && gate.counts(long.counted_from_ns));
    assert_eq!(gate.number(), Some(0));
    flags.stop();
    assert!(!gate.wait(long.end_ns, &flags));
}

/// A machine of which every contestant sees the same moment: it drifts, and falls into slow phases.
struct Machine {
    random: SplitMix64,
    slow_until_ns: u64,
}

impl Machine {
    /// Messages a nanosecond of a contestant of this speed.
    fn rate(&mut self, at_ns: u64, speed: f64) -> f64 {
        if self.random.below(2_000) == 0 {
            self.slow_until_ns = at_ns + 30 * MS;
        }
        let slow = if at_ns < self.slow_until_ns { 0.8 } else { 1.0 };
        speed * 1e-3 * slow * (1.0 - at_ns as f64 * 2e-10)
    }
}

/// Runs two contestants of these speeds in turns; gives the ratio of what was counted.
fn ratio(seed: u64, speeds: [f64; 2]) -> f64 {
    let plan = TurnPlan::of(0.8, 0.02, 1e6).expect("a plan");
    let mut random = SplitMix64::new(seed);
    let schedule = TurnSchedule::new(plan, 2, 5 * MS, &mut random);
    let mut machine = Machine {
        random,
        slow_until_ns: 0,
    };
    let mut recorders = [0, 1].map(|at| TurnSlices::new(&schedule.of_contestant(at)));
    let mut sums = [0.0; 2];
    for (&whose, turn) in schedule.order.iter().zip(&schedule.windows) {
        let mut at_ns = turn.begin_ns;
        while at_ns < turn.end_ns {
            let step_ns = 20_000 + machine.random.below(80_000);
            let open_ns = step_ns.min(turn.end_ns - at_ns) as f64;
            sums[whose] += open_ns * machine.rate(at_ns, speeds[whose]);
            at_ns += step_ns;
            // Up to 100 us pass until the receiver reads it.
            let read_ns = at_ns + machine.random.below(100_000).min(at_ns - turn.begin_ns);
            at_ns = at_ns.max(read_ns);
            recorders[whose].record(slice(read_ns, sums[whose] as u64));
        }
    }
    let [one, other] = recorders.map(|recorder| {
        let slices = recorder.finish();
        let last = slices.last().copied().unwrap_or_default();
        last.messages as f64 / (last.at_ns - slices[0].at_ns) as f64
    });
    one / other
}

/// The machine loses a fifth of its speed during the 1.7 s of a contest: back to back, one after the
/// other, equal contestants would differ by a tenth.
#[test]
fn turns_do_not_move_the_ratio() {
    for speeds in [[1.0, 1.0], [1.0, 0.95], [0.2, 1.0]] {
        let truth = speeds[0] / speeds[1];
        let errors: Vec<f64> = (0..60)
            .map(|seed| (ratio(seed, speeds) / truth).ln())
            .collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors
            .iter()
            .fold(0.0_f64, |worst, one| worst.max(one.abs()));
        assert!(mean.abs() < 0.004, "{speeds:?}: {mean}");
        assert!(worst < 0.03, "{speeds:?}: {worst}");
    }
}
