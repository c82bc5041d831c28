//! Sets up the environment of a race: hosts, a link and loads.

use crate::CliError;
use crate::args::RaceArgs;
use crate::print::note;
use crate::race::{allowed_cpus, default_pins, swap_if};
use crate::worker_captures::{self, WorkerCaptures};
use agent::server::raw_sockets::needs_raw_sockets;
use agent::server::{crosses_network, needs_fan_out};
use capture::Capture;
use capture::socket::CaptureConfig as CaptureSettings;
use clap::Args;
use measure::environment::loads::{LinkLoads, host_loads, link_loads};
use measure::environment::{EnvironmentPlan, HostLoads, LocalEnvironment};
use results::{Fact, Finding, Machine, Severity};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use testbed::load::{LoadTask, task};
use testbed::{FrameMode, LinkPlan, Links, LinksError, Testbed, TestbedError};

/// Options of hosts, link and loads.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Hosts, link and loads")]
pub struct EnvironmentArgs {
    /// Put sender and receiver into two network namespaces with this link between them:
    /// rate=10mbit,delay=5ms,jitter=1ms,loss=1%,burst=4,duplicate=0.1%,reorder=1%,
    /// corrupt=0.01%,queue=100kB; THERE/BACK where directions differ; ;2s:cut;3s:up for scheduled
    /// changes; ether10 or ether3 for a shared Ethernet; kernel,rate=... for tc qdiscs; a prefix
    /// true, super or sockets selects how frames are handled. LINK+LINK puts up to four links side
    /// by side, for transports with several paths such as mptcp; others use the first. A repeated
    /// --link is swept.
    #[arg(long, value_name = "LINK[+LINK]", value_parser = parse_links)]
    pub link: Vec<(String, Links)>,
    /// MTU of the link.
    #[arg(long, value_name = "OCTETS", default_value_t = 1500, requires = "link")]
    pub mtu: u32,
    /// Skip the calibration of the empty link before the race.
    #[arg(long, requires = "link")]
    pub no_calibration: bool,
    /// CPU quota of each host, its loads included: 50%, or SENDER/RECEIVER such as 100%/25%; needs
    /// cgroups.
    #[arg(long, value_name = "SHARE[/SHARE]", requires = "link", value_parser = parse_quotas)]
    pub quota: Option<(u32, u32)>,
    /// Load hosts with N units of an artificial workload: N, N@sender, N@receiver, a sweep such as
    /// 0..4@sender,0..4@receiver, or both hosts crossed, 0..4@senderx0..4@receiver.
    #[arg(long, value_name = "N[@HOST]", value_parser = host_loads)]
    pub host_load: Option<HostLoads>,
    /// What a unit of host load runs in turn: compile, cpu, format, edit, copy, status (default:
    /// these six), memory, disk, calls.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', requires = "host_load", value_parser = parse_load_part)]
    pub load_parts: Vec<LoadTask>,
    /// Cross traffic: N other pairs of hosts send 1024 B messages over the same link with TCP, each as
    /// fast as it can or at a rate (1@750kbit); a range is swept (0..3@750kbit).
    #[arg(long, value_name = "N[@RATE]", requires = "link", value_parser = link_loads)]
    pub link_load: Option<LinkLoads>,
    /// Capture packets on the sender's interfaces, or the receiver's, to a pcapng file.
    #[arg(long, value_name = "FILE[@HOST]", value_parser = parse_capture_target)]
    pub capture: Option<CaptureTarget>,
}

/// File of a capture, and whether the receiver's interface is captured.
#[derive(Clone, Debug)]
pub struct CaptureTarget {
    pub(crate) path: String,
    on_receiver: bool,
}

