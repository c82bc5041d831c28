//! `towpath race --to`: races against agents on other hosts.

use crate::CliError;
use crate::args::RaceArgs;
use crate::print::note;
use crate::progress::counted;
use crate::race::{
    allowed_cpus, default_congestion, exit_code, headline, measure, note_other_race, print_result,
    spec, stop_flag, swap_if,
};
use agent::AgentAddress;
use agent::KeyFolder;
use agent_client::{AgentEnvironment, Session};
use agent_client::{LOAD_FORM, LoadPlan, PathEnd};
use clap::Args;
use control::Caps;
use loadgen::LocalHost;
use measure::RaceSpec;
use measure::environment::HostLoads;
use measure::spec::{Direction, ReplyLen};
use results::Fact;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Host pairs that run concurrently; each has a worker here, or two workers between agents.
const PAIRS_MAX: usize = 16;

/// Options of races against other hosts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Other hosts")]
pub struct RemoteArgs {
    /// Race against `towpath agent` on this host, which accepts the circuits. Several hosts are
    /// raced in turn, or concurrently with --together.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',',
          conflicts_with_all = ["link", "load_parts", "link_load", "capture", "interface"])]
    pub to: Vec<AgentAddress>,
    /// Open the circuits from agents on these hosts instead of from here.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',',
          conflicts_with_all = ["link", "load_parts", "link_load", "capture", "interface"])]
    pub from: Vec<AgentAddress>,
    /// Race all host pairs concurrently instead of in turn: each trial has circuits on every pair,
    /// and reports the rate of each.
    #[arg(long, requires = "to")]
    pub together: bool,
}

impl RemoteArgs {
    /// Whether another host takes part.
    pub fn is_given(&self) -> bool {
        !self.to.is_empty() || !self.from.is_empty()
    }

    /// Whether circuits end on this host.
    pub fn ends_here(&self) -> bool {
        self.to.is_empty() || self.from.is_empty()
    }

    /// From which hosts to which hosts circuits go, at once or in turn.
    pub fn direction_text(&self, together: bool) -> String {
        let several = self.from.len() > 1 || self.to.len() > 1;
        let turns = match (several, together) {
            (false, _) => "",
            (true, true) => ", at once",
            (true, false) => ", in turn",
        };
        let [from, to] = [&self.from, &self.to].map(|targets| names(targets, " and "));
        format!("from {from} to {to}{turns}")
    }
}

/// The names of hosts.
fn names(targets: &[AgentAddress], separator: &str) -> String {
    let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
    match names.is_empty() {
        true => "here".to_owned(),
        false => names.join(separator),
    }
}

/// Runs the race.
pub fn run(args: &RaceArgs) -> Result<u8, CliError> {
    let stop = stop_flag()?;
    let alone = crate::alone::claim(args.alone, &stop)?;
    let mut sessions = AgentSessions::default();
    let pairs = sessions.pairs(args, &stop)?;
    let mut args = args.clone();
    args.ipv6 = sessions.is_ipv6()?;
    if args.congestion.is_none() {
        args.congestion = Some(sessions.congestion(&args));
    }
    let mut spec = spec_for_hosts(&args, &pairs[0])?;
    note_other_race(&mut spec, &alone);
    if args.runs_pairs_together() && pairs.len() > PAIRS_MAX {
        return Err(CliError::usage(format!(
            "{} concurrent host pairs exceed the limit of {PAIRS_MAX}; give fewer hosts, or omit --together",
            pairs.len()
        )));
    }
    for session in sessions.0.values() {
        check_caps(&spec, session)?;
        check_workers(&args, session, &pairs)?;
    }
    let program = std::env::current_exe().map_err(CliError::failed)?;
    let here = LocalHost::new(program, crate::environment::worker_arguments(&args));
    let mut environment = AgentEnvironment::new(pairs, &here).map_err(CliError::failed)?;
    if args.runs_pairs_together() {
        environment = environment.concurrent();
    }
    let loads = load_plan(&args, &sessions)?;
    let form = (!loads.settings.is_empty()).then(load_form);
    environment = environment.loaded(loads);
    crate::race::check_turns(&spec, &environment)?;
    let test = crate::transports::doctor_test(&spec);
    let mut machine = host::machine(&test);
    environment
        .describe(&test, &mut machine)
        .map_err(CliError::failed)?;
    machine.facts.extend(form);
    if !args.json {
        note(headline(&spec));
        note(hosts_line(&args));
    }
    let result = measure(&args, &spec, &machine, &mut environment, &stop);
    let lost = environment
        .sessions()
        .into_iter()
        .find_map(|one| lost_agent_error(one));
    drop(environment);
    let (path, summary) = result?;
    print_result(&args, &path)?;
    match (exit_code(&path, &summary)?, lost) {
        (_, Some(why)) => Err(CliError::failed(format!(
            "{why}; the trials until then are kept in {}",
            path.display()
        ))),
        (code, None) => Ok(code),
    }
}

