//! `towpath xtp ping`: who answers MAINT, and how soon.

use crate::print::{json, line, note};
use crate::xtp_common::{StopSignal, parse_transport, resolve};
use crate::{CliError, EXIT_FAILED, EXIT_OK, parse};
use clap::Args;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use towpath::xtp::ping::{Pinger, SIZE_MAX, SIZE_MIN};

/// Hops of a path at most.
const HOPS_MAX: u8 = 16;

/// Hops without any answer after which a path is given up.
const SILENT_HOPS_MAX: usize = 2;

/// How often a signal is looked for.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options of `towpath xtp ping`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A question is a MAINT packet, which XTP 3.3 to 3.6 have and 4.0 has not: a `towpath xtp forwarder`
and every endpoint with dialect=3.6 (3.5, 3.3) answer, whether they listen or not. An answer is as
long as its question. With --via the questions take the routers' path to the host, and with --path
one after the other ends at each router on it. The 99 % delay is shown from 1,000 answers on. Exit
code 1 when nothing answered.

Examples:
  towpath xtp ping 10.0.1.1:9000                              a forwarder
  towpath xtp ping 10.0.1.1:9000 10.0.2.7:9000 --count 100 --interval 10ms
  towpath xtp ping 10.0.2.7:9000 --via 10.0.1.1:9000          through it to an endpoint
  towpath xtp ping 10.0.2.7:9000 --via 10.0.1.1:9000 --path   hop by hop
  towpath xtp ping 10.0.1.1:9000 --size 1000 --json"
)]
pub struct PingArgs {
    /// Hosts to ask, one after the other.
    #[arg(value_name = "HOST:PORT", required = true)]
    pub hosts: Vec<String>,
    /// Questions to each, 1 to 1,000,000.
    #[arg(short, long, value_name = "QUESTIONS", value_parser = parse::whole::<1, 1_000_000, u32>, default_value = "5")]
    pub count: u32,
    /// Time from one question to the next.
    #[arg(short, long, value_name = "TIME", value_parser = parse::time, default_value = "200ms")]
    pub interval: Duration,
    /// How long an answer is waited for.
    #[arg(long, value_name = "TIME", value_parser = parse::time, default_value = "1s")]
    pub timeout: Duration,
    /// Octets that are echoed, 12 to 1384.
    #[arg(
        short,
        long,
        value_name = "OCTETS",
        value_parser = parse::whole::<{ SIZE_MIN as u64 }, { SIZE_MAX as u64 }, usize>,
        default_value = "56"
    )]
    pub size: usize,
    /// Version of XTP: 3.6, 3.5 or 3.3.
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "3.6",
        conflicts_with = "via"
    )]
    pub dialect: String,
    /// The first router on the path to the host.
    #[arg(long, value_name = "ROUTER:PORT")]
    pub via: Option<String>,
    /// Ask each router on the path too.
    #[arg(long, requires = "via")]
    pub path: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What came of the questions to a host, or to a hop on the path to it.
#[derive(Clone, Debug, Default, Serialize)]
struct PingReport {
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hop: Option<u8>,
    /// Whether a router on the way answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_router: Option<bool>,
    size_octets: usize,
    sent: u32,
    received: u32,
    lost_fraction: f64,
    min_us: Option<f64>,
    median_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
    /// Why nothing more was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Asks all hosts and prints what came of it.
pub fn run(args: &PingArgs) -> Result<u8, CliError> {
    let hosts = args.hosts.iter().map(|host| resolve(host));
    let hosts: Vec<SocketAddr> = hosts.collect::<Result<_, _>>()?;
    let via = args.via.as_deref().map(resolve).transpose()?;
    let stop = StopSignal::on_signals()?;
    let mut reports = Vec::new();
    for host in hosts {
        if args.path {
            ask_hops(args, host, via, stop.flag(), &mut reports)?;
        } else {
            let mut pinger = open(args, host, via)?;
            let report = ask_host(args, &mut pinger, host, None, stop.flag());
            say(args, &report)?;
            reports.push(report);
        }
    }
    if args.json {
        json(&reports)?;
    }
    match reports.iter().any(|report| report.received > 0) {
        true => Ok(EXIT_OK),
        false => Ok(EXIT_FAILED),
    }
}

fn open(args: &PingArgs, host: SocketAddr, via: Option<SocketAddr>) -> Result<Pinger, CliError> {
    let opened = match via {
        Some(via) => Pinger::path(via, host, args.size),
        None => {
            let words = format!("xtp,dialect={}", args.dialect);
            Pinger::new(host, parse_transport(&words)?.config.version, args.size)
        }
    };
    opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => CliError::usage(format!("{host}: {error}")),
        _ => CliError::failed(format!("cannot ask {host}: {error}")),
    })
}

