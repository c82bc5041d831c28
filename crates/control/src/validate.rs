//! Validation of untrusted reports: bounded, finite, ordered, printable.

use crate::session::{HostCounters, MachineDescription, PathFacts};
use crate::{
    CONNECTION_VALUES, CircuitReport, CpuUse, FromWorker, Job, Slice, TURNS_MAX, WorkerReport,
};
use std::collections::BTreeMap;

/// Largest valid count: exact as floating point, and a thousand of them can be added.
const COUNT_MAX: u64 = 1 << 53;

/// Largest valid time, ns: 73 years.
const TIME_MAX_NS: u64 = 1 << 61;

/// Slices a loop keeps, and the last.
const SLICES_MAX: usize = 4097;

/// Entries of a map of names.
const NAMES_MAX: usize = 128;

/// Characters of a name.
const NAME_MAX: usize = 64;

/// Characters of a sentence or a value.
const TEXT_MAX: usize = 300;

/// Histograms of a circuit, and characters of each; a full one has some 600,000.
const HISTOGRAMS_MAX: usize = 4;
const HISTOGRAM_MAX: usize = 1 << 20;

/// Offloads of an interface.
const OFFLOADS_MAX: usize = 32;

/// Facts and findings of a machine.
const FACTS_MAX: usize = 256;

/// Text without control characters, cut off after `most` characters.
pub fn printable(words: &str, most: usize) -> String {
    let plain = words
        .chars()
        .map(|c| if is_unprintable(c) { ' ' } else { c });
    plain.take(most).collect()
}

/// A sentence for a user.
pub fn sentence(words: &str) -> String {
    printable(words, TEXT_MAX)
}

/// Characters that move the cursor, change the direction of writing or hide others.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Validates a message of a worker on another host, which had `job` if any.
///
/// # Errors
///
/// A sentence that says which value is invalid.
pub fn message(mut message: FromWorker, job: Option<&Job>) -> Result<FromWorker, String> {
    match &mut message {
        FromWorker::Failed(why) => *why = sentence(why),
        FromWorker::Listening(frames) => {
            let components = job.map_or(0, |job| job.components.len());
            if frames.len() != components || frames.iter().any(|frame| frame.descriptors != 0) {
                return Err("it reports listeners that were not requested".into());
            }
        }
        FromWorker::Finished(done) => {
            let job = job.ok_or("it reports on a job that it was not given")?;
            report(done, job)?;
        }
        FromWorker::SourceDone(sent) => count("messages", *sent)?,
        FromWorker::Connected | FromWorker::Accepted | FromWorker::Running => {}
        FromWorker::Loaded(did) => {
            count("rounds of a load", did.cpu_runs)?;
            count("rounds of a load", did.memory_runs)?;
            count("processor time", did.cpu_ns)?;
        }
        FromWorker::Serving(_) | FromWorker::Ran(_) => {
            return Err("it reports on a program that it was not asked to run".into());
        }
    }
    Ok(message)
}

/// Validates the report of a worker that another program runs, on `job`.
///
/// # Errors
///
/// A sentence that says which value is invalid.
pub fn report(report: &mut WorkerReport, job: &Job) -> Result<(), String> {
    let circuits: u64 = job
        .components
        .iter()
        .map(|component| u64::from(component.circuits))
        .sum();
    if report.circuits.len() as u64 > circuits {
        return Err("it reports on more circuits than there were".into());
    }
    for one in &mut report.circuits {
        circuit(one, job)?;
    }
    count("bytes", report.moved_bytes)?;
    let CpuUse {
        task_ns,
        user_ns,
        system_ns,
        voluntary_switches,
        involuntary_switches,
    } = report.cpu;
    for value in [
        task_ns,
        user_ns,
        system_ns,
        voluntary_switches,
        involuntary_switches,
    ] {
        count("processor time", value)?;
    }
    texts(&mut report.effective)
}

fn circuit(report: &mut CircuitReport, job: &Job) -> Result<(), String> {
    if job
        .components
        .iter()
        .all(|component| component.transport != report.transport)
    {
        return Err("it reports on a transport that was not requested".into());
    }
    for value in [
        report.sent,
        report.received,
        report.received_bytes,
        report.calls,
    ] {
        count("messages", value)?;
    }
    time(report.first_ns)?;
    time(report.last_ns)?;
    if report.last_ns < report.first_ns && report.last_ns != 0 {
        return Err("it ended before it began".into());
    }
    slices(&report.slices)?;
    connection(report, job)?;
    if report.histograms.len() > HISTOGRAMS_MAX {
        return Err("it has too many histograms".into());
    }
    if report
        .histograms
        .values()
        .any(|text| text.len() > HISTOGRAM_MAX)
    {
        return Err("a histogram is too long".into());
    }
    names(report.histograms.keys())?;
    names(report.counts.keys())?;
    names(report.measures.keys())?;
    for value in report.counts.values() {
        count("counts", *value)?;
    }
    if !report.measures.values().all(is_measure) {
        return Err("a measure is out of range".into());
    }
    let delays = &report.turn_delays_us;
    if delays.len() > TURNS_MAX || !delays.iter().all(is_measure) {
        return Err("its delays by turn are out of range".into());
    }
    texts(&mut report.effective)?;
    for why in [&mut report.error, &mut report.invalid]
        .into_iter()
        .flatten()
    {
        *why = sentence(why);
    }
    Ok(())
}

