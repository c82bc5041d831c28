//! `towpath channel`: channels of shared memory whose other end is on another host, and what it costs to hand
//! messages on (`channel_costs`).

use crate::channel_costs::{self, DisseminateArgs, ForwardArgs, RemapArgs, StageArgs};
use crate::print::note;
use crate::xtp_common::{StopSignal, resolve};
use crate::{CliError, EXIT_OK};
use clap::{Args, Subcommand};
use loadgen::contestant::Component;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use towpath::channel::{Geometry, RING_OCTETS_MAX, SLOT_LEN_MIN};
use towpath::channel_proxy::{CHANNELS_MAX, ChannelProxy};
use towpath::{Family, Options, Transport};

/// Commands on channels.
#[derive(Clone, Debug, Subcommand)]
pub enum ChannelCommand {
    /// Carry channels to a program on another host, which receives them as if from this one.
    Proxy(ProxyArgs),
    /// Measure messages forwarded by a process in the middle, with 0, 2 and 4 copies.
    Forward(ForwardArgs),
    /// Measure messages whose pages the receiver remaps against messages that it copies.
    Remap(RemapArgs),
    /// Measure messages that each of several processes gets: by one arena, by a ring each, by sockets.
    Disseminate(DisseminateArgs),
    /// Another process of these measurements; started by towpath itself.
    #[command(hide = true)]
    Stage(StageArgs),
}

/// One end of a proxy.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Run it on both hosts. A program connects to the Unix socket of the near end and opens a channel
(crate channel, ChannelSender::open); the far end connects to the Unix socket of the receiving
program, which accepts it (ChannelReceiver::accept). Nothing is encrypted by xtp-message.

Examples:
  towpath channel proxy --from xtp-message 10.0.0.2:9100 --to /run/prices.sock   at the far end
  towpath channel proxy /run/prices.sock --over xtp-message 10.0.0.2:9100        at the near end"
)]
pub struct ProxyArgs {
    /// Near end: the Unix socket that programs connect to.
    #[arg(
        value_name = "PATH",
        required_unless_present = "from",
        conflicts_with = "from",
        requires = "over"
    )]
    pub path: Option<PathBuf>,
    /// Near end: the transport, and the address of the far end.
    #[arg(long, num_args = 2, value_names = ["TRANSPORT[,KEY=VALUE...]", "HOST:PORT"])]
    pub over: Option<Vec<String>>,
    /// Far end: the transport, and the address to listen on.
    #[arg(long, num_args = 2, value_names = ["TRANSPORT[,KEY=VALUE...]", "ADDR:PORT"], requires = "to", conflicts_with = "over")]
    pub from: Option<Vec<String>>,
    /// Far end: the Unix socket at which the receiving program listens.
    #[arg(long, value_name = "PATH", requires = "from")]
    pub to: Option<PathBuf>,
    /// Far end: octets of a channel's ring, rounded up to a power of two.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ring_size, requires = "from")]
    pub ring: u64,
    /// Far end: the only address whose packets are accepted.
    #[arg(long, value_name = "ADDR", requires = "from")]
    pub only_from: Option<IpAddr>,
    /// Maximum concurrent channels; further ones wait.
    #[arg(long, default_value_t = CHANNELS_MAX as u32, value_parser = crate::parse::whole::<1, 10_000, u32>)]
    pub channels: u32,
}

/// Runs the command.
pub fn run(command: &ChannelCommand) -> Result<u8, CliError> {
    match command {
        ChannelCommand::Proxy(args) => run_proxy(args),
        ChannelCommand::Forward(args) => channel_costs::run_forward(args),
        ChannelCommand::Remap(args) => channel_costs::run_remap(args),
        ChannelCommand::Disseminate(args) => channel_costs::run_disseminate(args),
        ChannelCommand::Stage(args) => channel_costs::run_stage(args),
    }
}

