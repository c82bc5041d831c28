//! Redis in two network namespaces: its benchmark and its server as Debian builds them, over TCP, and over XTP
//! by the preloaded library with a directory that both namespaces see for the shortcut.

use super::compare::Measure;
use super::helper_programs;
use super::peers::{ServerProcess, require_program};
use std::cell::OnceCell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

/// The server's address, and its ports for each kind of connection.
const HOST: &str = "10.78.0.1";
const TCP_PORT: &str = "6379";
const XTP_PORT: &str = "6380";

/// What carries the requests of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// TCP of the kernel, over a veth link between the namespaces.
    Tcp,
    /// XTP, whose packets go through shared memory.
    Shortcut,
}

/// One run of redis-benchmark.
#[derive(Clone, Copy)]
pub struct Load {
    /// What it carries: `get` or `set`.
    pub test: &'static str,
    /// Connections.
    pub clients: u32,
    /// Octets of a value.
    pub value_len: u32,
    /// Requests.
    pub requests: u32,
}

/// Two servers in a namespace, one for each carrier, made by the first measurement that wants them.
#[derive(Clone, Default)]
pub struct RedisLab(Rc<OnceCell<Result<Servers, String>>>);

impl RedisLab {
    /// Requests per second of `load` over `carrier`.
    pub fn measure(&self, root: &Path, carrier: Carrier, load: Load) -> Measure {
        let (lab, root) = (self.clone(), root.to_path_buf());
        Box::new(move |_| {
            let servers = lab.0.get_or_init(|| Servers::start(&root));
            servers.as_ref().map_err(String::clone)?.run(carrier, load)
        })
    }
}

/// The servers, and what they need.
struct Servers {
    library: PathBuf,
    /// The rules of the preloaded library, and sockets by which ends meet.
    folder: Folder,
    client_space: String,
    // Servers end before their namespaces.
    _servers: [ServerProcess; 2],
    _spaces: [Namespace; 2],
}

impl Servers {
    fn start(root: &Path) -> Result<Servers, String> {
        for program in ["redis-server", "redis-benchmark"] {
            require_program(program, "redis").map_err(|error| format!("SKIPPED: {error}"))?;
        }
        let spaces = two_namespaces()?;
        let packages = ["--package", "towpath-c", "--package", "towpath-sockets"];
        let library =
            helper_programs::build(root, &packages)?.join("release/libtowpath_sockets.so");
        let folder = Folder::new()?;
        let meetings = folder.0.display();
        let rules = format!("inet {HOST} {XTP_PORT} xtp,shortcut={meetings}\n");
        std::fs::write(folder.0.join("rules"), rules).map_err(|error| error.to_string())?;
        let server = |port, preloaded| {
            let mut command = in_space(&spaces[0].0, "0", "redis-server");
            command.args(["--bind", HOST, "--save", "", "--protected-mode", "no"]);
            command.args(["--port", port]).current_dir(&folder.0);
            if preloaded {
                preload(&mut command, &library, &folder.0);
            }
            ready(&mut command)
        };
        let servers = [server(TCP_PORT, false)?, server(XTP_PORT, true)?];
        Ok(Servers {
            library,
            folder,
            client_space: spaces[1].0.clone(),
            _servers: servers,
            _spaces: spaces,
        })
    }

    fn run(&self, carrier: Carrier, load: Load) -> Result<f64, String> {
        let mut command = in_space(&self.client_space, "1", "redis-benchmark");
        let port = match carrier {
            Carrier::Tcp => TCP_PORT,
            Carrier::Shortcut => XTP_PORT,
        };
        if carrier == Carrier::Shortcut {
            preload(&mut command, &self.library, &self.folder.0);
        }
        command.args(["-h", HOST, "-p", port, "-t", load.test, "--csv"]);
        for (option, value) in [
            ("-c", load.clients),
            ("-d", load.value_len),
            ("-n", load.requests),
        ] {
            command.args([option, &value.to_string()]);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        requests_per_s(&text).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("redis-benchmark printed no rate: {text} {errors}")
        })
    }
}

/// The second field of the last line, as in `"GET","51546.39","0.489",...`.
fn requests_per_s(text: &str) -> Option<f64> {
    let field = text.lines().last()?.split(',').nth(1)?;
    field.trim_matches('"').parse().ok()
}

fn preload(command: &mut Command, library: &Path, folder: &Path) {
    command.env("LD_PRELOAD", library);
    command.env("TOWPATH_SOCKETS", folder.join("rules"));
}

/// `program` in a namespace, on one processor.
fn in_space(space: &str, cpu: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space, "taskset", "-c", cpu, program]);
    command
}

/// A server of redis that accepts connections.
fn ready(command: &mut Command) -> Result<ServerProcess, String> {
    let mut server = ServerProcess::new(command.stdout(Stdio::piped()))?;
    let output = server.stdout().ok_or("no pipe")?;
    let mut lines = BufReader::new(output).lines();
    let is_ready = |line: std::io::Result<String>| {
        line.is_ok_and(|line| line.contains("eady to accept connections"))
    };
    if !lines.any(is_ready) {
        return Err("redis-server ends before it is ready".into());
    }
    // What it prints later has somewhere to go.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(server)
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let name = format!("towpath-redis-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left among the temporary ones does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A network namespace that is deleted on drop.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that was not made cannot be deleted.
        let _ = ip(&format!("netns delete {}", self.0));
    }
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output =
        output.map_err(|error| format!("SKIPPED: ip: {error}; apt-get install iproute2"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "SKIPPED: no network namespaces can be made here (run as root): ip {words}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Two namespaces with a veth link between them; the first has the server's address.
fn two_namespaces() -> Result<[Namespace; 2], String> {
    let spaces = ["s", "c"].map(|end| Namespace(format!("twr{}{end}", std::process::id())));
    let [server, client] = [&spaces[0].0, &spaces[1].0];
    ip(&format!("netns add {server}"))?;
    ip(&format!("netns add {client}"))?;
    ip(&format!(
        "link add twr0 netns {server} type veth peer name twr0 netns {client}"
    ))?;
    for (space, address) in [(server, "10.78.0.1/24"), (client, "10.78.0.2/24")] {
        ip(&format!("-n {space} address add {address} dev twr0"))?;
        ip(&format!("-n {space} link set twr0 up"))?;
    }
    Ok(spaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_the_second_field_of_the_last_line() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"51546.39\",\"0.489\"\n";
        assert_eq!(requests_per_s(text), Some(51546.39));
        assert_eq!(requests_per_s("Could not connect"), None);
    }
}
