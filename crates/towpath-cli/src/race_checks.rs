//! Arguments of a race that are refused before anything starts, and what is said of a race whose
//! baseline has no result.

use crate::CliError;
use crate::args::RaceArgs;
use crate::contestants::{components_of, transport_names};
use crate::parse::{self, RaceSizes};
use control::Workload;
use loadgen::contestant::{self, Component};
use measure::exec;
use measure::spec::ReplyLen;
use measure::turn_plan::TurnChoice;
use results::{Cell, RunData};
use std::path::Path;

/// Refuses what would fail only after a while, and options that would do nothing.
/// The error names the option and the remedy.
pub(crate) fn check(args: &RaceArgs) -> Result<(), CliError> {
    if let Some(path) = &args.trace {
        check_trace(path)?;
    }
    check_names(args)?;
    check_out(args)?;
    check_capture(args)?;
    check_transaction_options(args)?;
    check_programs(args)?;
    check_turns(args)?;
    check_series(args)?;
    check_steps(args)?;
    check_send(args)?;
    check_empty_messages(args)?;
    crate::message_counts::check(args)?;
    crate::fan_out::check(args)?;
    check_unused(args)
}

/// A contestant that is none is refused before the race waits for another one to end.
fn check_names(args: &RaceArgs) -> Result<(), CliError> {
    let mut ours = args
        .transports
        .iter()
        .filter(|text| exec::name_of(text).is_none());
    ours.try_for_each(|text| contestant::parse(text).map(drop).map_err(CliError::usage))
}

/// The first contestant that is a program of another project.
pub(crate) fn foreign_program(args: &RaceArgs) -> Option<&String> {
    let mut contestants = args.transports.iter();
    contestants.find(|text| exec::name_of(text).is_some())
}

/// Refuses another program where workers run on other hosts.
fn check_programs(args: &RaceArgs) -> Result<(), CliError> {
    if let (true, Some(text)) = (args.remote.is_given(), foreign_program(args)) {
        return Err(CliError::usage(format!(
            "{text} runs on this host only; omit --to and --from, or leave it out"
        )));
    }
    let components = components_of(&args.transports);
    let with_program = components.iter().find(|one| one.program().is_some());
    match with_program {
        Some(component) if args.remote.is_given() => Err(CliError::usage(format!(
            "{component}: another program runs on this host only; omit --to and --from, or program="
        ))),
        _ => Ok(()),
    }
}

/// Refuses the length of turns where there are none.
fn check_turns(args: &RaceArgs) -> Result<(), CliError> {
    if args.turns == TurnChoice::Off && args.turn_time.is_some() {
        return Err(CliError::usage(
            "--turn-time is for turns, and --turns off asks for none; omit one of them",
        ));
    }
    Ok(())
}

/// Refuses series where no circuit lasts as long as its trial.
fn check_series(args: &RaceArgs) -> Result<(), CliError> {
    use Workload::{Connect, Responsive, Send, Transactions};
    let has_none =
        |workload: &Workload| matches!(workload, Connect | Transactions | Responsive | Send);
    if args.series && !args.workload.is_empty() && args.workload.iter().all(has_none) {
        return Err(CliError::usage(
            "--series is for throughput, delay and offered, which are not measured; add -w throughput, \
             or omit it",
        ));
    }
    Ok(())
}

/// Refuses transports that cannot send into a wire which discards, and options that such a wire does not have.
fn check_send(args: &RaceArgs) -> Result<(), CliError> {
    if !args.workload.contains(&Workload::Send) {
        return Ok(());
    }
    let outside = [
        ("--to and --from", args.remote.is_given()),
        ("--link", !args.environment.link.is_empty()),
        ("--reverse", args.reverse),
        ("--bidir", args.bidir),
    ];
    if let Some((option, _)) = outside.iter().find(|(_, given)| *given) {
        return Err(CliError::usage(format!(
            "workload send leaves no process, so {option} would do nothing; omit it, or -w send"
        )));
    }
    if let Some(text) = foreign_program(args) {
        return Err(CliError::usage(format!(
            "{text} has no wire of ours that could discard; leave it out of -w send"
        )));
    }
    match components_here(args)
        .iter()
        .find(|component| !component.sends_unanswered())
    {
        Some(component) => Err(CliError::usage(measure::trial::cannot_discard(component))),
        None => Ok(()),
    }
}

