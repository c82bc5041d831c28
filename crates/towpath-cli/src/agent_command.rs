//! `towpath agent`.

use crate::race::stop_flag;
use crate::{CliError, EXIT_OK, parse, print};
use agent::server::raw_sockets::{self, RawSocketSource};
use agent::server::{metrics, privilege};
use agent::{Agent, AgentConfig, DEFAULT_PORT, KeyFolder};
use clap::Args;
use control::Caps;
use control::session::WORKERS_MAX;
use loadgen::LocalHost;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which the stop flag is polled.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Options of an agent.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "An agent serves clients whose keys are trusted on its host (`towpath key trust`), one \
at a time. Without a key of its own it listens on the loopback only. It drops all privileges, \
writes no files, and starts only workers, as the user nobody if root starts it. With --raw one more \
process keeps the right to raw sockets and hands them out, each for one interface and one peer.

Examples:
  towpath agent
  towpath agent --listen 192.0.2.7 --max-rate 1gbit --max-time 10s
  towpath agent --listen 192.0.2.7 --raw eth0
  towpath agent --listen 127.0.0.1:0 --metrics 127.0.0.1:9470

On the measuring host:
  towpath race tcp udp quic --to 192.0.2.7"
)]
pub struct AgentArgs {
    /// Address to listen on, with :PORT if it is not 7470; default: all addresses if there is a
    /// key, else the loopback.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Serve counters as OpenMetrics text at this loopback address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = loopback_address)]
    pub metrics: Option<SocketAddr>,
    /// Maximum circuits of a client; default: 64, or what this host's memory allows.
    #[arg(long, value_name = "N", value_parser = parse::whole::<1, 64, u32>)]
    pub max_circuits: Option<u32>,
    /// Maximum workers at a time; contestants in turns have one each here, or two with both ends.
    #[arg(long, value_name = "N", default_value_t = WORKERS_MAX, value_parser = parse::whole::<1, 64, u32>)]
    pub max_workers: u32,
    /// Maximum total send rate of the workers here, such as 500mbit; default: unlimited.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub max_rate: Option<u64>,
    /// Maximum measuring time of a trial.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse::time)]
    pub max_time: Duration,
    /// Maximum duration of a session.
    #[arg(long, value_name = "TIME", default_value = "4h", value_parser = parse::time)]
    pub max_session: Duration,
    /// Maximum bytes of a session in both directions together, such as 100GiB.
    #[arg(long, value_name = "BYTES", default_value = "16TiB", value_parser = byte_quota)]
    pub max_bytes: u64,
    /// Maximum message size.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse::size)]
    pub max_message: u64,
    /// Maximum socket buffer size.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse::size)]
    pub max_buffers: u64,
    /// Maximum address space of a worker; default: 8 GiB, or less so that all together take at most three quarters of this host's memory.
    #[arg(long, value_name = "BYTES", value_parser = worker_memory)]
    pub max_memory: Option<u64>,
    /// Copies of a load that clients may run here (`race --to ... --host-load`): threads that compute and copy memory.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse::whole::<0, 64, u32>)]
    pub max_load: u32,
    /// Let workers use raw IP and Ethernet on these interfaces, towards their peer alone (xtp-rawip, xtp-ether,
    /// raw-ether, vmtp-rawip, vmtp-ether, sctp-rawip); a small process keeps the right to raw sockets.
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',')]
    pub raw: Vec<String>,
    /// Run as root if root starts it; without this, it becomes the user nobody.
    #[arg(long)]
    pub as_root: bool,
}

/// Options of the process that keeps the right to raw sockets.
#[derive(Clone, Debug, Args)]
pub struct RawSocketsArgs {
    /// Stay root.
    #[arg(long)]
    as_root: bool,
    /// Interfaces on which it opens some.
    interfaces: Vec<String>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, DEFAULT_PORT));
    }
    let odd = |_| {
        format!(
            "'{text}' is no address; give for example 192.0.2.7, 192.0.2.7:{DEFAULT_PORT} or [::]:{DEFAULT_PORT}"
        )
    };
    text.parse().map_err(odd)
}

/// `500mbit`, `10gbit`, `64kbit` as bits per second.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let bits = quantity::rate_bps(text)?;
    match (1_000..=10_000_000_000_000).contains(&bits) {
        true => Ok(bits),
        false => Err(format!("'{text}' is out of range, from 1kbit to 10000gbit")),
    }
}

/// Bytes, up to thousands of TiB.
fn byte_quota(text: &str) -> Result<u64, String> {
    let bytes = quantity::bytes(text)?;
    match bytes > 0 && bytes <= 1 << 60 {
        true => Ok(bytes),
        false => Err(format!("'{text}' is out of range")),
    }
}

/// The address of the counters, which are for this host alone.
fn loopback_address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>().ok();
    let address = address.filter(|address| address.ip().is_loopback());
    address.ok_or_else(|| {
        format!("'{text}' is no loopback address with a port; give for example 127.0.0.1:9470")
    })
}

/// Bytes that a worker can start with.
fn worker_memory(text: &str) -> Result<u64, String> {
    let bytes = byte_quota(text)?;
    if bytes < control::WORKER_MEMORY_MIN {
        let least = control::WORKER_MEMORY_MIN >> 20;
        return Err(format!(
            "'{text}' is less than a worker needs, {least} MiB; give 512MiB or more"
        ));
    }
    Ok(bytes)
}

