//! `towpath doctor`: this machine, other hosts, and the paths to them.

use crate::calibrate;
use crate::print::{self, note, wrap};
use crate::race::{default_congestion, stop_flag};
use crate::remote_race::{common_congestion, connect_agent};
use crate::transports::width;
use crate::{CliError, EXIT_OK, parse};
use agent::AgentAddress;
use agent_client::Session;
use agent_client::path_probe::{PathReport, ProbePlan};
use clap::Args;
use loadgen::LocalHost;
use results::{Fact, Finding, Machine, Severity, TestSpec};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Maximum width of prose lines.
const PROSE_WIDTH: usize = 96;

/// Column at which the values of facts start.
const VALUE_COLUMN: usize = 10;

/// Options of doctor.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "With --to, the path to another host is probed too, through `towpath agent` there: path MTU and \
offloads in both directions, clock offset, round-trip time, and the throughput of one TCP \
connection in each direction. With --calibrate, tcp races against itself for that time: how often \
such races say that it differs, and the smallest difference that shows here in 10 s, 1 min and 10 min.

Examples:
  towpath doctor
  towpath doctor --json
  towpath doctor --calibrate 5m
  towpath doctor --to lab2
  towpath doctor --to lab2,lab3:7471 --trial 10s"
)]
pub struct DoctorArgs {
    /// Examine also the host of this `towpath agent` and the path to it. Several hosts are examined
    /// in turn.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub to: Vec<AgentAddress>,
    /// Race tcp against itself for TIME, 10s at least, and say how sure and how fine races are here.
    #[arg(long, value_name = "TIME", conflicts_with = "to", value_parser = parse::time)]
    pub calibrate: Option<Duration>,
    /// Duration of the TCP trial in each direction.
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "to", value_parser = parse::time)]
    pub trial: Duration,
    /// Use IPv6.
    #[arg(short = '6', requires = "to")]
    pub ipv6: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Examines this machine, and other hosts.
///
/// # Errors
///
/// When an agent cannot be reached, or standard output cannot be written.
pub fn run(args: &DoctorArgs) -> Result<u8, CliError> {
    if let Some(time) = args.calibrate {
        return run_calibration(args, time);
    }
    // Connect to all hosts first, so that an unreachable one is reported at once.
    let stop = stop_flag()?;
    let mut sessions: Vec<Arc<Session>> = Vec::new();
    for target in &args.to {
        let others: Vec<SocketAddr> = sessions.iter().map(|one| one.peer()).collect();
        sessions.push(connect_agent(&others, target, args.ipv6, &stop)?);
    }
    let machine = host::machine(&TestSpec::default());
    let surveys: Result<Vec<PathReport>, CliError> = sessions
        .iter()
        .map(|session| probe_path(session, args, &stop))
        .collect();
    let surveys = surveys?;
    match (args.json, surveys.is_empty()) {
        (true, true) => print::json(&machine)?,
        (true, false) => print::json(&serde_json::json!({
            "version": results::SCHEMA_VERSION, "here": machine, "hosts": surveys,
        }))?,
        (false, true) => print::line(machine_text(&machine, width()))?,
        (false, false) => print::line(all_hosts_text(&machine, &surveys, width()))?,
    }
    Ok(EXIT_OK)
}

/// Examines this machine, and races on it.
fn run_calibration(args: &DoctorArgs, time: Duration) -> Result<u8, CliError> {
    if time < calibrate::TIME_MIN {
        return Err(CliError::usage(format!(
            "--calibrate {}: a race of it takes {} at least; give 5m for a rate that says something",
            seconds_text(time),
            seconds_text(calibrate::TIME_MIN)
        )));
    }
    let machine = host::machine(&TestSpec::default());
    let calibration = calibrate::run(time, args.json)?;
    match args.json {
        true => print::json(&serde_json::json!({
            "version": results::SCHEMA_VERSION, "here": machine, "calibration": calibration,
        }))?,
        false => print::line(format_args!(
            "{}\n\n{}",
            machine_text(&machine, width()),
            calibrate::text(&calibration, width().min(PROSE_WIDTH))
        ))?,
    }
    Ok(EXIT_OK)
}

fn probe_path(
    session: &Arc<Session>,
    args: &DoctorArgs,
    stop: &AtomicBool,
) -> Result<PathReport, CliError> {
    if !args.json {
        note(format_args!(
            "probing the path to {}: two directions, {} each",
            session.target(),
            seconds_text(args.trial)
        ));
    }
    let program = std::env::current_exe().map_err(CliError::failed)?;
    let here = LocalHost::new(program, vec!["worker".into()]);
    let plan = ProbePlan {
        span: args.trial,
        congestion: common_congestion(&default_congestion(), &[session.as_ref()]),
        test: TestSpec::default(),
    };
    agent_client::path_probe::probe_path(session, &here, &plan, stop).map_err(CliError::failed)
}

fn seconds_text(span: Duration) -> String {
    format!("{} s", span.as_secs_f64())
}

/// This host, each other host, and the path between.
fn all_hosts_text(machine: &Machine, surveys: &[PathReport], width: usize) -> String {
    let mut parts = vec![titled("This host", machine, width)];
    for survey in surveys {
        parts.push(titled(&survey.host, &survey.machine, width));
        let between = format!("Between here and {}", survey.host);
        parts.push(titled(&between, &path_facts(survey), width));
    }
    parts.join("\n\n")
}

fn titled(title: &str, machine: &Machine, width: usize) -> String {
    let bold = anstyle::Style::new().bold();
    format!("{bold}{title}{bold:#}\n{}", machine_text(machine, width))
}