/// Refuses empty messages where a contestant does not keep them apart, or nothing counts them.
fn check_empty_messages(args: &RaceArgs) -> Result<(), CliError> {
    use Workload::{Delay, Send, Throughput};
    match parse::race_sizes(&args.sizes) {
        Ok(RaceSizes::Listed(sizes)) if sizes.contains(&0) => {}
        // What is wrong with sizes is said when they are used.
        _ => return Ok(()),
    }
    let counts_them = |workload: &Workload| matches!(workload, Throughput | Delay | Send);
    if !args.workload.iter().all(counts_them) {
        return Err(CliError::usage(
            "size 0 is for the workloads throughput, delay and send; give the others --sizes from 1",
        ));
    }
    if args.remote.is_given() {
        return Err(CliError::usage(
            "agents take no messages of 0 B; give --sizes from 1, or omit --to and --from",
        ));
    }
    if let Some(text) = foreign_program(args) {
        return Err(CliError::usage(format!(
            "{text} may take a size of 0 as its own default; leave it out, or give --sizes from 1"
        )));
    }
    let refused = components_here(args)
        .into_iter()
        .find(|component| !component.carries_empty());
    let Some(component) = refused else {
        return Ok(());
    };
    let why = match component.class().stream {
        true => "is a stream of bytes, in which a message of 0 B is nothing",
        false => "carries no message of 0 B",
    };
    Err(CliError::usage(format!(
        "{component} {why}; leave it out, or give --sizes from 1"
    )))
}

/// The components of all contestants, named or not.
fn components_here(args: &RaceArgs) -> Vec<Component> {
    let names = transport_names(args).into_iter().map(str::to_owned);
    match args.transports.is_empty() {
        true => components_of(&names.collect::<Vec<_>>()),
        false => components_of(&args.transports),
    }
}

/// Refuses sizes that pilots find beside messages whose sizes are given.
fn check_steps(args: &RaceArgs) -> Result<(), CliError> {
    let is_steps = matches!(parse::race_sizes(&args.sizes), Ok(RaceSizes::Steps(_)));
    let given = [
        ("--mix", args.mix.is_some()),
        ("--pairs", args.messages.pairs.is_some()),
    ];
    match given.iter().find(|(_, given)| *given && is_steps) {
        Some((option, _)) => Err(CliError::usage(format!(
            "{option} has sizes of its own, and --sizes steps: looks for them; omit one of them"
        ))),
        None => Ok(()),
    }
}

