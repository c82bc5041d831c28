//! `towpath race --fan-out`: one sender and several receivers.

use crate::CliError;
use crate::args::RaceArgs;
use crate::contestants::components_of;
use clap::Args;
use control::Workload;
use loadgen::contestant::Component;
use measure::spec::{FanOut, FanOutChoice};

/// Options of several receivers.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Several receivers")]
pub struct FanOutArgs {
    /// One sender and N receivers, each in a process of its own, with --link on a host of its own, with --to on
    /// the agents named there: each message goes to all, and the rate is that of the slowest receiver; for delay the
    /// time until all have it, by an answer of each or the acknowledgements of a group. N@one: each message goes to
    /// one receiver that has room, and the rate is the sum. Several numbers are cells of their own.
    #[arg(long, value_name = "N or N@one[,...]", value_delimiter = ',')]
    pub fan_out: Vec<FanOut>,
}

impl FanOutArgs {
    /// The most receivers; None for one alone.
    pub(crate) fn most(&self) -> Option<u32> {
        self.fan_out.iter().map(|one| one.receivers).max()
    }

    /// Whether receivers share messages out.
    fn share_out(&self) -> bool {
        let mut all = self.fan_out.iter();
        all.any(|one| one.choice == FanOutChoice::One)
    }
}

/// Refuses what one sender and several receivers cannot do. The error names the option and the remedy.
pub(crate) fn check(args: &RaceArgs) -> Result<(), CliError> {
    let Some(most) = args.receivers.most() else {
        return Ok(());
    };
    let shares = args.receivers.share_out();
    check_workloads(args, shares)?;
    let environment = &args.environment;
    let without = [
        ("--reverse", args.reverse),
        ("--bidir", args.bidir),
        ("--circuits", args.circuits != [1]),
        ("--from", !args.remote.from.is_empty()),
        ("--together", args.remote.together),
        ("--link-load", environment.link_load.is_some()),
    ];
    if let Some((option, _)) = without.iter().find(|(_, given)| *given) {
        return Err(CliError::usage(format!(
            "--fan-out has one sender here and one circuit to each receiver; omit {option}, or --fan-out"
        )));
    }
    if environment
        .link
        .iter()
        .any(|(_, links)| links.are_several())
    {
        return Err(CliError::usage(
            "--fan-out has all receivers on one link; give --link without +, or omit --fan-out",
        ));
    }
    let agents = args.remote.to.len();
    if agents > 0 && agents != most as usize {
        return Err(CliError::usage(format!(
            "--fan-out has {most} receivers, and --to names {agents} agents; give one for each"
        )));
    }
    check_contestants(args, shares)
}

/// Refuses workloads in which nothing goes to several receivers.
fn check_workloads(args: &RaceArgs, shares: bool) -> Result<(), CliError> {
    let fits = |workload: &Workload| match workload {
        Workload::Throughput => true,
        Workload::Delay => !shares,
        _ => false,
    };
    if args.workload.iter().all(fits) {
        return Ok(());
    }
    let text = match shares {
        true => "--fan-out N@one is for workload throughput alone; add -w throughput, or give N",
        false => {
            "--fan-out is for workloads throughput and delay; add -w throughput,delay, or omit --fan-out"
        }
    };
    Err(CliError::usage(text))
}

/// Refuses contestants that have one receiver, or say themselves how many.
fn check_contestants(args: &RaceArgs, shares: bool) -> Result<(), CliError> {
    let single = |text: &&String| text.contains('+') || measure::exec::name_of(text).is_some();
    if let Some(text) = args.transports.iter().find(single) {
        return Err(CliError::usage(format!(
            "{text}: --fan-out is for single transports of this program; leave it out, or omit --fan-out"
        )));
    }
    for component in components_of(&args.transports) {
        let refused = |why: &str| Err(CliError::usage(format!("{component}: {why}")));
        if component.program().is_some() {
            return refused("with --fan-out this program runs all workers; omit program=");
        }
        if !component.transport().is_one_to_many() {
            continue;
        }
        let text = component.to_string();
        let is_said = |word: &str| {
            ["receivers=", "group=", "replicate="]
                .iter()
                .any(|name| word.starts_with(name))
        };
        if text.split(',').any(is_said) {
            return refused(
                "--fan-out says which receivers its group has; leave out receivers, group and replicate",
            );
        }
        if args.workload.contains(&Workload::Delay)
            && let Err(why) = Component::parse(&format!("{text},acknowledged=on"))
        {
            return refused(&format!("for delay its sender waits for all: {why}"));
        }
        if shares {
            return refused(
                "a group gets each message; leave it out, or give --fan-out without @one",
            );
        }
    }
    Ok(())
}
