//! `towpath blocks`: a storage server over message transactions, and its client.

use crate::print::{json, line, note};
use crate::xtp_command::strip_control_characters;
use crate::xtp_common::StopSignal;
use crate::{CliError, EXIT_OK};
use clap::{Args, Subcommand};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use towpath::blocks::{self, BlockClient, FileKind, FileStatus, PORT, Progress};
use towpath::vmtp::{Endpoint, EndpointConfig};
use towpath::xtp::TraceLog;

/// Subcommands of `towpath blocks`.
#[derive(Clone, Debug, Subcommand)]
pub enum BlocksCommand {
    /// Serve the files of a folder; anyone who reaches the address can read and write them.
    Serve(ServeArgs),
    /// Get a file.
    Get(GetArgs),
    /// Put a file.
    Put(PutArgs),
    /// List a folder.
    Ls(NameArgs),
    /// Show what is known of a file.
    Stat(NameArgs),
}

/// Options of `towpath blocks serve`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Files are read and written in blocks of 16 KiB, each a transaction of VMTP. Nothing is encrypted,
and nobody is asked who they are, so the server listens on the loopback unless --listen names
another address. No path leads out of the folder, and hidden files are not served.

Examples:
  towpath blocks serve data
  towpath blocks serve data --listen 10.0.0.7:4081"
)]
pub struct ServeArgs {
    /// The folder.
    pub folder: PathBuf,
    /// Address to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4081")]
    pub listen: String,
    /// Threads that read and write.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Write a packet trace, one line per packet.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Where a server is.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// The server, HOST or HOST:PORT.
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Seconds that a block may take.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
}

/// Options of `towpath blocks get`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "An interrupted transfer goes on where it stopped when it is started again.

Examples:
  towpath blocks get lab2 video.mkv
  towpath blocks get 10.0.0.7:5000 logs/today.txt copy.txt"
)]
pub struct GetArgs {
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
    /// The file's path in the folder of the server.
    pub path: String,
    /// The file to write; default: the same name here.
    pub file: Option<PathBuf>,
}

/// Options of `towpath blocks put`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "An interrupted transfer goes on where it stopped when it is started again. The file gets its name
at the server when it is whole, and replaces one that is there.

Examples:
  towpath blocks put lab2 video.mkv
  towpath blocks put 10.0.0.7:5000 today.txt logs/today.txt"
)]
pub struct PutArgs {
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
    /// The file to read.
    pub file: PathBuf,
    /// Its path in the folder of the server; default: the same name.
    pub path: Option<String>,
}

