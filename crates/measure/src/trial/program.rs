//! The trial of a contestant that is a program of another project.

use super::{OVERRUN_MAX, SETUP_LIMIT, STOP_POLL, TrialError, TrialSpec, failed, receive, send};
use crate::environment::{Environment, EnvironmentReport};
use crate::exec::{self, Definition, Measurement, Reading, Seen, octets_per_s_at_least};
use crate::spec::RaceSpec;
use control::{
    FromWorker, HostTraffic, ProgramExit, ProgramJob, ProgramReport, ServerJob, ToWorker,
};
use host::SnapshotDifference;
use loadgen::worker_host::WorkerHandle;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time that a server has to be ready.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// Time that a client has beyond what it is asked to measure: to start, connect and sum up.
const CLIENT_EXTRA: Duration = Duration::from_secs(10);

/// By how much a program may say more than its host's interface carried: the two count over slightly
/// different times.
const CLAIM_MAX: f64 = 1.1;

/// What a program measured, and what its hosts saw.
#[derive(Clone, Debug)]
pub(crate) struct ProgramRun {
    /// The primary number.
    pub(crate) reading: Reading,
    /// Further measures by name.
    pub(crate) also: BTreeMap<String, f64>,
    /// Client and server as their workers saw them.
    pub(crate) client: ProgramReport,
    pub(crate) server: ProgramReport,
    /// What the interfaces of the client's and the server's host carried, the measured ones only.
    pub(crate) traffic: [HostTraffic; 2],
    /// Host counters over the measured time.
    pub(crate) host: SnapshotDifference,
    /// CPU seconds of this process meanwhile.
    pub(crate) own_cpu_s: f64,
    /// The interfaces the traffic ran over.
    pub(crate) interfaces: Vec<String>,
    /// What the link and the loads did.
    pub(crate) environment: EnvironmentReport,
}

impl ProgramRun {
    /// Seconds that the client ran.
    pub(crate) fn span_s(&self) -> f64 {
        self.client.span_ns as f64 * 1e-9
    }
}

/// Runs one trial of a program; both workers, and all that the program started, have ended after it.
pub(crate) fn run(
    spec: &RaceSpec,
    trial: &TrialSpec,
    link_seed: u64,
    environment: &mut dyn Environment,
    stop: &AtomicBool,
) -> Result<ProgramRun, TrialError> {
    let (definition, measurement) = defined(spec, trial)?;
    let words = Words::of(spec, trial, environment);
    let (mut listener, mut connector) = {
        let (connector, listener) = environment.worker_hosts();
        let spawned = |error: std::io::Error| failed(error.to_string());
        let listener = listener.spawn().map_err(spawned)?;
        match connector.spawn() {
            Ok(connector) => (listener, connector),
            Err(error) => {
                listener.end();
                return Err(spawned(error));
            }
        }
    };
    let mut ends = Ends {
        listener: &mut listener,
        connector: &mut connector,
        stop,
    };
    let made = ends.measure(
        spec,
        &words,
        definition,
        measurement,
        link_seed,
        environment,
    );
    connector.end();
    listener.end();
    made
}

/// The definition of a trial's program, and its measurement of the trial's workload.
fn defined<'a>(
    spec: &'a RaceSpec,
    trial: &TrialSpec,
) -> Result<(&'a Definition, &'a Measurement), TrialError> {
    let name = exec::name_of(&trial.contestant).unwrap_or_default();
    let definition = spec.programs.get(name);
    let definition = definition.ok_or_else(|| failed(format!("no contestant is called {name}")))?;
    let workload = trial.contest.cell.workload();
    let workloads = definition.workloads();
    let measurement = workloads.get(workload.as_str()).copied();
    let measurement = measurement.ok_or_else(|| {
        let known: Vec<&str> = workloads.keys().copied().collect();
        failed(format!("{name} measures {} only", known.join(" and ")))
    })?;
    Ok((definition, measurement))
}

/// What stands for the placeholders, but for the port.
struct Words {
    address: IpAddr,
    size: u64,
    seconds: u64,
    circuits: u32,
}

impl Words {
    fn of(spec: &RaceSpec, trial: &TrialSpec, environment: &dyn Environment) -> Words {
        let ipv6 = spec.circuit_options.ipv6;
        let (_, listener) = environment.worker_hosts();
        let loopback = match ipv6 {
            true => Ipv6Addr::LOCALHOST.into(),
            false => Ipv4Addr::LOCALHOST.into(),
        };
        Words {
            address: listener
                .addresses(ipv6)
                .first()
                .copied()
                .unwrap_or(loopback),
            size: trial.contest.size,
            // Most programs know whole seconds only.
            seconds: trial.limits.time_ns.div_ceil(1_000_000_000).max(1),
            circuits: trial.contest.circuits,
        }
    }

