//! The study's runs, on several threads.

use super::plan::{self, SIMULATED, SIZES, SizePlan, TU_PS, Variant};
use sim::{NetworkReport, StopReason};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Simulated time limit of a run: the slowest takes 715 s.
const LIMIT_PS: u64 = 3_600_000_000_000_000;

/// A point of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The protocol.
    pub variant: Variant,
    /// Index of the message's size in [`SIZES`].
    pub size: usize,
    /// Index of the load in the size's list.
    pub load: usize,
    /// Hosts take time.
    pub with_delays: bool,
}

impl Point {
    /// The plan of its size.
    pub fn size_plan(&self) -> &'static SizePlan {
        &SIZES[self.size]
    }

    /// Mean time between messages, time units.
    pub fn interarrival_tu(&self) -> u64 {
        self.size_plan().interarrivals_tu[self.load]
    }

    /// User bytes a second offered on average.
    pub fn offered_bps(&self) -> f64 {
        self.size_plan().bytes as f64 * 1e7 / self.interarrival_tu() as f64
    }
}

/// Result of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointRun {
    /// Octets of data packets a second up to the last settled message: the study's effective
    /// throughput.
    pub throughput_bps: f64,
    /// User bytes a second.
    pub user_bps: f64,
    /// The throughput if all messages were sent as they are produced.
    pub generated_bps: f64,
    /// Shortest time from the (last) data frame to the end of its control packet, time units.
    pub min_delay_tu: f64,
    /// Mean of the same.
    pub mean_exchange_tu: f64,
    /// From a message's production to its last byte at the user, mean, time units.
    pub user_delay_tu: f64,
    /// Collided transmissions.
    pub collisions: u64,
    /// Share of the time the cable carried frames.
    pub utilisation: f64,
    /// Share of the time the sender's main processor worked.
    pub sender_busy: f64,
    /// Events handled.
    pub events: u64,
    /// Everything was settled.
    pub complete: bool,
}

/// A point with its runs and the means over their seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct PointResult {
    /// The point.
    pub point: Point,
    /// A run for each seed.
    pub runs: Vec<PointRun>,
}

impl PointResult {
    /// The mean of a figure over the seeds.
    pub fn mean(&self, figure: impl Fn(&PointRun) -> f64) -> f64 {
        self.runs.iter().map(figure).sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// The study's message delay: offered load over effective throughput times minimum delay.
    pub fn message_delay_tu(&self) -> f64 {
        let throughput = self.mean(|run| run.throughput_bps);
        self.point.offered_bps() / throughput * self.mean(|run| run.min_delay_tu)
    }
}

/// All points of the plan, in the order of the tables.
pub fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for variant in SIMULATED {
        for (size, plan) in SIZES.iter().enumerate() {
            for load in 0..plan.interarrivals_tu.len() {
                points.extend([false, true].map(|with_delays| Point {
                    variant,
                    size,
                    load,
                    with_delays,
                }));
            }
        }
    }
    points
}

/// Runs `points` with `messages` messages and each of `seeds`, on `jobs` threads. Calls `progress`
/// with the number of runs done and the number of all.
///
/// The results depend neither on `jobs` nor on the scheduling of threads.
pub fn run(
    points: &[Point],
    messages: u64,
    seeds: &[u64],
    jobs: usize,
    progress: impl Fn(usize, usize) + Sync,
) -> Vec<PointResult> {
    let total = points.len() * seeds.len();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes = Mutex::new(vec![None; total]);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, total.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(index / seeds.len()) else {
                        return;
                    };
                    let outcome = run_once(point, messages, seeds[index % seeds.len()]);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes[index] = Some(outcome);
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    let by_point = outcomes.chunks(seeds.len());
    let results = points
        .iter()
        .zip(by_point)
        .map(|(point, runs)| PointResult {
            point: *point,
            runs: runs.iter().copied().flatten().collect(),
        });
    results.collect()
}

/// One run of a point.
pub fn run_once(point: &Point, messages: u64, seed: u64) -> PointRun {
    let size = point.size_plan();
    let cost = plan::host(size, point.with_delays);
    let mut network = plan::network(point.variant, cost, seed);
    let traffic = plan::traffic(point.variant, size.bytes, point.interarrival_tu());
    if network.add_traffic(traffic).is_err() {
        return PointRun::nothing();
    }
    let ending = network.run_until(LIMIT_PS, messages);
    PointRun::from(&network.report(ending))
}

impl PointRun {
    fn nothing() -> PointRun {
        PointRun {
            throughput_bps: 0.0,
            user_bps: 0.0,
            generated_bps: 0.0,
            min_delay_tu: 0.0,
            mean_exchange_tu: 0.0,
            user_delay_tu: 0.0,
            collisions: 0,
            utilisation: 0.0,
            sender_busy: 0.0,
            events: 0,
            complete: false,
        }
    }

    fn from(report: &NetworkReport) -> PointRun {
        let Some(flow) = report.flows.first() else {
            return PointRun::nothing();
        };
        let Some(receiver) = flow.receivers.iter().min_by_key(|receiver| receiver.bytes) else {
            return PointRun::nothing();
        };
        let seconds = |ps: u64| ps as f64 / 1e12;
        let units = |ps: f64| ps / TU_PS as f64;
        let time = seconds(flow.last_settled_ps.max(1));
        let (collisions, carrying) = report.ether.map_or((0, 0), |(counters, time)| {
            (counters.collisions, time.carrying_ps)
        });
        let per_message = receiver.packet_bytes as f64 / receiver.messages.max(1) as f64;
        let busy: u64 = report.stations[0].busy_ps.iter().sum();
        let elapsed = report.elapsed_ps.max(1) as f64;
        PointRun {
            throughput_bps: receiver.packet_bytes as f64 / time,
            user_bps: receiver.bytes as f64 / time,
            generated_bps: per_message * flow.offered as f64 / seconds(flow.last_offered_ps.max(1)),
            min_delay_tu: units(flow.exchange.min().unwrap_or(0) as f64),
            mean_exchange_tu: units(flow.exchange.mean().unwrap_or(0.0)),
            user_delay_tu: units(receiver.delay.mean().unwrap_or(0.0)),
            collisions,
            utilisation: carrying as f64 / elapsed,
            sender_busy: busy as f64 / elapsed,
            events: report.events,
            complete: report.ending == StopReason::Complete && receiver.wrong_bytes == 0,
        }
    }
}
