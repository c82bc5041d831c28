//! What the workers of a trial are told: jobs, and what they follow from.

use super::{ClockGap, TrialError, TrialSpec, failed};
use crate::contestant;
use crate::place::{ClockOffset, Place};
use crate::spec::{Direction, RaceSpec};
use crate::stage::Between;
use control::{Job, Leg, Rate, Role, Side, WorkerReport, Workload};
use std::net::IpAddr;
use std::time::Duration;

/// Whether the direction of a workload can be turned round.
pub(super) fn has_direction(trial: &TrialSpec) -> bool {
    matches!(
        trial.contest.workload,
        Workload::Throughput | Workload::Offered
    )
}

/// The way to the listening worker.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) bind: Option<IpAddr>,
    pub(super) longest: Duration,
    /// Whom the connecting and the listening side speak with.
    pub(super) peers: [Option<IpAddr>; 2],
    pub(super) clocks: Clocks,
}

pub(super) struct Jobs {
    pub(super) clocks: Clocks,
    pub(super) listener: Job,
    pub(super) connector: Job,
}

impl Jobs {
    pub(super) fn of(spec: &RaceSpec, trial: &TrialSpec, path: Path, pairs: usize) -> Jobs {
        let (connector_role, listener_role) = roles(spec, trial);
        let reversed = matches!(listener_role, Role::Source);
        let (near, far) = if reversed { (1, 0) } else { (0, 1) };
        let job = |side, role, place| Job {
            side,
            role,
            workload: trial.contest.workload,
            legs: legs(spec, trial),
            settings: settings(spec, trial),
            bind: path.bind,
            peer: path.peers[usize::from(side == Side::Listen)],
            clock_ns: {
                let own = usize::from(side == Side::Listen);
                path.clocks.offset_ns(own) - path.clocks.offset_ns(1 - own)
            },
            pace_bytes_per_s: None,
            allowance_bytes: None,
            path_ns: path.longest.as_nanos() as u64,
            message_len: trial.contest.size,
            mix: trial.contest.mix,
            limits: trial.limits,
            rate: rate(spec, trial, pairs),
            pin: [spec.pin.0, spec.pin.1][place],
            priority: [spec.priority.0, spec.priority.1][place],
            busy_poll: spec.busy_poll && trial.contest.workload == Workload::Delay,
            seed: trial.seed,
        };
        Jobs {
            clocks: path.clocks,
            connector: job(Side::Connect, connector_role, near),
            listener: job(Side::Listen, listener_role, far),
        }
    }
}

fn roles(spec: &RaceSpec, trial: &TrialSpec) -> (Role, Role) {
    match (trial.contest.workload, spec.direction) {
        (Workload::Delay | Workload::Connect, _) => (Role::Client, Role::Server),
        (Workload::Throughput, Direction::Both) => (Role::Both, Role::Both),
        (_, Direction::Reverse) => (Role::Sink, Role::Source),
        _ => (Role::Source, Role::Sink),
    }
}

fn legs(spec: &RaceSpec, trial: &TrialSpec) -> Vec<Leg> {
    let leg = |leg: &contestant::Leg| Leg {
        transport: leg.to_string(),
        circuits: spec.circuits,
    };
    contestant::legs(&trial.contestant)
        .iter()
        .map(leg)
        .collect()
}

/// Nagle's algorithm would hold back the second half of a request or a reply.
fn settings(spec: &RaceSpec, trial: &TrialSpec) -> control::Settings {
    let mut settings = spec.settings.clone();
    settings.buffers = trial.contest.buffers.or(settings.buffers);
    // The pilot of an open loop runs closed, and is an open loop's in all else.
    if trial.contest.cell.workload() != "throughput" && settings.nodelay.is_none() {
        settings.nodelay = Some(true);
    }
    settings
}

/// A circuit's part of the offered load.
fn rate(spec: &RaceSpec, trial: &TrialSpec, pairs: usize) -> Option<Rate> {
    let all = legs(spec, trial);
    let circuits = all.iter().map(|leg| leg.circuits).sum::<u32>() * pairs as u32;
    trial.rate_per_s.map(|per_s| Rate {
        per_s: per_s / f64::from(circuits.max(1)),
        arrivals: spec.arrivals,
    })
}

