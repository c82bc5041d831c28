//! The contestants of a race.

use crate::CliError;
use crate::args::RaceArgs;
use crate::print::note;
use crate::race::without_duplicates;
use measure::contestant::{self, Component};
use std::collections::BTreeMap;
use towpath::{Options, Reach};

/// Contestants of a race without arguments.
pub const DEFAULT_CONTESTANTS: [&str; 7] = [
    "tcp",
    "tcp-batched",
    "udp",
    "udp-segmented",
    "unix-stream",
    "quic",
    "bare",
];

/// The contestants. Named ones must be available; of the default ones and --all, unavailable ones
/// are left out with a note.
pub(crate) fn contestants(args: &RaceArgs, options: &Options) -> Result<Vec<String>, CliError> {
    if !args.transports.is_empty() {
        let label = |text: &String| resolve_label(text, options);
        let labels: Result<Vec<String>, CliError> = args.transports.iter().map(label).collect();
        return Ok(without_duplicates(&labels?));
    }
    let wanted: Vec<&str> = if args.all {
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
    let wanted: Vec<&str> = wanted.into_iter().filter(crosses).collect();
    let (here, missing) = crate::transports::split_available(&wanted, options);
    if !missing.is_empty() && !args.json {
        note(format_args!("unavailable: {}", missing.join("; ")));
    }
    if here.is_empty() {
        return Err(CliError::failed(
            "no transport is available here; see `towpath transports`",
        ));
    }
    Ok(here)
}

/// The class of each component under the key `class.COMPONENT`, so that results explain themselves.
pub(crate) fn classes(contestants: &[String]) -> BTreeMap<String, String> {
    let class = |component: &Component| {
        let class = crate::transports::class_line(&component.class());
        (format!("class.{component}"), class)
    };
    components_of(contestants).iter().map(class).collect()
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

/// The canonical label of a named contestant, whose components must be available.
fn resolve_label(text: &str, options: &Options) -> Result<String, CliError> {
    let components = contestant::parse(text).map_err(CliError::usage)?;
    for component in &components {
        let mut options = options.clone();
        component.apply(&mut options);
        component
            .transport()
            .available(&options)
            .map_err(|missing| {
                CliError::failed(format!(
                    "{component} cannot be used: {}; {}",
                    missing.reason, missing.remedy
                ))
            })?;
    }
    Ok(contestant::label(&components))
}
