//! cp-tree: many small files to a daemon on the loopback, `towpath cp` against rsync.
//!
//! Both write into memory (/dev/shm where it is there), so that the disk is not what is measured, keep modes, times and
//! links, and start a client for each measurement; the daemons stay.

use super::bar::BenchTarget;
use super::compare::{Comparison, Measure};
use super::peers::{ServerProcess, require_program};
use std::cell::OnceCell;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Rounds of the comparison.
const ROUNDS: usize = 7;

/// Folders of the tree, files in each, and bytes of a file.
const FOLDERS: usize = 100;
const FILES: usize = 100;
const FILE_LEN: usize = 2048;

/// How long the daemon of rsync may take to listen.
const START_LIMIT: Duration = Duration::from_secs(5);

/// The comparison.
pub fn comparison() -> Comparison {
    let lab = Rc::new(OnceCell::new());
    Comparison::of(
        "cp-tree",
        rate(&lab, Copier::Towpath),
        ("rsync's daemon, files/s", rate(&lab, Copier::Rsync)),
        ROUNDS,
        BenchTarget::at_least(1.0, 2.0),
    )
}

#[derive(Clone, Copy)]
enum Copier {
    Towpath,
    Rsync,
}

type SharedLab = Rc<OnceCell<Result<Lab, String>>>;

/// Files per second of one copy.
fn rate(lab: &SharedLab, copier: Copier) -> Measure {
    let lab = Rc::clone(lab);
    Box::new(move |ours| {
        let lab = lab.get_or_init(|| Lab::start(ours.program()));
        lab.as_ref().map_err(String::clone)?.run(copier)
    })
}

/// A tree, and two daemons that take copies of it.
struct Lab {
    folder: Folder,
    program: PathBuf,
    /// Addresses of the daemons: ours, rsync's.
    ours_at: String,
    rsync_at: String,
    _daemons: [ServerProcess; 2],
}

impl Lab {
    fn start(program: &Path) -> Result<Lab, String> {
        require_program("rsync", "rsync").map_err(|error| format!("SKIPPED: {error}"))?;
        let folder = Folder::new()?;
        folder.make_tree().map_err(|error| error.to_string())?;
        let (ours, ours_at) = start_ours(program, &folder.0.join("inbox"))?;
        let (rsync, rsync_at) = start_rsync(&folder.0)?;
        Ok(Lab {
            folder,
            program: program.to_owned(),
            ours_at,
            rsync_at,
            _daemons: [ours, rsync],
        })
    }

    fn run(&self, copier: Copier) -> Result<f64, String> {
        let tree = self.folder.0.join("tree");
        let inbox = self.folder.0.join("inbox");
        let mut command = match copier {
            Copier::Towpath => {
                let mut command = Command::new(&self.program);
                command.args(["cp", "-rp"]).arg(&tree).arg(&self.ours_at);
                command
            }
            Copier::Rsync => {
                let mut command = Command::new("rsync");
                command.arg("-rlpt").arg(&tree);
                command.arg(format!("rsync://{}/inbox/", self.rsync_at));
                command
            }
        };
        let began_at = Instant::now();
        let output = command.output().map_err(|error| error.to_string())?;
        let seconds = began_at.elapsed().as_secs_f64();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let copy = inbox.join("tree");
        let arrived = count_files(&copy).map_err(|error| error.to_string())?;
        std::fs::remove_dir_all(&copy).map_err(|error| error.to_string())?;
        match arrived == FOLDERS * FILES {
            true => Ok(arrived as f64 / seconds),
            false => Err(format!("{arrived} files arrived")),
        }
    }
}

/// Our receiver; it says where it listens.
fn start_ours(program: &Path, inbox: &Path) -> Result<(ServerProcess, String), String> {
    let mut command = Command::new(program);
    command
        .args(["cp", "--listen", "127.0.0.1:0", "--receive"])
        .arg(inbox);
    let mut server = ServerProcess::new(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
    let output = server.stderr().ok_or("no pipe")?;
    let mut lines = BufReader::new(output).lines();
    let line = lines.next().and_then(Result::ok).unwrap_or_default();
    let at = line
        .split_once(" at ")
        .and_then(|(_, rest)| rest.split(';').next());
    let at = at.ok_or_else(|| format!("towpath cp does not listen: {line}"))?;
    let at = at.to_owned();
    // What it says later has somewhere to go.
    std::thread::spawn(move || lines.for_each(drop));
    Ok((server, at))
}

/// A daemon of rsync with the module `inbox`.
fn start_rsync(folder: &Path) -> Result<(ServerProcess, String), String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let at = free.map_err(|error| error.to_string())?;
    let config = format!(
        "use chroot = no\n{}[inbox]\npath = {}\nread only = no\n",
        // As the files are root's, where root runs this.
        if rustix::process::geteuid().is_root() {
            "uid = 0\ngid = 0\n"
        } else {
            ""
        },
        folder.join("inbox").display()
    );
    let file = folder.join("rsyncd.conf");
    std::fs::write(&file, config).map_err(|error| error.to_string())?;
    let mut command = Command::new("rsync");
    command.args(["--daemon", "--no-detach", "--address=127.0.0.1"]);
    command.arg(format!("--port={}", at.port()));
    command.arg(format!("--config={}", file.display()));
    command.arg(format!(
        "--log-file={}",
        folder.join("rsyncd.log").display()
    ));
    let server = ServerProcess::new(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let end = Instant::now() + START_LIMIT;
    while TcpStream::connect(at).is_err() {
        if Instant::now() > end {
            return Err("rsync's daemon does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok((server, at.to_string()))
}

fn count_files(folder: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        count += match entry.file_type()?.is_dir() {
            true => count_files(&entry.path())?,
            false => 1,
        };
    }
    Ok(count)
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let folder = parent.join(format!("towpath-cp-tree-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inbox")).map_err(|error| error.to_string())?;
        Ok(Folder(folder))
    }

    fn make_tree(&self) -> std::io::Result<()> {
        for number in 0..FOLDERS {
            let folder = self.0.join("tree").join(format!("folder-{number}"));
            std::fs::create_dir_all(&folder)?;
            for file in 0..FILES {
                let content = vec![(number + file) as u8; FILE_LEN];
                std::fs::write(folder.join(format!("file-{file}")), content)?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left among the temporary ones does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
