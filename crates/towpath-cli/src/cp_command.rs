//! `towpath cp`: copies files to one host or many.

use crate::print::{line, note};
use crate::xtp_common::{
    StopSignal, check_trace, enable_trace, note_module_counts, parse_pushable_transport, resolve,
    serve_contexts,
};
use crate::{CliError, EXIT_FAILED, EXIT_OK};
use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;
use towpath::files::{
    self, FileReceiver, GroupRange, ReceiveLimits, ReceivedFile, SentFile, TransferProgress,
};
use towpath::push::ModuleStack;
use towpath::xtp::{Endpoint, EndpointConfig};

/// Default port of receivers.
const DEFAULT_PORT: u16 = 4036;

/// Where a receiver listens: out of others' reach until its user says otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:4036";

/// A file and its destinations, or a folder to receive into.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "An interrupted transfer resumes when it is started again. A file gets its final name only after
its SHA-256 was verified; until then it is hidden and ends in .part. Several hosts are sent to in
parallel, or by multicast with --group. Nothing is encrypted, and anyone who can reach a receiver
can send files to it, so it listens on the loopback unless --listen names another address. With
push=seal and a key on both ends all is encrypted, and only who has the key can send.

Examples:
  towpath cp --receive inbox --listen 0.0.0.0:4036       on the receiving host
  towpath cp video.mkv lab2                              to host lab2, port 4036
  towpath cp --receive inbox --listen 10.0.0.7:5000 --overwrite
  towpath cp data.tar 10.0.0.7:5000 10.0.0.8:5000        to both, in parallel
  towpath cp data.tar 10.0.0.7 10.0.0.8 --group 239.1.2.3:5000
  towpath cp --receive inbox --listen 0.0.0.0:4036 --over xtp,push=seal,seal-key=key
  towpath cp video.mkv lab2 --over xtp,push=seal,seal-key=key"
)]
pub struct CpArgs {
    /// The file to send.
    #[arg(
        required_unless_present = "receive",
        conflicts_with = "receive",
        requires = "hosts"
    )]
    pub file: Option<PathBuf>,
    /// Receiving hosts, HOST or HOST:PORT.
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Receive files into this folder instead.
    #[arg(long, value_name = "DIR")]
    pub receive: Option<PathBuf>,
    /// Address to listen on; 0.0.0.0:4036 for all of this host's.
    #[arg(long, value_name = "ADDR:PORT", requires = "receive", default_value = DEFAULT_LISTEN)]
    pub listen: String,
    /// Refuse files of more bytes.
    #[arg(long, value_name = "SIZE", requires = "receive", value_parser = quantity::bytes)]
    pub max_size: Option<u64>,
    /// Bytes to keep free on the folder's file system.
    #[arg(
        long,
        value_name = "SIZE",
        requires = "receive",
        value_parser = quantity::bytes,
        default_value = "64MiB"
    )]
    pub keep_free: u64,
    /// Multicast groups that senders may name; without it none.
    #[arg(
        long,
        value_name = "ADDR[/BITS]",
        requires = "receive",
        value_delimiter = ','
    )]
    pub groups: Vec<GroupRange>,
    /// Transfers of one sender at once (of a /64 over IPv6), of 32 in all.
    #[arg(
        long,
        value_name = "TRANSFERS",
        requires = "receive",
        value_parser = clap::value_parser!(u32).range(1..=32),
        default_value_t = 8
    )]
    pub per_peer: u32,
    /// Take transfers before it is known that the sender's address is not forged.
    #[arg(long, requires = "receive")]
    pub early: bool,
    /// Overwrite existing files of the same name.
    #[arg(long, requires = "receive")]
    pub overwrite: bool,
    /// Exit after this many files were received.
    #[arg(long, value_name = "FILES", requires = "receive")]
    pub count: Option<u32>,
    /// Multicast to all hosts through this group address and port.
    #[arg(long, value_name = "ADDR:PORT", requires = "file")]
    pub group: Option<SocketAddr>,
    /// The transport, optionally with options.
    #[arg(long, value_name = "xtp[,KEY=VALUE...]", default_value = "xtp")]
    pub over: String,
    /// Write a packet trace of XTP, one line per packet.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Sends or receives files.
