//! The cost model: time per message = fixed + per byte * size, in one to three straight pieces.
//!
//! Errors are relative, or the largest messages would decide alone. The pieces join (a jump between
//! two measured sizes could not be told from a bend), and they bend at measured sizes. Their number
//! is chosen by the Bayesian information criterion (Schwarz, 1978), which charges a bend for its
//! two parameters. No cost is negative: a piece whose slope would be below 0 is level.

use results::FitPiece;

/// Most pieces of a fit.
pub const PIECES_MAX: usize = 3;

/// Fewest sizes for a fit.
pub const SIZES_MIN: usize = 3;

/// Deviations below this count as noise: medians of a few trials repeat to no better than half a
/// percent.
const DEVIATION_MIN: f64 = 0.005;

/// A fitted cost model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Pieces, ascending, without gaps.
    pub pieces: Vec<FitPiece>,
    /// Largest relative deviation of a point from the line.
    pub deviation_max: f64,
}

/// Fits costs at sizes, given as (size, cost) in any order. None for fewer than [`SIZES_MIN`]
/// different sizes, or costs that are not positive.
pub fn fit(points: &[(f64, f64)]) -> Option<Model> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0 == b.0);
    let sound = |&(size, cost): &(f64, f64)| size.is_finite() && cost.is_finite() && cost > 0.0;
    if points.len() < SIZES_MIN || !points.iter().all(sound) {
        return None;
    }
    let candidates = (1..=PIECES_MAX).flat_map(|pieces| knots(points.len(), pieces));
    let fitted = candidates.filter_map(|knots| Line::through(&points, &knots));
    let best = fitted.min_by(|a, b| a.criterion(&points).total_cmp(&b.criterion(&points)))?;
    Some(best.model(&points))
}

/// Cost of a message of `size` by the model; the outermost pieces extend beyond their ends.
pub fn cost(pieces: &[FitPiece], size: f64) -> f64 {
    let piece = pieces
        .iter()
        .find(|piece| size <= piece.to)
        .or(pieces.last());
    piece.map_or(f64::NAN, |piece| piece.fixed + piece.per_byte * size)
}

