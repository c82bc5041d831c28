//! Packages of the program: a Debian package, an archive, an OCI image, a wheel for Python. Each holds the program with licences;
//! the first two also man page, completions and the agent's unit.
//!
//! They are built from a program that is given, or from a static one that is built for it. Times in them are
//! those of the commit (or SOURCE_DATE_EPOCH), so that the same program gives the same package.

mod image;

use crate::{fail, python};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The words after `package`.
const USAGE: &str =
    "usage: cargo xtask package deb|tar|image|wheel [--program FILE] [--out FOLDER]";

/// What is packaged.
struct Package<'a> {
    root: &'a Path,
    program: PathBuf,
    out: PathBuf,
    version: String,
    /// Seconds since 1970 of every file.
    epoch_s: u64,
}

/// Makes a package, by default in `target/package`, and writes its sum beside it.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let made = Package::from_words(root, words).and_then(|(kind, package)| package.make(&kind));
    match made {
        Ok(path) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(message) => fail(&message),
    }
}

impl Package<'_> {
    fn from_words<'a>(root: &'a Path, words: &[&str]) -> Result<(String, Package<'a>), String> {
        let (kind, mut rest) = match words {
            [kind @ ("deb" | "tar" | "image" | "wheel"), rest @ ..] => ((*kind).to_owned(), rest),
            _ => return Err(USAGE.to_owned()),
        };
        let (mut program, mut out) = (None, root.join("target/package"));
        while let [option, value, others @ ..] = rest {
            match *option {
                "--program" => program = Some(PathBuf::from(value)),
                "--out" => out = PathBuf::from(value),
                _ => return Err(USAGE.to_owned()),
            }
            rest = others;
        }
        if !rest.is_empty() {
            return Err(USAGE.to_owned());
        }
        // The program of a wheel is linked to the system's libraries, as its extension is.
        let program = match (program, kind.as_str()) {
            (Some(program), _) => program,
            (None, "wheel") => without_debug_sections(python::program(root)?)?,
            (None, _) => without_debug_sections(static_program(root)?)?,
        };
        let said = output(Command::new(&program).arg("--version"))?;
        let version = said.split_whitespace().nth(1).map(str::to_owned);
        let package = Package {
            root,
            out,
            version: version.ok_or_else(|| format!("{} says no version", program.display()))?,
            epoch_s: epoch_s(root),
            program,
        };
        Ok((kind, package))
    }

    fn make(&self, kind: &str) -> Result<PathBuf, String> {
        fs::create_dir_all(&self.out).map_err(|error| refused(&self.out, &error))?;
        let work = self.out.join(format!("{kind}.partial"));
        remove(&work)?;
        let made = match kind {
            "deb" => self.deb(&work),
            "tar" => self.tar(&work),
            "wheel" => self.wheel(),
            _ => image::make(self, &work),
        };
        remove(&work)?;
        made
    }

    /// The name of what is made, without extension.
    fn name(&self) -> String {
        format!("towpath-{}-{}", self.version, std::env::consts::ARCH)
    }

    /// Puts all files where Debian has them, below `tree`.
    fn fill(&self, tree: &Path) -> Result<(), String> {
        self.put(tree, "usr/bin/towpath", &self.program, 0o755)?;
        for (words, place) in [
            (&["man"][..], "usr/share/man/man1/towpath.1"),
            (
                &["completions", "bash"],
                "usr/share/bash-completion/completions/towpath",
            ),
            (
                &["completions", "fish"],
                "usr/share/fish/vendor_completions.d/towpath.fish",
            ),
            (
                &["completions", "zsh"],
                "usr/share/zsh/vendor-completions/_towpath",
            ),
        ] {
            let text = output(Command::new(&self.program).args(words))?;
            self.write(tree, place, &text)?;
        }
        let unit = self.root.join("packaging/towpath-agent.service");
        self.put(
            tree,
            "usr/lib/systemd/system/towpath-agent.service",
            &unit,
            0o644,
        )?;
        self.fill_licences(tree)
    }

    fn fill_licences(&self, tree: &Path) -> Result<(), String> {
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            let place = format!("usr/share/doc/towpath/{name}");
            self.put(tree, &place, &self.root.join(name), 0o644)?;
        }
        self.write(
            tree,
            "usr/share/doc/towpath/copyright",
            "Towpath may be used under the terms of the MIT licence (LICENSE-MIT) or of the\n\
             Apache Licence 2.0 (LICENSE-APACHE), both in this folder.\n",
        )
    }

    fn put(&self, tree: &Path, place: &str, from: &Path, mode: u32) -> Result<(), String> {
        let to = tree.join(place);
        make_parent(&to)?;
        fs::copy(from, &to).map_err(|error| refused(from, &error))?;
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&to, mode).map_err(|error| refused(&to, &error))
    }

    fn write(&self, tree: &Path, place: &str, text: &str) -> Result<(), String> {
        let to = tree.join(place);
        make_parent(&to)?;
        fs::write(&to, text).map_err(|error| refused(&to, &error))
    }

    fn deb(&self, work: &Path) -> Result<PathBuf, String> {
        self.fill(work)?;
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let size_kib = output(Command::new("du").args(["-ks", "usr"]).current_dir(work))?;
        let size_kib = size_kib.split_whitespace().next().unwrap_or("0").to_owned();
        let control = format!(
            "Package: towpath\nVersion: {}\nArchitecture: {architecture}\n\
             Maintainer: The authors of Towpath <towpath@localhost>\nInstalled-Size: {size_kib}\n\
             Section: net\nPriority: optional\nDescription: races transport protocols\n \
             Measures transports in fresh processes, in blocks and random order, and says which\n \
             is faster, by how much, and how sure that is.\n",
            self.version
        );
        self.write(work, "DEBIAN/control", &control)?;
        let path = self
            .out
            .join(format!("towpath_{}_{architecture}.deb", self.version));
        let mut build = Command::new("dpkg-deb");
        build.env("SOURCE_DATE_EPOCH", self.epoch_s.to_string());
        build
            // Little larger than at the default level, in a third of the time.
            .args(["--root-owner-group", "-z2", "--build"])
            .arg(work)
            .arg(&path);
        output(&mut build)?;
        self.with_sum(path)
    }

    fn tar(&self, work: &Path) -> Result<PathBuf, String> {
        let name = self.name();
        self.fill(&work.join(&name))?;
        let path = self.out.join(format!("{name}.tar.gz"));
        let plain = work.join("plain.tar");
        self.archive(work, &name, &plain)?;
        // Without the file's name and time in its header.
        output(
            Command::new("gzip")
                .args(["--no-name", "--force"])
                .arg(&plain),
        )?;
        let packed = work.join("plain.tar.gz");
        fs::rename(&packed, &path).map_err(|error| refused(&path, &error))?;
        self.with_sum(path)
    }

    /// The wheel, built by the maturin of the `python3` on the path.
    fn wheel(&self) -> Result<PathBuf, String> {
        let found = output(
            Command::new("python3").args(["-c", "import sys, maturin; print(sys.executable)"]),
        );
        let python = found.map_err(|error| format!("{error}; pip install 'maturin>=1.8,<2'"))?;
        let python = Path::new(python.trim());
        let made = python::wheel(self.root, python, &self.out, &self.program)?;
        self.with_sum(made)
    }

    /// An archive of `what` in `folder`, the same octets for the same files.
    fn archive(&self, folder: &Path, what: &str, to: &Path) -> Result<(), String> {
        let mut tar = Command::new("tar");
        tar.args([
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--format=gnu",
        ]);
        tar.arg(format!("--mtime=@{}", self.epoch_s))
            .arg("--create")
            .arg("--file")
            .arg(to);
        tar.arg("--directory").arg(folder).arg(what);
        output(&mut tar).map(|_| ())
    }

    /// Writes the SHA-256 of a file beside it, as sha256sum reads it.
    fn with_sum(&self, path: PathBuf) -> Result<PathBuf, String> {
        let name = path.file_name().unwrap_or_default();
        let sum = output(Command::new("sha256sum").arg(name).current_dir(&self.out))?;
        let beside = PathBuf::from(format!("{}.sha256", path.display()));
        fs::write(&beside, sum).map_err(|error| refused(&beside, &error))?;
        Ok(path)
    }
}

