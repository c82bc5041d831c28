//! Man pages and completions, from the program's argument definitions.

#[cfg(feature = "pages")]
mod written {
    use crate::fail;
    use clap_complete::Shell;
    use std::path::Path;
    use std::process::ExitCode;

    /// Writes a page for the program and one for each of its commands.
    pub fn man(root: &Path) -> ExitCode {
        let folder = root.join("target/man");
        let write = || {
            std::fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(towpath_cli::command(), &folder)
        };
        done(write(), &folder)
    }

    /// Writes one file for each shell.
    pub fn completions(root: &Path) -> ExitCode {
        let folder = root.join("target/completions");
        let write = || {
            std::fs::create_dir_all(&folder)?;
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                let mut command = towpath_cli::command();
                clap_complete::generate_to(shell, &mut command, "towpath", &folder)?;
            }
            Ok(())
        };
        done(write(), &folder)
    }

    fn done(outcome: std::io::Result<()>, folder: &Path) -> ExitCode {
        match outcome {
            Ok(()) => {
                println!("written to {}", folder.display());
                ExitCode::SUCCESS
            }
            Err(error) => fail(&format!("cannot write to {}: {error}", folder.display())),
        }
    }
}

#[cfg(feature = "pages")]
pub use written::{completions, man};

/// The pages need the whole program; the other chores should not wait for it to compile.
#[cfg(not(feature = "pages"))]
mod again {
    use crate::fail;
    use std::path::Path;
    use std::process::{Command, ExitCode};

    /// Builds xtask with the program in it and runs it again.
    pub fn man(root: &Path) -> ExitCode {
        again(root, "man")
    }

    /// As [`man`], for completions.
    pub fn completions(root: &Path) -> ExitCode {
        again(root, "completions")
    }

    fn again(root: &Path, chore: &str) -> ExitCode {
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(root)
            .args(["run", "--quiet", "--package", "xtask"])
            .args(["--features", "pages", "--", chore]);
        match command.status() {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => fail(&format!("cannot run cargo: {error}")),
        }
    }
}

#[cfg(not(feature = "pages"))]
pub use again::{completions, man};
