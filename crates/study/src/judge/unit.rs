//! Units: what a race's measure is multiplied with to be in the unit of a paper's table.

/// Units of a kind, with their size in the first of the kind. `Mibit/s` is 2^20 bit/s.
const KINDS: [&[(&str, f64)]; 3] = [
    &[
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Mibit/s", 1_048_576.0),
        ("Gbit/s", 1e9),
        ("B/s", 8.0),
    ],
    &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)],
    &[("", 1.0), ("%", 0.01)],
];

/// What a value in `from` is multiplied with to be in `to`; 1 where they have nothing in common.
pub fn factor(from: &str, to: &str) -> f64 {
    let sizes = KINDS.iter().find_map(|kind| {
        let size = |unit: &str| {
            kind.iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, size)| *size)
        };
        Some((size(from)?, size(to)?))
    });
    sizes.map_or(1.0, |(from, to)| from / to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn megabits_of_two_kinds_differ_by_five_percent() {
        assert!((factor("Mbit/s", "Mibit/s") - 0.953_674).abs() < 1e-6);
        assert!((factor("us", "ms") - 1e-3).abs() < 1e-12);
        assert_eq!(factor("", "%"), 100.0);
        assert_eq!(factor("us", "Mbit/s"), 1.0);
        assert_eq!(factor("us", ""), 1.0);
    }
}