fn parse_capture_target(text: &str) -> Result<CaptureTarget, String> {
    let (path, side) = text.rsplit_once('@').unwrap_or((text, "sender"));
    let receives = match side {
        "sender" => false,
        "receiver" => true,
        other => {
            return Err(format!(
                "there is no host '{other}' to capture on; choose sender or receiver"
            ));
        }
    };
    Ok(CaptureTarget {
        path: path.to_owned(),
        on_receiver: receives,
    })
}

/// Links side by side with the text they were given by.
fn parse_links(text: &str) -> Result<(String, Links), LinksError> {
    Ok((text.to_owned(), text.parse()?))
}

/// CPU quotas of sender and receiver, in per cent of one CPU.
fn parse_quotas(text: &str) -> Result<(u32, u32), String> {
    let one = |text: &str| {
        let percent = text
            .strip_suffix('%')
            .and_then(|digits| digits.parse().ok());
        let fault = || format!("'{text}' is no part of a CPU; give 10% to 10000%, such as 50%");
        let fine = percent.filter(|percent| (10..=10_000).contains(percent));
        fine.ok_or_else(fault)
    };
    let (sender, receiver) = text.split_once('/').unwrap_or((text, text));
    Ok((one(sender)?, one(receiver)?))
}

fn parse_load_part(text: &str) -> Result<LoadTask, String> {
    text.parse()
}

/// Sets up the environment of a race.
///
/// # Errors
///
/// When a host or link cannot be created.
pub fn set_up(args: &RaceArgs) -> Result<LocalEnvironment, CliError> {
    let asked = &args.environment;
    if !asked.link.is_empty() {
        testbed::enter_user_namespace().map_err(CliError::failed)?;
    }
    let plan = environment_plan(args)?;
    LocalEnvironment::up(plan).map_err(|error| match error {
        TestbedError::Plan(text) => CliError::usage(text),
        other => CliError::failed(other),
    })
}

fn environment_plan(args: &RaceArgs) -> Result<EnvironmentPlan, CliError> {
    let asked = &args.environment;
    let parts = if asked.load_parts.is_empty() {
        task::SCRIPT.to_vec()
    } else {
        asked.load_parts.clone()
    };
    if asked.host_load.is_some() && parts.contains(&LoadTask::Compile) && !task::has_compiler() {
        note("no C compiler (cc) was found: host loads skip the part compile");
    }
    Ok(EnvironmentPlan {
        links: asked.link.clone(),
        host_loads: asked.host_load.clone().unwrap_or_default(),
        parts,
        link_loads: asked.link_load.clone().unwrap_or_default(),
        mtu: asked.mtu,
        ipv6: args.ipv6,
        reversed: args.reverse,
        pin: swap_if(args.swap, args.pin.unwrap_or_else(default_pins)),
        quota: swap_if(
            args.swap,
            asked
                .quota
                .map_or((None, None), |(one, other)| (Some(one), Some(other))),
        ),
        program: std::env::current_exe().map_err(CliError::failed)?,
        worker: worker_arguments(args),
        load: vec!["load-unit".into()],
        receivers: args.receivers.most().unwrap_or(1),
        seed: args.seed.unwrap_or(1),
    })
}

/// The arguments that start a worker.
pub(crate) fn worker_arguments(args: &RaceArgs) -> Vec<String> {
    let mut words = vec!["worker".to_owned()];
    if let Some(path) = &args.trace {
        // Checked to be UTF-8 when the race began.
        words.extend(["--trace".to_owned(), path.to_string_lossy().into_owned()]);
    }
    if let Some(folder) = worker_captures::folder(args) {
        let folder = folder.to_string_lossy().into_owned();
        words.extend(["--capture-rings".to_owned(), folder]);
    }
    words
}

