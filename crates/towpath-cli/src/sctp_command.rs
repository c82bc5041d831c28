//! `towpath sctp`: endpoints of SCTP that echo, discard or send messages; `contexts` is in `sctp_contexts`.

use crate::print::{line, note};
use crate::xtp_common::StopSignal;
use crate::{CliError, EXIT_OK};
use clap::{Args, Subcommand};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use towpath::sctp::contexts::path_state;
use towpath::sctp::{AddressChange, Association, Endpoint, EndpointConfig, MessageInfo, Notice};

/// The UDP port of SCTP (RFC 6951 section 5.1).
const PORT: u16 = 9899;

/// Associations that `echo` and `discard` serve at a time, a thread each.
const ASSOCIATIONS_MAX: usize = 256;

/// How often a waiting loop looks for a signal.
const TICK: Duration = Duration::from_millis(200);

/// How often `send` reads what came back while it waits, and after how many messages while it does not.
const ECHO_TICK: Duration = Duration::from_millis(10);
const ECHO_EVERY: u64 = 64;

/// How long `echo` and `discard` wait for the end of an association.
const PEER_LIMIT: Duration = Duration::from_secs(20);

/// The longest message that is sent: half the send buffer that `send` asks for.
const SIZE_MAX: u64 = 1 << 20;

/// Subcommands of `towpath sctp`.
#[derive(Clone, Debug, Subcommand)]
pub enum SctpCommand {
    /// Send every message back, on its stream.
    #[command(after_help = "Examples:
  towpath sctp echo 127.0.0.1
  towpath sctp echo 10.77.0.2,10.78.0.2 --options heartbeat=1s")]
    Echo(ServeArgs),
    /// Receive messages and drop them.
    #[command(after_help = "Examples:
  towpath sctp discard 0.0.0.0
  towpath sctp discard 10.77.0.2,10.78.0.2 --trace packets.txt")]
    Discard(ServeArgs),
    /// Send messages, and say how fast and by which paths.
    #[command(
        after_help = "An address is IP or IP:PORT; the port is 9899 if not given, and the same at all addresses.

Examples:
  towpath sctp discard 10.77.0.2,10.78.0.2                    a host with two addresses
  towpath sctp send 10.77.0.2,10.78.0.2 --from 10.77.0.1,10.78.0.1
  towpath sctp send 127.0.0.1 --size 64 --count 1000000 --streams 8
  towpath sctp send 10.77.0.2 --options rto_min=50ms,congestion=bbr --trace packets.txt"
    )]
    Send(SendArgs),
    /// Show the associations and paths of live endpoints.
    #[command(after_help = crate::sctp_contexts::CONTEXTS_HELP)]
    Contexts(crate::live_endpoints::LiveArgs),
}

