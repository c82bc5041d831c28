//! Histograms: HDR, version 2, in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// A histogram in a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Unit of the values, `ns`.
    pub unit: String,
    /// An HDR histogram, V2 encoding (not deflated), base64.
    pub hdr_v2: String,
}

/// A histogram that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// Not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Not HDR V2.
    #[error("the histogram is not HDR V2: {0}")]
    Hdr(String),
    /// Finer than any histogram of this program.
    #[error("the histogram claims {0} significant digits, more than the limit of {DIGITS_MAX}")]
    TooFine(u32),
    /// Longer than any histogram of this program.
    #[error("the histogram is {0} characters long, more than the limit of {LEN_MAX}")]
    TooLong(usize),
}

/// Most characters of an encoded histogram. A full one of [`new_histogram`] has about 50,000 counts
/// of at most 9 bytes, a third more in base64.
const LEN_MAX: usize = 1 << 20;

/// Most significant digits. With three a histogram has 2,048 counts and 1,024 more for each doubling of
/// its range, so at most 450 KiB whatever its bounds; with five it may have 50 MiB.
const DIGITS_MAX: u32 = 3;

/// Where the header of V2 has the number of significant digits: behind cookie, length of the counts
/// and normalising offset, of four octets each.
const DIGITS_AT: usize = 12;

/// An empty histogram for delays: 1 ns to 60 s, three significant digits, never resized.
pub fn new_histogram() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds")
}

impl Histogram {
    /// Encodes `histogram`, whose values are in `unit`.
    ///
    /// # Errors
    ///
    /// None are known for the histograms of this crate.
    pub fn encode(
        histogram: &hdrhistogram::Histogram<u64>,
        unit: &str,
    ) -> Result<Self, HistogramError> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .map_err(|error| HistogramError::Hdr(format!("{error:?}")))?;
        Ok(Histogram {
            unit: unit.to_owned(),
            hdr_v2: STANDARD.encode(bytes),
        })
    }

    /// Decodes it. The input is untrusted.
    ///
    /// # Errors
    ///
    /// When it is not a valid histogram.
    pub fn decode(&self) -> Result<hdrhistogram::Histogram<u64>, HistogramError> {
        if self.hdr_v2.len() > LEN_MAX {
            return Err(HistogramError::TooLong(self.hdr_v2.len()));
        }
        let bytes = STANDARD.decode(&self.hdr_v2)?;
        // Looked at before the decoder takes memory for what the header claims.
        let header = bytes.get(DIGITS_AT..).and_then(<[u8]>::first_chunk);
        let digits = header.map_or(0, |octets| u32::from_be_bytes(*octets));
        if digits > DIGITS_MAX {
            return Err(HistogramError::TooFine(digits));
        }
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HistogramError::Hdr(format!("{error:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_round_trips() {
        let mut histogram = new_histogram();
        for value in [5, 50, 500, 50_000_000] {
            histogram.saturating_record(value);
        }
        let encoded = Histogram::encode(&histogram, "ns").expect("it encodes");
        assert_eq!(encoded.decode().expect("it decodes"), histogram);
    }

    #[test]
    fn decode_header_with_five_digits_is_refused() {
        let fine = hdrhistogram::Histogram::new_with_bounds(1, u64::MAX, 5).expect("bounds");
        let encoded = Histogram::encode(&fine, "ns").expect("it encodes");
        let refused = encoded.decode();
        assert!(
            matches!(refused, Err(HistogramError::TooFine(5))),
            "{refused:?}"
        );
        let coarse = hdrhistogram::Histogram::new_with_bounds(1, u64::MAX, 3).expect("bounds");
        let encoded = Histogram::encode(&coarse, "ns").expect("it encodes");
        let decoded = encoded.decode().expect("its memory is bounded");
        assert!(
            decoded.distinct_values() < 60_000,
            "{}",
            decoded.distinct_values()
        );
    }

    #[test]
    fn invalid_histogram_is_rejected() {
        let rubbish = Histogram {
            unit: "ns".into(),
            hdr_v2: "AAAA".into(),
        };
        assert!(rubbish.decode().is_err());
    }
}
