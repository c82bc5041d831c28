//! Builds that a profile of the program's own races guides (profile-guided optimization).
//!
//! Without a profile a compiler has to take every branch for as likely as the next. With one it lays out what races ran
//! in one piece, and moves what they never ran out of the way: in a transaction of XTP, 60 KiB of code are run once each.
//! The profile is made of the sources as they are: a program that counts its branches is built, and races all transports
//! for a minute. A chore then runs with a compiler that has the profile, in a target folder of its own.

use crate::{fail, target};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, UNIX_EPOCH};

/// The races that make the profile; workers of the second poll.
const RACES: [&str; 2] = [
    "--all --workload throughput,delay,connect",
    "udp xtp xtp-transaction sctp vmtp --workload delay,connect --busy-poll",
];

/// Options of both: what is measured does not matter, and nothing else has to wait.
const RACE_OPTIONS: &str =
    "--sizes 64,16KiB --blocks 1 --trial 30ms --turns off --no-report --regardless --no-control";

/// Where the builds of a workspace and its profile lie.
struct Places {
    root: PathBuf,
    folder: PathBuf,
}

/// Runs the chore in `words` with a profile of the sources as they are; without one, builds the program and prints its
/// path.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    if words.first() == Some(&"profiled") {
        return fail("a profiled chore has its profile already");
    }
    let folder = std::path::absolute(target(root).join("profiled"));
    let places = match folder {
        Ok(folder) => Places {
            root: root.to_owned(),
            folder,
        },
        Err(error) => return fail(&format!("the target folder has no path: {error}")),
    };
    match places
        .profile()
        .and_then(|profile| places.run_with(&profile, words))
    {
        Ok(code) => code,
        Err(message) => fail(&message),
    }
}

impl Places {
    /// The profile, made anew if the program that counts was built since.
    fn profile(&self) -> Result<PathBuf, String> {
        let merge = llvm_profdata()?;
        let program = self.build_counting()?;
        let built_at = fs::metadata(&program).and_then(|about| about.modified());
        let built_at = built_at.map_err(|error| format!("{}: {error}", program.display()))?;
        let built_at = built_at
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        // Cargo builds dependencies again when a flag changes, and not when the file that it names does.
        let profile = self
            .folder
            .join(format!("{}.profdata", built_at.as_micros()));
        if !profile.exists() {
            self.race(&program)?;
            let partial = profile.with_extension("partial");
            let mut merge = Command::new(merge);
            merge
                .args(["merge", "--output"])
                .arg(&partial)
                .arg(self.counts());
            succeed(&mut merge)?;
            let kept = fs::rename(&partial, &profile);
            kept.map_err(|error| format!("{}: {error}", profile.display()))?;
        }
        Ok(profile)
    }

    /// Where programs that count leave what they counted.
    fn counts(&self) -> PathBuf {
        self.folder.join("counts")
    }

    /// Builds the program that counts, otherwise as the one that is guided: else the compiler would name functions
    /// differently. What no race runs, such as files of Parquet, is left out, so that the profile says nothing of it.
    fn build_counting(&self) -> Result<PathBuf, String> {
        eprintln!("xtask: builds a program that counts how often each branch is taken");
        let folder = self.folder.join("counting");
        let flag = format!("-Cprofile-generate={}", self.counts().display());
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(&self.root)
            .args(["build", "--locked", "--release", "--package", "towpath-cli"])
            .env("RUSTFLAGS", with_flag(own_flags(), &flag))
            .env("CARGO_TARGET_DIR", &folder);
        succeed(&mut cargo)?;
        Ok(folder.join("release/towpath"))
    }

    /// Races, so that `program` counts.
    fn race(&self, program: &Path) -> Result<(), String> {
        eprintln!("xtask: races all transports for a minute or two, for the profile");
        // Counts of an earlier build do not fit.
        let _ = fs::remove_dir_all(self.counts());
        let out = self.folder.join("race");
        for race in RACES {
            let _ = fs::remove_dir_all(&out);
            let mut command = Command::new(program);
            command
                .arg("race")
                .args(race.split_whitespace())
                .args(RACE_OPTIONS.split_whitespace())
                .arg("--out")
                .arg(&out)
                // Workers share few files: each would have megabytes of its own.
                .env("LLVM_PROFILE_FILE", self.counts().join("%4m.profraw"));
            let done = command
                .output()
                .map_err(|error| refused(&command, &error))?;
            if !done.status.success() {
                return Err(String::from_utf8_lossy(&done.stderr).into_owned());
            }
        }
        Ok(())
    }

    /// Runs a chore, or builds the program, with a compiler that has `profile`.
    fn run_with(&self, profile: &Path, words: &[&str]) -> Result<ExitCode, String> {
        let folder = self.folder.join("with");
        let mut command = match words {
            [] => crate::package::release_build(&self.root),
            _ => Command::new(std::env::current_exe().map_err(|error| error.to_string())?),
        };
        command
            .args(words)
            .env(
                "RUSTFLAGS",
                with_flag(own_flags(), &format!("-Cprofile-use={}", profile.display())),
            )
            .env("CARGO_TARGET_DIR", &folder);
        let status = command
            .status()
            .map_err(|error| refused(&command, &error))?;
        if words.is_empty() && status.success() {
            println!("{}", folder.join("release/towpath").display());
        }
        Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)))
    }
}

/// The compiler's flags that the caller has set.
fn own_flags() -> OsString {
    std::env::var_os("RUSTFLAGS").unwrap_or_default()
}

/// Flags and one more.
fn with_flag(mut flags: OsString, flag: &str) -> OsString {
    if !flags.is_empty() {
        flags.push(" ");
    }
    flags.push(flag);
    flags
}

/// The program that joins profiles, which comes with the compiler's component llvm-tools.
fn llvm_profdata() -> Result<PathBuf, String> {
    let said = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output();
    let said = said.map_err(|error| format!("rustc does not run: {error}"))?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let program = libraries.with_file_name("bin").join("llvm-profdata");
    match program.exists() {
        true => Ok(program),
        false => Err(format!(
            "a profile needs {}; rustup component add llvm-tools",
            program.display()
        )),
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", named(command))),
        Err(error) => Err(refused(command, &error)),
    }
}

fn refused(command: &Command, error: &std::io::Error) -> String {
    format!("{} does not run: {error}", named(command))
}

fn named(command: &Command) -> String {
    command.get_program().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_caller_stay() {
        assert_eq!(
            with_flag("-g".into(), "-Cprofile-use=a"),
            "-g -Cprofile-use=a"
        );
        assert_eq!(with_flag(OsString::new(), "-g"), "-g");
    }
}
