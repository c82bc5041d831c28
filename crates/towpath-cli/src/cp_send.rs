//! `towpath cp FILE HOST...` and `towpath cp HOST:PATH DIR`: the end that asks.

use crate::cp_command::{CpArgs, RemotePath, host_address, note_failures};
use crate::print::{line, note};
use crate::progress::counted;
use crate::xtp_common::{StopSignal, note_module_counts, serve_contexts};
use crate::{CliError, EXIT_FAILED, EXIT_OK};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use towpath::files::tree::{self, CopiedTree, PullTarget, TreeCall, TreeOptions, TreeProgress};
use towpath::files::{self, SentFile, TransferProgress};
use towpath::push::ModuleStack;
use towpath::xtp::group::GroupWords;
use towpath::xtp::{Endpoint, EndpointConfig};

/// How often a signal is looked for.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long transfers that were stopped are waited for: they look for it several times in this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// What arrived at a host.
enum Arrived {
    File(SentFile),
    Tree(CopiedTree),
}

/// A transfer that has ended.
struct Ended {
    /// The host, as the user wrote it.
    host: String,
    seconds: f64,
    result: io::Result<Arrived>,
}

/// What the transfers of a command share.
struct Session {
    settings: EndpointConfig,
    modules: Option<ModuleStack>,
    options: TreeOptions,
    stop: AtomicBool,
    bars: MultiProgress,
    began_at: Instant,
    /// Endpoints of running transfers.
    endpoints: Mutex<Vec<Endpoint>>,
}

impl Session {
    fn new(args: &CpArgs, settings: &EndpointConfig, modules: Option<ModuleStack>) -> Arc<Session> {
        let on_terminal = io::stderr().is_terminal();
        Arc::new(Session {
            settings: settings.clone(),
            modules,
            options: TreeOptions {
                recursive: args.recursive,
                preserve: args.preserve,
                totals: on_terminal,
            },
            stop: AtomicBool::new(false),
            bars: MultiProgress::with_draw_target(match on_terminal {
                true => ProgressDrawTarget::stderr_with_hz(4),
                false => ProgressDrawTarget::hidden(),
            }),
            began_at: Instant::now(),
            endpoints: Mutex::default(),
        })
    }

    /// An endpoint towards `peer`, whose circuits are aborted when the user stops the command.
    fn bind(&self, peer: SocketAddr) -> io::Result<Endpoint> {
        let endpoint = Endpoint::bind(unspecified_address(peer), &self.settings)?;
        serve_contexts(&endpoint);
        let mut endpoints = self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        endpoints.push(endpoint.clone());
        Ok(endpoint)
    }

    fn ended(&self, host: &str, result: io::Result<Arrived>) -> Ended {
        Ended {
            host: host.to_owned(),
            seconds: self.began_at.elapsed().as_secs_f64().max(1e-9),
            result,
        }
    }

    fn call<'a>(&'a self, endpoint: &'a Endpoint) -> TreeCall<'a> {
        TreeCall {
            endpoint,
            modules: self.modules.as_ref(),
            options: self.options,
            stop: &self.stop,
        }
    }

    /// Sends `file` to one host.
    fn send_one(&self, file: &Path, is_tree: bool, to: SocketAddr, name: &str) -> Ended {
        let bar = self.bars.add(new_progress_bar(name));
        let sent = self.bind(to).and_then(|endpoint| match is_tree {
            true => {
                let mut tell = |progress| update_tree_bar(&bar, name, progress);
                let copied = tree::push(&self.call(&endpoint), to, file, &mut tell)?;
                Ok(Arrived::Tree(copied))
            }
            false => {
                let mut tell = |progress| update_bar(&bar, progress);
                let sent = files::send(&endpoint, to, file, self.modules.as_ref(), &mut tell)?;
                Ok(Arrived::File(sent))
            }
        });
        bar.finish_and_clear();
        self.ended(name, sent)
    }