fn run_proxy(args: &ProxyArgs) -> Result<u8, CliError> {
    let stop = StopSignal::on_signals()?;
    let mut proxy = open(args)?;
    proxy.set_channels_max(args.channels as usize);
    proxy.set_log(|line| note(format_args!("{line}")));
    proxy.run(stop.flag()).map_err(CliError::failed)?;
    let counts = proxy.counts();
    note(format_args!(
        "{} channels closed with {} messages, {} broken",
        counts.closed, counts.messages, counts.broken
    ));
    Ok(EXIT_OK)
}

fn open(args: &ProxyArgs) -> Result<ChannelProxy, CliError> {
    match (&args.from, &args.to, &args.path, &args.over) {
        (Some(from), Some(program), _, _) => open_far(args, from, program),
        (_, _, Some(path), Some(over)) => open_near(path, over),
        _ => Err(CliError::usage(
            "give PATH with --over for the near end, or --from with --to for the far end; see --help",
        )),
    }
}

fn open_far(args: &ProxyArgs, from: &[String], program: &Path) -> Result<ChannelProxy, CliError> {
    let (carrier, listen) = carrier(from)?;
    let (transport, mut options) = carrier;
    options.only_from = args.only_from;
    let slots = args.ring.next_power_of_two() / u64::from(SLOT_LEN_MIN);
    let slots = u32::try_from(slots).map_err(CliError::failed)?;
    let geometry = Geometry::new(SLOT_LEN_MIN, slots).map_err(CliError::failed)?;
    let proxy = ChannelProxy::far(listen, (transport, options), program, geometry);
    let proxy = proxy.map_err(|error| refused(&error, &format!("cannot listen on {listen}")))?;
    let at = proxy.local_addr().map_err(CliError::failed)?;
    note(format_args!(
        "carrying channels from {} at {} to {}; Ctrl-C stops it",
        transport.name(),
        at.unwrap_or(listen),
        program.display()
    ));
    Ok(proxy)
}

fn open_near(path: &Path, over: &[String]) -> Result<ChannelProxy, CliError> {
    let ((transport, options), far) = carrier(over)?;
    let proxy = ChannelProxy::near(path, (transport, options), far);
    let proxy = proxy.map_err(|error| refused(&error, "cannot start"))?;
    note(format_args!(
        "carrying channels at {} over {} to {far}; Ctrl-C stops it",
        path.display(),
        transport.name()
    ));
    Ok(proxy)
}

/// A transport and its options.
type Carrier = (&'static dyn Transport, Options);

/// The transport and the address of `words`.
fn carrier(words: &[String]) -> Result<(Carrier, std::net::SocketAddr), CliError> {
    let [transport, address] = words else {
        return Err(CliError::usage("give a transport and an address"));
    };
    let component = Component::parse(transport).map_err(CliError::usage)?;
    if component.program().is_some() {
        return Err(CliError::usage(
            "program=PATH belongs to races; leave it out",
        ));
    }
    let address = resolve(address)?;
    let family = if address.is_ipv6() {
        Family::V6
    } else {
        Family::V4
    };
    let mut options = Options {
        family,
        ..Options::default()
    };
    component.apply(&mut options);
    Ok(((component.transport(), options), address))
}

/// A transport that does not fit is a wrong argument, all else a failure.
fn refused(error: &io::Error, action: &str) -> CliError {
    match error.kind() {
        io::ErrorKind::InvalidInput => CliError::usage(error.to_string()),
        _ => CliError::failed(format!("{action}: {error}")),
    }
}

/// Octets of a ring within the limits of a channel.
fn ring_size(text: &str) -> Result<u64, String> {
    let size = crate::parse::size(text)?;
    match (u64::from(SLOT_LEN_MIN)..=RING_OCTETS_MAX).contains(&size) {
        true => Ok(size),
        false => Err(format!(
            "a ring of '{text}' is out of range, from 64 B to 256 MiB"
        )),
    }
}