/// Asks each hop on the way to `host`, until that answers itself.
fn ask_hops(
    args: &PingArgs,
    host: SocketAddr,
    via: Option<SocketAddr>,
    stop: &AtomicBool,
    reports: &mut Vec<PingReport>,
) -> Result<(), CliError> {
    let mut silent = 0;
    for hop in 1..=HOPS_MAX {
        // A path of its own, so that late answers of another hop are none of this one's.
        let mut pinger = open(args, host, via)?;
        let report = ask_host(args, &mut pinger, host, Some(hop), stop);
        say(args, &report)?;
        silent = if report.received == 0 { silent + 1 } else { 0 };
        let is_over = report.is_router == Some(false) || silent == SILENT_HOPS_MAX;
        reports.push(report);
        if is_over || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// Asks as often as was said; a signal ends it early.
fn ask_host(
    args: &PingArgs,
    pinger: &mut Pinger,
    host: SocketAddr,
    hop: Option<u8>,
    stop: &AtomicBool,
) -> PingReport {
    let mut report = PingReport {
        host: host.to_string(),
        hop,
        size_octets: args.size,
        ..PingReport::default()
    };
    let mut series = Series::default();
    let began_at = Instant::now();
    for turn in 0..args.count {
        if stop.load(Ordering::Relaxed) || report.error.is_some() {
            break;
        }
        let asked_at = Instant::now();
        match pinger.ask(hop.map(|hop| hop - 1)) {
            Ok(_) => series.asked_at.push(Some(asked_at)),
            Err(error) => report.error = Some(refusal(&error)),
        }
        let is_last = turn + 1 == args.count;
        let end = match is_last {
            true => asked_at + args.timeout,
            false => began_at + args.interval * (turn + 1),
        };
        if let Err(error) = series.take_answers(pinger, end, is_last, stop) {
            report.error = Some(refusal(&error));
        }
    }
    series.describe(&mut report);
    report
}

/// Questions and delays of one host.
#[derive(Default)]
struct Series {
    /// When each question was asked; None once it was answered.
    asked_at: Vec<Option<Instant>>,
    delays_us: Vec<f64>,
    is_router: Option<bool>,
}

impl Series {
    /// Takes answers until `end`; the last time only until all came.
    fn take_answers(
        &mut self,
        pinger: &mut Pinger,
        end: Instant,
        is_last: bool,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        while !stop.load(Ordering::Relaxed) && Instant::now() < end {
            if is_last && self.delays_us.len() == self.asked_at.len() {
                break;
            }
            let turn_end = end.min(Instant::now() + STOP_POLL_INTERVAL);
            let Some(answer) = pinger.answer(turn_end)? else {
                continue;
            };
            // A second answer to the same question does not count.
            let asked = self.asked_at.get_mut(answer.number as usize);
            if let Some(asked_at) = asked.and_then(Option::take) {
                let delay = answer.at.saturating_duration_since(asked_at);
                self.delays_us.push(delay.as_secs_f64() * 1e6);
                self.is_router = Some(answer.is_router);
            }
        }
        Ok(())
    }

    fn describe(&mut self, report: &mut PingReport) {
        let delays = &mut self.delays_us;
        delays.sort_by(f64::total_cmp);
        report.sent = self.asked_at.len() as u32;
        report.received = delays.len() as u32;
        report.is_router = report.hop.and(self.is_router);
        let lost = report.sent - report.received;
        report.lost_fraction = f64::from(lost) / f64::from(report.sent.max(1));
        report.min_us = delays.first().copied();
        report.max_us = delays.last().copied();
        if !delays.is_empty() {
            report.median_us = Some(stats::estimate::median(delays));
        }
        if delays.len() as u64 >= samples::samples_needed(0.99) {
            report.p99_us = Some(stats::estimate::quantile(delays, 0.99));
        }
    }
}

/// Why nothing is asked any more.
fn refusal(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "nobody listens on this port".into(),
        _ => error.to_string(),
    }
}

/// Prints a line for a host or hop, unless it goes into JSON.
fn say(args: &PingArgs, report: &PingReport) -> Result<(), CliError> {
    if let Some(error) = &report.error {
        note(format_args!("towpath: {}: {error}", report.host));
    } else if report.received == 0 {
        note(format_args!("towpath: {}: {}", report.host, silence(args)));
    }
    match args.json {
        true => Ok(()),
        false => line(text_of(report)),
    }
}

/// What may be wrong when nothing answers.
fn silence(args: &PingArgs) -> &'static str {
    match (args.path, &args.via) {
        (true, _) => "nothing answers from this hop",
        (_, Some(_)) => {
            "no answer; the routers must know the host (--to), and the host must speak 3.6 (dialect=3.6)"
        }
        _ => {
            "no answer; XTP 4.0 has none to give: ask a forwarder, or an endpoint with dialect=3.6"
        }
    }
}

fn text_of(report: &PingReport) -> String {
    let name = match (report.hop, report.is_router) {
        (Some(hop), Some(true)) => format!("hop {hop}, a router"),
        (Some(hop), None) => format!("hop {hop}"),
        (Some(hop), Some(false)) => format!("hop {hop}, {}", report.host),
        (None, _) => report.host.clone(),
    };
    let percent = report.lost_fraction * 100.0;
    let head = format!(
        "{name}: {} of {} answered, {percent:.0} % lost",
        report.received, report.sent
    );
    let parts = [
        ("min", report.min_us),
        ("median", report.median_us),
        ("99 %", report.p99_us),
        ("max", report.max_us),
    ];
    let delays = parts
        .iter()
        .filter_map(|(name, us)| us.map(|us| format!("{name} {us:.1}")));
    let delays: Vec<String> = delays.collect();
    match delays.is_empty() {
        true => head,
        false => format!("{head}; us: {}", delays.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_shown_from_a_thousand_answers_on() {
        let of = |count: usize, sent: usize| {
            let mut report = PingReport::default();
            let mut series = Series {
                asked_at: vec![None; sent],
                delays_us: (0..count).rev().map(|at| at as f64).collect(),
                is_router: None,
            };
            series.describe(&mut report);
            report
        };
        let few = of(999, 1000);
        assert_eq!(
            (few.min_us, few.max_us, few.p99_us),
            (Some(0.0), Some(998.0), None)
        );
        assert!((few.lost_fraction - 0.001).abs() < 1e-12);
        assert!(
            of(1000, 1000)
                .p99_us
                .is_some_and(|us| (985.0..=995.0).contains(&us))
        );
        let none = of(0, 3);
        assert_eq!((none.median_us, none.lost_fraction), (None, 1.0));
        assert!(text_of(&none).ends_with("0 of 3 answered, 100 % lost"));
    }
}
