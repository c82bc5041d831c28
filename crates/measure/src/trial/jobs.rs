//! The jobs of a trial's workers.

use super::{ClockUncertainty, TrialError, TrialSpec, failed};
use crate::environment::HostPair;
use crate::spec::{Direction, FanOutChoice, RaceSpec};
use control::{ComponentSpec, Job, Rate, Role, Side, WorkerReport, Workload};
use loadgen::contestant;
use loadgen::worker_host::{ClockOffset, WorkerHost};
use loadgen::workload::responsive::SHORT_LEN;
use std::net::IpAddr;
use std::time::Duration;

/// Whether the direction of a workload can be reversed.
pub(super) fn has_direction(trial: &TrialSpec) -> bool {
    matches!(
        trial.contest.workload,
        Workload::Throughput | Workload::Offered
    )
}

/// The path between the workers of a host pair.
pub(super) struct PairPath {
    /// Addresses of the connecting and of the listening host, link by link.
    pub(super) addresses: [Vec<IpAddr>; 2],
    pub(super) delay_max: Duration,
    /// Allowed peer addresses of the connecting and the listening side.
    pub(super) peers: [Option<IpAddr>; 2],
    pub(super) clocks: ClockOffsets,
}

pub(super) struct Jobs {
    pub(super) clocks: ClockOffsets,
    pub(super) listener: Job,
    pub(super) connector: Job,
}

impl Jobs {
    pub(super) fn of(spec: &RaceSpec, trial: &TrialSpec, path: &PairPath, pairs: usize) -> Jobs {
        let (connector_role, listener_role) = roles(spec, trial);
        let reversed = matches!(listener_role, Role::Source);
        let (connector_end, listener_end) = if reversed { (1, 0) } else { (0, 1) };
        let transactions = trial.contest.transactions;
        let pin = contestant::pin(&trial.contestant).unwrap_or(spec.pin);
        let priority = contestant::priority(&trial.contestant).unwrap_or(spec.priority);
        let job = |side, role, end: usize| Job {
            side,
            role,
            workload: trial.contest.workload,
            components: components(trial),
            circuit_options: circuit_options(spec, trial),
            // Listeners of transports with one path are on the first link.
            bind: path.addresses[1].first().copied(),
            local_addresses: path.addresses[usize::from(side == Side::Listen)].clone(),
            peer_addresses: path.addresses[usize::from(side == Side::Connect)].clone(),
            peer: path.peers[usize::from(side == Side::Listen)],
            clock_offset_ns: {
                let own = usize::from(side == Side::Listen);
                path.clocks.offset_ns(own) - path.clocks.offset_ns(1 - own)
            },
            pace_bytes_per_s: None,
            allowance_bytes: None,
            path_delay_ns: path.delay_max.as_nanos() as u64,
            message_len: trial.contest.size,
            reply_len: match trial.contest.workload {
                Workload::Responsive => SHORT_LEN,
                _ => transactions.map_or(0, |load| load.reply_len),
            },
            service_ns: transactions.map_or(0, |load| load.service.as_nanos() as u64),
            mix: trial.contest.mix,
            limits: trial.limits,
            rate: rate(spec, trial, pairs),
            pin: [pin.0, pin.1][end],
            priority: [priority.0, priority.1][end],
            busy_poll: spec.busy_poll
                && matches!(
                    trial.contest.workload,
                    Workload::Delay | Workload::Throughput
                ),
            series: spec.series && has_series(trial.contest.workload),
            raw_sockets: Vec::new(),
            seed: trial.seed,
        };
        Jobs {
            clocks: path.clocks,
            connector: job(Side::Connect, connector_role, connector_end),
            listener: job(Side::Listen, listener_role, listener_end),
        }
    }
}

/// Whether a circuit of the workload lasts as long as the trial, and so has a series of its connection.
pub(crate) fn has_series(workload: Workload) -> bool {
    match workload {
        Workload::Throughput | Workload::Delay | Workload::Offered => true,
        Workload::Connect | Workload::Transactions | Workload::Responsive | Workload::Send => false,
    }
}

fn roles(spec: &RaceSpec, trial: &TrialSpec) -> (Role, Role) {
    match (trial.contest.workload, spec.direction) {
        (
            Workload::Delay | Workload::Connect | Workload::Transactions | Workload::Responsive,
            _,
        ) => (Role::Client, Role::Server),
        (Workload::Send, _) => (Role::Source, Role::Sink),
        (Workload::Throughput, Direction::Both) => (Role::Both, Role::Both),
        (_, Direction::Reverse) => (Role::Sink, Role::Source),
        _ => (Role::Source, Role::Sink),
    }
}

