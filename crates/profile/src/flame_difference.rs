//! The difference of two flame graphs: where time was won or lost between two profiles.
//!
//! Bars are as wide as the wider of the two, so that what is gone is still seen; colour is the change.

use crate::flame::{
    BAR_WIDTH_MIN, DEPTH_MAX, ROW, SCRIPT, StackTree, TOP, WIDTH, escape, open_drawing, truncate_to,
};
use crate::folded_stacks::StackNode;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A function in both call trees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Its name; that of a function in the kernel ends with ` (kernel)`.
    pub name: String,
    /// Seconds per 10,000 messages before, callees included.
    pub before: f64,
    /// The same after.
    pub after: f64,
    /// Its callees.
    pub children: Vec<Difference>,
    /// Width of its bar: the wider of its own times, and the bars of its callees.
    width: f64,
}

/// Trees with the same label, side by side; a label that one profile lacks has no time there.
pub fn differences(before: &[StackTree], after: &[StackTree]) -> Vec<Difference> {
    let labels = after.iter().chain(before).map(|(label, _)| label);
    let mut seen = BTreeSet::new();
    let labels = labels.filter(|label| seen.insert(*label));
    let find = |trees: &'_ [StackTree], label: &String| {
        let found = trees.iter().find(|(known, _)| known == label);
        found.map(|(_, tree)| tree.root.clone())
    };
    labels
        .map(|label| {
            let (before, after) = (find(before, label), find(after, label));
            difference(label.clone(), before.as_ref(), after.as_ref())
        })
        .collect()
}

fn difference(name: String, before: Option<&StackNode>, after: Option<&StackNode>) -> Difference {
    let keys = |node: Option<&StackNode>| -> Vec<(String, bool)> {
        node.map(|node| node.children.keys().cloned().collect())
            .unwrap_or_default()
    };
    let all: BTreeSet<(String, bool)> = keys(before).into_iter().chain(keys(after)).collect();
    let children: Vec<Difference> = all
        .into_iter()
        .map(|key| {
            let of = |node: Option<&'_ StackNode>| {
                node.and_then(|node| node.children.get(&key)).cloned()
            };
            let (before, after) = (of(before), of(after));
            let name = if key.1 {
                format!("{} (kernel)", key.0)
            } else {
                key.0.clone()
            };
            difference(name, before.as_ref(), after.as_ref())
        })
        .collect();
    let weight = |node: Option<&StackNode>| node.map_or(0.0, |node| node.weight);
    let own = |node: Option<&StackNode>| {
        let below = node.map_or(0.0, |node| {
            node.children.values().map(|one| one.weight).sum::<f64>()
        });
        (weight(node) - below).max(0.0)
    };
    Difference {
        width: own(before).max(own(after)) + children.iter().map(|child| child.width).sum::<f64>(),
        name,
        before: weight(before),
        after: weight(after),
        children,
    }
}

/// Stacks with both times, a line each: `main;send 1200 900`, in ns per 10,000 messages, as Gregg's
/// difffolded writes them.
pub fn folded(trees: &[Difference]) -> String {
    let mut text = String::new();
    trees
        .iter()
        .for_each(|tree| add_folded(&mut text, &tree.name, tree));
    text
}

fn add_folded(text: &mut String, path: &str, node: &Difference) {
    let below = |of: fn(&Difference) -> f64| node.children.iter().map(of).sum::<f64>();
    let ns = |whole: f64, below: f64| ((whole - below).max(0.0) * 1e9).round();
    let (before, after) = (
        ns(node.before, below(|child| child.before)),
        ns(node.after, below(|child| child.after)),
    );
    if before > 0.0 || after > 0.0 {
        let _ = writeln!(text, "{path} {before} {after}");
    }
    for child in &node.children {
        let name = child.name.replace(';', ":").replace(char::is_control, " ");
        add_folded(text, &format!("{path};{name}"), child);
    }
}

