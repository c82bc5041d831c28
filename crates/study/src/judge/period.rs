//! The period of a curve with teeth.

use stats::mean::Mean;
use std::collections::BTreeMap;

/// A fall ends a tooth from this share of the value before it on: curves of virtual time have no noise.
const FALL_MIN: f64 = 0.005;

/// The distance of falls of a curve, in each block; None where it has fewer than two.
pub(super) fn periods(curve: &[(f64, BTreeMap<u64, f64>)]) -> Vec<f64> {
    let blocks = curve
        .first()
        .into_iter()
        .flat_map(|(_, blocks)| blocks.keys());
    let of_block = |block: &u64| {
        let points = curve
            .iter()
            .filter_map(|(x, blocks)| Some((*x, *blocks.get(block)?)));
        period(&points.collect::<Vec<_>>())
    };
    blocks.filter_map(of_block).collect()
}

/// The median distance between two falls.
fn period(points: &[(f64, f64)]) -> Option<f64> {
    let is_fall = |pair: &&[(f64, f64)]| pair[0].1 - pair[1].1 > FALL_MIN * pair[0].1.abs();
    let falls = points.windows(2).filter(is_fall);
    let ends: Vec<f64> = falls.map(|pair| pair[1].0).collect();
    let distances: Vec<f64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (!distances.is_empty()).then(|| stats::estimate::median(&distances))
}

/// The claim that all periods lie within `within` of `is`.
/// Fails when the points lie too far apart to show teeth, or fewer than three blocks have some.
pub(super) fn claim(
    curve: &[(f64, BTreeMap<u64, f64>)],
    is: f64,
    within: f64,
) -> Result<(Mean, String), String> {
    let widest = curve
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .fold(0.0, f64::max);
    if 2.0 * widest > is {
        return Err(format!(
            "its curve has points {widest} apart, too far for teeth of {is}"
        ));
    }
    let found = periods(curve);
    let margin = |period: &f64| (within / (period / is - 1.0).abs().max(1e-9)).ln();
    let margins: Vec<f64> = found.iter().map(margin).collect();
    let mean = Mean::of(&margins).ok_or_else(|| super::finding::too_few(margins.len()))?;
    Ok((
        mean,
        format!("teeth {:.3} apart", stats::estimate::median(&found)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve that rises and falls each `tooth`, alike in three blocks.
    fn curve(tooth: u64, step: usize) -> Vec<(f64, BTreeMap<u64, f64>)> {
        let point = |x: u64| {
            let y = 10.0 + (x % tooth) as f64 + 0.01 * x as f64;
            (x as f64, (1..=3).map(|block| (block, y)).collect())
        };
        (68..1093).step_by(step).map(point).collect()
    }

    #[test]
    fn period_is_found_from_the_falls_of_a_curve() {
        for tooth in [10, 44, 97] {
            assert_eq!(periods(&curve(tooth, 1)), [tooth as f64; 3]);
        }
        let (mean, found) = claim(&curve(44, 1), 44.0, 0.03).expect("teeth");
        assert!(mean.mean > 0.0 && found == "teeth 44.000 apart", "{found}");
        let (mean, _) = claim(&curve(48, 1), 44.0, 0.03).expect("teeth");
        assert!(mean.mean < 0.0, "teeth of 48 are none of 44");
    }

    #[test]
    fn points_too_far_apart_and_lines_have_no_period() {
        let why = claim(&curve(44, 40), 44.0, 0.03).expect_err("too wide");
        assert!(why.contains("40 apart"), "{why}");
        let line: Vec<_> = curve(44, 1)
            .into_iter()
            .map(|(x, blocks)| (x, blocks.into_keys().map(|block| (block, x)).collect()))
            .collect();
        assert!(periods(&line).is_empty());
        assert!(claim(&line, 44.0, 0.03).is_err());
    }
}
