//! Paths below the top of a tree, as they come from a peer.

use super::super::protocol::is_unprintable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest path, octets: with the folder in front it stays below the kernel's 4,096 (PATH_MAX).
pub(super) const PATH_MAX: usize = 3072;

/// Longest component, octets (NAME_MAX of Linux).
const COMPONENT_MAX: usize = 255;

/// Deepest path, components: each folder on the way is opened by itself.
const DEPTH_MAX: usize = 128;

/// A path below the top of a tree: components without `.`, `..` and empty ones; none for the top itself. So it
/// leads nowhere else as long as no component is followed through a symbolic link.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TreePath(Vec<u8>);

impl TreePath {
    /// The path in `octets`; None if it is absolute, leaves the tree, is too long or too deep.
    pub(super) fn parse(octets: &[u8]) -> Option<TreePath> {
        let is_plain = |part: &[u8]| {
            let is_dots = part == b"." || part == b"..";
            !part.is_empty() && part.len() <= COMPONENT_MAX && !is_dots && !part.contains(&0)
        };
        let parts = || octets.split(|&octet| octet == b'/');
        let fits = octets.len() <= PATH_MAX && parts().count() <= DEPTH_MAX;
        let found = octets.is_empty() || fits && parts().all(is_plain);
        found.then(|| TreePath(octets.to_vec()))
    }

    /// The path of `name` in this folder; None if it is too long or too deep, or no name.
    pub(super) fn child(&self, name: &[u8]) -> Option<TreePath> {
        match self.0.is_empty() {
            true => TreePath::parse(name),
            false => TreePath::parse(&[&self.0, &b"/"[..], name].concat()),
        }
        .filter(|path| !path.0.is_empty())
    }

    /// This path below `top`; None if it becomes too long or too deep.
    pub(super) fn below(&self, top: &TreePath) -> Option<TreePath> {
        match (top.0.is_empty(), self.0.is_empty()) {
            (true, _) => Some(self.clone()),
            (_, true) => Some(top.clone()),
            _ => TreePath::parse(&[&top.0, &b"/"[..], &self.0].concat()),
        }
    }

    /// The folder it lies in and its name; None for the top.
    pub(super) fn split(&self) -> Option<(&[u8], &OsStr)> {
        let at = self.0.iter().rposition(|&octet| octet == b'/');
        let (folder, name) = match at {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (&[][..], &self.0[..]),
        };
        (!name.is_empty()).then(|| (folder, OsStr::from_bytes(name)))
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.0
    }

    /// Its components.
    pub(super) fn components(octets: &[u8]) -> impl Iterator<Item = &OsStr> {
        let parts = octets.split(|&octet| octet == b'/');
        parts.filter(|part| !part.is_empty()).map(OsStr::from_bytes)
    }

    pub(super) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// For a terminal: no control characters.
    pub(super) fn shown(&self) -> String {
        match self.0.is_empty() {
            true => ".".into(),
            false => String::from_utf8_lossy(&self.0).replace(is_unprintable, "?"),
        }
    }

    /// Whether a symbolic link at this path may lead to `target`: a relative path whose `..` all stand in front and
    /// are fewer than the folders above the link within the tree. The folders of a tree are no links, and what
    /// follows passes only links that keep this rule too, so that none leads out of the tree.
    pub(super) fn may_lead_to(&self, target: &[u8]) -> bool {
        let depth = self.0.iter().filter(|&&octet| octet == b'/').count();
        let is_up = |part: &&[u8]| *part == b"..";
        let parts = || target.split(|&octet| octet == b'/');
        let up = parts().take_while(is_up).count();
        let rest_is_down = parts().skip(up).all(|part| part != b"..");
        let fits = !target.is_empty() && target.len() <= PATH_MAX && !target.contains(&0);
        // The top itself is no link of the tree.
        fits && target[0] != b'/' && up <= depth && rest_is_down && !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).expect("a path of a tree")
    }

    #[test]
    fn path_that_leaves_the_tree_is_none() {
        let deep = ["a"; DEPTH_MAX + 1].join("/");
        let long = "n".repeat(COMPONENT_MAX + 1);
        for wrong in [
            "/", "/etc", "..", "../a", "a/../b", "a/..", ".", "a//b", "a/", "a/./b", "a\0b", &deep,
            &long,
        ] {
            assert_eq!(TreePath::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        for right in ["", "a", ".git/config", "a/...", "a b/\u{fc}"] {
            assert_eq!(path(right).octets(), right.as_bytes());
        }
        assert_eq!(path("a").child(b"b"), Some(path("a/b")));
        assert_eq!(path("").child(b""), None);
        assert_eq!(path("a").child(b"b/../../c"), None);
        assert_eq!(path("b/c").below(&path("a")), Some(path("a/b/c")));
        assert_eq!(path("").below(&path("a")), Some(path("a")));
    }

    #[test]
    fn link_out_of_the_tree_is_refused() {
        for (link, target) in [
            ("a", "b"),
            ("a/b", "../c"),
            ("a/b/c", "../../d"),
            ("a", "./b/c"),
        ] {
            assert!(path(link).may_lead_to(target.as_bytes()), "{link} {target}");
        }
        for (link, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a", "../b"),
            ("a/b", "../../c"),
            // Through a link c to `.`, this would leave the tree.
            ("a/b", "c/../.."),
            ("a/b", "./.."),
            ("a", ""),
            ("", "b"),
        ] {
            assert!(
                !path(link).may_lead_to(target.as_bytes()),
                "{link} {target}"
            );
        }
    }

    #[test]
    fn paths_are_shown_without_control_characters() {
        assert_eq!(path("a\x1b[2J/\u{202e}b").shown(), "a?[2J/?b");
        assert_eq!(path("").shown(), ".");
    }
}
