//! Names at the ends of lines, moved apart until none covers another.

use super::backend::{SCALE, escape, unit};
use super::style_of;

/// Units between the base lines of two names.
const DISTANCE: i32 = 13 * SCALE;

/// Writes names beside their heights: (contestant, name, y in backend pixels).
pub(super) fn names(mut wanted: Vec<(usize, String, i32)>, x: i32, range: (i32, i32)) -> String {
    wanted.sort_by_key(|name| name.2);
    let heights = spread(wanted.iter().map(|name| name.2).collect(), range);
    let mut text = String::new();
    for ((contestant, name, height), moved) in wanted.into_iter().zip(heights) {
        let classes = style_of(contestant);
        text.push_str(&format!(
            "<path class=\"leader {classes}\" d=\"M{} {}L{} {}\"/>\
             <text class=\"name {classes}\" x=\"{}\" y=\"{}\">{}</text>",
            unit(x + 3 * SCALE),
            unit(height),
            unit(x + 10 * SCALE),
            unit(moved),
            unit(x + 13 * SCALE),
            unit(moved + 4 * SCALE),
            escape(&name),
        ));
    }
    text
}

/// Moves ascending heights apart; those that are too close are centred as a group.
fn spread(heights: Vec<i32>, (top, bottom): (i32, i32)) -> Vec<i32> {
    // Subtracting the room of the names above turns "too close" into "out of order".
    let mut groups: Vec<(i32, i32)> = Vec::new();
    for (place, height) in (0..).zip(heights) {
        groups.push((height - place * DISTANCE, 1));
        while let [.., before, last] = groups[..]
            && before.0 / before.1 > last.0 / last.1
        {
            groups.truncate(groups.len() - 2);
            groups.push((before.0 + last.0, before.1 + last.1));
        }
    }
    let count: i32 = groups.iter().map(|group| group.1).sum();
    let lowest = (bottom - (count - 1) * DISTANCE).max(top);
    let middles = groups
        .iter()
        .flat_map(|(sum, count)| (0..*count).map(move |_| sum / count));
    let apart = (0..).zip(middles);
    apart
        .map(|(place, middle)| middle.clamp(top, lowest) + place * DISTANCE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_end_names_do_not_overlap() {
        let heights = spread(vec![1000, 1001, 1002, 2900], (0, 3000));
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= DISTANCE));
        assert_eq!(heights[1..], [1001, 1001 + DISTANCE, 2900]);
        let low = spread(vec![2990, 2995], (0, 3000));
        assert_eq!(low, [3000 - DISTANCE, 3000]);
    }
}
