//! Programs that run with the library.

#[path = "../../../libtowpath/tests/all/cdylib.rs"]
mod cdylib;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Names the file of rules.
pub const RULES_FILE: &str = "TOWPATH_SOCKETS";

/// A folder that is removed on drop.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("room for a file");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn scratch(name: &str) -> Scratch {
    let name = format!("sockets-{name}-{}", std::process::id());
    let scratch = Scratch(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    fs::create_dir_all(&scratch.0).expect("a folder to work in");
    scratch
}

/// The preloaded library, with libtowpath beside it.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = cdylib::build_libraries(&["towpath-c", "towpath-sockets"]);
        folder.join("libtowpath_sockets.so")
    })
}

/// A program with the library and the file `rules` of the folder.
pub fn preloaded(program: &str, scratch: &Scratch) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command.env(RULES_FILE, scratch.0.join("rules"));
    command
}

/// What a program prints that succeeds.
pub fn output_of(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server that is killed on drop.
pub struct Server {
    process: Child,
    pub port: u16,
    pub scratch: Scratch,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts redis with `rules` at 127.0.0.1, or at 10.77.0.1 of a namespace; None, with a SKIPPED line, if there is
    /// none.
    pub fn redis(name: &str, port: u16, rules: &str, space: Option<&str>) -> Option<Server> {
        if Command::new("redis-server")
            .arg("--version")
            .output()
            .is_err()
        {
            eprintln!("SKIPPED: there is no redis-server");
            return None;
        }
        let scratch = scratch(name);
        scratch.write("rules", rules);
        let mut command = match space {
            Some(space) => {
                let mut command = preloaded("ip", &scratch);
                command.args([
                    "netns",
                    "exec",
                    space,
                    "redis-server",
                    "--bind",
                    "10.77.0.1",
                ]);
                command
            }
            None => {
                let mut command = preloaded("redis-server", &scratch);
                command.args(["--bind", "127.0.0.1"]);
                command
            }
        };
        command.args(["--save", "", "--protected-mode", "no", "--port"]);
        command.arg(port.to_string()).stdout(Stdio::piped());
        let process = command.current_dir(&scratch.0).spawn();
        let mut server = Server {
            process: process.expect("it runs"),
            port,
            scratch,
        };
        let output = server.process.stdout.take().expect("piped");
        let mut lines = BufReader::new(output).lines();
        let ready = |line: std::io::Result<String>| {
            line.is_ok_and(|line| line.contains("eady to accept connections"))
        };
        assert!(lines.any(ready), "redis-server ends before it is ready");
        // What it prints later has somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
        Some(server)
    }
}