/// All positions of the inner knots of `pieces` pieces on the points, with pieces of at least two
/// steps and at least two points more than parameters.
fn knots(points: usize, pieces: usize) -> Vec<Vec<usize>> {
    const STEPS: usize = 2;
    let last = points - 1;
    let inner = STEPS..=last.saturating_sub(STEPS);
    match pieces {
        1 => vec![vec![]],
        2 if points >= 6 => inner.map(|knot| vec![knot]).collect(),
        3 if points >= 9 => inner
            .clone()
            .flat_map(|a| {
                inner
                    .clone()
                    .filter(move |b| *b >= a + STEPS)
                    .map(move |b| vec![a, b])
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// A continuous line with bends: its height at 0 and the slope of each piece, none negative. A
/// message costs time, and so does each of its bytes; a slope below 0 is noise.
struct Line {
    /// Sizes at which it bends.
    knots: Vec<f64>,
    /// Height at 0, then the slopes.
    coefficients: Vec<f64>,
}

impl Line {
    /// The weighted least-squares line with bends at these points and no negative coefficient.
    ///
    /// The least sum under that condition is the least sum of some of the terms alone, the others
    /// being 0; with at most four terms all fifteen choices are tried.
    fn through(points: &[(f64, f64)], knots: &[usize]) -> Option<Line> {
        let knots: Vec<f64> = knots.iter().map(|&knot| points[knot].0).collect();
        let terms = knots.len() + 2;
        let chosen = |choice: usize| (0..terms).filter(move |term| choice >> term & 1 == 1);
        let lines = (1..1usize << terms).filter_map(|choice| {
            let weighted = |&(size, cost): &(f64, f64)| {
                let row = basis(size, &knots);
                chosen(choice).map(|term| row[term] / cost).collect()
            };
            let rows: Vec<Vec<f64>> = points.iter().map(weighted).collect();
            let solution = least_squares(&rows)?;
            let mut coefficients = vec![0.0; terms];
            for (term, value) in chosen(choice).zip(solution) {
                coefficients[term] = value;
            }
            let line = Line {
                knots: knots.clone(),
                coefficients,
            };
            line.is_a_cost(points).then_some(line)
        });
        lines.min_by(|a, b| a.squares(points).total_cmp(&b.squares(points)))
    }

    fn is_a_cost(&self, points: &[(f64, f64)]) -> bool {
        let never_negative = self.coefficients.iter().all(|value| *value >= 0.0);
        never_negative && points.iter().all(|&(size, _)| self.value(size) > 0.0)
    }

    fn value(&self, size: f64) -> f64 {
        dot(&basis(size, &self.knots), &self.coefficients)
    }

    fn deviation(&self, &(size, cost): &(f64, f64)) -> f64 {
        (self.value(size) / cost - 1.0).abs()
    }

    /// Sum of the squared deviations.
    fn squares(&self, points: &[(f64, f64)]) -> f64 {
        points
            .iter()
            .map(|point| self.deviation(point).powi(2))
            .sum()
    }

    /// The Bayesian information criterion; a bend has two parameters, position and slope.
    fn criterion(&self, points: &[(f64, f64)]) -> f64 {
        let n = points.len() as f64;
        let variance = (self.squares(points) / n).max(DEVIATION_MIN.powi(2));
        let numbers = 2.0 + 2.0 * self.knots.len() as f64;
        n * variance.ln() + numbers * n.ln()
    }

    fn model(&self, points: &[(f64, f64)]) -> Model {
        let ends = [points[0].0, points[points.len() - 1].0];
        let bounds: Vec<f64> = [&ends[..1], &self.knots, &ends[1..]].concat();
        let slopes = &self.coefficients[1..];
        let piece = |(bounds, &per_byte): (&[f64], &f64)| FitPiece {
            from: bounds[0],
            to: bounds[1],
            fixed: self.value(bounds[0]) - per_byte * bounds[0],
            per_byte,
        };
        let deviations = points.iter().map(|point| self.deviation(point));
        Model {
            pieces: bounds.windows(2).zip(slopes).map(piece).collect(),
            deviation_max: deviations.fold(0.0, f64::max),
        }
    }
}

/// 1, and the bytes of a message that lie in each piece.
fn basis(size: f64, knots: &[f64]) -> Vec<f64> {
    let starts = [0.0].into_iter().chain(knots.iter().copied());
    let ends = knots.iter().copied().chain([f64::INFINITY]);
    let bytes = starts
        .zip(ends)
        .map(|(from, to)| size.clamp(from, to) - from);
    [1.0].into_iter().chain(bytes).collect()
}

/// The c for which the sum over rows of (row . c - 1)^2 is least, by the modified Gram-Schmidt
/// method; None when the columns are not independent.
fn least_squares(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let width = rows.first()?.len();
    let column = |index: usize| -> Vec<f64> { rows.iter().map(|row| row[index]).collect() };
    let mut columns: Vec<Vec<f64>> = (0..width).map(column).collect();
    let mut target = vec![1.0; rows.len()];
    let mut upper = vec![vec![0.0; width]; width];
    let mut right = vec![0.0; width];
    for index in 0..width {
        let norm = dot(&columns[index], &columns[index]).sqrt();
        let size = rows
            .iter()
            .map(|row| row[index].powi(2))
            .sum::<f64>()
            .sqrt();
        if norm <= 1e-10 * size {
            return None;
        }
        let unit: Vec<f64> = columns[index].iter().map(|value| value / norm).collect();
        upper[index][index] = norm;
        for later in index + 1..width {
            upper[index][later] = remove(&unit, &mut columns[later]);
        }
        right[index] = remove(&unit, &mut target);
    }
    let mut solution = vec![0.0; width];
    for index in (0..width).rev() {
        let known = dot(&upper[index][index + 1..], &solution[index + 1..]);
        solution[index] = (right[index] - known) / upper[index][index];
    }
    Some(solution)
}

/// Subtracts the projection on `unit` from `vector`; returns its length.
fn remove(unit: &[f64], vector: &mut [f64]) -> f64 {
    let along = dot(unit, vector);
    for (value, part) in vector.iter_mut().zip(unit) {
        *value -= along * part;
    }
    along
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    fn doubling(count: u32) -> impl Iterator<Item = f64> {
        (0..count).map(|power| f64::from(1u32 << power))
    }

    fn near(value: f64, wanted: f64) -> bool {
        (value / wanted - 1.0).abs() < 0.05
    }

    #[test]
    fn fit_recovers_cabrera_1984_line() {
        // Cabrera's 10 Mbit/s TCP: about 5.5 ms and 1.27 us a byte below the page size.
        let points: Vec<_> = doubling(11).map(|s| (s, 5.5e6 + 1270.0 * s)).collect();
        let model = fit(&points).expect("eleven sizes");
        let [piece] = model.pieces[..] else {
            panic!("one piece: {model:?}")
        };
        assert!(
            near(piece.fixed, 5.5e6) && near(piece.per_byte, 1270.0),
            "{piece:?}"
        );
        assert_eq!((piece.from, piece.to), (1.0, 1024.0));
        assert!(model.deviation_max < 1e-9);
    }

    #[test]
    fn fit_finds_bend_and_ignores_noise() {
        let bent = |s: f64| {
            if s <= 512.0 {
                800.0 + 0.1 * s
            } else {
                851.2 + 0.5 * (s - 512.0)
            }
        };
        let mut right = 0;
        for seed in 0..100 {
            let mut random = SplitMix64::new(seed);
            let mut noise = || 1.0 + 0.02 * (random.unit() - 0.5);
            let points: Vec<_> = doubling(15).map(|s| (s, bent(s) * noise())).collect();
            let model = fit(&points).expect("fifteen sizes");
            let joined = model
                .pieces
                .windows(2)
                .all(|pair| pair[0].to == pair[1].from);
            assert!(joined, "{model:?}");
            let last = model.pieces.last().expect("at least one piece");
            assert!(near(last.per_byte, 0.5), "{model:?}");
            right += usize::from(model.pieces.len() == 2 && (256.0..=1024.0).contains(&last.from));
        }
        assert!(right >= 85, "{right} of 100");
    }

    #[test]
    fn fit_finds_three_pieces() {
        let cost =
            |s: f64| 100.0 + 0.2 * s + 2.0 * (s - 64.0).max(0.0) - 1.9 * (s - 4096.0).max(0.0);
        let points: Vec<_> = doubling(17).map(|s| (s, cost(s))).collect();
        let model = fit(&points).expect("seventeen sizes");
        let ends: Vec<f64> = model.pieces.iter().map(|piece| piece.to).collect();
        assert_eq!(ends, [64.0, 4096.0, 65536.0]);
        assert!((super::cost(&model.pieces, 1000.0) - cost(1000.0)).abs() < 1e-6);
    }

    #[test]
    fn noise_gives_no_negative_cost() {
        // Flat up to 512 B, as many transports are; the noise falls by 20 % over the small sizes.
        let mut falling = 0;
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let mut noise = || 1.0 + 0.4 * (random.unit() - 0.5);
            let cost = |s: f64| 1100.0 + 0.5 * (s - 512.0).max(0.0);
            let points: Vec<_> = doubling(15).map(|s| (s, cost(s) * noise())).collect();
            let model = fit(&points).expect("fifteen sizes");
            let negative = |piece: &FitPiece| piece.per_byte < 0.0;
            falling += usize::from(points[3].1 < points[0].1);
            assert!(!model.pieces.iter().any(negative), "{model:?}");
            assert!(model.pieces[0].fixed >= 0.0, "{model:?}");
        }
        assert!(falling > 50, "the noise falls in {falling} of 200");
        let points = [
            (1.0, 1140.0),
            (64.0, 700.0),
            (512.0, 690.0),
            (1024.0, 710.0),
        ];
        let level = fit(&points).expect("four sizes");
        assert_eq!(level.pieces[0].per_byte, 0.0);
        assert!((700.0..800.0).contains(&level.pieces[0].fixed), "{level:?}");
    }

    #[test]
    fn fit_rejects_few_or_invalid_points() {
        assert_eq!(fit(&[(1.0, 2.0), (2.0, 3.0)]), None);
        assert_eq!(fit(&[(1.0, 2.0), (2.0, 3.0), (2.0, 3.0)]), None);
        assert_eq!(fit(&[(1.0, 2.0), (2.0, 0.0), (3.0, 1.0)]), None);
        assert!(fit(&[(64.0, 500.0), (1024.0, 600.0), (16384.0, 2000.0)]).is_some());
    }
}
