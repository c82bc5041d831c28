//! Log-linear histogram of times, within 0.8 %.

/// Buckets within a power of two.
const BUCKETS_PER_OCTAVE: u64 = 128;

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
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
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

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The minimum; None without values.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The maximum; None without values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, exact; None without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The quantile `q`, within 0.8 %; None with fewer than 10 / (1 - q) values, which are too few
    /// for an estimate.
    pub fn percentile(&self, q: f64) -> Option<u64> {
        if (self.count as f64) * (1.0 - q) < 10.0 {
            return None;
        }
        let wanted = (q * self.count as f64).ceil() as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(bucket_middle(bucket).clamp(self.min, self.max))
    }
}

fn bucket(value: u64) -> usize {
    if value < BUCKETS_PER_OCTAVE {
        return value as usize;
    }
    let shift = value.ilog2() - BUCKETS_PER_OCTAVE.ilog2();
    (u64::from(shift) * BUCKETS_PER_OCTAVE + (value >> shift)) as usize
}

fn bucket_middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * BUCKETS_PER_OCTAVE {
        return bucket;
    }
    let shift = bucket / BUCKETS_PER_OCTAVE - 1;
    let low = (bucket - shift * BUCKETS_PER_OCTAVE) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_within_bucket_width() {
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
    fn bucket_middle_within_relative_error() {
        for value in [0, 1, 127, 128, 255, 256, 257, 1 << 20, u64::MAX >> 1] {
            let found = bucket_middle(bucket(value)) as f64;
            assert!(
                (found - value as f64).abs() <= value as f64 / 128.0,
                "{value}"
            );
        }
    }
}
