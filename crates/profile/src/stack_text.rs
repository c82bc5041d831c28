//! Folded stacks as text, a line a stack: `sender, 64 B;main;send;tcp_sendmsg_[k] 1200`. That is the form of
//! Gregg's stackcollapse tools, in which `_[k]` marks the kernel and the number is the time in the innermost
//! function itself, here in ns per 10,000 messages.

use crate::flame::StackTree;
use crate::folded_stacks::{FoldedStacks, StackNode};
use crate::symbolize::Frame;

/// Ends the name of a function of the kernel.
const KERNEL_MARK: &str = "_[k]";

/// Nanoseconds in a second, the unit of trees.
const NS_PER_S: f64 = 1e9;

/// Deepest stack that is read; the sampler's have 127 frames of each kind at most.
const DEPTH_MAX: usize = 256;

/// The stacks of all trees, each under the label of its tree.
pub fn write(trees: &[StackTree]) -> String {
    let mut text = String::new();
    for (label, tree) in trees {
        add(&mut text, &plain(label), &tree.root);
    }
    text
}

fn add(text: &mut String, path: &str, node: &StackNode) {
    let below: f64 = node.children.values().map(|child| child.weight).sum();
    let own_ns = ((node.weight - below).max(0.0) * NS_PER_S).round();
    if own_ns > 0.0 {
        text.push_str(&format!("{path} {own_ns}\n"));
    }
    for ((name, kernel), child) in &node.children {
        let mark = if *kernel { KERNEL_MARK } else { "" };
        add(text, &format!("{path};{}{mark}", plain(name)), child);
    }
}

/// A name without what ends a name or a line.
fn plain(name: &str) -> String {
    name.replace(';', ":").replace(char::is_control, " ")
}

/// Reads [`write()`]'s form; the file may be a stranger's.
///
/// # Errors
///
/// The number of the first line that is no stack.
pub fn read(text: &str) -> Result<Vec<StackTree>, String> {
    let mut trees: Vec<StackTree> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let (label, frames, weight) =
            stack(line).ok_or_else(|| format!("line {} is no stack with its time", number + 1))?;
        let place = trees.iter().position(|(known, _)| *known == label);
        let place = place.unwrap_or_else(|| {
            trees.push((label.to_owned(), FoldedStacks::default()));
            trees.len() - 1
        });
        if trees.len() > TREES_MAX {
            return Err(format!("more than {TREES_MAX} trees"));
        }
        trees[place].1.add(&frames, weight);
    }
    Ok(trees)
}

/// Trees of a profile: two sides at sixteen sizes.
const TREES_MAX: usize = 32;

/// Label, frames with the innermost first, and seconds.
fn stack(line: &str) -> Option<(&str, Vec<Frame>, f64)> {
    let (path, weight) = line.rsplit_once(' ')?;
    let ns: f64 = weight
        .parse()
        .ok()
        .filter(|ns: &f64| ns.is_finite() && *ns >= 0.0)?;
    let mut names = path.split(';');
    let label = names.next().filter(|label| !label.is_empty())?;
    let frame = |name: &str| match name.strip_suffix(KERNEL_MARK) {
        Some(name) => Frame {
            name: name.into(),
            kernel: true,
        },
        None => Frame {
            name: name.into(),
            kernel: false,
        },
    };
    let mut frames: Vec<Frame> = names.map(frame).collect();
    frames.reverse();
    (frames.len() <= DEPTH_MAX).then_some((label, frames, ns / NS_PER_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_written_and_read_again_are_equal() {
        let text = "sender, 64 B;main;a:b 5\nsender, 64 B;main;send;tcp_sendmsg_[k] 1200\nreceiver;main 7\n";
        let trees = read(text).expect("stacks");
        assert_eq!(trees.len(), 2);
        let main = &trees[0].1.root.children[&("main".to_owned(), false)];
        assert!((main.weight - 1205e-9).abs() < 1e-15);
        let again = write(&trees);
        assert_eq!(again, text);
        let mut odd = FoldedStacks::default();
        odd.add(
            &[Frame {
                name: "a;b\n".into(),
                kernel: false,
            }],
            1e-6,
        );
        assert_eq!(write(&[("x".into(), odd)]), "x;a:b  1000\n");
    }

    #[test]
    fn lines_that_are_no_stacks_are_refused_by_number() {
        for wrong in ["a;b", "a;b x", "a;b -1", "a;b inf", ";b 1", " 1"] {
            let text = format!("good;main 1\n{wrong}\n");
            assert_eq!(
                read(&text).expect_err(wrong),
                "line 2 is no stack with its time"
            );
        }
        let deep = format!("a{} 1", ";f".repeat(DEPTH_MAX + 1));
        assert!(read(&deep).is_err());
        let many: String = (0..40).map(|n| format!("{n};main 1\n")).collect();
        assert!(read(&many).is_err());
        // Any octets are stacks or refused; nothing panics.
        for end in 0..deep.len() {
            let _ = read(&deep[..end]);
        }
    }
}
