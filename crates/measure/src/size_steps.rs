//! Sizes at which the cost of a message jumps: which size a pilot tries next.
//!
//! The first pilots have sizes that grow fourfold. From one size to the next a message costs more for its bytes; what it costs beyond
//! the slope of the neighbouring sizes is a jump. The two sizes with the greatest jump between them are halved, until each jump is known
//! to a 64th of its size, and then to the byte, as far as there are sizes left.

use std::collections::BTreeMap;

/// Sizes of a race that looks for jumps, at most.
pub const SIZES_MAX: usize = 24;

/// From one of the first sizes to the next: nine of them from 1 B to 64 KiB, so that more than half of all are left for the jumps.
const GROWTH: u64 = 4;

/// The least jump, as a share of the higher cost: pilots scatter by several per cent.
const JUMP_MIN: f64 = 0.1;

/// A jump is known well enough when its sizes are so close, as a part of them.
const CLOSE: u64 = 64;

/// Seconds a message, by its size, of one contestant.
pub type Costs = BTreeMap<u64, f64>;

/// The sizes between which jumps are looked for, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// The smallest.
    pub from: u64,
    /// The largest, above it.
    pub to: u64,
}

impl SizeRange {
    /// The sizes that are tried first, ascending.
    pub fn first_sizes(self) -> Vec<u64> {
        let next = |size: &u64| size.checked_mul(GROWTH);
        let grown = std::iter::successors(Some(self.from), next);
        let mut sizes: Vec<u64> = grown.take_while(|size| *size < self.to).collect();
        sizes.truncate(SIZES_MAX - 1);
        sizes.push(self.to);
        sizes
    }
}

/// A jump of the cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jump {
    /// The largest size that is known to lie below it.
    pub below: u64,
    /// The smallest that is known to lie above.
    pub above: u64,
    /// What a message costs more above, as a share of the higher cost; negative where it costs less.
    pub rise: f64,
}

impl Jump {
    fn span(&self) -> u64 {
        self.above - self.below
    }

    /// Whether it is not known to a 64th of its size yet.
    pub fn is_wide(&self) -> bool {
        self.span() > (self.below / CLOSE).max(1)
    }
}

/// The jumps of a contestant's cost, by size.
pub fn jumps(costs: &Costs) -> Vec<Jump> {
    let points: Vec<(u64, f64)> = costs.iter().map(|(size, cost)| (*size, *cost)).collect();
    let found = (1..points.len()).map(|above| jump(&points, above));
    found.filter(|jump| jump.rise.abs() >= JUMP_MIN).collect()
}

/// What is between a point and the one below it beyond the slope of the nearer neighbour in value.
fn jump(points: &[(u64, f64)], above: usize) -> Jump {
    let (below, top) = (points[above - 1], points[above]);
    let slope = |at: usize| {
        let (low, high) = (points[at - 1], points[at]);
        (high.1 - low.1) / (high.0 - low.0) as f64
    };
    let adjacent = [above.checked_sub(1), above.checked_add(1)];
    let known = adjacent.into_iter().flatten();
    let slopes = known.filter(|at| (1..points.len()).contains(at)).map(slope);
    let beyond = slopes.map(|slope| top.1 - below.1 - slope * (top.0 - below.0) as f64);
    let least = beyond.min_by(|a, b| a.abs().total_cmp(&b.abs()));
    Jump {
        below: below.0,
        above: top.0,
        rise: least.unwrap_or(0.0) / below.1.max(top.1),
    }
}

/// The size to try next, that halves the widest way to a jump of any contestant; None when there is no more to find. A size in `tried`
/// is not tried again.
pub fn next_size(curves: &[Costs], tried: &[u64]) -> Option<u64> {
    let middle = |jump: &Jump| jump.below + jump.span() / 2;
    let all = curves.iter().flat_map(jumps);
    let open = all.filter(|jump| jump.span() > 1 && !tried.contains(&middle(jump)));
    let best = open.max_by(|a, b| {
        let by_width = a.is_wide().cmp(&b.is_wide());
        by_width.then_with(|| a.rise.abs().total_cmp(&b.rise.abs()))
    });
    best.as_ref().map(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: SizeRange = SizeRange {
        from: 1,
        to: 65_536,
    };

    /// The sizes that are tried of a contestant with this cost.
    fn search(cost: impl Fn(u64) -> Option<f64>) -> (Vec<u64>, Vec<Jump>) {
        let mut tried = RANGE.first_sizes();
        loop {
            let known = tried
                .iter()
                .filter_map(|size| Some((*size, cost(*size)?)))
                .collect();
            let curves = [known];
            match next_size(&curves, &tried) {
                Some(size) if tried.len() < SIZES_MAX => tried.push(size),
                _ => return (tried, jumps(&curves[0])),
            }
        }
    }

    #[test]
    fn first_sizes_grow_fourfold_and_end_at_the_last() {
        assert_eq!(
            RANGE.first_sizes(),
            [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536]
        );
        let few = SizeRange { from: 3, to: 5 };
        assert_eq!(few.first_sizes(), [3, 5]);
        let wide = SizeRange {
            from: 1,
            to: u64::MAX,
        };
        assert_eq!(wide.first_sizes().len(), SIZES_MAX);
    }

    #[test]
    fn cost_in_proportion_to_bytes_has_no_jump() {
        let (tried, found) = search(|size| Some(1e-6 + 1e-9 * size as f64));
        assert_eq!(tried, RANGE.first_sizes());
        assert!(found.is_empty(), "{found:?}");
        let (tried, _) = search(|_| None);
        assert_eq!(tried, RANGE.first_sizes(), "nothing is known");
    }

    #[test]
    fn jumps_are_found_between_neighbouring_sizes() {
        for at in [5, 113, 1025, 1449, 4097, 40_000] {
            let cost = |size| 1e-6 + 0.2e-9 * size as f64 + if size >= at { 6e-6 } else { 0.0 };
            let (tried, found) = search(|size| Some(cost(size)));
            assert!(tried.len() <= SIZES_MAX);
            let [jump] = found[..] else {
                panic!("{at}: {found:?}")
            };
            assert!(jump.below < at && at <= jump.above, "{at}: {jump:?}");
            assert!(!jump.is_wide() && jump.rise > 0.0, "{at}: {jump:?}");
        }
    }

    #[test]
    fn two_jumps_are_both_found_and_one_may_go_down() {
        let rises = |size: u64| match size {
            0..100 => 0.0,
            100..3000 => 4e-6,
            _ => 1e-6,
        };
        let (tried, found) = search(|size| Some(1e-6 + rises(size)));
        assert!(tried.len() <= SIZES_MAX);
        let places: Vec<bool> = found.iter().map(|jump| jump.rise > 0.0).collect();
        assert_eq!(places, [true, false], "{found:?}");
        assert!(found[0].below < 100 && found[0].above >= 100);
        assert!(found[1].below < 3000 && found[1].above >= 3000);
    }

    #[test]
    fn sizes_that_cannot_be_sent_end_the_search_without_a_loop() {
        let (tried, found) = search(|size| (size < 60_000).then_some(1e-6));
        assert_eq!(tried, RANGE.first_sizes());
        assert!(found.is_empty());
    }
}