    /// Sends `file` to all hosts by multicast.
    fn send_to_group(
        &self,
        file: &Path,
        group: (SocketAddr, &GroupWords),
        hosts: &[(String, SocketAddr)],
    ) -> Vec<Ended> {
        let bar = self
            .bars
            .add(new_progress_bar(&format!("{} hosts", hosts.len())));
        let addresses: Vec<SocketAddr> = hosts.iter().map(|(_, address)| *address).collect();
        let results = self.bind(addresses[0]).and_then(|endpoint| {
            let mut tell = |progress| update_bar(&bar, progress);
            files::send_to_group(&endpoint, &addresses, group, file, &mut tell)
        });
        bar.finish_and_clear();
        match results {
            Ok(results) => {
                let each = hosts.iter().zip(results);
                let each =
                    each.map(|((name, _), result)| self.ended(name, result.map(Arrived::File)));
                each.collect()
            }
            Err(error) => vec![self.ended("the group", Err(error))],
        }
    }

    /// Fetches a tree.
    fn fetch_one(&self, remote: &RemotePath, place: &FetchPlace, name: &str) -> Ended {
        let bar = self.bars.add(new_progress_bar(name));
        let fetched = self.bind(remote.host).and_then(|endpoint| {
            let target = PullTarget {
                folder: &place.folder,
                name: place.name.as_deref(),
                overwrite: place.overwrite,
            };
            let mut tell = |progress| update_tree_bar(&bar, name, progress);
            tree::pull(
                &self.call(&endpoint),
                remote.host,
                &remote.path,
                &target,
                &mut tell,
            )
        });
        bar.finish_and_clear();
        self.ended(name, fetched.map(Arrived::Tree))
    }
}

/// Sends a file or folder to one host or several.
pub(crate) fn send(
    args: &CpArgs,
    file: &Path,
    settings: &EndpointConfig,
    modules: Option<ModuleStack>,
) -> Result<u8, CliError> {
    let is_tree = args.recursive || args.preserve;
    let about = std::fs::metadata(file).and_then(|about| {
        if about.is_file() {
            std::fs::File::open(file)?;
        }
        Ok(about)
    });
    let about = about
        .map_err(|error| CliError::failed(format!("cannot read {}: {error}", file.display())))?;
    if about.is_dir() && !args.recursive {
        return Err(CliError::usage(format!(
            "{} is a folder; add -r to copy it with all that is in it",
            file.display()
        )));
    }
    let hosts = args.hosts.iter();
    let hosts = hosts.map(|host| Ok((host.clone(), host_address(host)?)));
    let hosts: Vec<(String, SocketAddr)> = hosts.collect::<Result<_, CliError>>()?;
    let session = Session::new(args, settings, modules);
    let mut jobs: Vec<Job> = Vec::new();
    match args.group {
        Some(group) => {
            let file = file.to_owned();
            let words = args.group_words()?;
            jobs.push(Box::new(move |session| {
                session.send_to_group(&file, (group, &words), &hosts)
            }));
        }
        None => {
            for (name, to) in hosts {
                let file = file.to_owned();
                jobs.push(Box::new(move |session| {
                    vec![session.send_one(&file, is_tree, to, &name)]
                }));
            }
        }
    }
    run_jobs(&session, jobs, &file.display().to_string())
}

/// Where a tree that is fetched goes.
struct FetchPlace {
    folder: PathBuf,
    name: Option<String>,
    overwrite: bool,
}

/// Fetches a file or folder from a host.
pub(crate) fn fetch(
    args: &CpArgs,
    remote: &RemotePath,
    settings: &EndpointConfig,
    modules: Option<ModuleStack>,
) -> Result<u8, CliError> {
    let [local] = args.hosts.as_slice() else {
        return Err(CliError::usage(format!(
            "what is fetched goes into one folder, and {} were named; fetch it for each",
            args.hosts.len()
        )));
    };
    if args.group.is_some() {
        return Err(CliError::usage(
            "nothing is fetched by multicast; leave out --group",
        ));
    }
    let place = fetch_place(Path::new(local), remote, args.overwrite)?;
    let session = Session::new(args, settings, modules);
    let what = args
        .file
        .as_deref()
        .unwrap_or(Path::new(""))
        .display()
        .to_string();
    let (name, remote) = (what.clone(), remote.clone());
    let job: Job = Box::new(move |session| vec![session.fetch_one(&remote, &place, &name)]);
    run_jobs(&session, vec![job], &what)
}

/// As `cp` does: into an existing folder, or under a new name in one.
fn fetch_place(local: &Path, remote: &RemotePath, overwrite: bool) -> Result<FetchPlace, CliError> {
    if local.is_dir() {
        return Ok(FetchPlace {
            folder: local.to_owned(),
            name: remote.name().map(str::to_owned),
            overwrite,
        });
    }
    let parent = local
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    match local.file_name().and_then(|name| name.to_str()) {
        Some(name) if folder.is_dir() && remote.name().is_some() => Ok(FetchPlace {
            folder: folder.to_owned(),
            name: Some(name.to_owned()),
            overwrite,
        }),
        _ => Err(CliError::usage(format!(
            "there is no folder {}; create it first",
            local.display()
        ))),
    }
}