/// A probed path as facts and findings.
fn path_facts(survey: &PathReport) -> Machine {
    let fact = |group: &str, name: &str, value: String| Fact {
        group: group.into(),
        name: name.into(),
        value,
    };
    let us = |ns: f64| format!("{:.1} us", ns / 1e3);
    let mut facts = vec![
        fact("path", "from", survey.own_address.to_string()),
        fact("path", "to", survey.address.to_string()),
        fact("path", "round trip", us(survey.round_trip_ns as f64)),
        fact(
            "clock",
            "remote minus local",
            us(survey.clock_offset_ns as f64),
        ),
        fact("clock", "within", us(survey.clock_bound_ns as f64)),
    ];
    for (group, one) in [("there", &survey.there), ("back", &survey.back)] {
        let mut put = |name: &str, value: String| facts.push(fact(group, name, value));
        put("path MTU", format!("{} B", one.mtu));
        put("interface", one.interface.clone());
        put("MTU", format!("{} B", one.interface_mtu));
        for (name, on) in &one.offloads {
            put(name, if *on { "on" } else { "off" }.into());
        }
        let tcp = &one.tcp;
        put(
            "TCP",
            format!("{:.1} Mbit/s in {:.2} s", tcp.mbit_per_s, tcp.span_s),
        );
        put("MSS", format!("{} B", tcp.segment_max));
        put(
            "retransmitted",
            format!("{} of {}", tcp.retransmissions, tcp.packets),
        );
        put("loaded round trip", us(tcp.round_trip_ns as f64));
        put("CPUs", format!("{:.2} and {:.2}", tcp.busy[0], tcp.busy[1]));
    }
    Machine {
        version: results::SCHEMA_VERSION,
        facts,
        findings: survey.findings.clone(),
    }
}

/// Problems first, worst first; then good findings in a line each; then the facts.
fn machine_text(machine: &Machine, width: usize) -> String {
    let width = width.min(PROSE_WIDTH);
    let mut lines = vec![verdict(&machine.findings)];
    for severity in [Severity::Bad, Severity::Warning, Severity::Note] {
        let alike = machine.findings.iter();
        for finding in alike.filter(|finding| finding.severity == severity) {
            lines.push(String::new());
            lines.extend(finding_lines(finding, width));
        }
    }
    lines.push(String::new());
    for finding in &machine.findings {
        if finding.severity == Severity::Good {
            lines.push(finding_heading(finding, width));
        }
    }
    lines.push(String::new());
    lines.extend(facts(machine, width));
    lines.join("\n")
}

fn verdict(findings: &[Finding]) -> String {
    let count = |severity| {
        let alike = findings.iter().filter(|found| found.severity == severity);
        alike.count()
    };
    match (count(Severity::Bad), count(Severity::Warning)) {
        (0, 0) => "No problem found.".into(),
        (0, 1) => "1 warning: results may be noisier than necessary.".into(),
        (0, some) => format!("{some} warnings: results may be noisier than necessary."),
        (1, _) => "1 problem would make results misleading.".into(),
        (some, _) => format!("{some} problems would make results misleading."),
    }
}

fn finding_lines(finding: &Finding, width: usize) -> Vec<String> {
    let mut lines = vec![finding_heading(finding, width)];
    if !finding.effect.is_empty() {
        lines.push(indented(&finding.effect, width));
    }
    if !finding.remedy.is_empty() {
        lines.push(indented(&format!("-> {}", finding.remedy), width));
    }
    lines
}

/// The finding behind its coloured severity; colour is added after wrapping.
fn finding_heading(finding: &Finding, width: usize) -> String {
    let (word, colour) = match finding.severity {
        Severity::Good => ("good", anstyle::AnsiColor::Green),
        Severity::Note => ("note", anstyle::AnsiColor::Cyan),
        Severity::Warning => ("warning", anstyle::AnsiColor::Yellow),
        Severity::Bad => ("bad", anstyle::AnsiColor::Red),
    };
    let style = anstyle::Style::new().fg_color(Some(colour.into())).bold();
    let line = wrap(&format!("{word}: {}", finding.what), width, 0, 4);
    format!("{style}{word}{style:#}{}", &line[word.len()..])
}

fn indented(text: &str, width: usize) -> String {
    format!("    {}", wrap(text, width, 4, 4))
}

/// One paragraph per group: `name value; name value`.
fn facts(machine: &Machine, width: usize) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for fact in &machine.facts {
        let item = format!("{} {}", fact.name, fact.value);
        match groups.last_mut() {
            Some((group, items)) if *group == fact.group => items.push(item),
            _ => groups.push((&fact.group, vec![item])),
        }
    }
    let paragraph = |(group, items): (&str, Vec<String>)| {
        let body = wrap(&items.join("; "), width, VALUE_COLUMN, VALUE_COLUMN);
        format!("{group:<VALUE_COLUMN$}{body}")
    };
    groups.into_iter().map(paragraph).collect()
}

#[cfg(test)]
mod tests {
    use super::{Finding, Severity, machine_text};

    #[test]
    fn worst_findings_come_first_within_width() {
        let finding = |severity, what: &str| Finding {
            severity,
            what: what.into(),
            effect: "each figure is of something else than it says ".repeat(4),
            remedy: "stop it".into(),
        };
        let machine = results::Machine {
            version: results::SCHEMA_VERSION,
            facts: Vec::new(),
            findings: vec![
                finding(Severity::Note, "small"),
                finding(Severity::Bad, "large"),
            ],
        };
        let plain = anstream::adapter::strip_str(&machine_text(&machine, 60)).to_string();
        assert!(
            plain.find("bad: large") < plain.find("note: small"),
            "{plain}"
        );
        assert!(plain.contains("\n    -> stop it"), "{plain}");
        assert!(
            plain.lines().all(|line| line.chars().count() <= 60),
            "{plain}"
        );
    }
}
