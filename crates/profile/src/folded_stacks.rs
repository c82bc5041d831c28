//! Stacks merged into a call tree.

use crate::layer::{self, Layer};
use crate::symbolize::Frame;
use std::collections::BTreeMap;

/// A function in the call tree, with its callees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StackNode {
    /// Total weight of the samples in it and its callees.
    pub weight: f64,
    /// The layer of samples that end here.
    pub layer: Option<Layer>,
    /// Its callees, by name and whether they are in the kernel.
    pub children: BTreeMap<(String, bool), StackNode>,
}

/// Most nodes of a tree; later stacks end at existing nodes.
const NODES_MAX: usize = 20_000;

/// A call tree built from stacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoldedStacks {
    /// The root of all stacks.
    pub root: StackNode,
    nodes: usize,
}

impl FoldedStacks {
    /// Adds a stack, innermost frame first.
    pub fn add(&mut self, frames: &[Frame], weight: f64) {
        self.root.weight += weight;
        let mut node = &mut self.root;
        for (at, frame) in frames.iter().enumerate().rev() {
            let key = (frame.name.to_string(), frame.kernel);
            if !node.children.contains_key(&key) {
                if self.nodes == NODES_MAX {
                    return;
                }
                self.nodes += 1;
            }
            node = node.children.entry(key).or_default();
            node.weight += weight;
            node.layer
                .get_or_insert_with(|| layer::classify(&frames[at..]).0);
        }
    }

    /// Multiplies all weights, to convert their unit.
    pub fn scale(&mut self, factor: f64) {
        scale(&mut self.root, factor);
    }
}

fn scale(node: &mut StackNode, factor: f64) {
    node.weight *= factor;
    node.children
        .values_mut()
        .for_each(|child| scale(child, factor));
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn frames(names: &[(&str, bool)]) -> Vec<Frame> {
        let frame = |&(name, kernel): &(&str, bool)| Frame {
            name: name.into(),
            kernel,
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn stacks_with_common_callers_are_merged() {
        let mut tree = FoldedStacks::default();
        tree.add(
            &frames(&[("tcp_sendmsg", true), ("send", false), ("main", false)]),
            2.0,
        );
        tree.add(&frames(&[("memcpy", false), ("main", false)]), 1.0);
        tree.add(&frames(&[("send", false), ("main", false)]), 1.0);
        assert_eq!(tree.root.weight, 4.0);
        assert_eq!(tree.root.children.len(), 1);
        let main = &tree.root.children[&("main".to_owned(), false)];
        assert_eq!((main.weight, main.children.len()), (4.0, 2));
        let send = &main.children[&("send".to_owned(), false)];
        assert_eq!(send.weight, 3.0);
        let inside = &send.children[&("tcp_sendmsg".to_owned(), true)];
        assert_eq!((inside.weight, inside.layer), (2.0, Some(Layer::Transport)));
        tree.scale(0.5);
        assert_eq!(tree.root.children[&("main".to_owned(), false)].weight, 2.0);
    }

    #[test]
    fn stack_tree_is_bounded() {
        let mut tree = FoldedStacks::default();
        for at in 0..NODES_MAX + 10 {
            tree.add(&frames(&[(&format!("f{at}"), false)]), 1.0);
        }
        assert_eq!(tree.root.children.len(), NODES_MAX);
        assert_eq!(tree.root.weight, (NODES_MAX + 10) as f64);
    }
}
