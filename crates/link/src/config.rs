//! Configuration of one direction of a path.

/// Picoseconds in a second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// One direction of a path. Probabilities are in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Bits a second; None for an unlimited rate.
    pub rate_bps: Option<u64>,
    /// Propagation delay, ps.
    pub delay_ps: u64,
    /// The delay of a frame is uniform within this of `delay_ps`, ps. Frames stay in order: one
    /// that would overtake waits for the one before.
    pub jitter_ps: u64,
    /// Extra delay of a reordered frame, ps.
    pub reorder_ps: u64,
    /// Queue limit in octets, the frame being sent included.
    pub queue_bytes: u64,
    /// Frames lost independently.
    pub loss_ppm: u32,
    /// Frames lost in bursts, in addition.
    pub bursts: Option<GilbertElliott>,
    /// Frames that arrive twice.
    pub duplicate_ppm: u32,
    /// Frames delayed by `reorder_ps`, so that later ones overtake them.
    pub reorder_ppm: u32,
    /// Frames with one bit flipped.
    pub corrupt_ppm: u32,
    /// The link is down: no frame arrives.
    pub cut: bool,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            rate_bps: None,
            delay_ps: 0,
            jitter_ps: 0,
            reorder_ps: 0,
            queue_bytes: u64::MAX,
            loss_ppm: 0,
            bursts: None,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            corrupt_ppm: 0,
            cut: false,
        }
    }
}

impl LinkConfig {
    /// Whether it may lose, duplicate, corrupt or reorder frames.
    pub fn has_faults(&self) -> bool {
        let ppm = [
            self.loss_ppm,
            self.duplicate_ppm,
            self.reorder_ppm,
            self.corrupt_ppm,
        ];
        self.bursts.is_some() || ppm.iter().any(|&ppm| ppm > 0)
    }

    /// Whether frames pass at once and as they are.
    pub fn is_plain(&self) -> bool {
        self.rate_bps.is_none()
            && self.delay_ps == 0
            && self.jitter_ps == 0
            && !self.cut
            && !self.has_faults()
    }

    /// The long-run share of frames lost.
    pub fn loss_mean(&self) -> f64 {
        let alone = f64::from(self.loss_ppm) / 1e6;
        let runs = self.bursts.map_or(0.0, |bursts| bursts.loss_mean());
        1.0 - (1.0 - alone) * (1.0 - runs)
    }
}

/// Burst losses: a Markov chain of a good and a bad state that moves at each frame, with a loss
/// rate in each (Gilbert 1960, Elliott 1963). The chain starts in the good state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// Probability of a move from good to bad.
    pub to_bad_ppm: u32,
    /// Probability of a move from bad to good.
    pub to_good_ppm: u32,
    /// Frames lost in the bad state.
    pub loss_bad_ppm: u32,
    /// Frames lost in the good state.
    pub loss_good_ppm: u32,
}

impl GilbertElliott {
    /// A chain with bursts of `burst_len` frames on average and a loss of `loss_ppm`: all frames of
    /// the bad state, none of the good one. None when no chain has these figures.
    pub fn from_burst_len(loss_ppm: u32, burst_len: f64) -> Option<GilbertElliott> {
        let loss = f64::from(loss_ppm) / 1e6;
        let to_good = 1.0 / burst_len;
        let to_bad = to_good * loss / (1.0 - loss);
        let possible = burst_len >= 1.0 && loss > 0.0 && loss < 1.0 && to_bad <= 1.0;
        possible.then(|| GilbertElliott {
            to_bad_ppm: (to_bad * 1e6).round() as u32,
            to_good_ppm: (to_good * 1e6).round() as u32,
            loss_bad_ppm: 1_000_000,
            loss_good_ppm: 0,
        })
    }

    /// The long-run share of frames lost.
    pub fn loss_mean(&self) -> f64 {
        let (to_bad, to_good) = (f64::from(self.to_bad_ppm), f64::from(self.to_good_ppm));
        let bad = if to_bad + to_good > 0.0 {
            to_bad / (to_bad + to_good)
        } else {
            0.0
        };
        (bad * f64::from(self.loss_bad_ppm) + (1.0 - bad) * f64::from(self.loss_good_ppm)) / 1e6
    }
}
