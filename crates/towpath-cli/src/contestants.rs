//! The contestants of a race.

use crate::CliError;
use crate::args::RaceArgs;
use crate::exec_contestants;
use loadgen::contestant::{self, Component};
use measure::exec;
use results::DEFAULT_CONTESTANTS;
use std::collections::BTreeMap;
use std::path::Path;
use towpath::{Options, Reach};

/// The contestants, and the transports that were to take part and are not available: their names,
/// and why. Named ones must be available; of the default ones and --all, the others race alone.
pub(crate) fn contestants(args: &RaceArgs, options: &Options) -> Result<Lineup, CliError> {
    if !args.transports.is_empty() {
        let label = |text: &String| match exec::name_of(text) {
            Some(_) => Ok(text.clone()),
            None => resolve_label(text, args.remote.ends_here().then_some(options)),
        };
        let labels: Result<Vec<String>, CliError> = args.transports.iter().map(label).collect();
        return Ok((contestant::numbered(&labels?), Vec::new()));
    }
    let (here, missing) = crate::transports::split_available(&wanted(args), options);
    if here.is_empty() {
        return Err(CliError::failed(
            "no transport is available here; see `towpath transports`",
        ));
    }
    Ok((here, missing))
}

/// Labels of contestants, and names of transports that are not available with the reason.
pub(crate) type Lineup = (Vec<String>, Vec<(String, String)>);

/// The names of a race that names no contestant.
fn wanted(args: &RaceArgs) -> Vec<&'static str> {
    let all: Vec<&str> = if args.all {
        towpath::all()
            .iter()
            .map(|transport| transport.name())
            .filter(|name| *name != "null")
            .collect()
    } else {
        DEFAULT_CONTESTANTS.to_vec()
    };
    // A host-local transport crosses no link and reaches no agent.
    let crosses = |name: &&str| {
        let reach = towpath::find(name).map(|transport| transport.class().reach);
        let alone = args.remote.is_given() && !agent::server::crosses_network(name);
        !args.leaves_host() || (reach.is_ok_and(|reach| reach == Reach::Network) && !alone)
    };
    all.into_iter().filter(crosses).collect()
}

/// The names of all transports that are to take part.
pub(crate) fn transport_names(args: &RaceArgs) -> Vec<&'static str> {
    if args.transports.is_empty() {
        return wanted(args);
    }
    let components = components_of(&args.transports);
    components
        .iter()
        .map(|one| one.transport().name())
        .collect()
}

/// The class of each component under the key `class.COMPONENT`, so that results explain themselves.
pub(crate) fn classes(
    contestants: &[String],
    programs: &exec::Definitions,
) -> BTreeMap<String, String> {
    let class = |label: &String| {
        if let Some(program) = exec::name_of(label).and_then(|name| programs.get(name)) {
            let line = exec_contestants::class_line(program);
            return vec![(format!("class.{label}"), line)];
        }
        let components = contestant::parse(label).unwrap_or_default();
        let line = |component: &Component| crate::transports::class_line(&component.class());
        let each = components
            .iter()
            .map(|one| (format!("class.{one}"), line(one)));
        let mut notes: Vec<(String, String)> = each.collect();
        // A second contestant of the same kind has its number in its label.
        if let [only] = &components[..] {
            notes.push((format!("class.{label}"), line(only)));
        }
        notes
    };
    contestants.iter().flat_map(class).collect()
}

/// The programs that run contestants, under the key `program.CONTESTANT`, and this one; none where
/// this program runs all. Fails when a program speaks no worker protocol, or another version of it.
pub(crate) fn programs(contestants: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let mut notes = BTreeMap::new();
    for label in contestants {
        if let Some(program) = contestant::program(label) {
            let name = loadgen::worker_program::identify(&program).map_err(CliError::failed)?;
            notes.insert(format!("program.{label}"), name);
        }
    }
    if !notes.is_empty() {
        notes.insert("program".into(), crate::own_build());
    }
    Ok(notes)
}

/// Asks the programs of contestants for transports that only they have. Fails when a program does not have one either.
pub(crate) fn learn_transports(contestants: &[String]) -> Result<(), CliError> {
    let named = contestants
        .iter()
        .filter(|text| exec::name_of(text).is_none());
    for component in named.flat_map(|text| contestant::without_number(text).split('+')) {
        let mut words = component.split(',');
        let name = words.next().unwrap_or_default();
        let program = words.find_map(|word| word.strip_prefix("program="));
        if let (Some(program), Err(_)) = (program, towpath::find(name)) {
            loadgen::worker_program::learn(Path::new(program), name).map_err(CliError::usage)?;
        }
    }
    Ok(())
}

/// All components of all contestants.
pub(crate) fn components_of(contestants: &[String]) -> Vec<Component> {
    let components = contestants
        .iter()
        .filter_map(|label| contestant::parse(label).ok());
    components.flatten().collect()
}

/// Refuses a sweep of buffers that a contestant overrides with its own.
pub(crate) fn check_buffers(swept: &[u64], contestants: &[String]) -> Result<(), CliError> {
    let has_own = |component: &&Component| own_buffers(component).is_some();
    match components_of(contestants).iter().find(has_own) {
        Some(component) if swept.len() > 1 => Err(CliError::usage(format!(
            "--buffers sweeps several sizes, and {component} sets its own; omit one of them"
        ))),
        _ => Ok(()),
    }
}

/// The socket buffer size that a component sets.
pub(crate) fn own_buffers(component: &Component) -> Option<usize> {
    let mut options = Options::default();
    component.apply(&mut options);
    options.buffers
}

/// The label of the baseline.
pub(crate) fn baseline(args: &RaceArgs, contestants: &[String]) -> Result<String, CliError> {
    let Some(asked) = &args.baseline else {
        return Ok(contestants[0].clone());
    };
    if contestants.contains(asked) {
        return Ok(asked.clone());
    }
    // In canonical order of its options.
    let components = contestant::parse(asked);
    let label = components.map_or(asked.clone(), |components| contestant::label(&components));
    if contestants.contains(&label) {
        return Ok(label);
    }
    Err(CliError::usage(format!(
        "the baseline '{asked}' does not take part; choose one of {}",
        contestants.join(" ")
    )))
}

/// The canonical label of a named contestant, whose components must be available on this host with `options`; None
/// where only other hosts run it, which say themselves what they have.
fn resolve_label(text: &str, options: Option<&Options>) -> Result<String, CliError> {
    let components = contestant::parse(text).map_err(CliError::usage)?;
    if let Some(options) = options {
        let mut each = components.iter();
        each.try_for_each(|component| check_available(component, options))?;
    }
    Ok(contestant::label(&components))
}

fn check_available(component: &Component, options: &Options) -> Result<(), CliError> {
    let mut options = options.clone();
    component.apply(&mut options);
    let available = component.transport().available(&options);
    available.map_err(|missing| {
        CliError::failed(format!(
            "{component} cannot be used: {}; {}",
            missing.reason, missing.remedy
        ))
    })
}
