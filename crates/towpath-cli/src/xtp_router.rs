//! What stands between the ends of XTP: `towpath xtp forwarder` and `towpath xtp relay`.

use crate::print::note;
use crate::xtp_common::{StopSignal, parse_transport, resolve};
use crate::{CliError, EXIT_OK};
use clap::Args;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use towpath::xtp::group::Relay;
use towpath::xtp::router::{self, Router};

/// An intermediate system.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Programs on both sides name it as their gateway; it passes on to the hosts it is told of and to no others.

Examples:
  towpath xtp forwarder 10.0.1.1:9000 --to 10.0.1.7:9000 --to 10.0.2.7:9000
  towpath xtp forwarder 10.0.1.1:9000 --to 10.0.1.7:9000 --to 10.0.9.7=10.0.2.1:9000 --rate 10mbit
  towpath forward --from xtp,dialect=3.6,gateway=10.0.2.1:9000 10.0.2.7:9000 --to localhost:22
  towpath forward 127.0.0.1:2222 --over xtp,dialect=3.6,gateway=10.0.1.1:9000 10.0.2.7:9000"
)]
pub struct RouterArgs {
    /// Where it listens.
    #[arg(value_name = "ADDR:PORT")]
    pub listen: String,
    /// A host that can be reached: its port, or the next forwarder on the way to it.
    #[arg(long, required = true, value_name = "HOST:PORT|HOST=ADDR:PORT")]
    pub to: Vec<String>,
    /// What all associations of a route together may send through it.
    #[arg(long)]
    pub rate: Option<String>,
}

/// A relay.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "It hears the group and repeats each packet to each host, and returns what they answer: to the sender
they are members like others, at addresses of the relay.

Examples:
  towpath xtp relay 239.1.2.3:5000 --to 10.0.9.7:5000 --to 10.0.9.8:5000
  towpath xtp relay 239.1.2.3:5000 --interface 10.0.1.1 --to there:5000"
)]
pub struct RelayArgs {
    /// The group.
    #[arg(value_name = "GROUP:PORT")]
    pub group: String,
    /// Where the group is heard: an address of that interface.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0")]
    pub interface: IpAddr,
    /// A host to which packets are repeated.
    #[arg(long, required = true, value_name = "HOST:PORT")]
    pub to: Vec<String>,
}

/// How often a forwarder looks whether to end.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Passes packets on by their routes until a signal.
///
/// # Errors
///
/// What the user must know.
pub fn run_router(args: &RouterArgs) -> Result<u8, CliError> {
    let next = args.to.iter().map(|text| parse_next_hop(text));
    let next = next.collect::<Result<BTreeMap<_, _>, _>>()?;
    let rate = match &args.rate {
        // Rates are read as those of endpoints are.
        Some(rate) => parse_transport(&format!("xtp,rate={rate}"))?.config.rate,
        None => None,
    };
    let listen = resolve(&args.listen)?;
    let hosts = next.len();
    let forwarder = Router::bind(
        listen,
        &router::UdpRouterConfig {
            next_hops: next,
            rate,
        },
    );
    let forwarder = forwarder.map_err(|error| bind_error(listen, &error))?;
    let stop = StopSignal::on_signals()?;
    note(format_args!(
        "forwarder at {} to {hosts} hosts; Ctrl-C ends it",
        forwarder.local_addr()
    ));
    while !stop.flag().load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::sleep(STOP_POLL_INTERVAL);
    }
    let counters = forwarder.counters();
    note(format_args!(
        "{} packets in, {} out, {} dropped; {} trails",
        counters.packets_parsed,
        counters.packets_built,
        counters.packets_discarded,
        forwarder.path_count()
    ));
    Ok(EXIT_OK)
}

/// The neighbour on the way to a host.
fn parse_next_hop(text: &str) -> Result<(IpAddr, SocketAddr), CliError> {
    let Some((host, by)) = text.split_once('=') else {
        let at = resolve(text)?;
        return Ok((at.ip(), at));
    };
    let host = host.parse().map_err(|_| {
        CliError::usage(format!(
            "'{host}' is no address; give --to HOST=ADDR:PORT, such as 10.0.9.7=10.0.2.1:9000"
        ))
    })?;
    Ok((host, resolve(by)?))
}

/// Repeats a group's packets until a signal.
///
/// # Errors
///
/// What the user must know.
pub fn run_relay(args: &RelayArgs) -> Result<u8, CliError> {
    let group = resolve(&args.group)?;
    let members = args.to.iter().map(|text| resolve(text));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    let relay = Relay::join(group, args.interface, &members);
    let mut relay = relay.map_err(|error| bind_error(group, &error))?;
    let stop = StopSignal::on_signals()?;
    note(format_args!(
        "relay of {group} at {} for {} hosts; Ctrl-C ends it",
        args.interface,
        members.len()
    ));
    relay.run(stop.flag()).map_err(CliError::failed)?;
    let relayed = relay.counters();
    note(format_args!(
        "{} packets repeated, {} answers returned, {} rejected, {} unsent",
        relayed.repeated, relayed.returned, relayed.rejected, relayed.unsent
    ));
    Ok(EXIT_OK)
}

fn bind_error(at: SocketAddr, error: &std::io::Error) -> CliError {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => CliError::usage(error.to_string()),
        _ => CliError::failed(format!("cannot begin at {at}: {error}")),
    }
}