/// Refuses options of transactions without such, and `--circuits` where clients are counted.
fn check_transaction_options(args: &RaceArgs) -> Result<(), CliError> {
    let has = args.workload.contains(&Workload::Transactions);
    let given = [
        ("--clients", !args.clients.is_empty()),
        ("--reply", args.reply.is_some()),
        ("--service", args.service.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given && !has) {
        return Err(CliError::usage(format!(
            "{option} is for workload transactions, which is not measured; add -w transactions, or \
             omit it"
        )));
    }
    if has && args.workload.len() == 1 && args.circuits != [1] {
        return Err(CliError::usage(
            "--circuits does nothing in workload transactions, where each client has one; give \
             --clients instead",
        ));
    }
    Ok(())
}

/// Refuses requests and replies that a contestant cannot carry.
/// The error names the message, the transport and the limit.
pub(crate) fn check_transactions(args: &RaceArgs, sizes: &[u64]) -> Result<(), CliError> {
    if !args.workload.contains(&Workload::Transactions) {
        return Ok(());
    }
    let request = (
        "request",
        sizes.iter().max().copied().unwrap_or(0),
        "--sizes",
    );
    let reply = match args.reply {
        Some(ReplyLen::Bytes(len)) => ("reply", len, "--reply"),
        Some(ReplyLen::Same) | None => request,
    };
    for name in transport_names(args) {
        let most = towpath::find(name)
            .ok()
            .and_then(|known| known.message_max());
        for (what, len, option) in [request, reply] {
            if let Some(most) = most.filter(|most| len > *most) {
                return Err(CliError::usage(format!(
                    "a {what} of {len} B is longer than {name} carries, {most} B; give a smaller \
                     {option}, or leave {name} out"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses `--trace` and `--interface` where no contestant uses them. Whether the interface is there
/// is found when the transport that uses it is asked.
fn check_unused(args: &RaceArgs) -> Result<(), CliError> {
    let names = transport_names(args);
    let bare = ["bare", "aal34", "aal5"];
    let sctp = ["sctp", "sctp-rawip", "xti-sctp", "xti-xtp"];
    let has_engine = |name: &&str| {
        let is_known = bare.contains(name) || sctp.contains(name);
        is_known || name.starts_with("xtp") || name.starts_with("vmtp")
    };
    if args.trace.is_some() && !names.iter().any(has_engine) {
        return Err(CliError::usage(
            "--trace records packets of bare, XTP, SCTP and VMTP, and no contestant is one; add xtp, \
             or omit it",
        ));
    }
    if args.interface.is_some() && !names.iter().any(|name| name.ends_with("-ether")) {
        return Err(CliError::usage(
            "--interface is for raw-ether, xtp-ether and vmtp-ether, and no contestant is one; add \
             one of them, or omit it",
        ));
    }
    Ok(())
}

/// Refuses a folder with content, before the machine is looked at.
fn check_out(args: &RaceArgs) -> Result<(), CliError> {
    let Some(out) = &args.out else {
        return Ok(());
    };
    let used = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    match used {
        true => Err(CliError::failed(results::WriteError::Exists(out.clone()))),
        false => Ok(()),
    }
}

/// Refuses a capture into a folder that does not exist, before the link is calibrated.
fn check_capture(args: &RaceArgs) -> Result<(), CliError> {
    let Some(target) = &args.environment.capture else {
        return Ok(());
    };
    let path = &target.path;
    let parent = Path::new(path).parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    match parent.is_some_and(|parent| !parent.is_dir()) {
        true => Err(CliError::usage(format!(
            "--capture {path}: its folder does not exist; create it, or name another"
        ))),
        false => Ok(()),
    }
}

/// Refuses a trace path that cannot be created.
fn check_trace(path: &Path) -> Result<(), CliError> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let trouble = if path.to_str().is_none() {
        "its name is not UTF-8"
    } else if path.exists() {
        "it exists; remove it"
    } else if parent.is_some_and(|parent| !parent.is_dir()) {
        "its folder does not exist; create it"
    } else {
        return Ok(());
    };
    Err(CliError::usage(format!(
        "--trace {}: {trouble}, or name another",
        path.display()
    )))
}

/// Refuses to call a race a success whose baseline has not even one trial, because its pilots failed.
/// The error names the baseline, and why it has none.
pub(crate) fn check_baseline(path: &Path) -> Result<(), CliError> {
    let run = RunData::read(path).map_err(CliError::failed)?;
    let baseline = &run.plan.baseline;
    let is_own = |cell: &Cell| cell.transport() == *baseline;
    let mut counted = run.trials.iter().filter(|trial| trial.block > 0);
    if counted.any(|trial| is_own(&trial.cell)) {
        return Ok(());
    }
    let missing = stats::missing_results(&run.plan, &run.trials);
    let reason = missing.into_iter().find(|one| is_own(&one.cell));
    let reason = reason.map_or("it did not run".into(), |one| one.reason);
    Err(CliError::failed(format!(
        "the baseline {baseline} has no result, so nothing was judged: {reason}; choose another \
         with --baseline; the other results are kept in {}",
        path.display()
    )))
}
