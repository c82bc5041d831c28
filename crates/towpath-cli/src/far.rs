//! `towpath race --to`: races against agents on other hosts.

use crate::CliError;
use crate::args::RaceArgs;
use crate::print::note;
use crate::progress::{Terminal, count};
use crate::race::{
    allowed_cpus, default_congestion, default_folder, ended, headline, show, spec, stop_flag, swap,
};
use agent::client::End;
use agent::{AgentStage, KeyFolder, Session, Target};
use clap::Args;
use control::Caps;
use control::session::Intent;
use measure::spec::Direction;
use measure::{RaceSpec, ThisHost};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Other hosts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Other hosts")]
pub struct FarArgs {
    /// Race against `towpath agent` on this host: circuits go there. Several are raced in turn.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',',
          conflicts_with_all = ["link", "host_load", "link_load", "capture", "interface"])]
    pub to: Vec<Target>,
    /// Let circuits come from agents on these hosts instead of from here.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',',
          conflicts_with_all = ["link", "host_load", "link_load", "capture", "interface"])]
    pub from: Vec<Target>,
}

impl FarArgs {
    /// Whether any other host takes part.
    pub fn is_asked(&self) -> bool {
        !self.to.is_empty() || !self.from.is_empty()
    }
}

/// Runs the race.
///
/// # Errors
///
/// What the user must know.
pub fn run(args: &RaceArgs) -> Result<u8, CliError> {
    let stop = stop_flag()?;
    let mut sessions = Sessions::default();
    let pairs = sessions.pairs(args, &stop)?;
    let mut args = args.clone();
    args.ipv6 = sessions.is_ipv6()?;
    if args.congestion.is_none() {
        args.congestion = Some(sessions.congestion(&args));
    }
    let spec = spec_between(&args, &pairs[0])?;
    for session in sessions.0.values() {
        check_caps(&spec, session)?;
    }
    let program = std::env::current_exe().map_err(CliError::failed)?;
    let here = ThisHost::new(program, vec!["worker".into()]);
    let mut stage = AgentStage::new(pairs, &here).map_err(CliError::failed)?;
    let folder = args.out.clone().unwrap_or_else(|| default_folder("race"));
    let mut machine = host::machine(&crate::inspect::test_of(&spec));
    stage
        .describe(&intent(&spec), &mut machine)
        .map_err(CliError::failed)?;
    if !args.json {
        note(headline(&spec));
        note(ways(&args));
    }
    let mut terminal = Terminal::new(args.json);
    let result = measure::run(&spec, &machine, &folder, &mut stage, &stop, &mut terminal);
    terminal.finish();
    drop(stage);
    let (path, summary) = result.map_err(CliError::failed)?;
    show(&args, &path)?;
    ended(&path, &summary)
}

/// Sessions by the agent's name: an agent that takes part twice is one.
#[derive(Default)]
struct Sessions(BTreeMap<String, Arc<Session>>);

impl Sessions {
    /// All ways of the race: each from each to each, but for those within this host.
    fn pairs(&mut self, args: &RaceArgs, stop: &AtomicBool) -> Result<Vec<[End; 2]>, CliError> {
        let from = self.ends(&args.far.from, args.ipv6, stop)?;
        let to = self.ends(&args.far.to, args.ipv6, stop)?;
        let mut pairs = Vec::new();
        for one in &from {
            for other in &to {
                pairs.push([one.clone(), other.clone()]);
            }
        }
        Ok(pairs)
    }