/// Measures the empty links; the results go into `machine`, and to the user.
///
/// # Errors
///
/// When a link carries nothing.
pub fn calibrate(
    args: &RaceArgs,
    environment: &LocalEnvironment,
    machine: &mut Machine,
) -> Result<(), CliError> {
    if args.environment.no_calibration {
        return Ok(());
    }
    let swept = args.environment.link.len() > 1;
    for (name, testbed) in environment.testbeds() {
        for link in 0..testbed.plan().links.len() {
            let title = link_title(testbed, link);
            let found = testbed::calibrate(testbed, link, args.seed.unwrap_or(1));
            let found =
                found.map_err(|error| CliError::failed(format!("link {name}: {title}{error}")))?;
            let planned = &testbed.plan().links[link];
            let frames = framing_text(planned, testbed.plan().mtu);
            let facts = [("frames".to_owned(), frames)].into_iter();
            for (what, value) in facts.chain(found.facts()) {
                let what = format!("{title}{what}");
                if !args.json {
                    note(format_args!("link    {what}: {value}"));
                }
                let name = match swept {
                    true => format!("{name}: {what}"),
                    false => what,
                };
                machine.facts.push(Fact {
                    group: "link".into(),
                    name,
                    value,
                });
            }
            for complaint in found.deviations() {
                let complaint = format!("{title}{complaint}");
                if !args.json {
                    note(format_args!("warning: {complaint}"));
                }
                machine.findings.push(calibration_warning(complaint));
            }
        }
    }
    Ok(())
}

/// `link 2, `: which link of several is meant; empty for a single one.
pub(crate) fn link_title(testbed: &Testbed, link: usize) -> String {
    match testbed.plan().links.are_several() {
        true => format!("link {}, ", link + 1),
        false => String::new(),
    }
}

/// How a link handles frames.
pub(crate) fn framing_text(link: &LinkPlan, mtu: u32) -> String {
    let kind = match link {
        LinkPlan::Kernel(_) => "handled by the kernel",
        LinkPlan::Emulated(_, FrameMode::Sockets) => "single, as on a wire, by packet sockets",
        _ if link.carries_single_frames() => "single, as on a wire",
        _ => "super-frames of many segments",
    };
    format!("{kind}, MTU {mtu}")
}

fn calibration_warning(what: String) -> Finding {
    Finding {
        severity: Severity::Warning,
        what,
        effect: "results are for a link other than the one specified".into(),
        remedy: "keep the machine idle, or use a slower link".into(),
    }
}

/// How CPUs are allotted to hosts and link, for the plan of a race.
pub fn cpu_allocation(args: &RaceArgs) -> Option<String> {
    let asked = &args.environment;
    if asked.link.is_empty() && asked.host_load.is_none() {
        return None;
    }
    let (sender, receiver) = swap_if(args.swap, args.pin.unwrap_or_else(default_pins));
    let apart = matches!((sender, receiver), (Some(one), Some(other)) if one != other);
    let mut words = vec![if apart {
        "hosts on separate CPUs".to_owned()
    } else {
        "hosts share CPUs".to_owned()
    }];
    if !asked.link.is_empty() {
        let free = allowed_cpus().len() > 2 && apart;
        let link = if free {
            "link on its own CPU"
        } else {
            "link shares CPUs"
        };
        words.push(link.into());
    }
    if let Some((sender, receiver)) = asked.quota {
        words.push(format!(
            "the sender gets {sender} % of a CPU, the receiver {receiver} %"
        ));
    }
    Some(words.join(", "))
}

/// Refuses transports that cannot cross the link or reach an agent.
///
/// # Errors
///
/// One line that names the transport.
pub fn check_reach(args: &RaceArgs, contestants: &[String]) -> Result<(), CliError> {
    if !args.leaves_host() {
        return Ok(());
    }
    let components = crate::contestants::components_of(contestants);
    let stays = |component: &&loadgen::contestant::Component| {
        let name = component.transport().name();
        let fans_out = args.receivers.most().is_some() && needs_fan_out(name);
        let far = crosses_network(name) || needs_raw_sockets(name) || fans_out;
        let alone = args.remote.is_given() && !far;
        component.class().reach != towpath::Reach::Network || alone
    };
    match components.iter().find(stays) {
        Some(component) if args.remote.is_given() => Err(CliError::usage(format!(
            "{component} works within one host only and reaches no agent; leave it out, or omit --to"
        ))),
        Some(component) => Err(CliError::usage(format!(
            "{component} works within one host only and crosses no link; leave it out, or omit --link"
        ))),
        None => Ok(()),
    }
}

