//! A flame graph as one self-contained SVG file.
//!
//! Each tree is one side at one message size; its width is seconds per 10,000 messages. Callees
//! stand on their callers. Colours are layers. A click zooms into a bar.

use crate::folded_stacks::{FoldedStacks, StackNode};
use crate::layer::Layer;
use std::fmt::Write as _;

/// Width of the picture, and height of a row.
pub(crate) const WIDTH: f64 = 1200.0;
pub(crate) const ROW: f64 = 17.0;

/// Space above the rows for the title and the legend.
pub(crate) const TOP: f64 = 62.0;

/// Narrower bars are omitted.
pub(crate) const BAR_WIDTH_MIN: f64 = 0.25;

/// Width of a character.
const CHAR_WIDTH: f64 = 6.6;

/// Most rows; deeper frames are omitted.
pub(crate) const DEPTH_MAX: usize = 90;

/// A label and its folded stacks, in seconds.
pub type StackTree = (String, FoldedStacks);

/// The flame graph of `trees`, as an SVG file.
pub fn svg(title: &str, trees: &[StackTree]) -> String {
    let whole: f64 = trees.iter().map(|(_, tree)| tree.root.weight).sum();
    let deepest = trees.iter().map(|(_, tree)| depth(&tree.root)).max();
    let rows = deepest.unwrap_or(0).min(DEPTH_MAX) + 1;
    let height = TOP + rows as f64 * ROW + 30.0;
    let mut text = String::new();
    head(&mut text, title, height);
    let mut graph = FlameGraph {
        text,
        floor: TOP + rows as f64 * ROW,
        scale: if whole > 0.0 {
            (WIDTH - 20.0) / whole
        } else {
            0.0
        },
        whole,
    };
    let mut x = 10.0;
    for (name, tree) in trees {
        graph.bar(x, 0, name, None, tree.root.weight);
        graph.children(&tree.root, x, 1);
        x += tree.root.weight * graph.scale;
    }
    let mut text = graph.text;
    text.push_str("</g>\n<text id=\"told\" x=\"10\" y=\"");
    let _ = write!(text, "{:.0}\"> </text>\n{SCRIPT}</svg>\n", height - 10.0);
    text
}

struct FlameGraph {
    text: String,
    floor: f64,
    scale: f64,
    whole: f64,
}

impl FlameGraph {
    fn children(&mut self, node: &StackNode, x: f64, level: usize) {
        let mut x = x;
        for ((name, kernel), child) in &node.children {
            if child.weight * self.scale >= BAR_WIDTH_MIN && level <= DEPTH_MAX {
                let name = if *kernel {
                    format!("{name} (kernel)")
                } else {
                    name.clone()
                };
                self.bar(x, level, &name, child.layer, child.weight);
                self.children(child, x, level + 1);
            }
            x += child.weight * self.scale;
        }
    }

    fn bar(&mut self, x: f64, level: usize, name: &str, layer: Option<Layer>, weight: f64) {
        let (y, width) = (self.floor - (level + 1) as f64 * ROW, weight * self.scale);
        let part = weight * 100.0 / self.whole.max(f64::MIN_POSITIVE);
        let layer_name = layer.map_or("", Layer::name);
        let full = escape(name);
        let label = escape(&truncate_to(name, width));
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "<g class=\"f\"><title>{full}&#10;{weight:.4} s for 10,000 messages, {part:.1} %{}{}\
             </title><rect x=\"{x:.2}\" y=\"{y:.0}\" width=\"{width:.2}\" height=\"{:.0}\" \
             fill=\"{}\"/><text x=\"{:.2}\" y=\"{:.0}\" data-n=\"{full}\">{label}</text></g>",
            if layer_name.is_empty() { "" } else { "&#10;" },
            escape(layer_name),
            ROW - 1.0,
            colour(layer),
            x + 3.0,
            y + 12.0,
        );
    }
}

/// Opens a drawing of bars: its size, its style and its title.
pub(crate) fn open_drawing(text: &mut String, title: &str, height: f64) {
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\">\n<style>\ntext {{ font: 11px monospace; fill: #1a1a1a; }}\n\
         .f:hover rect {{ stroke: #000; }}\n.f {{ cursor: pointer; }}\n</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"18\" style=\"font: bold 14px sans-serif\">{}</text>\n",
        escape(title)
    );
}

fn head(text: &mut String, title: &str, height: f64) {
    open_drawing(text, title, height);
    for (at, layer) in Layer::ALL.iter().enumerate() {
        let (x, y) = (10 + (at % 9) * 132, 28 + (at / 9) * 15);
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            colour(Some(*layer)),
            x + 14,
            y + 9,
            escape(layer.name())
        );
    }
    text.push_str("<g id=\"all\">\n");
}

