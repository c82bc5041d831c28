//! What a circuit's connection says of itself, once a slice.

use control::{CONNECTION_VALUES, Job};
use std::collections::BTreeMap;
use towpath::{Circuit, ConnectionInfo};

/// Most points of a series, as of the slices of a loop.
const POINTS_MAX: usize = 4096;

/// Records the state of a connection at most once a slice; nothing where it was not asked for.
#[derive(Debug)]
pub(crate) struct ConnectionRecorder(Option<Box<Recording>>);

#[derive(Debug)]
struct Recording {
    every_ns: u64,
    next_ns: u64,
    taken: usize,
    /// In the order of [`CONNECTION_VALUES`].
    series: [Vec<(u64, u64)>; CONNECTION_VALUES.len()],
}

impl ConnectionRecorder {
    /// For the job of a loop that begins at `start_ns`.
    pub(crate) fn of(job: &Job, start_ns: u64) -> ConnectionRecorder {
        let recording = || Recording {
            every_ns: job.limits.slice_ns.max(1),
            next_ns: start_ns,
            taken: 0,
            series: Default::default(),
        };
        ConnectionRecorder((job.series && job.sends()).then(|| Box::new(recording())))
    }

    /// Records the state of `circuit` when a slice has passed since the last time.
    #[inline]
    pub(crate) fn record(&mut self, at_ns: u64, circuit: &dyn Circuit) {
        if let Some(recording) = &mut self.0
            && at_ns >= recording.next_ns
        {
            recording.take(at_ns, circuit);
        }
    }

    /// The series that have a value, by name.
    pub(crate) fn finish(self) -> BTreeMap<String, Vec<(u64, u64)>> {
        let series = self
            .0
            .map(|recording| recording.series)
            .into_iter()
            .flatten();
        let named = CONNECTION_VALUES.iter().zip(series);
        let some = named.filter(|(_, points)| !points.is_empty());
        some.map(|(value, points)| (value.name.to_owned(), points))
            .collect()
    }
}

impl Recording {
    #[cold]
    fn take(&mut self, at_ns: u64, circuit: &dyn Circuit) {
        self.next_ns = at_ns + self.every_ns;
        if self.taken == POINTS_MAX {
            return;
        }
        self.taken += 1;
        // What says nothing once may speak later: a connection has no round trip before its first one.
        if let Ok(info) = circuit.connection_info() {
            for (points, value) in self.series.iter_mut().zip(values(&info)) {
                points.extend(value.map(|value| (at_ns, value)));
            }
        }
    }
}

/// The values in the order and units of [`CONNECTION_VALUES`].
fn values(info: &ConnectionInfo) -> [Option<u64>; CONNECTION_VALUES.len()] {
    let rtt_ns = info.smoothed_rtt;
    let rtt_ns = rtt_ns.map(|rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
    let all = [
        info.congestion_window,
        info.send_window,
        info.in_flight,
        rtt_ns,
        info.retransmissions,
        info.delivery_rate,
        info.sending_rate,
    ];
    // Above 2^53 a value means that there is no limit: NewReno's threshold, a pacing rate at the start.
    all.map(|value| value.filter(|value| *value < 1 << 53))
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Role, Side, Workload};
    use std::time::{Duration, Instant};
    use towpath::{Options, find};

    /// A source with slices of 1000 ns.
    fn job(series: bool) -> Job {
        let mut job = Job::one_circuit("tcp", Side::Listen, Role::Source);
        job.limits.slice_ns = 1_000;
        Job { series, ..job }
    }

    fn pair(name: &str) -> [Box<dyn Circuit>; 2] {
        let transport = find(name).expect("a transport");
        let options = Options::default();
        let mut listener = transport.listen(&options).expect("a listener");
        let to = listener.rendezvous().expect("an address");
        let client = transport.connect(&to, 0, &options).expect("a circuit");
        let soon = Instant::now() + Duration::from_secs(5);
        [client, listener.accept(soon).expect("its other end")]
    }

    #[test]
    fn a_slice_has_one_point_of_each_value_that_the_connection_has() {
        let [client, _server] = pair("tcp");
        let mut recorder = ConnectionRecorder::of(&job(true), 1_000);
        for at_ns in [1_000, 1_400, 2_000, 2_001, 3_500] {
            recorder.record(at_ns, client.as_ref());
        }
        let series = recorder.finish();
        let times = |name: &str| -> Vec<u64> { series[name].iter().map(|point| point.0).collect() };
        assert_eq!(times("congestion_window"), [1_000, 2_000, 3_500]);
        assert_eq!(times("retransmissions"), [1_000, 2_000, 3_500]);
    }

    #[test]
    fn nothing_is_recorded_unless_asked_for_by_a_sender_of_a_connection() {
        let recorded = |name: &str, job: &Job| {
            let [client, _server] = pair(name);
            let mut recorder = ConnectionRecorder::of(job, 1);
            recorder.record(10, client.as_ref());
            recorder.finish().len()
        };
        assert!(recorded("tcp", &job(true)) > 0);
        assert_eq!(recorded("tcp", &job(false)), 0);
        assert!(ConnectionRecorder::of(&job(false), 1).0.is_none());
        let receives = Job {
            role: Role::Sink,
            workload: Workload::Throughput,
            ..job(true)
        };
        assert_eq!(recorded("tcp", &receives), 0);
        assert_eq!(recorded("udp", &job(true)), 0);
    }

    #[test]
    fn series_have_a_limit() {
        let [client, _server] = pair("tcp");
        let mut recorder = ConnectionRecorder::of(&job(true), 0);
        for slice in 0..5000 {
            recorder.record(slice * 1_000, client.as_ref());
        }
        assert_eq!(recorder.finish()["in_flight"].len(), POINTS_MAX);
    }
}