/// Circuits of each transport: a client each, where there are clients; one more than carry bulk, where
/// short messages go beside it.
pub(crate) fn circuits_of(trial: &TrialSpec) -> u32 {
    let clients = trial.contest.transactions.map(|load| load.clients);
    let short = u32::from(trial.contest.workload == Workload::Responsive);
    clients.unwrap_or(trial.contest.circuits + short)
}

fn components(trial: &TrialSpec) -> Vec<ComponentSpec> {
    let component = |component: &contestant::Component| ComponentSpec {
        transport: component.for_worker().to_string(),
        circuits: circuits_of(trial),
    };
    contestant::components(&trial.contestant)
        .iter()
        .map(component)
        .collect()
}

/// Options of the circuits. Request and reply run without Nagle's algorithm, which would delay the
/// last segment of a message.
fn circuit_options(spec: &RaceSpec, trial: &TrialSpec) -> control::CircuitOptions {
    let mut settings = spec.circuit_options.clone();
    settings.buffers = trial.contest.buffers.or(settings.buffers);
    // The pilot of an open loop runs as closed loop with the same options.
    if trial.contest.cell.workload() != "throughput" && settings.nodelay.is_none() {
        settings.nodelay = Some(true);
    }
    settings
}

/// A circuit's share of the offered load.
fn rate(spec: &RaceSpec, trial: &TrialSpec, pairs: usize) -> Option<Rate> {
    let all = components(trial);
    let circuits = all.iter().map(|component| component.circuits).sum::<u32>() * pairs as u32;
    trial.rate_per_s.map(|per_s| Rate {
        per_s: per_s / f64::from(circuits.max(1)),
        arrivals: spec.arrivals,
    })
}

/// Clock offsets of the connecting and the listening side from this process.
#[derive(Clone, Copy)]
pub(super) struct ClockOffsets(pub(super) [Option<ClockOffset>; 2]);

impl ClockOffsets {
    pub(super) fn read(host_pair: &HostPair<'_>) -> Result<ClockOffsets, TrialError> {
        let read = |worker_host: &dyn WorkerHost| {
            let clock = worker_host.clock_offset();
            clock.map_err(|error| failed(format!("{}: {error}", worker_host.name())))
        };
        Ok(ClockOffsets([
            read(host_pair.connector)?,
            read(host_pair.listener)?,
        ]))
    }

    pub(super) fn offset_ns(&self, side: usize) -> i64 {
        self.0[side].map_or(0, |clock| clock.offset_ns)
    }

    /// Reports of the listening and the connecting side, converted to this process's clock.
    pub(super) fn to_local_clock(
        self,
        reports: (WorkerReport, WorkerReport),
    ) -> (WorkerReport, WorkerReport) {
        let (mut listener, mut connector) = reports;
        control::validate::shift_clock(&mut listener, self.offset_ns(1));
        control::validate::shift_clock(&mut connector, self.offset_ns(0));
        (listener, connector)
    }

    /// Largest error of these readings since they were taken. An unknown error drops one-way delays
    /// and nothing else.
    pub(super) fn uncertainty(self, host_pair: &HostPair<'_>) -> ClockUncertainty {
        let hosts = [host_pair.connector, host_pair.listener];
        let mut gap_ns = None;
        for (clock, worker_host) in self.0.into_iter().zip(hosts) {
            let Some(first) = clock else { continue };
            match worker_host.clock_error_since(first) {
                Ok(since_ns) => gap_ns = Some(since_ns.saturating_add(gap_ns.unwrap_or(0))),
                Err(why) => {
                    return ClockUncertainty::Unknown(format!("{}: {why}", worker_host.name()));
                }
            }
        }
        gap_ns.map_or(ClockUncertainty::Same, ClockUncertainty::Within)
    }
}

/// Refuses what one sender and several receivers cannot do; the command line says the same before.
fn check_fan_out(spec: &RaceSpec, trial: &TrialSpec) -> Result<(), TrialError> {
    let Some(fan_out) = trial.contest.fan_out else {
        return Ok(());
    };
    let has_workload = match trial.contest.workload {
        Workload::Throughput => true,
        Workload::Delay => fan_out.choice == FanOutChoice::All,
        _ => false,
    };
    let fits = has_workload
        && spec.direction == Direction::Forward
        && trial.contest.circuits == 1
        && contestant::components(&trial.contestant).len() == 1;
    if !fits {
        return Err(failed(
            "several receivers of one sender are for throughput, and where all get each message for delay, of one \
             transport in the forward direction, with one circuit for each"
                .into(),
        ));
    }
    if fan_out.choice == FanOutChoice::One && super::fan_out::is_group(&trial.contestant) {
        return Err(failed(format!(
            "{} sends each message to all of its group; race it without @one",
            trial.contestant
        )));
    }
    Ok(())
}

