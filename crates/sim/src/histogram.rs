//! Times, counted by size: log-linear, within 0.8 %.

/// Steps within a power of two.
const STEPS: u64 = 128;

/// How often each time occurred. Merged, never averaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        let slot = slot(value);
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Values so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest; None without values.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The greatest; None without values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, exact; None without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The value below which a share `q` of all lies, within 0.8 %; None when fewer than
    /// 10 / (1 - q) values are there, which is too few to say.
    pub fn percentile(&self, q: f64) -> Option<u64> {
        if (self.count as f64) * (1.0 - q) < 10.0 {
            return None;
        }
        let wanted = (q * self.count as f64).ceil() as u64;
        let mut seen = 0;
        let slot = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(middle(slot).clamp(self.min, self.max))
    }
}

fn slot(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

fn middle(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < 2 * STEPS {
        return slot;
    }
    let shift = slot / STEPS - 1;
    let low = (slot - shift * STEPS) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_their_width() {
        let mut histogram = Histogram::default();
        for value in 1..=1_000_000u64 {
            histogram.record(value * 1000);
        }
        for q in [0.5, 0.9, 0.99, 0.9999] {
            let found = histogram.percentile(q).expect("enough values") as f64;
            assert!((found / (q * 1e9) - 1.0).abs() < 0.008, "{q}: {found}");
        }
        assert_eq!(histogram.percentile(0.999_999), None);
        assert_eq!(histogram.min(), Some(1000));
        assert_eq!(histogram.mean(), Some(500_000_500.0));
    }

    #[test]
    fn every_value_lies_near_the_middle_of_its_slot() {
        for value in [0, 1, 127, 128, 255, 256, 257, 1 << 20, u64::MAX >> 1] {
            let found = middle(slot(value)) as f64;
            assert!(
                (found - value as f64).abs() <= value as f64 / 128.0,
                "{value}"
            );
        }
    }
}
