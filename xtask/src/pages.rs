//! Man page and completions, which the program prints from its argument definitions.

use crate::fail;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Shells with completions, and the file names they expect.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "towpath.bash"),
    ("fish", "towpath.fish"),
    ("zsh", "_towpath"),
];

/// Writes `target/man/towpath.1`.
pub fn man(root: &Path) -> ExitCode {
    finish(write(root, &["man"], "target/man/towpath.1"))
}

/// Writes one file for each shell to `target/completions`.
pub fn completions(root: &Path) -> ExitCode {
    let written = SHELLS.iter().try_for_each(|(shell, name)| {
        let file = format!("target/completions/{name}");
        write(root, &["completions", shell], &file)
    });
    finish(written)
}

/// Writes the program's output to a file below the workspace.
fn write(root: &Path, arguments: &[&str], file: &str) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(["run", "--quiet", "--package", "towpath-cli", "--"])
        .args(arguments);
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("towpath {} printed nothing", arguments.join(" ")));
    }
    let path = root.join(file);
    let folder = path.parent().unwrap_or(root);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, output.stdout))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("{file}");
    Ok(())
}

fn finish(written: Result<(), String>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}