/// The clocks of the connecting and the listening side, against this process's.
#[derive(Clone, Copy)]
pub(super) struct Clocks(pub(super) [Option<ClockOffset>; 2]);

impl Clocks {
    pub(super) fn read(between: &Between<'_>) -> Result<Clocks, TrialError> {
        let read = |place: &dyn Place| {
            let clock = place.clock();
            clock.map_err(|error| failed(format!("{}: {error}", place.name())))
        };
        Ok(Clocks([read(between.connector)?, read(between.listener)?]))
    }

    pub(super) fn offset_ns(&self, side: usize) -> i64 {
        self.0[side].map_or(0, |clock| clock.offset_ns)
    }

    /// Reports of the listening and the connecting side, in this process's time.
    pub(super) fn bring_home(
        self,
        reports: (WorkerReport, WorkerReport),
    ) -> (WorkerReport, WorkerReport) {
        let (mut listener, mut connector) = reports;
        control::vet::shift(&mut listener, self.offset_ns(1));
        control::vet::shift(&mut connector, self.offset_ns(0));
        (listener, connector)
    }

    /// How far the two sides' clocks may have been from these readings, since they were taken. What
    /// cannot be said leaves out one-way delays and nothing else.
    pub(super) fn gap(self, between: &Between<'_>) -> ClockGap {
        let places = [between.connector, between.listener];
        let mut gap_ns = None;
        for (clock, place) in self.0.into_iter().zip(places) {
            let Some(first) = clock else { continue };
            match place.clock_since(first) {
                Ok(since_ns) => gap_ns = Some(since_ns.saturating_add(gap_ns.unwrap_or(0))),
                Err(why) => return ClockGap::Unknown(format!("{}: {why}", place.name())),
            }
        }
        gap_ns.map_or(ClockGap::Same, ClockGap::Within)
    }
}

/// Whether the transports can do the workload at all.
pub(super) fn can_do(spec: &RaceSpec, trial: &TrialSpec) -> Result<(), TrialError> {
    let forward = spec.direction == Direction::Forward;
    for leg in contestant::legs(&trial.contestant) {
        if trial.contest.workload == Workload::Connect && !leg.class().connects {
            return Err(failed(format!(
                "{leg} makes no connections, both its ends are made at once; \
                 measure its throughput or delay"
            )));
        }
        let one_way = matches!(
            trial.contest.workload,
            Workload::Throughput | Workload::Offered
        );
        if leg.transport().is_one_to_many() && !(one_way && forward) {
            return Err(failed(format!(
                "{leg} goes from one sender to many receivers and nothing comes back; \
                 measure its throughput or offered load in the forward direction"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::WorkerHandle;
    use std::io;

    /// A host whose clock has run like this since it was first read.
    struct Far(Result<u64, String>);

    impl Place for Far {
        fn name(&self) -> &str {
            "far"
        }

        fn spawn(&self) -> io::Result<WorkerHandle> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn clock(&self) -> io::Result<Option<ClockOffset>> {
            Ok(Some(ClockOffset::default()))
        }

        fn clock_since(&self, _first: ClockOffset) -> Result<u64, String> {
            self.0.clone()
        }
    }

    /// A host with this process's clock.
    struct Near;

    impl Place for Near {
        fn name(&self) -> &str {
            "near"
        }

        fn spawn(&self) -> io::Result<WorkerHandle> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn gap(connector: &dyn Place, listener: &dyn Place) -> ClockGap {
        let between = Between {
            name: String::new(),
            connector,
            listener,
        };
        Clocks::read(&between).expect("a reading").gap(&between)
    }

    #[test]
    fn the_clocks_of_both_sides_count_and_a_lost_reading_fails_nothing() {
        assert_eq!(gap(&Near, &Near), ClockGap::Same);
        assert_eq!(gap(&Near, &Far(Ok(7))), ClockGap::Within(7));
        assert_eq!(gap(&Far(Ok(5)), &Far(Ok(7))), ClockGap::Within(12));
        let lost = Far(Err("no answer".into()));
        let unknown = ClockGap::Unknown("far: no answer".into());
        assert_eq!(gap(&Far(Ok(5)), &lost), unknown);
        assert_eq!(ClockGap::Within(3).or_worse(unknown.clone()), unknown);
    }
}
