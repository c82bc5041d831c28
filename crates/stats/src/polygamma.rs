//! The digamma and trigamma functions, for the logarithm of a sample variance.
//!
//! ln of a chi-squared variate with d degrees of freedom, divided by d, has the mean
//! digamma(d/2) - ln(d/2) and the variance trigamma(d/2) (Abramowitz and Stegun, 6.3 and 6.4).

/// From here on the asymptotic series has 12 digits.
const ASYMPTOTIC_FROM: f64 = 8.0;

/// The derivative of ln gamma at `x` > 0.
pub fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < ASYMPTOTIC_FROM {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = square
        * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0))));
    sum + x.ln() - 0.5 / x - series
}

/// The derivative of digamma at `x` > 0.
pub fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < ASYMPTOTIC_FROM {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square * (1.0 / 30.0)));
    sum + 1.0 / x + 0.5 * square + square / x * series
}

/// The x with trigamma(x) = `y`, for `y` > 0.
///
/// trigamma falls steadily and lies between 1/x and 1/x + 1/x^2, which bounds the search.
pub fn trigamma_inverse(y: f64) -> f64 {
    let mut low = 1.0 / y;
    let mut high = (1.0 + (1.0 + 4.0 * y).sqrt()) / (2.0 * y);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if trigamma(middle) > y {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn values_are_those_of_the_tables() {
        // Abramowitz and Stegun, 6.3.2, 6.3.3 and 6.4.4: psi(1), psi(1/2), psi'(1/2), psi'(1).
        assert!((digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-10);
        assert!((digamma(0.5) + 1.963_510_026_021_423_5).abs() < 1e-10);
        assert!((trigamma(0.5) - PI * PI / 2.0).abs() < 1e-10);
        assert!((trigamma(1.0) - PI * PI / 6.0).abs() < 1e-10);
    }

    #[test]
    fn inverse_undoes_trigamma() {
        for x in [0.01, 0.5, 2.0, 7.5, 300.0] {
            assert!(
                (trigamma_inverse(trigamma(x)) / x - 1.0).abs() < 1e-9,
                "{x}"
            );
        }
    }
}