fn is_measure(value: &f64) -> bool {
    value.is_finite() && value.abs() <= COUNT_MAX as f64
}

fn slices(slices: &[Slice]) -> Result<(), String> {
    if slices.len() > SLICES_MAX {
        return Err("its time series is too long".into());
    }
    for slice in slices {
        time(slice.at_ns)?;
        count("messages", slice.messages)?;
        count("bytes", slice.bytes)?;
    }
    let grows = |pair: &[Slice]| {
        pair[0].at_ns <= pair[1].at_ns
            && pair[0].messages <= pair[1].messages
            && pair[0].bytes <= pair[1].bytes
    };
    if slices.windows(2).all(grows) {
        Ok(())
    } else {
        Err("its time series runs backwards".into())
    }
}

/// Only what was asked for, under known names, in the order of time.
fn connection(report: &CircuitReport, job: &Job) -> Result<(), String> {
    let is_known = |name: &String| CONNECTION_VALUES.iter().any(|known| known.name == name);
    if !report.connection.is_empty() && !job.series || !report.connection.keys().all(is_known) {
        return Err("it has a series of a connection that was not requested".into());
    }
    for points in report.connection.values() {
        if points.len() > SLICES_MAX {
            return Err("a series of its connection is too long".into());
        }
        for &(at_ns, value) in points {
            time(at_ns)?;
            count("values of a connection", value)?;
        }
        if !points.windows(2).all(|pair| pair[0].0 <= pair[1].0) {
            return Err("a series of its connection runs backwards".into());
        }
    }
    Ok(())
}

fn count(what: &str, value: u64) -> Result<(), String> {
    if value > COUNT_MAX {
        return Err(format!("its {what} are out of range"));
    }
    Ok(())
}

fn time(at_ns: u64) -> Result<(), String> {
    if at_ns > TIME_MAX_NS {
        return Err("its clock is out of range".into());
    }
    Ok(())
}

fn names<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> Result<(), String> {
    if names.len() > NAMES_MAX {
        return Err("it has too many values".into());
    }
    let is_name = |name: &String| {
        name.len() <= NAME_MAX
            && name.bytes().all(|byte| byte.is_ascii_graphic())
            && !name.is_empty()
    };
    let mut names = names;
    if names.all(is_name) {
        Ok(())
    } else {
        Err("a value has an invalid name".into())
    }
}

fn texts(values: &mut BTreeMap<String, String>) -> Result<(), String> {
    names(values.keys())?;
    for value in values.values_mut() {
        *value = sentence(value);
    }
    Ok(())
}

/// Sanitizes the description of another host; excess entries are dropped.
pub fn description(mut found: MachineDescription) -> MachineDescription {
    found.facts.truncate(FACTS_MAX);
    found.findings.truncate(FACTS_MAX);
    for fact in &mut found.facts {
        fact.group = printable(&fact.group, NAME_MAX);
        fact.name = printable(&fact.name, NAME_MAX);
        fact.value = sentence(&fact.value);
    }
    for finding in &mut found.findings {
        for words in [&mut finding.what, &mut finding.effect, &mut finding.remedy] {
            *words = sentence(words);
        }
    }
    found
}

/// Sanitizes the counters of another host; values that are not finite are dropped.
pub fn counters(mut found: HostCounters) -> HostCounters {
    found.disturbed.truncate(16);
    for words in &mut found.disturbed {
        *words = sentence(words);
    }
    let keys = std::mem::take(&mut found.evidence);
    let sane = keys
        .into_iter()
        .filter(|(name, value)| value.is_finite() && names(std::iter::once(name)).is_ok());
    found.evidence = sane.take(NAMES_MAX).collect();
    found.datagrams_dropped = found.datagrams_dropped.min(COUNT_MAX);
    found
}

/// Sanitizes the path facts of another host; excess entries are dropped.
pub fn path(mut found: PathFacts) -> PathFacts {
    found.interface = printable(&found.interface, NAME_MAX);
    found.offloads.truncate(OFFLOADS_MAX);
    for (name, _) in &mut found.offloads {
        *name = printable(name, NAME_MAX);
    }
    found
}