    fn fill(&self, words: &[String], port: Option<u16>) -> Vec<String> {
        let one = |word: &String| {
            let word = word
                .replace("{host}", &self.address.to_string())
                .replace("{size}", &self.size.to_string())
                .replace("{seconds}", &self.seconds.to_string())
                .replace("{circuits}", &self.circuits.to_string());
            match port {
                Some(port) => word.replace(ProgramJob::PORT, &port.to_string()),
                None => word,
            }
        };
        words.iter().map(one).collect()
    }
}

/// The workers of server and client.
struct Ends<'a> {
    listener: &'a mut WorkerHandle,
    connector: &'a mut WorkerHandle,
    stop: &'a AtomicBool,
}

impl Ends<'_> {
    fn measure(
        &mut self,
        spec: &RaceSpec,
        words: &Words,
        definition: &Definition,
        measurement: &Measurement,
        link_seed: u64,
        environment: &mut dyn Environment,
    ) -> Result<ProgramRun, TrialError> {
        let port = self.start_server(spec, words, definition)?;
        let own = host::TaskCpu::of_self();
        environment.begin(link_seed);
        let before = environment.snapshot();
        let client = self.run_client(spec, words, measurement, port);
        let host = before.until(&environment.snapshot());
        let report = environment.end();
        let server = self.stop_server();
        let (client, server) = (client?, server?);
        check_ends(&client, &server)?;
        let interfaces = environment.interfaces();
        let on_interfaces = |report: &ProgramReport| {
            let counted = interfaces
                .iter()
                .filter_map(|name| report.traffic.get(name));
            counted.fold(HostTraffic::default(), |sum, one| sum + *one)
        };
        let traffic = [on_interfaces(&client), on_interfaces(&server)];
        let seen = Seen {
            client: &client,
            server: &server,
            server_traffic: traffic[1],
            span_s: client.span_ns as f64 * 1e-9,
            during: received_during(&host, &interfaces, traffic[0]),
        };
        let (reading, also) = read_numbers(measurement, &seen).map_err(failed)?;
        if measurement.checked {
            check_claim(reading, words, &seen).map_err(failed)?;
        }
        Ok(ProgramRun {
            reading,
            also,
            traffic,
            host,
            own_cpu_s: (host::TaskCpu::of_self() - own).task_s,
            interfaces,
            environment: report,
            client,
            server,
        })
    }

    fn start_server(
        &mut self,
        spec: &RaceSpec,
        words: &Words,
        definition: &Definition,
    ) -> Result<u16, TrialError> {
        let job = ServerJob {
            program: ProgramJob {
                words: words.fill(&definition.server, None),
                pin: spec.pin.1,
                priority: spec.priority.1,
                limit_ns: READY_LIMIT.as_nanos() as u64,
            },
            address: words.address,
            readiness: definition.ready.clone(),
            ends_itself: definition.server_ends,
        };
        send(self.listener, &ToWorker::Serve(job), &[])?;
        match self.receive_of_listener(READY_LIMIT + SETUP_LIMIT)? {
            FromWorker::Serving(port) => Ok(port),
            other => Err(super::unexpected(other)),
        }
    }

    fn run_client(
        &mut self,
        spec: &RaceSpec,
        words: &Words,
        measurement: &Measurement,
        port: u16,
    ) -> Result<ProgramReport, TrialError> {
        let limit = Duration::from_secs(words.seconds) + CLIENT_EXTRA;
        let job = ProgramJob {
            words: words.fill(&measurement.client, Some(port)),
            pin: spec.pin.0,
            priority: spec.priority.0,
            limit_ns: limit.as_nanos() as u64,
        };
        send(self.connector, &ToWorker::Run(job), &[])?;
        match receive(self.connector, SETUP_LIMIT, self.stop)?.0 {
            FromWorker::Running => {}
            other => return Err(super::unexpected(other)),
        }
        let limit = limit + OVERRUN_MAX + STOP_POLL;
        match receive(self.connector, limit, self.stop)?.0 {
            FromWorker::Ran(report) => Ok(*report),
            other => Err(super::unexpected(other)),
        }
    }

    fn stop_server(&mut self) -> Result<ProgramReport, TrialError> {
        send(self.listener, &ToWorker::Stop, &[])?;
        match self.receive_of_listener(SETUP_LIMIT)? {
            FromWorker::Ran(report) => Ok(*report),
            other => Err(super::unexpected(other)),
        }
    }

    fn receive_of_listener(&mut self, limit: Duration) -> Result<FromWorker, TrialError> {
        Ok(receive(self.listener, limit, self.stop)?.0)
    }
}

