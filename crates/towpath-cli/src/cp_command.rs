//! `towpath cp`: copies files and folders to hosts and from them.

use crate::print::note;
use crate::xtp_common::{check_trace, enable_trace, parse_pushable_transport, resolve};
use crate::{CliError, cp_receive, cp_send};
use clap::Args;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use towpath::files::tree::CopiedTree;
use towpath::files::{GroupRange, check_group_words};
use towpath::xtp::group::GroupWords;

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
can send files to it, and fetch those of --serve, so it listens on the loopback unless --listen
names another address. With push=seal and a key on both ends all is encrypted, and only who has the
key can take part.

Without -p what arrives is for its owner alone, and new. A symbolic link is kept if it is relative
and stays within the tree; other links, sockets, pipes and devices are left out, which is said, and
the exit code is 1. A local file with a colon in its name is written ./a:b.

Examples:
  towpath cp --receive inbox --listen 0.0.0.0:4036       on the receiving host
  towpath cp video.mkv lab2                              to host lab2, port 4036
  towpath cp --receive inbox --listen 10.0.0.7:5000 --overwrite
  towpath cp data.tar 10.0.0.7:5000 10.0.0.8:5000        to both, in parallel
  towpath cp data.tar 10.0.0.7 10.0.0.8 --group 239.1.2.3:5000
  towpath cp data.tar lab1 lab2 --group 239.1.2.3:5000 --group-options rate=100mbit,slot=2ms
  towpath cp -rp project lab2                            a folder, with modes and times
  towpath cp --serve outbox --listen 0.0.0.0:4036        others may fetch what is in outbox
  towpath cp -r lab2:results .                           fetch from there, into this folder
  towpath cp lab2:5000:results/a.csv b.csv               from port 5000, under another name
  towpath cp --receive inbox --listen 0.0.0.0:4036 --over xtp,push=seal,seal-key=key
  towpath cp video.mkv lab2 --over xtp,push=seal,seal-key=key"
)]
pub struct CpArgs {
    /// The file or folder to send, or HOST:PATH or HOST:PORT:PATH to fetch from a host with --serve.
    #[arg(
        value_name = "FILE",
        required_unless_present_any = ["receive", "serve"],
        conflicts_with_all = ["receive", "serve"],
        requires = "hosts"
    )]
    pub file: Option<PathBuf>,
    /// Receiving hosts, HOST or HOST:PORT; for what is fetched, a folder or a new name.
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Copy a folder with all that is in it.
    #[arg(short, long, requires = "file")]
    pub recursive: bool,
    /// Keep permission bits and modification times.
    #[arg(short, long, requires = "file")]
    pub preserve: bool,
    /// Receive files into this folder instead.
    #[arg(long, value_name = "DIR")]
    pub receive: Option<PathBuf>,
    /// Let others fetch the files in this folder; may stand beside --receive.
    #[arg(long, value_name = "DIR")]
    pub serve: Option<PathBuf>,
    /// Address to listen on; 0.0.0.0:4036 for all of this host's.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "file", default_value = DEFAULT_LISTEN)]
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
        conflicts_with = "file",
        value_parser = clap::value_parser!(u32).range(1..=32),
        default_value_t = 8
    )]
    pub per_peer: u32,
    /// Take transfers before it is known that the sender's address is not forged.
    #[arg(long, conflicts_with = "file")]
    pub early: bool,
    /// Overwrite existing files of the same name (with --receive, or when files are fetched).
    #[arg(long)]
    pub overwrite: bool,
    /// Exit after this many transfers.
    #[arg(long, value_name = "TRANSFERS", conflicts_with = "file")]
    pub count: Option<u32>,
    /// Multicast to all hosts through this group address and port.
    #[arg(long, value_name = "ADDR:PORT", requires = "file")]
    pub group: Option<SocketAddr>,
    /// Options of the group: answer, error, rate, replicate and slot, such as rate=100mbit,slot=2ms.
    #[arg(long, value_name = "KEY=VALUE,...", requires = "group")]
    pub group_options: Option<String>,
    /// The transport, optionally with options.
    #[arg(long, value_name = "xtp[,KEY=VALUE...]", default_value = "xtp")]
    pub over: String,
    /// Write a packet trace of XTP, one line per packet.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

impl CpArgs {
    /// The options of the group. The error is a line that names what is wrong and what would be right.
    pub(crate) fn group_words(&self) -> Result<GroupWords, CliError> {
        let text = self.group_options.as_deref().unwrap_or_default();
        let words = text.split(',').filter(|word| !word.is_empty());
        let own = crate::xtp_common::key_values(words)?;
        let words = GroupWords::parse(&own).map_err(CliError::usage)?;
        check_group_words(&words).map_err(CliError::usage)?;
        Ok(words)
    }
}

/// Sends, receives, gives or fetches files.
pub fn run(args: &CpArgs) -> Result<u8, CliError> {
    let (mut settings, modules) = parse_pushable_transport(&args.over)?;
    check_words(args, modules.is_some())?;
    settings.config.early_accept |= args.early;
    enable_trace(&mut settings, args.trace.as_deref())?;
    let done = match &args.file {
        None => cp_receive::run(args, &settings, modules),
        Some(file) => match RemotePath::of(file)? {
            Some(remote) => cp_send::fetch(args, &remote, &settings, modules),
            None => cp_send::send(args, file, &settings, modules),
        },
    };
    let code = done?;
    check_trace(&settings).map(|()| code)
}

