//! `towpath cp --receive` and `--serve`: the host that files come to, or that gives them.

use crate::cp_command::{CpArgs, note_failures};
use crate::print::{line, note};
use crate::progress::counted;
use crate::xtp_common::{StopSignal, note_module_counts, resolve, serve_contexts};
use crate::{CliError, EXIT_OK};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use towpath::files::tree::CopiedTree;
use towpath::files::{FileReceiver, ReceiveLimits, ReceivedFile, TransferKind, TransferProgress};
use towpath::push::ModuleStack;
use towpath::xtp::{Endpoint, EndpointConfig};

/// Receives and gives files until a signal, or until `--count` transfers have succeeded.
pub(crate) fn run(
    args: &CpArgs,
    settings: &EndpointConfig,
    modules: Option<ModuleStack>,
) -> Result<u8, CliError> {
    for folder in [&args.receive, &args.serve].into_iter().flatten() {
        check_folder(folder)?;
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
        "{} at {}; Ctrl-C stops it",
        activity(args),
        endpoint.local_addr()
    ));
    let inbox = FileReceiver {
        endpoint,
        folder: args.receive.clone(),
        served: args.serve.clone(),
        overwrite: args.overwrite,
        limits: ReceiveLimits {
            size_max: args.max_size.unwrap_or(u64::MAX),
            keep_free_bytes: args.keep_free,
            groups: args.groups.clone(),
            per_peer_max: args.per_peer as usize,
        },
        modules,
    };
    let left = AtomicU32::new(args.count.unwrap_or(0));
    let failed = AtomicBool::new(false);
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

fn check_folder(folder: &Path) -> Result<(), CliError> {
    match folder.is_dir() {
        true => Ok(()),
        false => Err(CliError::failed(format!(
            "there is no folder {}; create it first",
            folder.display()
        ))),
    }
}

/// What the host does, in words.
fn activity(args: &CpArgs) -> String {
    let receiving = args.receive.as_ref();
    let receiving = receiving.map(|folder| format!("receiving into {}", folder.display()));
    let serving = args.serve.as_ref();
    let serving = serving.map(|folder| format!("giving files of {}", folder.display()));
    let parts: Vec<String> = receiving.into_iter().chain(serving).collect();
    parts.join(", ")
}

/// Prints one line per transfer.
fn print_received(received: &ReceivedFile) -> Result<(), CliError> {
    note_module_counts(&received.module_counts);
    if let TransferKind::Tree(copied) | TransferKind::Given(copied) = &received.kind {
        note_failures(copied);
    }
    match (&received.result, &received.kind) {
        (Ok(path), TransferKind::File) => {
            let resumed = match received.progress.resumed_from {
                0 => String::new(),
                from => format!(", resumed at {from}"),
            };
            line(format_args!(
                "{}: {} bytes from {}{resumed}",
                path.display(),
                received.progress.size,
                received.peer
            ))
        }
        (Ok(path), TransferKind::Tree(copied)) => line(format_args!(
            "{}: {} from {}",
            path.display(),
            counts(copied),
            received.peer
        )),
        (Ok(path), TransferKind::Given(copied)) => line(format_args!(
            "{}: {} to {}",
            path.display(),
            counts(copied),
            received.peer
        )),
        (Err(error), kind) => {
            note_failed(received, kind, error);
            Ok(())
        }
    }
}

/// Files and bytes of a tree.
fn counts(copied: &CopiedTree) -> String {
    let (files, size) = (counted(copied.files, "file"), copied.size);
    match copied.failed {
        0 => format!("{files}, {size} bytes"),
        failed => format!("{files}, {size} bytes, {failed} failed"),
    }
}

fn note_failed(received: &ReceivedFile, kind: &TransferKind, error: &std::io::Error) {
    let name = &received.name;
    let what = if name.is_empty() { "a transfer" } else { name };
    let peer = received.peer;
    match kind {
        TransferKind::File => {
            let TransferProgress { done, size, .. } = received.progress;
            note(format_args!(
                "{what} from {peer} failed after {done} of {size} bytes: {error}"
            ));
        }
        TransferKind::Tree(copied) => note(format_args!(
            "{what} from {peer} failed after {}: {error}",
            counts(copied)
        )),
        TransferKind::Given(copied) => note(format_args!(
            "{what} to {peer} failed after {}: {error}",
            counts(copied)
        )),
    }
}