/// Options of all.
#[derive(Clone, Debug, Args)]
pub struct EndpointArgs {
    /// Options of the transport sctp, see `towpath transports`.
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub options: Option<String>,
    /// Write a packet trace, one line per packet.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Options of `echo` and `discard`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// The addresses to listen at.
    #[arg(value_name = "ADDR,...")]
    pub at: String,
    /// Options of the transport, and its trace.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

/// Options of `send`.
#[derive(Clone, Debug, Args)]
pub struct SendArgs {
    /// The addresses of the peer.
    #[arg(value_name = "ADDR,...")]
    pub to: String,
    /// The own addresses; any if not given.
    #[arg(long, value_name = "IP,...")]
    pub from: Option<String>,
    /// Bytes of a message.
    #[arg(long, default_value = "1KiB", value_parser = crate::parse::size)]
    pub size: u64,
    /// Messages.
    #[arg(long, default_value_t = 10_000, value_parser = crate::parse::whole::<1, 1_000_000_000_000, u64>)]
    pub count: u64,
    /// Streams, which messages take in turn.
    #[arg(long, default_value_t = 1, value_parser = crate::parse::whole::<1, 65_535, u16>)]
    pub streams: u16,
    /// Messages may overtake each other.
    #[arg(long)]
    pub unordered: bool,
    /// How long to wait for an answer, in the handshake and at the end.
    #[arg(long, default_value = "20s", value_name = "TIME", value_parser = crate::parse::time)]
    pub wait: Duration,
    /// Options of the transport, and its trace.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

/// Runs the command.
pub fn run(command: &SctpCommand) -> Result<u8, CliError> {
    match command {
        SctpCommand::Echo(args) => serve(args, true),
        SctpCommand::Discard(args) => serve(args, false),
        SctpCommand::Send(args) => send(args),
        SctpCommand::Contexts(args) => crate::sctp_contexts::ENDPOINTS.run(args),
    }
}

/// The addresses of a list, with `port` where they name none.
fn addresses(text: &str, port: u16) -> Result<Vec<SocketAddr>, CliError> {
    let parse = |word: &str| {
        let ip = word.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
        ip.or_else(|_| word.parse::<SocketAddr>()).map_err(|_| {
            CliError::usage(format!(
                "'{word}' is no address; give IP or IP:PORT, several with commas between"
            ))
        })
    };
    text.split(',').map(parse).collect()
}

fn open(args: &EndpointArgs, local: &[SocketAddr], streams: u16) -> Result<Endpoint, CliError> {
    let mut own = BTreeMap::new();
    for word in args.options.iter().flat_map(|text| text.split(',')) {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| CliError::usage(format!("'{word}' is no option; write KEY=VALUE")))?;
        own.insert(key.to_owned(), value.to_owned());
    }
    let config = EndpointConfig {
        send_buffer_len: 2 * SIZE_MAX as usize,
        ..EndpointConfig::default()
    };
    let mut config = config.with_options(&own).map_err(CliError::usage)?;
    config.config.outbound_streams = config.config.outbound_streams.max(streams);
    config.config.inbound_streams = u16::MAX;
    if let Some(path) = &args.trace {
        enable_trace(path)?;
    }
    let endpoint = Endpoint::bind(local, &config).map_err(|error| {
        let text = format!("cannot bind {}: {error}; choose another", list(local));
        match error.kind() {
            io::ErrorKind::InvalidInput => CliError::usage(text),
            _ => CliError::failed(text),
        }
    })?;
    if let Err(error) = endpoint.serve_contexts() {
        note(format_args!(
            "towpath: contexts are not shown to `towpath sctp contexts`: {error}"
        ));
    }
    Ok(endpoint)
}

fn enable_trace(path: &Path) -> Result<(), CliError> {
    if path.exists() {
        let text = format!("{} exists; name another file", path.display());
        return Err(CliError::usage(text));
    }
    towpath::xtp::tracing::trace_all(path);
    Ok(())
}

fn list(addresses: &[SocketAddr]) -> String {
    let words: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    words.join(",")
}

/// Serves associations until a signal.
fn serve(args: &ServeArgs, echoes: bool) -> Result<u8, CliError> {
    let endpoint = open(&args.endpoint, &addresses(&args.at, PORT)?, 1)?;
    endpoint.listen(true);
    let what = if echoes { "echoing" } else { "discarding" };
    let at = list(&endpoint.local_addrs());
    let stop = StopSignal::on_signals()?;
    note(format_args!("{what} at {at}; Ctrl-C stops it"));
    let (stop, served) = (stop.flag(), &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let association = match endpoint.accept(TICK) {
                Ok(association) => association,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => continue,
                Err(error) => return Err(CliError::failed(error)),
            };
            if served.fetch_add(1, Ordering::Relaxed) >= ASSOCIATIONS_MAX {
                served.fetch_sub(1, Ordering::Relaxed);
                note(format_args!(
                    "{} refused: {ASSOCIATIONS_MAX} associations are served already",
                    association.peer()
                ));
                let _ = association.abort();
                continue;
            }
            scope.spawn(move || {
                serve_one(association, echoes, stop);
                served.fetch_sub(1, Ordering::Relaxed);
            });
        }
        Ok(EXIT_OK)
    })
}

/// Whether nothing happened within a tick. An association whose peer is silent for too long ends with
/// the same error.
fn is_silence(association: &Association, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && association.status().is_open
}