/// The error for an agent that was lost during the race.
fn lost_agent_error(session: &Session) -> Option<String> {
    let why = session.closed_reason()?;
    let agent = session.target();
    Some(format!(
        "agent {agent} was lost during the race: {why}; check that it still runs there"
    ))
}

/// Sessions by the agent's name; an agent that takes part twice has one session.
#[derive(Default)]
struct AgentSessions(BTreeMap<String, Arc<Session>>);

impl AgentSessions {
    /// All host pairs of the race: from each of --from to each of --to.
    fn pairs(&mut self, args: &RaceArgs, stop: &AtomicBool) -> Result<Vec<[PathEnd; 2]>, CliError> {
        let from = self.pair_ends(&args.remote.from, args.ipv6, stop)?;
        let to = self.pair_ends(&args.remote.to, args.ipv6, stop)?;
        let mut pairs = Vec::new();
        for one in &from {
            for other in &to {
                pairs.push([one.clone(), other.clone()]);
            }
        }
        Ok(pairs)
    }

    fn pair_ends(
        &mut self,
        targets: &[AgentAddress],
        ipv6: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<PathEnd>, CliError> {
        if targets.is_empty() {
            return Ok(vec![PathEnd::Local]);
        }
        let twice = |at: &usize| targets[..*at].contains(&targets[*at]);
        if let Some(at) = (0..targets.len()).find(twice) {
            let again = format!("{} was given twice; give each host once", targets[at]);
            return Err(CliError::usage(again));
        }
        let end = |target: &AgentAddress| self.session(target, ipv6, stop).map(PathEnd::Agent);
        targets.iter().map(end).collect()
    }

    fn session(
        &mut self,
        target: &AgentAddress,
        ipv6: bool,
        stop: &AtomicBool,
    ) -> Result<Arc<Session>, CliError> {
        let name = target.to_string();
        if let Some(known) = self.0.get(&name) {
            return Ok(Arc::clone(known));
        }
        let others: Vec<SocketAddr> = self.0.values().map(|one| one.peer()).collect();
        let session = connect_agent(&others, target, ipv6, stop)?;
        self.0.insert(name, Arc::clone(&session));
        Ok(session)
    }

    /// A congestion control that all hosts allow: this host's default if possible.
    fn congestion(&self, args: &RaceArgs) -> String {
        let usual = default_congestion();
        let all: Vec<&Session> = self.0.values().map(Arc::as_ref).collect();
        let chosen = common_congestion(&usual, &all);
        if chosen != usual && !args.json {
            note(format_args!(
                "TCP uses {chosen}: {usual} is not allowed on all hosts"
            ));
        }
        chosen
    }

    /// The address family, which all hosts must share.
    fn is_ipv6(&self) -> Result<bool, CliError> {
        let mut families = self.0.values().map(|session| session.peer().is_ipv6());
        let first = families.next().unwrap_or(false);
        if families.any(|family| family != first) {
            return Err(CliError::usage(
                "one host has an IPv4 address and another an IPv6 address; give all in one family",
            ));
        }
        Ok(first)
    }
}

/// `usual` if all agents allow it, else the first congestion control they have in common.
pub(crate) fn common_congestion(usual: &str, sessions: &[&Session]) -> String {
    let known = |session: &&Session| session.welcome().congestion.clone();
    let everywhere = |name: &String| sessions.iter().all(|one| known(one).contains(name));
    let theirs = sessions.iter().flat_map(known);
    let mut all = std::iter::once(usual.to_owned()).chain(theirs);
    all.find(everywhere).unwrap_or_else(|| usual.to_owned())
}

/// Opens a session with an agent, waiting in its queue; `others` are the peers of open sessions.
pub(crate) fn connect_agent(
    others: &[SocketAddr],
    target: &AgentAddress,
    ipv6: bool,
    stop: &AtomicBool,
) -> Result<Arc<Session>, CliError> {
    let own = if others.is_empty() {
        ""
    } else {
        " (this race itself, if two of its hosts are the same)"
    };
    let mut waiting = |ahead: u32| {
        let clients = counted(u64::from(ahead), "client");
        note(format_args!(
            "agent {target}: {clients} ahead{own}; waiting, Ctrl-C leaves the queue"
        ));
    };
    let keys = KeyFolder::default_location().map_err(CliError::failed)?;
    let session = Session::connect(others, target, &keys, ipv6, stop, &mut waiting);
    session.map(Arc::new).map_err(CliError::failed)
}

/// The race specification, pinned to CPUs of the hosts that take part.
fn spec_for_hosts(args: &RaceArgs, ends: &[PathEnd; 2]) -> Result<RaceSpec, CliError> {
    // Concurrent senders pinned to one CPU would only wait for each other.
    let asked = args.pin.or(args.remote.together.then_some((None, None)));
    let mut plain = args.clone();
    plain.pin = None;
    // For the check of this host: in the race each end has the interface that leads to its peer.
    plain.interface = route_interface(ends);
    let mut spec = spec(&plain)?;
    spec.circuit_options.interface = None;
    let there = |end: &PathEnd| match end {
        PathEnd::Local => allowed_cpus(),
        PathEnd::Agent(session) => session.welcome().processors.clone(),
    };
    let reversed = spec.direction == Direction::Reverse;
    let (sender, receiver) = swap_if(reversed, (there(&ends[0]), there(&ends[1])));
    let usual = |cpus: &[u32], at: usize| (cpus.len() > 1).then(|| cpus[at.min(cpus.len() - 1)]);
    let chosen = asked.unwrap_or((usual(&sender, 0), usual(&receiver, 1)));
    spec.pin = swap_if(args.swap, chosen);
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

/// This host's interface towards the agent; None if it takes no part.
fn route_interface(ends: &[PathEnd; 2]) -> Option<String> {
    let ([PathEnd::Local, PathEnd::Agent(session)] | [PathEnd::Agent(session), PathEnd::Local]) =
        ends
    else {
        return None;
    };
    towpath::raw_sockets::interface_towards(session.local().ip(), session.peer().ip())
}

/// Refuses at once what the agent would refuse later.
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
            "agent {host} allows {what} up to {most}; use less, or raise the limit there"
        ))
    };
    if spec.circuits.iter().any(|wanted| *wanted > circuits) {
        return Err(too_much("circuits", circuits.to_string()));
    }
    if spec.circuits_max() > circuits {
        return Err(too_much("clients", circuits.to_string()));
    }
    let reply = match spec.transactions.reply {
        ReplyLen::Bytes(len) => len,
        ReplyLen::Same => 0,
    };
    if spec.sizes.iter().any(|&size| size > message_len) || reply > message_len {
        return Err(too_much("messages", format!("{message_len} B")));
    }
    if spec.buffers.iter().any(|&len| len > buffers) {
        return Err(too_much("buffers", format!("{buffers} B")));
    }
    // A trial may take up to twice its planned time.
    if spec
        .trial_s
        .is_some_and(|trial_s| trial_s * 2e9 > trial_ns as f64)
    {
        return Err(too_much("trials", format!("{} s", trial_ns as f64 / 2e9)));
    }
    for component in crate::contestants::components_of(&spec.contestants) {
        let name = component.transport().name();
        let missing = match welcome.transports.iter().find(|(known, _)| known == name) {
            None => Some("its version does not know this transport".to_owned()),
            Some((_, missing)) => missing.clone(),
        };
        if let Some(why) = missing {
            return Err(CliError::failed(format!(
                "{name} is not available on {host}: {why}; leave it out"
            )));
        }
    }
    Ok(())
}