pub fn run(args: &CpArgs) -> Result<u8, CliError> {
    let (mut settings, modules) = parse_pushable_transport(&args.over)?;
    if modules.is_some() && (args.group.is_some() || !args.groups.is_empty()) {
        return Err(CliError::usage(
            "push= is for circuits, and a group has none: leave out push=, or --group and --groups",
        ));
    }
    settings.config.early_accept |= args.early;
    enable_trace(&mut settings, args.trace.as_deref())?;
    let done = match (&args.receive, &args.file) {
        (Some(folder), _) => receive(args, folder, &settings, modules),
        (None, Some(file)) => send(args, file, &settings, modules.as_ref()),
        (None, None) => Err(CliError::usage("name a file, or --receive DIR")),
    };
    let code = done?;
    check_trace(&settings).map(|()| code)
}

fn receive(
    args: &CpArgs,
    folder: &Path,
    settings: &EndpointConfig,
    modules: Option<ModuleStack>,
) -> Result<u8, CliError> {
    if !folder.is_dir() {
        return Err(CliError::failed(format!(
            "there is no folder {}; create it first",
            folder.display()
        )));
    }
    let local = resolve(&args.listen)?;
    let endpoint = Endpoint::bind(local, settings).map_err(|error| {
        CliError::failed(format!(
            "cannot listen on {local}: {error}; choose another address with --listen"
        ))
    })?;
    serve_contexts(&endpoint);
    // Before the line below is printed: a script that reads it may send at once.
    endpoint.listen(true);
    let stop = StopSignal::on_signals()?;
    note(format_args!(
        "receiving into {} at {}; Ctrl-C stops it",
        folder.display(),
        endpoint.local_addr()
    ));
    let inbox = FileReceiver {
        endpoint,
        folder: folder.to_owned(),
        overwrite: args.overwrite,
        limits: ReceiveLimits {
            size_max: args.max_size.unwrap_or(u64::MAX),
            keep_free_bytes: args.keep_free,
            groups: args.groups.clone(),
            per_peer_max: args.per_peer as usize,
        },
        modules,
    };
    let (left, failed) = (
        AtomicU32::new(args.count.unwrap_or(0)),
        AtomicBool::new(false),
    );
    let on_received = |received: ReceivedFile| {
        let came = received.result.is_ok();
        failed.fetch_or(print_received(&received).is_err(), Ordering::Relaxed);
        if came && args.count.is_some() && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            stop.flag().store(true, Ordering::Relaxed);
        }
    };
    inbox
        .run(stop.flag(), &on_received)
        .map_err(CliError::failed)?;
    match failed.into_inner() {
        false => Ok(EXIT_OK),
        true => Err(CliError::failed(
            "cannot write to standard output; send it elsewhere",
        )),
    }
}

/// Prints one line per file.
fn print_received(received: &ReceivedFile) -> Result<(), CliError> {
    let ReceivedFile {
        peer,
        name,
        progress,
        module_counts,
        result,
    } = received;
    note_module_counts(module_counts);
    match result {
        Ok(path) => {
            let resumed = match progress.resumed_from {
                0 => String::new(),
                from => format!(", resumed at {from}"),
            };
            line(format_args!(
                "{}: {} bytes from {peer}{resumed}",
                path.display(),
                progress.size
            ))
        }
        Err(error) => {
            let what = if name.is_empty() { "a transfer" } else { name };
            let TransferProgress { done, size, .. } = progress;
            note(format_args!(
                "{what} from {peer} failed after {done} of {size} bytes: {error}"
            ));
            Ok(())
        }
    }
}

fn send(
    args: &CpArgs,
    file: &Path,
    settings: &EndpointConfig,
    modules: Option<&ModuleStack>,
) -> Result<u8, CliError> {
    let hosts = args.hosts.iter().map(|host| host_address(host));
    let hosts: Vec<SocketAddr> = hosts.collect::<Result<_, _>>()?;
    if let Err(error) = std::fs::File::open(file) {
        return Err(CliError::failed(format!(
            "cannot read {}: {error}",
            file.display()
        )));
    }
    let bars = MultiProgress::with_draw_target(match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(4),
        false => ProgressDrawTarget::hidden(),
    });
    let began = Instant::now();
    let results = match args.group {
        Some(group) => {
            let bar = bars.add(new_progress_bar(&format!("{} hosts", hosts.len())));
            let endpoint = bind(hosts[0], settings)?;
            files::send_to_group(&endpoint, &hosts, group, file, &mut |progress| {
                update_bar(&bar, progress)
            })
            .map_err(|error| CliError::failed(format!("{}: {error}", file.display())))?
        }
        None => std::thread::scope(|scope| {
            let one = |(&to, name): (&SocketAddr, &String)| {
                let bar = bars.add(new_progress_bar(name));
                scope.spawn(move || {
                    let endpoint = Endpoint::bind(unspecified_address(to), settings)?;
                    serve_contexts(&endpoint);
                    files::send(&endpoint, to, file, modules, &mut |progress| {
                        update_bar(&bar, progress)
                    })
                })
            };
            let threads: Vec<_> = hosts.iter().zip(&args.hosts).map(one).collect();
            let gone = || Err(std::io::Error::other("its thread panicked"));
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| gone()));
            joined.collect()
        }),
    };
    let _ = bars.clear();
    print_results(file, &args.hosts, &results, began)
}