/// Serves one association to its end.
fn serve_one(mut association: Association, echoes: bool, stop: &AtomicBool) {
    let peer = association.peer();
    note(format_args!("{peer} opened an association"));
    let (mut messages, mut bytes) = (0u64, 0u64);
    let served = loop_messages(&mut association, stop, |association, message, end, info| {
        messages += u64::from(end);
        bytes += message.len() as u64;
        if echoes {
            echo(association, message, info, stop)?;
        }
        Ok(())
    });
    tell_notices(&association);
    let ended = served.and_then(|()| association.shutdown(PEER_LIMIT));
    match ended {
        Ok(()) => note(format_args!(
            "{peer} ended: {messages} messages, {bytes} bytes"
        )),
        Err(error) => note(format_args!(
            "{peer} broke: {error}; {messages} messages, {bytes} bytes"
        )),
    }
}

/// Hands every part of a message to `each`, until the peer ends or a signal comes.
fn loop_messages(
    association: &mut Association,
    stop: &AtomicBool,
    mut each: impl FnMut(&mut Association, &[u8], bool, &MessageInfo) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; SIZE_MAX as usize];
    while !stop.load(Ordering::Relaxed) {
        tell_notices(association);
        match association.receive(&mut buffer, TICK) {
            Ok(Some(got)) => each(association, &buffer[..got.len], got.end, &got.info)?,
            Ok(None) => return Ok(()),
            Err(error) if is_silence(association, &error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends a part of a message back, as a message of its own. Streams that the peer does not accept go
/// to those that it does.
fn echo(
    association: &mut Association,
    message: &[u8],
    info: &MessageInfo,
    stop: &AtomicBool,
) -> io::Result<()> {
    let streams = match info.stream {
        0 => 1,
        _ => association.status().outbound_streams.max(1),
    };
    let info = MessageInfo {
        stream: info.stream % streams,
        ..*info
    };
    loop {
        match association.send(message, &info, TICK) {
            Err(error) if is_silence(association, &error) && !stop.load(Ordering::Relaxed) => {}
            other => return other,
        }
    }
}

fn change_word(change: AddressChange) -> &'static str {
    match change {
        AddressChange::Added => "added",
        AddressChange::Deleted => "deleted",
        AddressChange::Preferred => "preferred",
    }
}

fn tell_notices(association: &Association) {
    while let Some(notice) = association.next_notice() {
        match notice {
            Notice::Path {
                local,
                remote,
                status,
            } => note(format_args!(
                "path {local} to {remote}: {}",
                path_state(status)
            )),
            Notice::SenderDry => {}
            Notice::Restarted { .. } => note(format_args!("{} restarted", association.peer())),
            Notice::StreamsReset { .. } => note(format_args!("streams were reset")),
            Notice::StreamsAdded { streams, .. } => note(format_args!("{streams} streams now")),
            Notice::Adaptation(value) => note(format_args!("adaptation {value}")),
            Notice::NoAuthentication => note(format_args!("the peer cannot authenticate")),
            Notice::PeerAddress { address, change } => {
                note(format_args!(
                    "{address} of the peer {}",
                    change_word(change)
                ));
            }
            Notice::OwnAddress {
                address,
                change,
                outcome,
            } => note(format_args!(
                "{address} {}: {outcome:?}",
                change_word(change)
            )),
        }
    }
}

/// Sends messages, and says how fast.
fn send(args: &SendArgs) -> Result<u8, CliError> {
    if !(1..=SIZE_MAX).contains(&args.size) {
        let text = format!(
            "--size {} is not possible; give 1 to {SIZE_MAX} bytes",
            args.size
        );
        return Err(CliError::usage(text));
    }
    let to = addresses(&args.to, PORT)?;
    let from = match (&args.from, to.first()) {
        (Some(text), _) => addresses(text, 0)?,
        (None, Some(SocketAddr::V6(_))) => vec![(Ipv6Addr::UNSPECIFIED, 0).into()],
        (None, _) => vec![(Ipv4Addr::UNSPECIFIED, 0).into()],
    };
    let endpoint = open(&args.endpoint, &from, args.streams)?;
    let began = Instant::now();
    let connected = endpoint.connect(&to, args.wait);
    let mut association = connected.map_err(|error| unreachable(&to, began.elapsed(), &error))?;
    // From here on a signal shuts the association down; before, it ends the program.
    let stop = StopSignal::on_signals()?;
    let streams = association.status().outbound_streams;
    if streams < args.streams {
        let text = format!("the peer accepts {streams} streams; give --streams {streams}");
        return Err(CliError::failed(text));
    }
    let sent = send_all(&mut association, args, stop.flag());
    let status = association.status();
    tell_notices(&association);
    let (count, took) = sent.map_err(|error| broken(&to, &error))?;
    association
        .shutdown(args.wait)
        .map_err(|error| broken(&to, &error))?;
    let bits = 8.0 * (count * args.size) as f64;
    let seconds = took.as_secs_f64().max(1e-9);
    line(format_args!(
        "{count} messages of {} bytes on {} streams in {seconds:.3} s: {:.1} Mbit/s, {:.0} messages/s",
        args.size,
        args.streams,
        bits / seconds / 1e6,
        count as f64 / seconds
    ))?;
    for path in status.paths {
        let role = if path.carries_data {
            ", carries data"
        } else {
            ""
        };
        line(format_args!(
            "path {} to {}: {}{role}, RTT {} us, RTO {} ms, congestion window {} octets",
            path.local,
            path.remote,
            path_state(path.status),
            path.srtt.as_micros(),
            path.rto.as_millis(),
            path.congestion_window
        ))?;
    }
    Ok(EXIT_OK)
}

/// Sends the messages and waits until they have arrived; how many, and how long it took. A signal ends it
/// earlier. What the peer sends is dropped: an echo that nobody reads would stop both.
fn send_all(
    association: &mut Association,
    args: &SendArgs,
    stop: &AtomicBool,
) -> io::Result<(u64, Duration)> {
    let message = vec![0x5a; args.size as usize];
    let mut arrived = vec![0; SIZE_MAX as usize];
    let began = Instant::now();
    let mut count = 0;
    while count < args.count && !stop.load(Ordering::Relaxed) {
        let info = MessageInfo {
            stream: (count % u64::from(args.streams)) as u16,
            unordered: args.unordered,
            ..MessageInfo::default()
        };
        match association.send(&message, &info, ECHO_TICK) {
            Ok(()) => count += 1,
            Err(error) if is_silence(association, &error) => tell_notices(association),
            Err(error) => return Err(error),
        }
        if count % ECHO_EVERY == 0 {
            drop_arrived(association, &mut arrived)?;
        }
    }
    wait_acknowledged(association, args.wait, &mut arrived)?;
    Ok((count, began.elapsed()))
}

/// Waits until everything has arrived, for up to `limit` without an acknowledgement.
fn wait_acknowledged(
    association: &mut Association,
    limit: Duration,
    arrived: &mut [u8],
) -> io::Result<()> {
    let end = Instant::now() + limit;
    loop {
        drop_arrived(association, arrived)?;
        match association.wait_acknowledged(ECHO_TICK) {
            Err(error) if is_silence(association, &error) && Instant::now() < end => {}
            other => return other,
        }
    }
}

/// Reads what has come, and drops it.
fn drop_arrived(association: &mut Association, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        match association.receive(buffer, Duration::ZERO) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) if is_silence(association, &error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn unreachable(to: &[SocketAddr], after: Duration, error: &io::Error) -> CliError {
    let to = list(to);
    CliError::failed(match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("nobody listens at {to}; start `towpath sctp discard` there")
        }
        io::ErrorKind::TimedOut => {
            let seconds = after.as_secs_f64();
            format!("no answer from {to} within {seconds:.1} s; check addresses and firewalls")
        }
        _ => format!("cannot open an association to {to}: {error}"),
    })
}

fn broken(to: &[SocketAddr], error: &io::Error) -> CliError {
    CliError::failed(format!("the association to {} broke: {error}", list(to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_addresses_parse_with_and_without_port() {
        let two = addresses("10.0.0.1,[::1]:7", PORT).expect("two addresses");
        assert_eq!(list(&two), "10.0.0.1:9899,[::1]:7");
        for wrong in ["", "10.0.0.1,", "host", "10.0.0.1:70000"] {
            assert!(addresses(wrong, PORT).is_err(), "{wrong}");
        }
    }
}
