//! `towpath xtp forwarder`, an XTP router, and `towpath xtp relay`, a multicast relay.

use crate::print::note;
use crate::xtp_common::{StopSignal, parse_transport, resolve};
use crate::{CliError, EXIT_OK};
use clap::Args;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use towpath::xtp::group::Relay;
use towpath::xtp::router::{self, Router};

/// Options of the XTP router (XTP 3.6: intermediate system).
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Endpoints on both sides name the router as their gateway. It forwards only to the hosts of --to.

Examples:
  towpath xtp forwarder 10.0.1.1:9000 --to 10.0.1.7:9000 --to 10.0.2.7:9000
  towpath xtp forwarder 10.0.1.1:9000 --to 10.0.1.7:9000 --to 10.0.9.7=10.0.2.1:9000 --rate 10mbit
  towpath forward --from xtp,dialect=3.6,gateway=10.0.2.1:9000 10.0.2.7:9000 --to localhost:22
  towpath forward 127.0.0.1:2222 --over xtp,dialect=3.6,gateway=10.0.1.1:9000 10.0.2.7:9000"
)]
pub struct RouterArgs {
    /// Address to listen on.
    #[arg(value_name = "ADDR:PORT")]
    pub listen: String,
    /// A reachable host: its port, or the next router on the path to it.
    #[arg(long, required = true, value_name = "HOST:PORT|HOST=ADDR:PORT")]
    pub to: Vec<String>,
    /// Maximum rate of all associations of a route together.
    #[arg(long)]
    pub rate: Option<String>,
    /// Hosts that may ask for its routes and counters (`towpath xtp ask`); without it none.
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub managers: Vec<IpAddr>,
}

/// Options of the relay.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The relay joins the group, repeats each packet to each host, and returns their control
packets. To the sender the hosts are ordinary members with addresses of the relay.

Examples:
  towpath xtp relay 239.1.2.3:5000 --to 10.0.9.7:5000 --to 10.0.9.8:5000
  towpath xtp relay 239.1.2.3:5000 --interface 10.0.1.1 --to lab2:5000 --damping"
)]
pub struct RelayArgs {
    /// The multicast group.
    #[arg(value_name = "GROUP:PORT")]
    pub group: String,
    /// Interface on which to join the group, by an address of it.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0")]
    pub interface: IpAddr,
    /// A host to repeat packets to.
    #[arg(long, required = true, value_name = "HOST:PORT")]
    pub to: Vec<String>,
    /// Repeat receivers' answers to the hosts as well, which suppress their own: for groups with
    /// `damping=on`.
    #[arg(long)]
    pub damping: bool,
}

/// Interval at which the stop flag is polled.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the router until a signal.
pub fn run_router(args: &RouterArgs) -> Result<u8, CliError> {
    let next = args.to.iter().map(|text| parse_next_hop(text));
    let next = next.collect::<Result<BTreeMap<_, _>, _>>()?;
    let rate = match &args.rate {
        // The same syntax as the option `rate` of endpoints.
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
            managers: args.managers.clone(),
        },
    );
    let forwarder = forwarder.map_err(|error| bind_error(listen, &error))?;
    let stop = StopSignal::on_signals()?;
    note(format_args!(
        "router at {} for {hosts} hosts; Ctrl-C stops it",
        forwarder.local_addr()
    ));
    while !stop.flag().load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::sleep(STOP_POLL_INTERVAL);
        forwarder.check().map_err(CliError::failed)?;
    }
    let counters = forwarder.counters();
    note(format_args!(
        "{} packets in, {} out, {} dropped; {} paths",
        counters.packets_parsed,
        counters.packets_built,
        counters.packets_discarded,
        forwarder.path_count()
    ));
    Ok(EXIT_OK)
}

/// A host and the next hop to it.
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

/// Runs the relay until a signal.
pub fn run_relay(args: &RelayArgs) -> Result<u8, CliError> {
    let group = resolve(&args.group)?;
    let members = args.to.iter().map(|text| resolve(text));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    let relay = Relay::join(group, args.interface, &members);
    let mut relay = relay.map_err(|error| bind_error(group, &error))?;
    if args.damping {
        relay.enable_damping();
    }
    let stop = StopSignal::on_signals()?;
    note(format_args!(
        "relay of {group} at {} for {} hosts; Ctrl-C stops it",
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
        _ => CliError::failed(format!("cannot listen on {at}: {error}")),
    }
}