/// Prints one line per host. The exit code is a failure when one of them failed.
fn print_results(
    file: &Path,
    hosts: &[String],
    results: &[std::io::Result<SentFile>],
    began: Instant,
) -> Result<u8, CliError> {
    let seconds = began.elapsed().as_secs_f64().max(1e-9);
    let mut code = EXIT_OK;
    for (host, result) in hosts.iter().zip(results) {
        match result {
            Ok(SentFile {
                size,
                resumed_from: from,
                module_counts,
            }) => {
                note_module_counts(module_counts);
                let rate = (size - from) as f64 * 8.0 / 1e6 / seconds;
                let resumed = match from {
                    0 => String::new(),
                    from => format!(", resumed at {from}"),
                };
                line(format_args!(
                    "{host}: {size} bytes{resumed}, {seconds:.1} s, {rate:.0} Mbit/s, SHA-256 verified"
                ))?;
            }
            Err(error) => {
                code = EXIT_FAILED;
                note(format_args!(
                    "towpath: {} to {host}: {error}",
                    file.display()
                ));
            }
        }
    }
    Ok(code)
}

/// The address of `HOST` or `HOST:PORT`.
fn host_address(text: &str) -> Result<SocketAddr, CliError> {
    let bare = text.parse::<Ipv6Addr>().is_ok();
    match (bare, text.contains(':')) {
        (true, _) => resolve(&format!("[{text}]:{DEFAULT_PORT}")),
        (false, true) => resolve(text),
        (false, false) => resolve(&format!("{text}:{DEFAULT_PORT}")),
    }
}

fn unspecified_address(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn bind(peer: SocketAddr, settings: &EndpointConfig) -> Result<Endpoint, CliError> {
    let endpoint = Endpoint::bind(unspecified_address(peer), settings).map_err(CliError::failed)?;
    serve_contexts(&endpoint);
    Ok(endpoint)
}

fn new_progress_bar(name: &str) -> ProgressBar {
    let bar = ProgressBar::no_length().with_message(name.to_owned());
    let template = "{msg:20} {bar:24} {percent:>3} %  {binary_bytes_per_sec:>14}  {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn update_bar(bar: &ProgressBar, progress: TransferProgress) {
    if bar.length().is_none() {
        bar.set_length(progress.size);
        bar.set_position(progress.resumed_from);
        // Bytes of an earlier transfer do not count for the rate.
        bar.reset_eta();
    }
    bar.set_position(progress.done);
}

#[cfg(test)]
mod tests {
    use super::{CpArgs, DEFAULT_PORT, host_address};
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn receiver_without_listen_is_on_the_loopback() {
        let command = CpArgs::augment_args(Command::new("cp"));
        let parsed = command.get_matches_from(["cp", "--receive", "inbox"]);
        let args = CpArgs::from_arg_matches(&parsed).expect("it is complete");
        let listen: std::net::SocketAddr = args.listen.parse().expect("an address");
        assert!(listen.ip().is_loopback() && listen.port() == DEFAULT_PORT);
    }

    #[test]
    fn host_without_port_uses_default_port() {
        for (text, address) in [
            ("127.0.0.1", format!("127.0.0.1:{DEFAULT_PORT}")),
            ("127.0.0.1:9", "127.0.0.1:9".into()),
            ("::1", format!("[::1]:{DEFAULT_PORT}")),
            ("[::1]:9", "[::1]:9".into()),
        ] {
            let found = host_address(text).map(|found| found.to_string());
            assert_eq!(found.ok(), Some(address));
        }
    }
}
