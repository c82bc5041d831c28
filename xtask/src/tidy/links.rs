//! Links between documents lead somewhere.

use super::{Fault, File};
use std::path::{Component, Path, PathBuf};

/// Checks links to files of this repository; `exists` is asked with paths below it.
pub(super) fn check(file: &File, exists: impl Fn(&Path) -> bool) -> Vec<Fault> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut faults = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let broken = targets(line).filter(|target| !exists(&resolve(folder, target)));
        let broken = broken.map(|target| file.fault(index + 1, format!("no file '{target}'")));
        faults.extend(broken);
    }
    faults
}

/// Targets of `[text](target)` that are files, without the place in the file.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1);
    let targets = links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let files = targets.filter_map(|target| target.split('#').next());
    files.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// `docs/a/../b` is `docs/b`.
fn resolve(folder: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_a_fault() {
        let exists = |path: &Path| path == Path::new("docs/b.md");
        let faults = |text: &str| check(&File::new("docs/decisions/a.md", text), exists).len();
        assert_eq!(faults("[b](../b.md) and [c](../b.md#part)"), 0);
        assert_eq!(faults("[b](b.md), [c](c.md)"), 2);
        assert_eq!(faults("[away](https://example.org/b) and [here](#part)"), 0);
    }
}
