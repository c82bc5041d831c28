//! `towpath testbed`: hosts that stay up until they are taken down, for the user's own programs.
//!
//! * [`holder`] - the process that owns a testbed; the testbed goes away with it.
//! * [`registry`] - the sockets of holders, and the removal of stale ones.

pub mod holder;
pub mod registry;

pub(crate) use registry::remove_stale_sockets;

use crate::args::OutputArgs;
use crate::print;
use crate::{CliError, EXIT_OK};
use clap::{Args, Subcommand};
use control::Channel;
use holder::{Description, HolderReply, HolderRequest};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use testbed::{Links, LinksError};

/// Subcommands of `towpath testbed`.
#[derive(Clone, Debug, Subcommand)]
pub enum TestbedCommand {
    /// Create hosts and a link between them, or several side by side.
    #[command(after_help = "Examples:
  towpath testbed up --link rate=10mbit,delay=20ms
  towpath testbed up --link rate=10mbit,delay=20ms+rate=50mbit
  towpath testbed up --hosts 4 --star --link loss=2%
  towpath testbed up --name lab --hosts 4 --link ether10")]
    Up(UpArgs),
    /// Run a program on a host.
    #[command(after_help = "Examples:
  towpath testbed exec a -- ping -c 3 10.77.0.2
  towpath testbed exec b -- iperf3 -s")]
    Exec(ExecArgs),
    /// List testbeds, their hosts and the counters of their links.
    #[command(after_help = "Examples:
  towpath testbed list")]
    List(OutputArgs),
    /// Take a testbed down.
    #[command(after_help = "Examples:
  towpath testbed down
  towpath testbed down --name lab")]
    Down(NameArgs),
    /// Hold a testbed; started by towpath itself.
    #[command(hide = true)]
    Hold(UpArgs),
}

/// The name of a testbed.
#[derive(Clone, Debug, Args)]
pub struct NameArgs {
    /// Name of the testbed.
    #[arg(long, default_value = "default", value_parser = registry::name)]
    pub name: String,
}