/// Converts the times of a report to another clock: subtracts `offset_ns`.
pub fn shift_clock(report: &mut WorkerReport, offset_ns: i64) {
    let moved = |at_ns: u64| at_ns.saturating_add_signed(offset_ns.saturating_neg());
    for circuit in &mut report.circuits {
        // 0 means never.
        for at_ns in [&mut circuit.first_ns, &mut circuit.last_ns] {
            if *at_ns > 0 {
                *at_ns = moved(*at_ns).max(1);
            }
        }
        for slice in &mut circuit.slices {
            slice.at_ns = moved(slice.at_ns);
        }
        for (at_ns, _) in circuit.connection.values_mut().flatten() {
            *at_ns = moved(*at_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::tests::job;

    fn valid_report() -> WorkerReport {
        WorkerReport {
            circuits: vec![CircuitReport {
                transport: "tcp".into(),
                sent: 5,
                first_ns: 10,
                last_ns: 20,
                slices: vec![Slice::default(); 3],
                measures: BTreeMap::from([("sent_bytes".into(), 5.0)]),
                ..CircuitReport::default()
            }],
            ..WorkerReport::default()
        }
    }

    fn validated(change: impl Fn(&mut WorkerReport)) -> Result<FromWorker, String> {
        let mut report = valid_report();
        change(&mut report);
        message(FromWorker::Finished(Box::new(report)), Some(&job()))
    }

    #[test]
    fn valid_report_is_unchanged() {
        let same = validated(|_| {}).expect("an honest report");
        assert_eq!(same, FromWorker::Finished(Box::new(valid_report())));
    }

    #[test]
    fn invalid_reports_are_rejected() {
        type Change = fn(&mut WorkerReport);
        let nonsense: [Change; 15] = [
            |report| report.circuits = vec![report.circuits[0].clone(); 3],
            |report| report.circuits[0].transport = "udp".into(),
            |report| report.circuits[0].sent = u64::MAX,
            |report| report.circuits[0].last_ns = 5,
            |report| report.circuits[0].last_ns = u64::MAX,
            |report| report.circuits[0].slices = vec![Slice::default(); 5000],
            |report| report.circuits[0].slices[0].messages = 7,
            |report| {
                let _ = report.circuits[0].measures.insert("x".into(), f64::NAN);
            },
            |report| {
                let _ = report.circuits[0].measures.insert("<b>\u{1b}".into(), 1.0);
            },
            |report| {
                let _ = report.circuits[0].counts.insert("x".into(), u64::MAX);
            },
            |report| {
                let _ = report.circuits[0]
                    .histograms
                    .insert("delay".into(), "A".repeat(2 << 20));
            },
            |report| report.circuits[0].turn_delays_us = vec![1.0; TURNS_MAX + 1],
            |report| report.circuits[0].turn_delays_us = vec![f64::INFINITY],
            |report| report.cpu.task_ns = u64::MAX,
            |report| report.moved_bytes = u64::MAX,
        ];
        for (index, change) in nonsense.into_iter().enumerate() {
            validated(change).expect_err(&format!("nonsense {index}"));
        }
        message(FromWorker::Finished(Box::new(valid_report())), None).expect_err("no job");
    }

    #[test]
    fn series_of_a_connection_are_known_requested_short_and_in_order() {
        let with = |name: &str, points: Vec<(u64, u64)>, series: bool| {
            let mut report = valid_report();
            report.circuits[0].connection = BTreeMap::from([(name.to_owned(), points)]);
            let job = Job { series, ..job() };
            super::report(&mut report, &job)
        };
        let rtt = |points: Vec<(u64, u64)>| with("smoothed_rtt", points, true);
        assert_eq!(rtt(vec![(1, 5), (1, 4), (2, 0)]), Ok(()));
        with("smoothed_rtt", vec![(1, 5)], false).expect_err("not requested");
        with("mood", vec![(1, 5)], true).expect_err("an unknown name");
        rtt(vec![(2, 5), (1, 5)]).expect_err("backwards");
        rtt(vec![(1, u64::MAX)]).expect_err("a value out of range");
        rtt(vec![(u64::MAX, 1)]).expect_err("a time out of range");
        rtt(vec![(1, 1); SLICES_MAX + 1]).expect_err("too long");
    }

    #[test]
    fn texts_are_sanitized_and_truncated() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{202e}", 99), "a [2J b ");
        assert_eq!(sentence(&"x".repeat(1000)).len(), TEXT_MAX);
        let failed = FromWorker::Failed("no\n\u{7}".into());
        assert_eq!(message(failed, None), Ok(FromWorker::Failed("no  ".into())));
    }

    #[test]
    fn path_facts_are_sanitized_and_truncated() {
        let found = path(PathFacts {
            interface: "eth0\n\u{1b}[1m".into(),
            offloads: vec![("x".repeat(500), true); 500],
            ..PathFacts::default()
        });
        assert_eq!(found.interface, "eth0  [1m");
        assert_eq!(found.offloads.len(), OFFLOADS_MAX);
        assert!(
            found
                .offloads
                .iter()
                .all(|(name, _)| name.len() == NAME_MAX)
        );
    }

    #[test]
    fn shift_clock_moves_times() {
        let mut report = valid_report();
        let points = vec![(12, 7)];
        report.circuits[0].connection = BTreeMap::from([("in_flight".to_owned(), points)]);
        shift_clock(&mut report, 4);
        assert_eq!(report.circuits[0].connection["in_flight"], [(8, 7)]);
        assert_eq!(
            (report.circuits[0].first_ns, report.circuits[0].last_ns),
            (6, 16)
        );
        shift_clock(&mut report, i64::MAX);
        assert_eq!(report.circuits[0].first_ns, 1);
        shift_clock(&mut report, i64::MIN);
        assert!(report.circuits[0].first_ns > 1 << 62);
    }
}
