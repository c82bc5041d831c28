//! An agent's counters as OpenMetrics text, served over HTTP on the loopback.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Timeout of a request; requests are served one at a time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Delay before accepting again when no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Octets of a request at most.
const REQUEST_MAX: usize = 4096;

/// The counters.
#[derive(Debug)]
pub(crate) struct AgentMetrics {
    started_at: Instant,
    sessions: AtomicU64,
    workers: AtomicU64,
    reports: AtomicU64,
    unauthenticated: AtomicU64,
    rejected: AtomicU64,
    violations: AtomicU64,
}

impl Default for AgentMetrics {
    fn default() -> AgentMetrics {
        AgentMetrics {
            started_at: Instant::now(),
            sessions: AtomicU64::new(0),
            workers: AtomicU64::new(0),
            reports: AtomicU64::new(0),
            unauthenticated: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            violations: AtomicU64::new(0),
        }
    }
}

fn increment(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl AgentMetrics {
    pub(crate) fn count_session(&self) {
        increment(&self.sessions);
    }

    pub(crate) fn count_worker(&self) {
        increment(&self.workers);
    }

    pub(crate) fn count_report(&self) {
        increment(&self.reports);
    }

    pub(crate) fn count_unauthenticated(&self) {
        increment(&self.unauthenticated);
    }

    pub(crate) fn count_rejected(&self) {
        increment(&self.rejected);
    }

    pub(crate) fn count_violation(&self) {
        increment(&self.violations);
    }
}

/// The counters as text; `clients` measure or wait.
pub(crate) fn text(counts: &AgentMetrics, clients: usize) -> String {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let mut text = String::new();
    for (name, help, count) in [
        ("sessions", "client sessions served", &counts.sessions),
        ("workers", "workers started", &counts.workers),
        ("reports", "reports of workers passed on", &counts.reports),
        (
            "strangers",
            "connections without a trusted key",
            &counts.unauthenticated,
        ),
        (
            "turned_away",
            "connections beyond the limits",
            &counts.rejected,
        ),
        ("faults", "clients that broke the rules", &counts.violations),
    ] {
        let name = format!("towpath_agent_{name}");
        let value = read(count);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# TYPE {name} counter\n# HELP {name} {help}\n{name}_total {value}\n"
        );
    }
    let up_s = counts.started_at.elapsed().as_secs_f64();
    for (name, unit, help, value) in [
        (
            "clients",
            "",
            "clients that measure or wait",
            clients as f64,
        ),
        ("uptime_seconds", "seconds", "time since the start", up_s),
        (
            "resident_bytes",
            "bytes",
            "memory of the agent's process",
            resident_bytes(),
        ),
    ] {
        let name = format!("towpath_agent_{name}");
        let _ = writeln!(text, "# TYPE {name} gauge");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = write!(text, "# HELP {name} {help}\n{name} {value}\n");
    }
    text.push_str("# EOF\n");
    text
}

fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse::<f64>().ok());
    pages.unwrap_or(0.0) * rustix::param::page_size() as f64
}

/// Serves the text from `source` on `listen`, a loopback address, in a thread of its own until the
/// process ends.
///
/// # Errors
///
/// `PermissionDenied` if not on the loopback, or a system error.
pub fn serve(
    listen: SocketAddr,
    source: impl Fn() -> String + Send + 'static,
) -> io::Result<SocketAddr> {
    if !listen.ip().is_loopback() {
        let text = "metrics are served on the loopback only; give --metrics 127.0.0.1:PORT";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let socket = TcpListener::bind(listen)?;
    let address = socket.local_addr()?;
    let answer = move || {
        for asker in socket.incoming() {
            match asker {
                // The client may have closed the connection.
                Ok(asker) => drop(respond(asker, &source())),
                // Out of file descriptors.
                Err(_) => std::thread::sleep(ACCEPT_RETRY_DELAY),
            }
        }
    };
    std::thread::Builder::new()
        .name("metrics".into())
        .stack_size(128 << 10)
        .spawn(answer)?;
    Ok(address)
}

/// Reads the request, whatever it says (closing with unread data would reset the connection), and
/// responds.
fn respond(mut asker: TcpStream, text: &str) -> io::Result<()> {
    let end = Instant::now() + REQUEST_TIMEOUT;
    asker.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut question = Vec::new();
    while !question.windows(4).any(|four| four == b"\r\n\r\n") && question.len() < REQUEST_MAX {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        asker.set_read_timeout(Some(left))?;
        let mut piece = [0; 512];
        match asker.read(&mut piece)? {
            0 => break,
            len => question.extend_from_slice(&piece[..len]),
        }
    }
    let head = format!(
        "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; \
         charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    asker.write_all(head.as_bytes())?;
    asker.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_text_is_openmetrics() {
        let counts = AgentMetrics::default();
        counts.count_session();
        counts.count_session();
        let text = text(&counts, 3);
        assert!(
            text.contains("\ntowpath_agent_sessions_total 2\n"),
            "{text}"
        );
        assert!(text.contains("\ntowpath_agent_clients 3\n") && text.ends_with("# EOF\n"));
        let resident = text
            .lines()
            .find_map(|line| line.strip_prefix("towpath_agent_resident_bytes "));
        let resident: f64 = resident
            .and_then(|word| word.parse().ok())
            .expect("a number");
        assert!(resident > 1e5, "{resident}");
    }

    #[test]
    fn metrics_served_on_loopback_only() {
        let any = "0.0.0.0:0".parse().expect("an address");
        assert!(serve(any, String::new).is_err());
        let here = "127.0.0.1:0".parse().expect("an address");
        let address = serve(here, || "# EOF\n".into()).expect("it listens");
        // Silent, oversized and closed connections do not block others.
        let _silent = TcpStream::connect(address).expect("it answers");
        let mut loud = TcpStream::connect(address).expect("it answers");
        loud.write_all(&[b'x'; REQUEST_MAX]).expect("it hears");
        drop(TcpStream::connect(address));
        for _ in 0..2 {
            let mut asker = TcpStream::connect(address).expect("it answers");
            asker
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                .expect("it hears");
            let mut answer = String::new();
            asker.read_to_string(&mut answer).expect("it says");
            assert!(
                answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\n# EOF\n")
            );
        }
    }
}