/// What the server's host received while the client ran, and in how many seconds. The server's worker
/// goes on counting what leaves the client's socket after its end; the counters of both hosts together
/// end with the client.
fn received_during(
    host: &SnapshotDifference,
    interfaces: &[String],
    client: HostTraffic,
) -> (HostTraffic, f64) {
    let both = host.sum_of(interfaces);
    let received = HostTraffic {
        received_octets: both.receive_bytes.saturating_sub(client.received_octets),
        received_packets: both.receive_packets.saturating_sub(client.received_packets),
        ..HostTraffic::default()
    };
    (received, host.span.as_secs_f64())
}

/// Refuses a client that failed, hung or left processes behind.
fn check_ends(client: &ProgramReport, server: &ProgramReport) -> Result<(), TrialError> {
    use loadgen::worker::program::output::last_lines;
    let how = match client.exit {
        ProgramExit::Code(0) if client.left.is_empty() => return Ok(()),
        ProgramExit::Code(0) => {
            return Err(failed(format!(
                "the client left processes running, which were ended: {}",
                client.left.join(", ")
            )));
        }
        ProgramExit::Code(code) => format!("exited with code {code}"),
        ProgramExit::Signal(signal) => format!("was ended by signal {signal}"),
        ProgramExit::Late => {
            let took = client.span_ns as f64 * 1e-9;
            format!("did not end by itself within {took:.0} s and was killed")
        }
        ProgramExit::Stopped => return Err(TrialError::Interrupted),
    };
    let said = |report: &ProgramReport| last_lines(&[&report.errors, &report.output], 3);
    let of_server = match (&server.errors[..], &server.output[..]) {
        ("", "") => String::new(),
        _ => said(server).replacen("it said", "its server said", 1),
    };
    Err(failed(format!(
        "the client {how}{}{of_server}",
        said(client)
    )))
}

/// The numbers of a run, in the units of their measures.
fn read_numbers(
    measurement: &Measurement,
    seen: &Seen<'_>,
) -> Result<(Reading, BTreeMap<String, f64>), String> {
    let reading = measurement.number.read(seen)?;
    let mut also = BTreeMap::new();
    for (name, number) in &measurement.also {
        if let Reading::Us(us) = number.read(seen)? {
            also.insert(name.clone(), us);
        }
    }
    Ok((reading, also))
}

/// Refuses a number that the interface of the server's host did not carry in the time that was to be measured: a program
/// takes some more to start and to end.
fn check_claim(reading: Reading, words: &Words, seen: &Seen<'_>) -> Result<(), String> {
    let Some(claimed) = octets_per_s_at_least(reading, words.size) else {
        return Ok(());
    };
    let span_s = seen.span_s.min(words.seconds as f64).max(1e-9);
    let carried = seen.server_traffic.received_octets as f64 / span_s;
    match claimed <= carried * CLAIM_MAX {
        true => Ok(()),
        false => Err(format!(
            "it claims {:.1} Mbit/s, and the interface of its host received {:.1} Mbit/s; a program \
             whose traffic does not cross it has checked = false",
            claimed * 8e-6,
            carried * 8e-6
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_beyond_what_the_interface_carried_is_refused() {
        let report = ProgramReport::default();
        let seen = Seen {
            client: &report,
            server: &report,
            server_traffic: HostTraffic {
                received_octets: 1_000_000,
                ..HostTraffic::default()
            },
            span_s: 1.0,
            during: (HostTraffic::default(), 1.0),
        };
        let words = |seconds| Words {
            address: Ipv4Addr::LOCALHOST.into(),
            size: 64,
            seconds,
            circuits: 1,
        };
        let check = |reading| check_claim(reading, &words(1), &seen);
        assert_eq!(check(Reading::OctetsPerS(1e6)), Ok(()));
        assert_eq!(check(Reading::Us(1.0)), Ok(()));
        let why = check(Reading::PerS(1e6)).expect_err("a lie");
        assert!(why.contains("claims 512.0 Mbit/s"), "{why}");
        assert!(why.contains("received 8.0 Mbit/s"), "{why}");
        // Half a second beyond what it was to measure: to start and to end.
        let late = Seen {
            span_s: 1.5,
            ..seen
        };
        assert_eq!(
            check_claim(Reading::OctetsPerS(1e6), &words(1), &late),
            Ok(())
        );
        assert!(check_claim(Reading::OctetsPerS(1e6), &words(2), &late).is_err());
    }
}