fn depth(node: &StackNode) -> usize {
    let deepest = node.children.values().map(depth).max();
    deepest.map_or(0, |below| below + 1)
}

/// Colours that stay distinct for colour-blind readers: light and dark, warm and cold in turn.
fn colour(layer: Option<Layer>) -> &'static str {
    match layer {
        None => "#dddddd",
        Some(Layer::Loop) => "#c9c9c9",
        Some(Layer::Library) => "#b8d8ba",
        Some(Layer::Engine) => "#5fad56",
        Some(Layer::Driver) => "#9bc53d",
        Some(Layer::Encryption) => "#7a9e7e",
        Some(Layer::SystemCall) => "#f2c14e",
        Some(Layer::Socket) => "#f4a259",
        Some(Layer::Transport) => "#e76f51",
        Some(Layer::Internet) => "#f28482",
        Some(Layer::Device) => "#d5b9b2",
        Some(Layer::Copy) => "#4d9de0",
        Some(Layer::Checksum) => "#a0c4ff",
        Some(Layer::Memory) => "#b8b8ff",
        Some(Layer::Scheduling) => "#9d8189",
        Some(Layer::Clock) => "#d8e2dc",
        Some(Layer::OtherKernel) => "#e9c9b0",
        Some(Layer::OtherUser) => "#e2ece9",
    }
}

/// As much of a name as fits into a bar; nothing in one that is too narrow.
pub(crate) fn truncate_to(name: &str, width: f64) -> String {
    match ((width - 6.0) / CHAR_WIDTH).max(0.0) as usize {
        0..3 => String::new(),
        letters => truncate(name, letters),
    }
}

/// The first characters of a name, with an ellipsis when truncated.
fn truncate(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    let mut text: String = name.chars().take(letters - 1).collect();
    text.push('\u{2026}');
    text
}

pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// A click on a bar zooms into it, a click on a bottom bar shows everything again.
pub(crate) const SCRIPT: &str = r#"<script><![CDATA[
const bars = [...document.querySelectorAll('.f')].map(g => {
  const r = g.querySelector('rect'), t = g.querySelector('text');
  return { g, r, t, x: +r.getAttribute('x'), w: +r.getAttribute('width'), y: +r.getAttribute('y'), n: t.dataset.n };
});
const floor = Math.max(...bars.map(b => b.y));
function show(x, w) {
  const k = 1180 / w;
  for (const b of bars) {
    const from = Math.max(b.x, x), to = Math.min(b.x + b.w, x + w), on = to - from > 1e-6 * w;
    b.g.style.display = on ? '' : 'none';
    if (!on) continue;
    const left = 10 + (from - x) * k, width = (to - from) * k, room = Math.floor((width - 6) / 6.6);
    b.r.setAttribute('x', left); b.r.setAttribute('width', width); b.t.setAttribute('x', left + 3);
    b.t.textContent = room < 3 ? '' : b.n.length <= room ? b.n : b.n.slice(0, room - 1) + '\u2026';
  }
}
for (const b of bars) {
  b.g.addEventListener('click', () => b.y === floor ? show(10, 1180) : show(b.x, b.w));
  b.g.addEventListener('mouseover', () => {
    document.getElementById('told').textContent = b.g.querySelector('title').textContent.replace(/\n/g, '; ');
  });
}
]]></script>
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolize::Frame;

    fn tree() -> FoldedStacks {
        let mut tree = FoldedStacks::default();
        let frame = |name: &str, kernel| Frame {
            name: name.into(),
            kernel,
        };
        tree.add(
            &[frame("tcp_sendmsg", true), frame("a::<b & c>", false)],
            3.0,
        );
        tree.add(&[frame("memcpy", false), frame("a::<b & c>", false)], 1.0);
        tree
    }

    #[test]
    fn bar_widths_are_proportional() {
        let svg = svg("tcp", &[("sender, 64 B".into(), tree())]);
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        // Three quarters of 1180.
        assert!(svg.contains("width=\"885.00\""), "{svg}");
        assert!(svg.contains("width=\"295.00\""));
        assert!(svg.contains("3.0000 s for 10,000 messages, 75.0 %"));
        assert!(svg.contains("a::&lt;b &amp; c&gt;") && !svg.contains("<b & c>"));
        assert_eq!(svg.matches("class=\"f\"").count(), 4);
        assert_eq!(svg.matches("http").count(), 1);
    }

    #[test]
    fn empty_tree_renders() {
        let svg = svg("tcp", &[("sender".into(), FoldedStacks::default())]);
        assert!(svg.contains("sender") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
