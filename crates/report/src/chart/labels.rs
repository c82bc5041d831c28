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

/// Moves ascending heights apart: down past each other first, then up from the lower edge.
fn spread(mut heights: Vec<i32>, (top, bottom): (i32, i32)) -> Vec<i32> {
    let mut free = top;
    for height in &mut heights {
        *height = (*height).max(free);
        free = *height + DISTANCE;
    }
    let mut free = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(free);
        free = *height - DISTANCE;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_distance() {
        let heights = spread(vec![100, 101, 102, 2900], (0, 3000));
        assert!(heights.is_sorted());
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= DISTANCE));
        assert_eq!(heights[3], 2900);
        let low = spread(vec![2990, 2995], (0, 3000));
        assert_eq!(low, [3000 - DISTANCE, 3000]);
    }
}
