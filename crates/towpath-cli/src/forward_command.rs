//! `towpath forward`: a tunnel for TCP connections over XTP.

use crate::print::note;
use crate::xtp_common::{
    StopSignal, check_trace, enable_trace, note_module_counts, parse_tunnel_transport, resolve,
    serve_contexts,
};
use crate::{CliError, EXIT_OK};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use towpath::tunnel::{CONNECTIONS_MAX, Tunnel};
use towpath::xtp::EndpointConfig;

/// One end of the tunnel.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Run it on both ends. The local end accepts TCP connections and carries each over an XTP
association; the remote end opens a TCP connection for each. Nothing is encrypted, unless push=seal
is on both ends; modules are the same words there as in a race.

Examples:
  towpath forward --from xtp 0.0.0.0:9000 --to localhost:22      at the remote end
  towpath forward 127.0.0.1:2222 --over xtp remote:9000          at the local end
  ssh -p 2222 localhost
  towpath forward 127.0.0.1:2222 --over xtp,sort=9 remote:9000 --sorted 127.0.0.1:2223=1
                                                                 what comes by 2223 is served first

  towpath forward --from xtp,congestion=newreno 0.0.0.0:9000 --to 127.0.0.1:80
  towpath forward 127.0.0.1:8080 --over xtp,congestion=newreno remote:9000
  curl http://127.0.0.1:8080/

  head -c 32 /dev/urandom > key                                  the same file on both ends
  towpath forward --from xtp,push=compress/seal,seal-key=key 0.0.0.0:9000 --to 127.0.0.1:80
  towpath forward 127.0.0.1:8080 --over xtp,push=compress/seal,seal-key=key remote:9000"
)]
pub struct ForwardArgs {
    /// Local end: the address that TCP clients connect to, ADDR:PORT.
    #[arg(
        value_name = "LISTEN",
        required_unless_present = "from",
        conflicts_with = "from",
        requires = "peer"
    )]
    pub listen: Option<String>,
    /// Local end: the address of the remote end.
    #[arg(value_name = "HOST:PORT", requires = "over")]
    pub peer: Option<String>,
    /// Local end: the transport, optionally with options; only xtp.
    #[arg(long, value_name = "xtp[,KEY=VALUE...]")]
    pub over: Option<String>,
    /// Local end: also accept connections there, as associations of the same endpoint with this priority; the
    /// lowest is served first, those without one last.
    #[arg(
        long,
        value_name = "ADDR:PORT=COUNT",
        conflicts_with = "from",
        requires = "over",
        value_delimiter = ',',
        value_parser = parse_sorted
    )]
    pub sorted: Vec<(String, u16)>,
    /// Remote end: the transport, and the address to listen on.
    #[arg(long, num_args = 2, value_names = ["xtp[,KEY=VALUE...]", "ADDR:PORT"], requires = "to")]
    pub from: Option<Vec<String>>,
    /// Remote end: the TCP server to connect to.
    #[arg(long, value_name = "HOST:PORT", requires = "from")]
    pub to: Option<String>,
    /// Maximum concurrent connections; further ones wait.
    #[arg(long, default_value_t = CONNECTIONS_MAX as u32, value_parser = crate::parse::whole::<1, 100_000, u32>)]
    pub connections: u32,
    /// Maximum concurrent connections of one client or peer (of a /64 over IPv6); further ones are
    /// reset.
    #[arg(long, value_name = "CONNECTIONS", value_parser = crate::parse::whole::<1, 100_000, u32>)]
    pub per_peer: Option<u32>,
    /// Remote end: connect to the server before it is known that the peer's address is not forged.
    #[arg(long, requires = "from")]
    pub early: bool,
    /// Reset connections over which nothing came or went for this long.
    #[arg(long, value_name = "TIME", value_parser = crate::parse::time)]
    pub idle: Option<Duration>,
    /// Write a packet trace of XTP, one line per packet.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

impl ForwardArgs {
    /// The transport and its options.
    fn transport(&self) -> &str {
        let from = self.from.as_ref().and_then(|words| words.first());
        from.or(self.over.as_ref()).map_or("", String::as_str)
    }
}

/// An address and a priority, `ADDR:PORT=COUNT`.
fn parse_sorted(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once('=');
    let parts = parts.and_then(|(address, sort)| Some((address.to_owned(), sort.parse().ok()?)));
    parts.ok_or_else(|| {
        format!(
            "'{text}' is no address with a priority; give ADDR:PORT=COUNT, COUNT from 0 to 65535"
        )
    })
}

/// Forwards connections until a signal.
pub fn run(args: &ForwardArgs) -> Result<u8, CliError> {
    let (mut settings, modules) = parse_tunnel_transport(args.transport())?;
    settings.config.early_accept |= args.early;
    enable_trace(&mut settings, args.trace.as_deref())?;
    let mut forwarder = open_tunnel(args, &settings)?;
    serve_contexts(forwarder.endpoint());
    forwarder.set_connections_max(args.connections as usize);
    forwarder.set_per_peer_max(args.per_peer.map(|count| count as usize));
    forwarder.set_idle_timeout(args.idle);
    forwarder.set_modules(modules);
    forwarder.set_log(|line| note(format_args!("{line}")));
    let stop = StopSignal::on_signals()?;
    forwarder.run(stop.flag()).map_err(CliError::failed)?;
    let counts = forwarder.counts();
    note(format_args!(
        "{} connections: {} closed, {} failed; {} bytes from TCP to XTP, {} from XTP to TCP",
        counts.opened, counts.ended, counts.broken, counts.sent_bytes, counts.received_bytes
    ));
    note_module_counts(&forwarder.module_counts());
    check_trace(&settings).map(|()| EXIT_OK)
}

fn open_tunnel(args: &ForwardArgs, settings: &EndpointConfig) -> Result<Tunnel, CliError> {
    let words = |text: &Option<String>| text.clone().unwrap_or_default();
    match args.from.as_deref() {
        Some([_, listen]) => {
            let (listen, target) = (resolve(listen)?, resolve(&words(&args.to))?);
            let made = Tunnel::from_xtp(listen, target, settings);
            let forwarder = made.map_err(|error| listen_error(listen, &error))?;
            let at = forwarder.local_addr().map_err(CliError::failed)?;
            note(format_args!(
                "forwarding from xtp at {at} to TCP at {target}; Ctrl-C stops it"
            ));
            Ok(forwarder)
        }
        _ => {
            let (listen, peer) = (resolve(&words(&args.listen))?, resolve(&words(&args.peer))?);
            let made = Tunnel::to_xtp(listen, peer, settings);
            let mut forwarder = made.map_err(|error| listen_error(listen, &error))?;
            let at = forwarder.local_addr().map_err(CliError::failed)?;
            for (address, sort) in &args.sorted {
                let more = resolve(address)?;
                let added = forwarder.add_entrance(more, *sort);
                let at = added.map_err(|error| listen_error(more, &error))?;
                note(format_args!("connections at {at} have priority {sort}"));
            }
            note(format_args!(
                "forwarding from TCP at {at} over xtp to {peer}; Ctrl-C stops it"
            ));
            Ok(forwarder)
        }
    }
}

fn listen_error(listen: SocketAddr, error: &std::io::Error) -> CliError {
    CliError::failed(format!(
        "cannot listen on {listen}: {error}; choose another address or port"
    ))
}
