//! The house rules no compiler knows. Each rule is a function from files to faults.

mod cited_tests;
mod data_path;
mod engines;
mod figures;
mod length;
mod licences;
mod links;
mod map;
mod names;
mod prose;
mod source;
mod structure;
mod unsafety;
mod vocabulary;
mod words;

use source::Source;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Checks the workspace, as `cargo xtask tidy`.
pub fn run(root: &Path) -> ExitCode {
    match check(root) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Prints sizes of the code, as `cargo xtask tidy --figures`.
pub fn figures(root: &Path) -> ExitCode {
    match files_below(root) {
        Ok(files) => {
            println!("{}", figures::Figures::of(&files));
            ExitCode::SUCCESS
        }
        Err(error) => crate::fail(&format!("cannot read {}: {error}", root.display())),
    }
}

/// Writes ARCHITECTURE.md's column of dependencies, as `cargo xtask tidy --map`.
pub fn write_map(root: &Path) -> ExitCode {
    match map::write(root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&format!("cannot write the table of crates: {error}")),
    }
}

/// Prints what is wrong; true when nothing is.
pub fn check(root: &Path) -> bool {
    let files = match files_below(root) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("xtask: cannot read {}: {error}", root.display());
            return false;
        }
    };
    let mut faults = faults_of(&files);
    let exists = |path: &Path| root.join(path).exists();
    faults.extend(files.iter().flat_map(|file| links::check(file, exists)));
    faults.extend(map::check(root));
    faults.extend(licences::check(root));
    for fault in &faults {
        println!("{fault}");
    }
    println!("{} files, {} faults", files.len(), faults.len());
    faults.is_empty()
}

/// A file of the project.
#[derive(Debug)]
struct File {
    /// Path below the workspace, with slashes.
    path: String,
    text: String,
    /// Code and comments, for a Rust file.
    rust: Option<Source>,
}

impl File {
    fn new(path: impl Into<String>, text: impl Into<String>) -> File {
        let (path, text) = (path.into(), text.into());
        let rust = path.ends_with(".rs").then(|| Source::parse(&text));
        File { path, text, rust }
    }

    /// The name of the crate a file of its library or program is in.
    fn crate_of_source(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    fn fault(&self, line: usize, what: impl Into<String>) -> Fault {
        Fault {
            path: self.path.clone(),
            line,
            what: what.into(),
        }
    }
}

/// A rule that is broken.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    path: String,
    /// From 1; 0 for the whole file.
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

fn faults_of(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files {
        faults.extend(length::check(file));
        faults.extend(unsafety::check(file));
        faults.extend(words::check(file));
        faults.extend(vocabulary::check(file));
        faults.extend(engines::check(file));
        faults.extend(prose::check(file));
        faults.extend(structure::check(file));
    }
    faults.extend(structure::check_all(files));
    faults.extend(names::check_all(files));
    faults.extend(data_path::check_all(files));
    faults.extend(cited_tests::check_all(files));
    faults
}

/// Ends of the names of files that are read.
const READ: &[&str] = &[".rs", ".md", ".toml"];

/// Folders that are not the project's own text.
const SKIPPED: &[&str] = &["target", "results", "corpus", "node_modules"];

fn files_below(root: &Path) -> std::io::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !is_output(&path) {
                    folders.push(path);
                }
            } else if READ.iter().any(|end| name.ends_with(end)) {
                let text = std::fs::read_to_string(root.join(&path))?;
                files.push(File::new(path.to_string_lossy(), text));
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// `crates/results` is a crate, `results` is where runs go.
fn is_output(path: &Path) -> bool {
    let top = path
        .parent()
        .is_some_and(|parent| parent.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let skipped = SKIPPED.contains(&name.as_ref());
    skipped && (top || name != "results")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_found() {
        let files = files_below(&crate::root()).expect("it can be read");
        let has = |path: &str| files.iter().any(|file| file.path == path);
        assert!(has("xtask/src/tidy/mod.rs") && has("crates/results/src/lib.rs"));
        assert!(!files.iter().any(|file| file.path.starts_with("target/")));
    }

    #[test]
    fn a_fault_names_file_and_line() {
        let file = File::new("crates/a/src/lib.rs", "");
        let fault = file.fault(3, "is wrong");
        assert_eq!(fault.to_string(), "crates/a/src/lib.rs:3: is wrong");
        assert_eq!(file.crate_of_source(), Some("a"));
    }
}
