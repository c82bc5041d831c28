//! Shared by the XTP commands: addresses, transport options, traces, stop signals.

use crate::CliError;
use crate::print::note;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use towpath::push::ModuleStack;
use towpath::xtp::{Endpoint, EndpointConfig, Shortcut, TraceLog};

/// The first address of `HOST:PORT`.
///
/// # Errors
///
/// A line that names it.
pub fn resolve(text: &str) -> Result<SocketAddr, CliError> {
    if text.rsplit_once(':').is_none() {
        return Err(CliError::usage(format!(
            "'{text}' is no address; give HOST:PORT, such as 127.0.0.1:9000"
        )));
    }
    let found = text.to_socket_addrs();
    let mut found = found.map_err(|error| {
        CliError::failed(format!("cannot resolve '{text}': {error}; give HOST:PORT"))
    })?;
    found
        .next()
        .ok_or_else(|| CliError::failed(format!("'{text}' has no address")))
}

/// Endpoint configuration from `xtp[,KEY=VALUE...]`. Peers are accepted once their address is known
/// not to be forged, unless an option says otherwise.
///
/// # Errors
///
/// A line that names what is wrong and what would be right.
pub fn parse_transport(text: &str) -> Result<EndpointConfig, CliError> {
    configure(&parse_words(text)?)
}

/// The same, and the modules of `push=` with their options.
///
/// # Errors
///
/// A line that names what is wrong and what would be right.
pub fn parse_pushable_transport(
    text: &str,
) -> Result<(EndpointConfig, Option<ModuleStack>), CliError> {
    let mut own = parse_words(text)?;
    let modules = ModuleStack::take(&mut own).map_err(CliError::usage)?;
    if let Some(modules) = &modules {
        modules.check_on_xtp().map_err(CliError::usage)?;
    }
    Ok((configure(&own)?, modules))
}

fn configure(own: &BTreeMap<String, String>) -> Result<EndpointConfig, CliError> {
    let mut late = EndpointConfig::accepting_late();
    late.shortcut = Shortcut::where_possible();
    late.with_options(own).map_err(CliError::usage)
}

/// How a tunnel finds out within 10 s that its other end is dead, unless it is said otherwise: silence after which it asks, and how long it
/// asks then. Its last question is asked up to twice as late (WTIMER doubles).
const TUNNEL_DEFAULTS: [(&str, &str); 2] = [("ctimer", "2s"), ("ctimeout", "3s")];

/// [`parse_pushable_transport`] for a tunnel.
pub fn parse_tunnel_transport(
    text: &str,
) -> Result<(EndpointConfig, Option<ModuleStack>), CliError> {
    let own = parse_words(text)?;
    let missing = TUNNEL_DEFAULTS
        .iter()
        .filter(|(key, _)| !own.contains_key(*key));
    let words: Vec<String> = std::iter::once(text.to_owned())
        .chain(missing.map(|(key, value)| format!("{key}={value}")))
        .collect();
    parse_pushable_transport(&words.join(","))
}

/// The options in `xtp[,KEY=VALUE...]`.
fn parse_words(text: &str) -> Result<BTreeMap<String, String>, CliError> {
    let mut words = text.split(',');
    let transport = words.next().unwrap_or_default();
    if transport != "xtp" {
        return Err(CliError::usage(format!(
            "this command runs only over xtp, not over '{transport}'"
        )));
    }
    key_values(words)
}

/// Words of the form `KEY=VALUE`, by key.
///
/// # Errors
///
/// A line that names a word of another form.
pub fn key_values<'a>(
    words: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, String>, CliError> {
    let mut own = BTreeMap::new();
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| CliError::usage(format!("'{word}' is no option; write KEY=VALUE")))?;
        own.insert(key.to_owned(), value.to_owned());
    }
    Ok(own)
}

/// Prints what modules counted, if they did.
pub fn note_module_counts(counts: &BTreeMap<String, u64>) {
    let words = counts.iter().map(|(name, count)| format!("{name} {count}"));
    let words: Vec<String> = words.collect();
    if !words.is_empty() {
        note(format_args!("modules: {}", words.join(", ")));
    }
}

/// Makes endpoints of this configuration write a packet trace to `path`, if given.
///
/// # Errors
///
/// When the file cannot be created.
pub fn enable_trace(settings: &mut EndpointConfig, path: Option<&Path>) -> Result<(), CliError> {
    if let Some(path) = path {
        let log = TraceLog::create(path).map_err(|error| trace_error(path, &error))?;
        settings.trace = Some(Arc::new(log));
    }
    Ok(())
}

/// Checks that every trace line was written.
///
/// # Errors
///
/// The first write error.
pub fn check_trace(settings: &EndpointConfig) -> Result<(), CliError> {
    match settings
        .trace
        .as_ref()
        .and_then(|log| Some((log, log.take_error()?)))
    {
        Some((log, error)) => Err(trace_error(log.path(), &error)),
        None => Ok(()),
    }
}

fn trace_error(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!(
        "cannot write the trace {}: {error}; name another file",
        path.display()
    ))
}

/// Lets `towpath xtp contexts` query an endpoint. A failure is only noted.
pub fn serve_contexts(endpoint: &Endpoint) {
    if let Err(error) = endpoint.serve_contexts() {
        note(format_args!(
            "`towpath xtp contexts` cannot query this endpoint: {error}"
        ));
    }
}

/// A flag that SIGINT and SIGTERM set.
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Installs the handlers; a second signal ends the program at once.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn on_signals() -> Result<StopSignal, CliError> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let flag = || Arc::clone(&stop);
            // In this order, so that the first signal sets the flag and the second one acts on it.
            signal_hook::flag::register_conditional_default(signal, flag())
                .and_then(|_| signal_hook::flag::register(signal, flag()))
                .map_err(CliError::failed)?;
        }
        Ok(StopSignal(stop))
    }

    /// True once a signal arrived.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_transport, resolve};
    use towpath::xtp::Shortcut;

    #[test]
    fn shortcut_is_on_unless_an_option_says_otherwise() {
        let of = |text| parse_transport(text).map(|settings| settings.shortcut).ok();
        assert_eq!(of("xtp"), Some(Shortcut::where_possible()));
        assert_eq!(of("xtp,shortcut=off"), Some(Shortcut::Off));
        assert_eq!(
            of("xtp,shortcut=/run/a"),
            Some(Shortcut::Directory("/run/a".into()))
        );
    }

    #[test]
    fn invalid_address_or_option_is_named_in_error() {
        assert!(resolve("127.0.0.1:9").is_ok() && resolve("[::1]:9").is_ok());
        for wrong in ["", "9000", "127.0.0.1:port", "127.0.0.1:99999"] {
            let error = resolve(wrong).expect_err("no address");
            assert!(error.message.contains(wrong), "{}", error.message);
        }
        assert!(
            parse_transport("xtp").is_ok() && parse_transport("xtp,queue=32k,error=gbn").is_ok()
        );
        for (wrong, part) in [
            ("tcp", "only over xtp"),
            ("xtp,queue", "KEY=VALUE"),
            ("xtp,colour=red", "no option colour"),
        ] {
            let error = parse_transport(wrong).expect_err("wrong");
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
}