/// A running capture and its file.
pub struct RunningCapture {
    capture: Capture,
    path: String,
    workers: Option<WorkerCaptures>,
}

/// Starts the capture of --capture.
///
/// # Errors
///
/// When the file cannot be created or the interface not be captured.
pub fn start_capture(
    args: &RaceArgs,
    environment: &LocalEnvironment,
) -> Result<Option<RunningCapture>, CliError> {
    let Some(CaptureTarget { path, on_receiver }) = &args.environment.capture else {
        return Ok(None);
    };
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true);
    // A capture holds what went over the wire; other users need not see it.
    let file = options.mode(0o600).open(path).map_err(|error| {
        CliError::failed(format!(
            "cannot write {path}: {error}; give another --capture"
        ))
    })?;
    let workers = WorkerCaptures::create(args).map_err(CliError::failed)?;
    let start = |interfaces: Vec<String>| {
        move || {
            let names: Vec<&str> = interfaces.iter().map(String::as_str).collect();
            Capture::start(&names, file, &CaptureSettings::default())
        }
    };
    let started = match environment.testbeds().next() {
        Some((_, testbed)) => {
            let host = &testbed.hosts()[usize::from(*on_receiver != args.reverse)];
            host.run(start(testbed.interfaces()))
                .and_then(|started| started)
        }
        None => start(vec!["lo".into()])(),
    };
    let capture = started.map_err(|error| {
        CliError::failed(format!(
            "cannot capture packets: {error}; run as root, or give --link"
        ))
    })?;
    Ok(Some(RunningCapture {
        capture,
        path: path.clone(),
        workers,
    }))
}

impl RunningCapture {
    /// Stops the capture; gives a line with its packet counts.
    ///
    /// # Errors
    ///
    /// The fault that ended the capture early.
    pub fn finish(self) -> Result<String, CliError> {
        let path = self.path;
        let totals = self.capture.stop();
        let failed = |error| CliError::failed(format!("{path}: {error}"));
        let totals = totals.map_err(failed)?;
        let mut text = format!("capture {path}: {} packets", totals.written);
        if let Some(workers) = self.workers {
            let appended = workers.append_to(Path::new(&path)).map_err(failed)?;
            text.push_str(&format!(", {appended}"));
        }
        if totals.dropped + totals.beyond_limit > 0 {
            text.push_str(&format!(
                ", {} not captured",
                totals.dropped + totals.beyond_limit
            ));
        }
        Ok(text)
    }
}

/// Options of a unit of host load.
#[derive(Clone, Debug, Args)]
pub struct LoadUnitArgs {
    /// CPU to run on.
    #[arg(long)]
    cpu: Option<u32>,
    /// Load parts to run in turn.
    parts: Vec<String>,
}

/// Runs a unit of host load until standard input ends.
///
/// # Errors
///
/// When the CPU cannot be set or a part is unknown.
pub fn load_unit(args: &LoadUnitArgs) -> Result<u8, CliError> {
    // As a worker: it dies with its race.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if let Some(cpu) = args.cpu {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu as usize);
        rustix::thread::sched_setaffinity(None, &set).map_err(CliError::failed)?;
    }
    let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, ignored).map_err(CliError::failed)?;
    let parts: Result<Vec<LoadTask>, String> = args.parts.iter().map(|name| name.parse()).collect();
    let parts = parts.map_err(CliError::usage)?;
    testbed::load::worker::main(&parts).map_err(CliError::failed)?;
    Ok(crate::EXIT_OK)
}