/// Words that do not go together.
fn check_words(args: &CpArgs, has_modules: bool) -> Result<(), CliError> {
    let in_group = args.group.is_some();
    args.group_words()?;
    if has_modules && (in_group || !args.groups.is_empty()) {
        return Err(CliError::usage(
            "push= is for circuits, and a group has none: leave out push=, or --group and --groups",
        ));
    }
    if in_group && (args.recursive || args.preserve) {
        return Err(CliError::usage(
            "a group takes single files: leave out -r and -p, or leave out --group and send to each host",
        ));
    }
    let is_sent = args.file.as_deref().is_some_and(|file| !is_remote(file));
    if args.overwrite && is_sent {
        return Err(CliError::usage(
            "whether files are replaced is for the receiver to say: give --overwrite to its towpath cp --receive",
        ));
    }
    Ok(())
}

/// Whether the first word names a file on a host: a colon comes before any slash, and no local file has that name.
fn is_remote(file: &Path) -> bool {
    let text = file.to_string_lossy();
    let first = text.split('/').next().unwrap_or_default();
    first.contains(':') && file.symlink_metadata().is_err()
}

/// A path on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemotePath {
    pub(crate) host: SocketAddr,
    /// Below the folder that is served.
    pub(crate) path: String,
}

impl RemotePath {
    /// The host and path in `HOST:PATH` or `HOST:PORT:PATH`; None for a local file.
    /// Errors: a line that says what is wrong.
    fn of(file: &Path) -> Result<Option<RemotePath>, CliError> {
        if !is_remote(file) {
            return Ok(None);
        }
        let text = file.to_str().ok_or_else(|| {
            CliError::usage(format!("'{}' is no text; name it in UTF-8", file.display()))
        })?;
        let host_end = match text.starts_with('[') {
            true => text.find(']').map(|at| at + 1),
            false => text.find(':'),
        };
        let (host, rest) = text.split_at(host_end.unwrap_or(text.len()));
        let rest = rest.strip_prefix(':').filter(|_| !host.is_empty()).ok_or_else(|| {
            CliError::usage(format!(
                "'{text}' names no host; write HOST:PATH, [IPV6]:PATH, or ./{text} for a local file"
            ))
        })?;
        let (port, path) = match rest.split_once(':') {
            Some((port, path)) if !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()) => {
                (port.to_owned(), path)
            }
            _ => (DEFAULT_PORT.to_string(), rest),
        };
        Ok(Some(RemotePath {
            host: resolve(&format!("{host}:{port}"))?,
            path: path.to_owned(),
        }))
    }

    /// The last component; None for the whole folder that is served.
    pub(crate) fn name(&self) -> Option<&str> {
        let last = self.path.trim_end_matches('/').rsplit('/').next();
        last.filter(|name| !matches!(*name, "" | "." | ".."))
    }
}

/// Says what of a tree did not arrive.
pub(crate) fn note_failures(copied: &CopiedTree) {
    for (path, reason) in &copied.failures {
        note(format_args!("towpath: {path}: {reason}"));
    }
    let more = copied.failed.saturating_sub(copied.failures.len() as u64);
    if more > 0 {
        note(format_args!("towpath: and {more} more"));
    }
}

/// The address of `HOST` or `HOST:PORT`.
pub(crate) fn host_address(text: &str) -> Result<SocketAddr, CliError> {
    let bare = text.parse::<Ipv6Addr>().is_ok();
    match (bare, text.contains(':')) {
        (true, _) => resolve(&format!("[{text}]:{DEFAULT_PORT}")),
        (false, true) => resolve(text),
        (false, false) => resolve(&format!("{text}:{DEFAULT_PORT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{CpArgs, DEFAULT_PORT, RemotePath, host_address};
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
    fn colon_before_a_slash_names_a_host() {
        let of = |text: &str| {
            let found = RemotePath::of(text.as_ref()).map_err(|error| error.message);
            found.map(|found| found.map(|it| (it.host.to_string(), it.path)))
        };
        for (text, host, path) in [
            ("127.0.0.1:a/b", "127.0.0.1:4036", "a/b"),
            ("127.0.0.1:5000:a", "127.0.0.1:5000", "a"),
            ("127.0.0.1:5000", "127.0.0.1:4036", "5000"),
            ("127.0.0.1:", "127.0.0.1:4036", ""),
            ("[::1]:a:b", "[::1]:4036", "a:b"),
            ("[::1]:9:a", "[::1]:9", "a"),
        ] {
            assert_eq!(of(text), Ok(Some((host.into(), path.into()))), "{text}");
        }
        for local in ["a", "./a:b", "/a:b", "a/b:c"] {
            assert_eq!(of(local), Ok(None), "{local}");
        }
        for wrong in [":a", "[::1]a:b", "[::1:a"] {
            assert!(
                of(wrong).is_err_and(|error| error.contains(wrong)),
                "{wrong}"
            );
        }
        let name = |path: &str| {
            let host = ([127, 0, 0, 1], 9).into();
            let path = path.to_owned();
            RemotePath { host, path }.name().map(str::to_owned)
        };
        assert_eq!(name("a/b/").as_deref(), Some("b"));
        for none in ["", ".", "a/.."] {
            assert_eq!(name(none), None, "{none}");
        }
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