/// Options of `towpath blocks ls` and `stat`.
#[derive(Clone, Debug, Args)]
pub struct NameArgs {
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
    /// A path in the folder of the server; default: the folder.
    #[arg(default_value = "")]
    pub path: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(command: &BlocksCommand) -> Result<u8, CliError> {
    match command {
        BlocksCommand::Serve(args) => serve(args)?,
        BlocksCommand::Get(args) => {
            let file = args.file.clone().or_else(|| own_name(&args.path));
            let file = file.ok_or_else(|| no_name(&args.path))?;
            let progress = client(&args.server)?.get(&args.path, &file);
            line(transfer_text(
                &args.path,
                &progress.map_err(CliError::failed)?,
            ))?;
        }
        BlocksCommand::Put(args) => {
            let name = args.file.file_name().and_then(|name| name.to_str());
            let path = args.path.as_deref().or(name);
            let path = path.ok_or_else(|| no_name(&args.file.display().to_string()))?;
            let progress = client(&args.server)?.put(&args.file, path);
            let progress = progress.map_err(|error| {
                CliError::failed(format!("cannot put {}: {error}", args.file.display()))
            })?;
            line(transfer_text(path, &progress))?;
        }
        BlocksCommand::Ls(args) => list(args)?,
        BlocksCommand::Stat(args) => {
            let status = client(&args.server)?.stat(&args.path);
            let status = status.map_err(CliError::failed)?;
            match args.json {
                true => json(&status_json(&args.path, &status))?,
                false => line(status_text(&args.path, &status))?,
            }
        }
    }
    Ok(EXIT_OK)
}

fn serve(args: &ServeArgs) -> Result<(), CliError> {
    let local = address(&args.listen)?;
    let trace = args.trace.as_deref().map(create_trace).transpose()?;
    let config = EndpointConfig {
        trace: trace.clone(),
        ..EndpointConfig::default()
    };
    let endpoint = Endpoint::bind(local, &config).map_err(|error| {
        CliError::failed(format!(
            "cannot listen on {local}: {error}; choose another address with --listen"
        ))
    })?;
    if let Err(error) = endpoint.serve_entities() {
        note(format_args!(
            "`towpath vmtp entities` cannot query this endpoint: {error}"
        ));
    }
    if !args.folder.is_dir() {
        let text = format!(
            "there is no folder {}; create it first",
            args.folder.display()
        );
        return Err(CliError::failed(text));
    }
    let stop = StopSignal::on_signals()?;
    note(format_args!(
        "serving {} at {}; Ctrl-C stops it",
        args.folder.display(),
        endpoint.local_addr()
    ));
    let is_over = || stop.flag().load(Ordering::Relaxed);
    blocks::serve(&endpoint, &args.folder, args.threads.into(), is_over)
        .map_err(CliError::failed)?;
    match trace.and_then(|log| log.take_error()) {
        Some(error) => Err(CliError::failed(format!("cannot write the trace: {error}"))),
        None => Ok(()),
    }
}

fn create_trace(path: &Path) -> Result<Arc<TraceLog>, CliError> {
    let created = TraceLog::create(path).map_err(|error| {
        CliError::failed(format!(
            "cannot write the trace {}: {error}; name another file",
            path.display()
        ))
    });
    created.map(Arc::new)
}

fn client(args: &ServerArgs) -> Result<BlockClient, CliError> {
    let at = address(&args.host)?;
    BlockClient::new(at, Duration::from_secs(args.timeout)).map_err(CliError::failed)
}

/// The address of HOST or HOST:PORT.
fn address(text: &str) -> Result<SocketAddr, CliError> {
    let with_port = text
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next());
    let found = with_port.or_else(|| (text, PORT).to_socket_addrs().ok()?.next());
    found.ok_or_else(|| {
        CliError::usage(format!(
            "'{text}' is no address; give HOST or HOST:PORT, such as 127.0.0.1:{PORT}"
        ))
    })
}

fn own_name(path: &str) -> Option<PathBuf> {
    Path::new(path).file_name().map(PathBuf::from)
}

fn no_name(path: &str) -> CliError {
    CliError::usage(format!("'{path}' names no file; name one"))
}

fn transfer_text(path: &str, progress: &Progress) -> String {
    match progress.resumed_at {
        0 => format!("{path}: {} bytes", progress.total),
        at => format!("{path}: {} bytes, resumed at {at}", progress.total),
    }
}

fn list(args: &NameArgs) -> Result<(), CliError> {
    let entries = client(&args.server)?.list(&args.path);
    let entries = entries.map_err(CliError::failed)?;
    if args.json {
        let all: Vec<serde_json::Value> = entries
            .iter()
            .map(|entry| status_json(&entry.name, &entry.status))
            .collect();
        return json(&all);
    }
    for entry in &entries {
        line(status_text(&entry.name, &entry.status))?;
    }
    Ok(())
}

fn kind_text(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Folder => "folder",
        FileKind::Other => "other",
    }
}

fn status_text(name: &str, status: &FileStatus) -> String {
    format!(
        "{:<6} {:>14}  {}",
        kind_text(status.kind),
        status.len,
        strip_control_characters(name)
    )
}

fn status_json(name: &str, status: &FileStatus) -> serde_json::Value {
    serde_json::json!({
        "name": name,
        "kind": kind_text(status.kind),
        "bytes": status.len,
        "modified_ns": status.modified_ns,
    })
}