/// The difference as an SVG file: red bars grew, blue ones shrank.
pub fn svg(title: &str, trees: &[Difference]) -> String {
    let whole: f64 = trees.iter().map(|tree| tree.width).sum();
    let deepest = trees.iter().map(depth).max().unwrap_or(0);
    let rows = deepest.min(DEPTH_MAX + 1);
    let floor = TOP + rows as f64 * ROW;
    let height = floor + 30.0;
    let mut text = String::new();
    open_drawing(&mut text, title, height);
    text.push_str(
        "<text x=\"10\" y=\"38\">red: more time than before; blue: less; as wide as the wider of the two</text>\n\
         <g id=\"all\">\n",
    );
    let scale = if whole > 0.0 {
        (WIDTH - 20.0) / whole
    } else {
        0.0
    };
    let mut x = 10.0;
    for tree in trees {
        bars(&mut text, tree, x, 0, &Place { floor, scale });
        x += tree.width * scale;
    }
    let _ = write!(
        text,
        "</g>\n<text id=\"told\" x=\"10\" y=\"{:.0}\"> </text>\n{SCRIPT}</svg>\n",
        height - 10.0
    );
    text
}

/// Where bars are drawn.
struct Place {
    floor: f64,
    scale: f64,
}

fn bars(text: &mut String, node: &Difference, x: f64, level: usize, place: &Place) {
    let (y, width) = (
        place.floor - (level + 1) as f64 * ROW,
        node.width * place.scale,
    );
    let (full, change) = (escape(&node.name), (node.after - node.before) * 1e9 / 1e4);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "<g class=\"f\"><title>{full}&#10;{:.1} ns a message before, {:.1} after ({change:+.1})</title>\
         <rect x=\"{x:.2}\" y=\"{y:.0}\" width=\"{width:.2}\" height=\"{:.0}\" fill=\"{}\"/>\
         <text x=\"{:.2}\" y=\"{:.0}\" data-n=\"{full}\">{}</text></g>",
        node.before * 1e5,
        node.after * 1e5,
        ROW - 1.0,
        colour(node),
        x + 3.0,
        y + 12.0,
        escape(&truncate_to(&node.name, width)),
    );
    let mut x = x;
    for child in &node.children {
        if child.width * place.scale >= BAR_WIDTH_MIN && level < DEPTH_MAX {
            bars(text, child, x, level + 1, place);
        }
        x += child.width * place.scale;
    }
}

/// White where nothing changed, to full red or blue where the time is all new or all gone.
fn colour(node: &Difference) -> String {
    let most = node.before.max(node.after);
    let share = if most > 0.0 {
        (node.after - node.before) / most
    } else {
        0.0
    };
    let pale = (235.0 - 135.0 * share.abs().min(1.0)).round() as u8;
    match share {
        share if share > 0.0 => format!("#f0{pale:02x}{pale:02x}"),
        share if share < 0.0 => format!("#{pale:02x}{pale:02x}f0"),
        _ => "#ebebeb".to_owned(),
    }
}

fn depth(node: &Difference) -> usize {
    let deepest = node.children.iter().map(depth).max();
    deepest.unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_text::read;

    fn both() -> Vec<Difference> {
        let before =
            read("tcp;main;old 300\ntcp;main;<same> 100\ntcp;main;less 100\n").expect("stacks");
        let after =
            read("tcp;main;new_[k] 200\ntcp;main;<same> 100\ntcp;main;less 50\n").expect("stacks");
        differences(&before, &after)
    }

    #[test]
    fn difference_has_what_came_and_what_went() {
        let folded = folded(&both());
        assert_eq!(
            folded,
            "tcp;main;<same> 100 100\ntcp;main;less 100 50\ntcp;main;new (kernel) 0 200\ntcp;main;old 300 0\n"
        );
    }

    #[test]
    fn difference_bars_are_as_wide_as_the_wider_and_coloured_by_change() {
        let svg = svg("tcp", &both());
        // 100 + 100 + 200 + 300 of 700 over 1180.
        assert!(
            svg.contains("width=\"505.71\"") && svg.contains("width=\"168.57\""),
            "{svg}"
        );
        assert_eq!(svg.matches("fill=\"#f06464\"").count(), 1, "all new: {svg}");
        assert_eq!(
            svg.matches("fill=\"#6464f0\"").count(),
            1,
            "all gone: {svg}"
        );
        assert_eq!(
            svg.matches("fill=\"#ebebeb\"").count(),
            1,
            "unchanged: {svg}"
        );
        assert!(svg.contains("&lt;same&gt;") && !svg.contains("<same>"));
        assert_eq!(svg.matches("class=\"f\"").count(), 6);
        let none = super::svg("tcp", &differences(&[], &[]));
        assert!(!none.contains("NaN") && !none.contains("inf"));
    }
}
