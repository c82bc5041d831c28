//! Sizes of messages, as users write them.

use measure::size_steps::SizeRange;

/// Largest message, 64 MiB: with larger ones the buffers are measured, not the transports.
const SIZE_MAX: u64 = 64 << 20;

/// `64`, `1KiB`, `16k` (1024 each), `2MB` (10^6) as bytes.
///
/// # Errors
///
/// A sentence naming the text.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity::bytes(text)?;
    if bytes > SIZE_MAX {
        return Err(format!("'{text}' is more than the largest message, 64 MiB"));
    }
    Ok(bytes)
}

/// Most sizes of a race.
const SIZES_MAX: usize = 4096;

/// The sizes of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaceSizes {
    /// These.
    Listed(Vec<u64>),
    /// Those at which the cost of a message jumps.
    Steps(SizeRange),
}

impl RaceSizes {
    /// The sizes that are known before the race: all, or the ends.
    pub fn known(&self) -> Vec<u64> {
        match self {
            RaceSizes::Listed(sizes) => sizes.clone(),
            RaceSizes::Steps(range) => vec![range.from, range.to],
        }
    }
}

/// The prefix of sizes that pilots find.
const STEPS: &str = "steps:";

/// Sizes as [`sizes`] has them, 0 too, or `steps:1..64KiB`: those between two at which the cost of a message jumps.
///
/// # Errors
///
/// A sentence naming the text.
pub fn race_sizes(text: &str) -> Result<RaceSizes, String> {
    let Some(range) = text.strip_prefix(STEPS) else {
        return listed(text).map(RaceSizes::Listed);
    };
    let ends = range.split_once("..");
    let (from, to) = ends.ok_or_else(|| format!("'{text}' is no range; use steps:1..64KiB"))?;
    let (from, to) = (size(from)?, size(to)?);
    match 0 < from && from < to {
        true => Ok(RaceSizes::Steps(SizeRange { from, to })),
        false => Err(format!(
            "'{text}' has no steps; the first size must be at least 1 and below the second"
        )),
    }
}

/// A list of sizes, `64,1KiB,16KiB`, of ranges `1..16KiB`, doubling, and `68..1092+4`, in steps; or
/// `around:1KiB,1448`: each of a list with its neighbours, one byte less and one more.
///
/// # Errors
///
/// A sentence naming the text.
pub fn sizes(text: &str) -> Result<Vec<u64>, String> {
    if text.starts_with(STEPS) {
        return Err(format!(
            "'{text}' is for the --sizes of a race; give a list, such as 64,1KiB"
        ));
    }
    let all = listed(text)?;
    match all.contains(&0) {
        true => Err(format!("'{text}' has a size of 0; begin at 1")),
        false => Ok(all),
    }
}

/// The sizes of a list, in which 0 may be.
fn listed(text: &str) -> Result<Vec<u64>, String> {
    let (list, is_around) = match text.strip_prefix("around:") {
        Some(list) => (list, true),
        None => (text, false),
    };
    let mut all = Vec::new();
    for part in list.split(',') {
        let own = match part.split_once("..") {
            Some((from, to)) => size_range(part, from, to)?,
            None => vec![size(part)?],
        };
        match is_around {
            true => all.extend(own.iter().flat_map(|&size| around(size))),
            false => all.extend(own),
        }
        if all.len() > SIZES_MAX {
            return Err(format!(
                "'{text}' has more than {SIZES_MAX} sizes; give wider steps"
            ));
        }
    }
    if is_around {
        all.sort_unstable();
        all.dedup();
    }
    Ok(all)
}

/// A size, one byte less and one more, as far as messages are as long.
fn around(size: u64) -> impl Iterator<Item = u64> {
    (size.saturating_sub(1)..=size + 1).filter(|&size| size <= SIZE_MAX)
}

/// The sizes of a range: doubling up to its end, or with `+STEP` in steps.
fn size_range(part: &str, from: &str, to: &str) -> Result<Vec<u64>, String> {
    let (to, step) = match to.split_once('+') {
        Some((to, step)) => (to, Some(size(step)?)),
        None => (to, None),
    };
    let (from, to) = (size(from)?, size(to)?);
    if from == 0 || from > to || step == Some(0) {
        return Err(format!(
            "'{part}' is no range; the first size must be at least 1 and not above the second, and a \
             step at least 1"
        ));
    }
    let next = |&size: &u64| match step {
        Some(step) => size.checked_add(step),
        None => size.checked_mul(2),
    };
    let sizes = std::iter::successors(Some(from), next).take_while(|&size| size <= to);
    let mut sizes: Vec<u64> = sizes.take(SIZES_MAX + 1).collect();
    if step.is_none() && sizes.last() != Some(&to) {
        sizes.push(to);
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_spellings_parse() {
        assert_eq!(size("64"), Ok(64));
        assert_eq!(size("1KiB"), Ok(1024));
        assert_eq!(size("16k"), Ok(16384));
        assert_eq!(size("2MB"), Ok(2_000_000));
        assert_eq!(sizes("1..8"), Ok(vec![1, 2, 4, 8]));
        assert_eq!(sizes("64,1KiB"), Ok(vec![64, 1024]));
        assert_eq!(sizes("1000..3000"), Ok(vec![1000, 2000, 3000]));
        assert_eq!(sizes("68..80+4"), Ok(vec![68, 72, 76, 80]));
        assert_eq!(sizes("1..10+4,1k"), Ok(vec![1, 5, 9, 1024]));
        assert_eq!(
            sizes("around:1KiB,1025,8"),
            Ok(vec![7, 8, 9, 1023, 1024, 1025, 1026])
        );
        assert_eq!(sizes("around:64MiB").map(|sizes| sizes.len()), Ok(2));
    }

    #[test]
    fn sizes_of_a_race_may_be_found_by_its_pilots() {
        let (from, to) = (1, 65_536);
        let found = Ok(RaceSizes::Steps(SizeRange { from, to }));
        assert_eq!(race_sizes("steps:1..64KiB"), found);
        assert_eq!(race_sizes("64"), Ok(RaceSizes::Listed(vec![64])));
        for text in [
            "steps:",
            "steps:64",
            "steps:0..64",
            "steps:64..64",
            "steps:9..1",
            "steps:1..x",
        ] {
            let error = race_sizes(text).expect_err("no range");
            assert!(!error.is_empty(), "{text}");
        }
        assert!(sizes("steps:1..64").is_err_and(|error| error.contains("give a list")));
    }
}