/// The loads of --host-load, which the agents allow.
fn load_plan(args: &RaceArgs, sessions: &AgentSessions) -> Result<LoadPlan, CliError> {
    let Some(HostLoads(settings)) = args.environment.host_load.clone() else {
        return Ok(LoadPlan::default());
    };
    if args.runs_pairs_together() {
        return Err(CliError::usage(
            "--host-load loads the hosts of one pair; omit --together and --fan-out",
        ));
    }
    let most = |side: fn(&(u32, u32)) -> u32| settings.iter().map(side).max().unwrap_or(0);
    let (sender, receiver) = (most(|loads| loads.0), most(|loads| loads.1));
    let (from, to) = swap_if(args.reverse, (sender, receiver));
    for (targets, copies) in [(&args.remote.from, from), (&args.remote.to, to)] {
        for session in targets
            .iter()
            .filter_map(|target| sessions.0.get(&target.to_string()))
        {
            check_load_cap(session, copies)?;
        }
    }
    let trials = sessions.0.values().map(|one| one.welcome().caps.load_ns());
    Ok(LoadPlan {
        settings,
        reversed: args.reverse,
        time: Duration::from_nanos(trials.min().unwrap_or(0)),
    })
}

fn check_load_cap(session: &Session, copies: u32) -> Result<(), CliError> {
    let most = session.welcome().caps.load;
    if copies <= most {
        return Ok(());
    }
    let allowed = match most {
        0 => "no load".to_owned(),
        most => format!("a load of {most} at most"),
    };
    let agent = session.target();
    Err(CliError::failed(format!(
        "agent {agent} allows {allowed}, and {copies} are asked for; start it there with --max-load {copies}, or use less"
    )))
}