/// Why the packets of a component cannot be discarded, and whose can.
pub fn cannot_discard(component: &contestant::Component) -> String {
    let why = match component.class().kernel {
        true => "is the kernel's, which shows no copying of its own",
        false => "waits for what comes back, and nothing comes back from a wire that discards",
    };
    format!(
        "{component} {why}; workload send is for engines in the process that wait for no answer: vmtp,repeat=1, \
         vmtp-aal34,repeat=1 and xtp-datagram"
    )
}

/// Refuses workloads that a transport does not support.
pub(super) fn check_supported(spec: &RaceSpec, trial: &TrialSpec) -> Result<(), TrialError> {
    let forward = spec.direction == Direction::Forward;
    check_fan_out(spec, trial)?;
    for component in contestant::components(&trial.contestant) {
        if trial.contest.workload == Workload::Connect && !component.class().connects {
            return Err(failed(format!(
                "{component} makes no connections, both its ends are created at once; \
                 measure its throughput or delay"
            )));
        }
        let one_way = matches!(
            trial.contest.workload,
            Workload::Throughput | Workload::Offered | Workload::Send
        );
        if trial.contest.workload == Workload::Send && !component.sends_unanswered() {
            return Err(failed(cannot_discard(&component)));
        }
        if component.transport().only_answers() && one_way && !forward {
            return Err(failed(format!(
                "{component} carries calls, and its listening side only answers; \
                 measure it in the forward direction"
            )));
        }
        if component.is_one_way() && !(one_way && forward) {
            return Err(failed(format!(
                "{component} sends in one direction, and nothing answers; measure its throughput or \
                 offered load in the forward direction, or leave that option out"
            )));
        }
        // The sender hears of each receiver that it has the message.
        let until_all = trial.contest.fan_out.is_some();
        if component.transport().is_one_to_many() && !((one_way || until_all) && forward) {
            return Err(failed(format!(
                "{component} is one-to-many without a return channel; \
                 measure its throughput or offered load in the forward direction, or its delay with --fan-out"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadgen::worker_host::WorkerHandle;
    use std::io;
    use std::path::Path;

    /// A remote host with this clock error since the first reading.
    struct RemoteClockHost(Result<u64, String>);

    impl WorkerHost for RemoteClockHost {
        fn name(&self) -> &str {
            "far"
        }

        fn spawn(&self) -> io::Result<WorkerHandle> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn spawn_program(&self, _program: &Path) -> io::Result<WorkerHandle> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn clock_offset(&self) -> io::Result<Option<ClockOffset>> {
            Ok(Some(ClockOffset::default()))
        }

        fn clock_error_since(&self, _first: ClockOffset) -> Result<u64, String> {
            self.0.clone()
        }
    }

    /// A host with this process's clock.
    struct LocalClockHost;

    impl WorkerHost for LocalClockHost {
        fn name(&self) -> &str {
            "near"
        }

        fn spawn(&self) -> io::Result<WorkerHandle> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn spawn_program(&self, _program: &Path) -> io::Result<WorkerHandle> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn gap(connector: &dyn WorkerHost, listener: &dyn WorkerHost) -> ClockUncertainty {
        let host_pair = HostPair {
            name: String::new(),
            connector,
            listener,
        };
        ClockOffsets::read(&host_pair)
            .expect("a reading")
            .uncertainty(&host_pair)
    }

    #[test]
    fn uncertainty_adds_both_clocks_and_survives_lost_reading() {
        assert_eq!(
            gap(&LocalClockHost, &LocalClockHost),
            ClockUncertainty::Same
        );
        assert_eq!(
            gap(&LocalClockHost, &RemoteClockHost(Ok(7))),
            ClockUncertainty::Within(7)
        );
        assert_eq!(
            gap(&RemoteClockHost(Ok(5)), &RemoteClockHost(Ok(7))),
            ClockUncertainty::Within(12)
        );
        let lost = RemoteClockHost(Err("no answer".into()));
        let unknown = ClockUncertainty::Unknown("far: no answer".into());
        assert_eq!(gap(&RemoteClockHost(Ok(5)), &lost), unknown);
        assert_eq!(
            ClockUncertainty::Within(3).or_worse(unknown.clone()),
            unknown
        );
    }
}