/// Runs an agent until a signal.
pub fn run(args: &AgentArgs) -> Result<u8, CliError> {
    let raw_sockets = start_raw_sockets(args)?;
    // Before any thread is started: capabilities are per thread.
    privilege::drop_all(args.as_root).map_err(|error| {
        CliError::failed(format!(
            "cannot drop privileges: {error}; the agent does not run with them"
        ))
    })?;
    let stop = stop_flag()?;
    let usual = KeyFolder::default_location().map_err(CliError::failed)?;
    let keys = match usual.identity() {
        Ok(_) => Some(usual),
        Err(agent::keys::KeyError::Missing(_)) => None,
        Err(error) => return Err(CliError::failed(error)),
    };
    let agent = Agent::start(AgentConfig {
        listen: args
            .listen
            .unwrap_or_else(|| default_address(keys.is_some())),
        keys: keys.clone(),
        caps: caps(args),
        // This path stays valid when another version is installed meanwhile.
        worker_host: Box::new(LocalHost::new(
            PathBuf::from("/proc/self/exe"),
            vec!["worker".into()],
        )),
        raw_sockets,
        log: Box::new(|line| print::note(line)),
    })
    .map_err(CliError::failed)?;
    print::line(format_args!("listening on {}", agent.address()))?;
    print_access(keys.as_ref())?;
    if let Some(listen) = args.metrics {
        let address = metrics::serve(listen, agent.metrics_source());
        let address = address.map_err(|error| CliError::failed(format!("{listen}: {error}")))?;
        print::line(format_args!("metrics on http://{address}/metrics"))?;
    }
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(STOP_POLL_INTERVAL);
    }
    drop(agent);
    Ok(EXIT_OK)
}

/// Starts the process that keeps the right to raw sockets, if the operator allows some.
fn start_raw_sockets(args: &AgentArgs) -> Result<Option<RawSocketSource>, CliError> {
    if args.raw.is_empty() {
        return Ok(None);
    }
    for name in &args.raw {
        towpath::raw_sockets::check_interface(name)
            .map_err(|error| CliError::usage(format!("--raw: {error}")))?;
    }
    let mut arguments = vec!["raw-sockets".to_owned()];
    arguments.extend(args.as_root.then(|| "--as-root".to_owned()));
    arguments.push("--".into());
    arguments.extend(args.raw.iter().cloned());
    let program = Path::new("/proc/self/exe");
    let source = RawSocketSource::start(program, &arguments);
    let refused = |why| CliError::usage(format!("--raw: {why}"));
    source.map(Some).map_err(refused)
}

/// Runs that process; its standard input is the socket to the agent.
pub fn run_raw_sockets(args: &RawSocketsArgs) -> Result<u8, CliError> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let socket = socket.map_err(CliError::failed)?;
    // It ends with the agent, when the socket closes.
    raw_sockets::run(socket, &args.interfaces, args.as_root).map_err(CliError::failed)?;
    Ok(EXIT_OK)
}

/// All addresses if there is a key, else the loopback.
fn default_address(has_key: bool) -> SocketAddr {
    if !has_key {
        return (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into();
    }
    let ipv6 = std::path::Path::new("/proc/net/if_inet6").exists();
    let any: IpAddr = if ipv6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    SocketAddr::new(any, DEFAULT_PORT)
}

fn caps(args: &AgentArgs) -> Caps {
    let usual = Caps::for_host_memory(host_memory(), args.max_workers);
    let caps = Caps {
        message_len: args.max_message,
        buffers: args.max_buffers,
        memory: args.max_memory.unwrap_or(usual.memory),
        workers: args.max_workers,
        rate_bps: args.max_rate,
        bytes: args.max_bytes,
        trial_ns: args.max_time.as_nanos() as u64,
        load: args.max_load,
        raw_interfaces: args.raw.clone(),
        session_s: args.max_session.as_secs().max(1),
        ..Caps::default()
    };
    caps.with_circuits(args.max_circuits.unwrap_or(usual.circuits))
}

/// Bytes of this host's memory.
fn host_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

/// Prints which clients may connect.
fn print_access(keys: Option<&KeyFolder>) -> Result<(), CliError> {
    let Some(keys) = keys else {
        print::note("no key: only this host may connect; create one with `towpath key new`");
        return Ok(());
    };
    let identity = keys.identity().map_err(CliError::failed)?;
    print::line(format_args!("key {}", identity.public_key()))?;
    match keys.trusted().map_err(CliError::failed)?.len() {
        0 => print::note("no client is trusted yet; run `towpath key trust` with its key"),
        some => print::note(format_args!(
            "{} trusted",
            crate::progress::counted(some as u64, "key")
        )),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_rates_and_byte_quotas_parse() {
        assert_eq!(address("127.0.0.1").map(|a| a.port()), Ok(DEFAULT_PORT));
        assert_eq!(address("[::1]:5").map(|a| a.port()), Ok(5));
        assert_eq!(address("::1").map(|a| a.port()), Ok(DEFAULT_PORT));
        assert!(address("lab").is_err());
        assert_eq!(rate("1gbit"), Ok(1_000_000_000));
        assert_eq!(rate("1.5mbit"), Ok(1_500_000));
        assert!(rate("5").is_err() && rate("fast").is_err() && rate("1bit").is_err());
        assert_eq!(byte_quota("2GiB"), Ok(2 << 30));
        assert_eq!(byte_quota("16TiB"), Ok(16 << 40));
        assert!(byte_quota("0TiB").is_err() && byte_quota("x").is_err());
        assert_eq!(worker_memory("512MiB"), Ok(512 << 20));
        assert!(worker_memory("1").is_err_and(|error| error.contains("512 MiB")));
        assert_eq!(loopback_address("[::1]:9").map(|a| a.port()), Ok(9));
        assert!(loopback_address("0.0.0.0:9470").is_err_and(|error| error.contains("127.0.0.1")));
    }
}
