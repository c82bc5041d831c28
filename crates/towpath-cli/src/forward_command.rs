//! `towpath forward`: any TCP program through XTP.

use crate::print::note;
use crate::xtp_common::{
    StopSignal, check_trace, enable_trace, parse_transport, resolve, serve_contexts,
};
use crate::{CliError, EXIT_OK};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use towpath::tunnel::{CONNECTIONS_MAX, Tunnel};
use towpath::xtp::EndpointConfig;

/// Which end of a path this is.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A forwarder stands at each end. The near one takes TCP connections and carries each through an
association of XTP; the far one opens a TCP connection for each. Nothing is encrypted.

Examples:
  towpath forward --from xtp 0.0.0.0:9000 --to localhost:22      at the far end
  towpath forward 127.0.0.1:2222 --over xtp far:9000             at the near end
  ssh -p 2222 localhost

  towpath forward --from xtp,congestion=loss 0.0.0.0:9000 --to 127.0.0.1:80
  towpath forward 127.0.0.1:8080 --over xtp,congestion=loss far:9000
  curl http://127.0.0.1:8080/"
)]
pub struct ForwardArgs {
    /// Near end: where TCP programs connect, ADDR:PORT.
    #[arg(
        value_name = "LISTEN",
        required_unless_present = "from",
        conflicts_with = "from",
        requires = "peer"
    )]
    pub listen: Option<String>,
    /// Near end: where the far end listens.
    #[arg(value_name = "HOST:PORT", requires = "over")]
    pub peer: Option<String>,
    /// Near end: the transport, with options of its own; xtp is the one there is.
    #[arg(long, value_name = "xtp[,KEY=VALUE...]")]
    pub over: Option<String>,
    /// Far end: the transport and where it listens.
    #[arg(long, num_args = 2, value_names = ["xtp[,KEY=VALUE...]", "ADDR:PORT"], requires = "to")]
    pub from: Option<Vec<String>>,
    /// Far end: where connections go.
    #[arg(long, value_name = "HOST:PORT", requires = "from")]
    pub to: Option<String>,
    /// Connections at once; those beyond wait.
    #[arg(long, default_value_t = CONNECTIONS_MAX as u32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// Write down XTP's packets, a line each.
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

/// Carries connections until a signal.
///
/// # Errors
///
/// What the user must know.
pub fn run(args: &ForwardArgs) -> Result<u8, CliError> {
    let mut settings = parse_transport(args.transport())?;
    enable_trace(&mut settings, args.trace.as_deref())?;
    let mut forwarder = open_tunnel(args, &settings)?;
    serve_contexts(forwarder.endpoint());
    forwarder.set_connections_max(args.connections as usize);
    let stop = StopSignal::on_signals()?;
    forwarder.run(stop.flag()).map_err(CliError::failed)?;
    let counts = forwarder.counts();
    note(format_args!(
        "{} connections: {} ended, {} broken; {} bytes from TCP to XTP, {} back",
        counts.opened, counts.ended, counts.broken, counts.sent_bytes, counts.received_bytes
    ));
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
                "from xtp at {at} to TCP at {target}; Ctrl-C ends it"
            ));
            Ok(forwarder)
        }
        _ => {
            let (listen, peer) = (resolve(&words(&args.listen))?, resolve(&words(&args.peer))?);
            let made = Tunnel::to_xtp(listen, peer, settings);
            let forwarder = made.map_err(|error| listen_error(listen, &error))?;
            let at = forwarder.local_addr().map_err(CliError::failed)?;
            note(format_args!(
                "from TCP at {at} over xtp to {peer}; Ctrl-C ends it"
            ));
            Ok(forwarder)
        }
    }
}

fn listen_error(listen: SocketAddr, error: &std::io::Error) -> CliError {
    CliError::failed(format!(
        "cannot listen at {listen}: {error}; choose another address or port"
    ))
}