/// What a load between hosts is, which is not that of a race on one host.
fn load_form() -> Fact {
    Fact {
        group: "load".into(),
        name: "host load".into(),
        value: LOAD_FORM.into(),
    }
}

/// Refuses more concurrent workers than the agent allows.
fn check_workers(
    args: &RaceArgs,
    session: &Session,
    pairs: &[[PathEnd; 2]],
) -> Result<(), CliError> {
    let is_it =
        |end: &&PathEnd| matches!(end, PathEnd::Agent(one) if std::ptr::eq(one.as_ref(), session));
    let of = |pair: &[PathEnd; 2]| pair.iter().filter(is_it).count();
    let all = pairs.iter().map(of);
    let wanted = if args.runs_pairs_together() {
        all.sum::<usize>()
    } else {
        all.max().unwrap_or(0)
    };
    let most = session.welcome().caps.workers;
    if wanted > most as usize {
        return Err(CliError::failed(format!(
            "agent {} allows {most} workers per client, and {wanted} are needed; give fewer hosts, or \
             omit --together",
            session.target()
        )));
    }
    Ok(())
}

/// One line on the hosts.
fn hosts_line(args: &RaceArgs) -> String {
    let [from, to] = [&args.remote.from, &args.remote.to].map(|targets| names(targets, ", "));
    let together = match args.runs_pairs_together() {
        true => ", all at once",
        false => "",
    };
    format!("circuits from {from} to {to}{together}")
}
