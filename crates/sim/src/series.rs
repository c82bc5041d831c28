//! Bytes over time, in slices that grow as the run does.

/// Slices kept; at twice as many, pairs of slices are merged.
const SLICES: usize = 1024;

/// The first slice length, ps: 1 us.
const FIRST_PS: u64 = 1_000_000;

/// Bytes in each slice of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// How often slices were merged: one lasts [`FIRST_PS`] times two to this power.
    merges: u32,
    bytes: Vec<u64>,
}

impl Series {
    /// Adds bytes received at `now_ps`.
    pub fn add(&mut self, now_ps: u64, bytes: u64) {
        // The division is by a constant: every read of every receiver comes here.
        let first_slices = now_ps / FIRST_PS;
        while first_slices >> self.merges >= 2 * SLICES as u64 {
            self.merge_pairs();
        }
        let slice = (first_slices >> self.merges) as usize;
        if slice >= self.bytes.len() {
            self.bytes.resize(slice + 1, 0);
        }
        self.bytes[slice] += bytes;
    }

    fn merge_pairs(&mut self) {
        let merged = self.bytes.len().div_ceil(2);
        for slice in 0..merged {
            let second = self.bytes.get(2 * slice + 1).copied().unwrap_or(0);
            self.bytes[slice] = self.bytes[2 * slice] + second;
        }
        self.bytes.truncate(merged);
        self.merges += 1;
    }

    fn slice_ps(&self) -> u64 {
        FIRST_PS << self.merges
    }

    /// Bytes a second in each complete slice, merged to at most `count` slices.
    pub fn rates(&self, count: usize) -> Vec<f64> {
        let whole = &self.bytes[..self.bytes.len().saturating_sub(1)];
        let width = whole.len().div_ceil(count.max(1)).max(1);
        let span_s = width as f64 * self.slice_ps() as f64 / 1e12;
        let joined = whole.chunks_exact(width);
        joined
            .map(|slices| slices.iter().sum::<u64>() as f64 / span_s)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_rates_constant_for_constant_stream() {
        for step in [10_000u64, 3_000_000, 900_000_000] {
            let mut series = Series::default();
            for index in 0..100_000 {
                series.add(index * step, 7);
            }
            assert!(series.bytes.len() <= 2 * SLICES);
            let rates = series.rates(100);
            let exact = 7e12 / step as f64;
            assert!((60..=100).contains(&rates.len()), "{}", rates.len());
            assert!(rates.iter().all(|rate| (rate / exact - 1.0).abs() < 0.01));
        }
    }
}