/// Options of a new testbed.
#[derive(Clone, Debug, Args)]
pub struct UpArgs {
    /// The testbed.
    #[command(flatten)]
    pub name: NameArgs,
    /// The link between the hosts, or links side by side, as for `towpath race`.
    #[arg(long, value_name = "LINK[+LINK]", default_value = "delay=0")]
    pub link: String,
    /// Number of hosts, named a, b, c ... z, aa, ab ... Hosts a, c, e ... are at one end of the link, b, d, f ... at
    /// the other (see --star); a shared Ethernet connects all.
    #[arg(long, default_value_t = 2, value_parser = crate::parse::whole::<2, 64, u32>)]
    pub hosts: u32,
    /// Put host a at one end of the link and all others at the other.
    #[arg(long)]
    pub star: bool,
    /// MTU of the link.
    #[arg(long, default_value_t = 1500)]
    pub mtu: u32,
    /// Assign IPv6 addresses too.
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Seed of the link's random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Options of a program to run.
#[derive(Clone, Debug, Args)]
pub struct ExecArgs {
    /// The testbed.
    #[command(flatten)]
    pub name: NameArgs,
    /// The host.
    pub host: String,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Timeout of a holder's reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the command.
pub fn run(command: &TestbedCommand) -> Result<u8, CliError> {
    match command {
        TestbedCommand::Up(args) => up(args),
        TestbedCommand::Exec(args) => exec(args),
        TestbedCommand::List(args) => list(args.json),
        TestbedCommand::Down(args) => down(&args.name),
        TestbedCommand::Hold(args) => holder::hold(args),
    }
}

fn up(args: &UpArgs) -> Result<u8, CliError> {
    args.link
        .parse::<Links>()
        .map_err(|error: LinksError| CliError::usage(error.to_string()))?;
    let name = &args.name.name;
    if registry::connect(name).is_ok() {
        return Err(CliError::failed(format!(
            "testbed '{name}' is already up; choose another --name, or take it down first"
        )));
    }
    let program = std::env::current_exe().map_err(CliError::failed)?;
    let mut child = Command::new(program);
    child
        .args(["testbed", "hold", "--name", name, "--link", &args.link])
        .args(["--hosts", &args.hosts.to_string()])
        .args(["--mtu", &args.mtu.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .args(args.ipv6.then_some("-6"))
        .args(args.star.then_some("--star"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0);
    let mut child = child.spawn().map_err(CliError::failed)?;
    let mut said = String::new();
    if let Some(out) = child.stdout.take() {
        // An empty line is reported below.
        let _ = BufReader::new(out).read_line(&mut said);
    }
    if said.trim() != holder::READY {
        let _ = child.wait();
        let why = said.trim();
        return Err(CliError::failed(if why.is_empty() {
            "the holder process of the testbed exited without a message"
        } else {
            why
        }));
    }
    print::line(describe(name, &request_description(name)?))?;
    Ok(EXIT_OK)
}

fn exec(args: &ExecArgs) -> Result<u8, CliError> {
    let ask = HolderRequest::Enter(args.host.clone());
    let (answer, descriptors) = registry::request(&args.name.name, &ask, REPLY_TIMEOUT)?;
    match answer {
        HolderReply::Entered { own_users } => enter_namespaces(own_users, descriptors)?,
        other => return Err(reply_error(&other)),
    }
    let error = Command::new(&args.command[0])
        .args(&args.command[1..])
        .exec();
    Err(CliError::failed(format!(
        "cannot start {}: {error}",
        args.command[0]
    )))
}

/// Enters the namespaces that a holder sent: its user namespace if it has one, then the host's.
fn enter_namespaces(own_users: bool, descriptors: Vec<OwnedFd>) -> Result<(), CliError> {
    let fault = |error| CliError::failed(format!("cannot enter the host: {error}"));
    let mut descriptors = descriptors.into_iter();
    if own_users {
        let users = descriptors.next();
        let users = users.ok_or_else(|| CliError::failed("the holder sent no user namespace"))?;
        move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User)).map_err(fault)?;
    }
    let network = descriptors.next();
    let network =
        network.ok_or_else(|| CliError::failed("the holder sent no network namespace"))?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).map_err(fault)
}

fn list(as_json: bool) -> Result<u8, CliError> {
    let names = registry::names()?;
    let described: Vec<(String, Description)> = names
        .into_iter()
        .filter_map(|name| {
            let description = request_description(&name).ok()?;
            Some((name, description))
        })
        .collect();
    if as_json {
        print::json(&described)?;
        return Ok(EXIT_OK);
    }
    if described.is_empty() {
        print::line("no testbed is up; make one with `towpath testbed up`")?;
    }
    for (name, description) in &described {
        print::line(describe(name, description))?;
    }
    Ok(EXIT_OK)
}

fn request_description(name: &str) -> Result<Description, CliError> {
    match registry::request(name, &HolderRequest::Describe, REPLY_TIMEOUT)?.0 {
        HolderReply::Described(description) => Ok(description),
        other => Err(reply_error(&other)),
    }
}

fn describe(name: &str, description: &Description) -> String {
    let mut text = format!("{name}: link {}, {}", description.link, description.frames);
    for host in &description.hosts {
        text.push_str(&format!("\n  {} {}", host.name, host.addresses.join(" ")));
    }
    for (way, counts) in &description.counts {
        text.push_str(&format!(
            "\n  {way}: {} frames, {} lost, {} dropped, {} B delivered",
            counts.offered, counts.lost, counts.dropped, counts.delivered_bytes
        ));
    }
    text
}

fn down(name: &str) -> Result<u8, CliError> {
    match registry::request(name, &HolderRequest::Down, REPLY_TIMEOUT)?.0 {
        HolderReply::Down => Ok(EXIT_OK),
        other => Err(reply_error(&other)),
    }
}

fn reply_error(answer: &HolderReply) -> CliError {
    match answer {
        HolderReply::Refused(why) => CliError::failed(why),
        other => CliError::failed(format!("unexpected reply of the holder: {other:?}")),
    }
}

/// A channel to a holder.
pub(crate) fn channel(socket: OwnedFd) -> Channel {
    Channel::new(socket)
}