/// A copy of a program beside it without the sections that only a debugger reads, six sevenths of it. Names of
/// functions stay: `towpath profile` shows them.
fn without_debug_sections(program: PathBuf) -> Result<PathBuf, String> {
    let lean = program.with_extension("packaged");
    let mut strip = Command::new("strip");
    strip
        .arg("--strip-debug")
        .arg("-o")
        .arg(&lean)
        .arg(&program);
    match strip.output() {
        Ok(done) if done.status.success() => Ok(lean),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(error) => {
            eprintln!(
                "NOTE: strip of binutils does not run ({error}); the package holds what debuggers read"
            );
            Ok(program)
        }
    }
}

/// What builds the program as it is distributed.
pub fn release_build(root: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root);
    cargo.args(["build", "--locked", "--release", "--package", "towpath-cli"]);
    cargo.args(["--features", "parquet"]);
    cargo
}

/// Builds the program without libraries, as `packaging/README.md` says.
fn static_program(root: &Path) -> Result<PathBuf, String> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let mut cargo = release_build(root);
    cargo
        .args(["--target", &target])
        .env(format!("CC_{}", target.replace('-', "_")), "musl-gcc");
    cargo.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let built = cargo
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.success() {
        return Err(format!(
            "the static program could not be built; `rustup target add {target}` and install musl-tools, or give \
             --program FILE"
        ));
    }
    Ok(crate::target(root).join(target).join("release/towpath"))
}

fn epoch_s(root: &Path) -> u64 {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok();
    let of_commit = || {
        let mut git = Command::new("git");
        output(git.current_dir(root).args(["log", "-1", "--format=%ct"])).ok()
    };
    let text = set.or_else(of_commit);
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Runs a program and gives what it printed.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {name}: {error}; install it"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed: {}", said.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} printed no text"))
}

fn make_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|error| refused(parent, &error))
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(refused(folder, &error)),
        _ => Ok(()),
    }
}

fn refused(path: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot write {}: {error}; give another --out",
        path.display()
    )
}

#[cfg(test)]
mod tests;