    fn ends(
        &mut self,
        targets: &[Target],
        ipv6: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<End>, CliError> {
        if targets.is_empty() {
            return Ok(vec![End::Here]);
        }
        let end = |target: &Target| self.session(target, ipv6, stop).map(End::There);
        targets.iter().map(end).collect()
    }

    fn session(
        &mut self,
        target: &Target,
        ipv6: bool,
        stop: &AtomicBool,
    ) -> Result<Arc<Session>, CliError> {
        let name = target.to_string();
        if let Some(known) = self.0.get(&name) {
            return Ok(Arc::clone(known));
        }
        let session = connect(target, ipv6, stop)?;
        self.0.insert(name, Arc::clone(&session));
        Ok(session)
    }

    /// The congestion control that all hosts may choose: the usual one here, else one of theirs.
    fn congestion(&self, args: &RaceArgs) -> String {
        let usual = default_congestion();
        let everywhere = |name: &str| {
            let mut all = self.0.values();
            all.all(|session| {
                session
                    .welcome()
                    .congestion
                    .iter()
                    .any(|known| known == name)
            })
        };
        if everywhere(&usual) {
            return usual;
        }
        let theirs = self
            .0
            .values()
            .flat_map(|session| &session.welcome().congestion);
        let common = theirs.into_iter().find(|name| everywhere(name)).cloned();
        let chosen = common.unwrap_or_else(|| usual.clone());
        if chosen != usual && !args.json {
            note(format_args!(
                "TCP uses {chosen}: {usual} may not be chosen on all hosts"
            ));
        }
        chosen
    }

    /// The one family all hosts are spoken to in.
    fn is_ipv6(&self) -> Result<bool, CliError> {
        let mut families = self.0.values().map(|session| session.peer().is_ipv6());
        let first = families.next().unwrap_or(false);
        if families.any(|family| family != first) {
            return Err(CliError::usage(
                "one host was given by an IPv4 address and another by IPv6; give both alike",
            ));
        }
        Ok(first)
    }
}

/// A session with an agent, once it is this client's turn.
pub(crate) fn connect(
    target: &Target,
    ipv6: bool,
    stop: &AtomicBool,
) -> Result<Arc<Session>, CliError> {
    let mut waiting = |ahead: u32| {
        let clients = count(u64::from(ahead), "client");
        note(format_args!(
            "agent {target}: {clients} first; waiting, Ctrl-C leaves the queue"
        ));
    };
    let session = Session::connect(target, &KeyFolder::usual(), ipv6, stop, &mut waiting);
    session.map(Arc::new).map_err(CliError::failed)
}

/// The race, with processors of the hosts that take part.
fn spec_between(args: &RaceArgs, ends: &[End; 2]) -> Result<RaceSpec, CliError> {
    let asked = args.pin;
    let mut plain = args.clone();
    plain.pin = None;
    let mut spec = spec(&plain)?;
    let there = |end: &End| match end {
        End::Here => allowed_cpus(),
        End::There(session) => session.welcome().processors.clone(),
    };
    let reversed = spec.direction == Direction::Reverse;
    let (sender, receiver) = swap(reversed, (there(&ends[0]), there(&ends[1])));
    let usual = |cpus: &[u32], at: usize| (cpus.len() > 1).then(|| cpus[at.min(cpus.len() - 1)]);
    let chosen = asked.unwrap_or((usual(&sender, 0), usual(&receiver, 1)));
    spec.pin = swap(args.swap, chosen);
    for (cpu, cpus) in [(spec.pin.0, &sender), (spec.pin.1, &receiver)] {
        if let Some(cpu) = cpu.filter(|cpu| !cpus.contains(cpu)) {
            let all: Vec<String> = cpus.iter().map(u32::to_string).collect();
            return Err(CliError::usage(format!(
                "there is no CPU {cpu} on that host; choose from {} with --pin",
                all.join(",")
            )));
        }
    }
    Ok(spec)
}

/// Says at once what an agent would refuse later.
fn check_caps(spec: &RaceSpec, session: &Session) -> Result<(), CliError> {
    let welcome = session.welcome();
    let Caps {
        circuits,
        message_len,
        trial_ns,
        buffers,
        ..
    } = welcome.caps;
    let host = session.target();
    let too_much = |what: &str, most: String| {
        CliError::failed(format!(
            "agent {host} allows {what} up to {most}; ask for less, or raise it there"
        ))
    };
    if spec.circuits > circuits {
        return Err(too_much("circuits", circuits.to_string()));
    }
    if spec.sizes.iter().any(|&size| size > message_len) {
        return Err(too_much("messages", format!("{message_len} B")));
    }
    if spec.buffers.iter().any(|&len| len > buffers) {
        return Err(too_much("buffers", format!("{buffers} B")));
    }
    // A trial may take twice what it is meant to.
    if spec
        .trial_s
        .is_some_and(|trial_s| trial_s * 2e9 > trial_ns as f64)
    {
        return Err(too_much("trials", format!("{} s", trial_ns as f64 / 2e9)));
    }
    for leg in crate::contestants::legs_of(&spec.contestants) {
        let name = leg.transport().name();
        let missing = match welcome.transports.iter().find(|(known, _)| known == name) {
            None => Some("that version has none of the kind".to_owned()),
            Some((_, missing)) => missing.clone(),
        };
        if let Some(why) = missing {
            return Err(CliError::failed(format!(
                "{name} cannot be used on {host}: {why}; leave it out"
            )));
        }
    }
    Ok(())
}

fn intent(spec: &RaceSpec) -> Intent {
    let test = crate::inspect::test_of(spec);
    Intent {
        workloads: test.workloads,
        transports: test.transports,
        pinned: test.pinned,
        busy_poll: test.busy_poll,
        circuits: test.circuits as u32,
        buffers: test.buffers.map(|len| len as u64),
        congestion: test.congestion,
    }
}

/// Which hosts, in a line.
fn ways(args: &RaceArgs) -> String {
    let names = |targets: &[Target]| {
        let names: Vec<String> = targets.iter().map(Target::to_string).collect();
        if names.is_empty() {
            "here".to_owned()
        } else {
            names.join(", ")
        }
    };
    format!(
        "circuits from {} to {}",
        names(&args.far.from),
        names(&args.far.to)
    )
}