/// A transfer, in a thread of its own.
type Job = Box<dyn FnOnce(&Session) -> Vec<Ended> + Send>;

/// Runs transfers at once and prints each as it ends. Ctrl-C aborts them.
fn run_jobs(session: &Arc<Session>, jobs: Vec<Job>, what: &str) -> Result<u8, CliError> {
    let stop = StopSignal::on_signals()?;
    let (say, ended) = channel();
    for job in jobs {
        let (session, say) = (Arc::clone(session), say.clone());
        // A receiver that is gone has been told of the signal.
        std::thread::spawn(move || {
            job(&session)
                .into_iter()
                .for_each(|ended| drop(say.send(ended)))
        });
    }
    drop(say);
    let mut code = EXIT_OK;
    let mut stopped_at = None;
    loop {
        match ended.recv_timeout(STOP_POLL_INTERVAL) {
            Ok(one) => {
                let printed = session
                    .bars
                    .suspend(|| print_ended(&one, what, stopped_at.is_some()));
                code = code.max(printed?);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stopped_at.is_none() && stop.flag().load(Ordering::Relaxed) {
            stopped_at = Some(Instant::now());
            session.stop.store(true, Ordering::Relaxed);
            abort_all(session);
        }
        if stopped_at.is_some_and(|at| at.elapsed() >= STOP_TIMEOUT) {
            break;
        }
    }
    match stopped_at {
        None => Ok(code),
        Some(_) => Err(CliError::failed(format!(
            "stopped: {what} is not complete everywhere; start the same command again to resume it"
        ))),
    }
}

/// Tells the peers of all transfers that they are over.
fn abort_all(session: &Session) {
    let endpoints = session
        .endpoints
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    for endpoint in endpoints.iter() {
        // A peer that cannot be told finds out by silence.
        let _ = endpoint.abort_all();
    }
}

/// Prints one line for a transfer that has ended; the exit code.
fn print_ended(ended: &Ended, what: &str, is_stopped: bool) -> Result<u8, CliError> {
    let Ended {
        host,
        seconds,
        result,
    } = ended;
    let mbit = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
    match result {
        Ok(Arrived::File(SentFile {
            size,
            resumed_from: from,
            module_counts,
        })) => {
            note_module_counts(module_counts);
            let rate = mbit(size - from);
            let resumed = match from {
                0 => String::new(),
                from => format!(", resumed at {from}"),
            };
            line(format_args!(
                "{host}: {size} bytes{resumed}, {seconds:.1} s, {rate:.0} Mbit/s, SHA-256 verified"
            ))?;
            Ok(EXIT_OK)
        }
        Ok(Arrived::Tree(copied)) => {
            note_module_counts(&copied.module_counts);
            note_failures(copied);
            let (size, rate) = (copied.size, mbit(copied.bytes));
            let files = counted(copied.files, "file");
            let present = match copied.files_present {
                0 => String::new(),
                present => format!(", {present} of them there already"),
            };
            line(format_args!(
                "{host}: {files}{present}, {size} bytes, {seconds:.1} s, {rate:.0} Mbit/s, SHA-256 verified"
            ))?;
            Ok(if copied.failed == 0 {
                EXIT_OK
            } else {
                EXIT_FAILED
            })
        }
        Err(_) if is_stopped => Ok(EXIT_FAILED),
        Err(error) => {
            match what == host {
                true => note(format_args!("towpath: {what}: {error}")),
                false => note(format_args!("towpath: {what} to {host}: {error}")),
            }
            Ok(EXIT_FAILED)
        }
    }
}

fn unspecified_address(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
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

fn update_tree_bar(bar: &ProgressBar, name: &str, progress: TreeProgress) {
    if bar.is_hidden() {
        return;
    }
    if let Some(bytes) = progress.bytes_total {
        bar.set_length(bytes);
    }
    let of = progress
        .files_total
        .map_or(String::new(), |total| format!("/{total}"));
    bar.set_message(format!("{name} {}{of} files", progress.files));
    bar.set_position(progress.bytes);
}
