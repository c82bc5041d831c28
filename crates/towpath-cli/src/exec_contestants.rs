//! Contestants that are programs of other projects, `exec:NAME`: their definitions, and what of a race
//! does not concern them.

use crate::CliError;
use crate::args::RaceArgs;
use measure::exec::{self, Definition, Definitions};

/// The definitions of the programs that take part; none without such a contestant.
/// Fails when a file of contestants has a fault, a name is not known, a program is not installed, or the race asks
/// what a program cannot do.
pub(crate) fn definitions(
    args: &RaceArgs,
    contestants: &[String],
) -> Result<Definitions, CliError> {
    let names: Vec<&str> = contestants
        .iter()
        .filter_map(|label| exec::name_of(label))
        .collect();
    if names.is_empty() && args.contestants.is_empty() {
        return Ok(Definitions::new());
    }
    let mut known = exec::shipped();
    for path in &args.contestants {
        known.extend(exec::definition::read(path).map_err(CliError::usage)?);
    }
    known.extend(args.inline.clone());
    if names.is_empty() {
        return Err(CliError::usage(
            "--contestants is for programs, and none takes part; name one as exec:NAME",
        ));
    }
    check_race(args, names[0])?;
    let mut wanted = Definitions::new();
    for name in names {
        let Some(definition) = known.get(name) else {
            let all: Vec<String> = known.keys().map(|name| format!("exec:{name}")).collect();
            return Err(CliError::usage(format!(
                "there is no contestant exec:{name}; there are {}, and those of a file that \
                 --contestants names",
                all.join(" ")
            )));
        };
        check_workloads(args, name, definition)?;
        check_installed(name, definition)?;
        wanted.insert(name.to_owned(), definition.clone());
    }
    Ok(wanted)
}

/// The arguments with each contestant that is defined in its place called by its name.
/// Fails when a definition has a fault, or two have one name.
pub(crate) fn with_inline(mut args: RaceArgs) -> Result<RaceArgs, CliError> {
    for text in &mut args.transports {
        let inline = text.strip_prefix(exec::PREFIX).and_then(exec::inline::read);
        let Some(read) = inline else { continue };
        let (name, definition) = read.map_err(CliError::usage)?;
        *text = format!("{}{name}", exec::PREFIX);
        if args.inline.insert(name.clone(), definition).is_some() {
            return Err(CliError::usage(format!(
                "exec:{name} is defined twice; give each program a name of its own"
            )));
        }
    }
    Ok(args)
}

/// What is said of a program where transports have their class.
pub(crate) fn class_line(program: &Definition) -> String {
    let about = match program.about.is_empty() {
        true => program.server.first().map_or("", String::as_str),
        false => &program.about,
    };
    let about = control::validate::sentence(about);
    format!("another project's program: {about}")
}

/// Refuses what programs of others cannot do, whichever it is.
fn check_race(args: &RaceArgs, name: &str) -> Result<(), CliError> {
    let refused = [
        (
            args.remote.is_given(),
            "runs on this host only",
            "--to and --from",
        ),
        (args.reverse, "sends from its client", "--reverse"),
        (args.bidir, "sends from its client", "--bidir"),
        (args.buffers.is_some(), "sets its own buffers", "--buffers"),
        (args.mix.is_some(), "has no mix of sizes", "--mix"),
        (args.busy_poll, "waits as it likes", "--busy-poll"),
    ];
    match refused.iter().find(|(given, _, _)| *given) {
        Some((_, why, option)) => Err(CliError::usage(format!(
            "exec:{name} {why}; omit {option}, or leave exec:{name} out"
        ))),
        None => Ok(()),
    }
}

/// Refuses workloads that a program does not measure, and numbers of circuits that it does not take.
fn check_workloads(args: &RaceArgs, name: &str, program: &Definition) -> Result<(), CliError> {
    let known = program.workloads();
    for workload in &args.workload {
        let word = workload.name();
        let Some(measurement) = known.get(word) else {
            let names: Vec<&str> = known.keys().copied().collect();
            return Err(CliError::usage(format!(
                "exec:{name} does not measure {word}; add -w {}",
                names.join(",")
            )));
        };
        if args.circuits != [1] && !measurement.has("{circuits}") {
            return Err(CliError::usage(format!(
                "exec:{name} has no {{circuits}} in its client; omit --circuits"
            )));
        }
        if measurement.counts_on_interface() && args.environment.link.is_empty() {
            return Err(CliError::usage(format!(
                "exec:{name} says no number, and is counted on the interface of a testbed host; add \
                 --link"
            )));
        }
    }
    Ok(())
}

/// Refuses programs that are not here.
fn check_installed(name: &str, program: &Definition) -> Result<(), CliError> {
    let clients = program.workloads();
    let clients = clients.values().map(|measurement| &measurement.client);
    for words in clients.chain([&program.server]) {
        let Some(first) = words.first() else { continue };
        if exec::located(first).is_none() {
            return Err(CliError::failed(format!(
                "exec:{name} cannot be used: there is no program {first}; install it, or leave \
                 exec:{name} out"
            )));
        }
    }
    Ok(())
}
