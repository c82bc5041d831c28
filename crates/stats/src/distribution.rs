//! The normal distribution and Student's t.
//!
//! Tails are computed directly, never as one minus the rest, so that the small levels a race of
//! many cells needs keep their digits. Sources: Abramowitz and Stegun, 26.2 and 26.7; the continued
//! fraction of the incomplete beta function after Didonato and Morris (1992).

use std::f64::consts::PI;

/// Probability that a standard normal variate is at most `x`.
pub fn normal_cdf(x: f64) -> f64 {
    if x < 0.0 {
        normal_tail(-x)
    } else {
        1.0 - normal_tail(x)
    }
}

/// The value a standard normal variate stays below with probability `p`.
///
/// NaN unless 0 < `p` < 1.
pub fn normal_quantile(p: f64) -> f64 {
    if !(p > 0.0 && p < 1.0) {
        return f64::NAN;
    }
    if p < 0.5 {
        -normal_tail_quantile(p)
    } else {
        normal_tail_quantile(1.0 - p)
    }
}

/// Probability that Student's t with `df` degrees of freedom is at most `x`.
///
/// `df` need not be whole; NaN unless it is positive.
pub fn student_cdf(x: f64, df: f64) -> f64 {
    if x < 0.0 {
        student_tail(-x, df)
    } else {
        1.0 - student_tail(x, df)
    }
}

/// The value Student's t with `df` degrees of freedom stays below with probability `p`.
///
/// NaN unless 0 < `p` < 1 and `df` is positive.
pub fn student_quantile(p: f64, df: f64) -> f64 {
    if !(p > 0.0 && p < 1.0) {
        return f64::NAN;
    }
    if p < 0.5 {
        -student_tail_quantile(p, df)
    } else {
        student_tail_quantile(1.0 - p, df)
    }
}

/// Probability that Student's t exceeds `x` >= 0.
pub fn student_tail(x: f64, df: f64) -> f64 {
    if x.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if df > NORMAL_FROM_DF {
        return normal_tail(x);
    }
    if x.is_infinite() {
        return 0.0;
    }
    0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + x * x), x * x / (df + x * x))
}

/// The value Student's t exceeds with probability `tail` <= 0.5.
pub fn student_tail_quantile(tail: f64, df: f64) -> f64 {
    if !(tail > 0.0 && tail <= 0.5) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    let start = student_start(tail, df);
    newton(tail, start, |x| {
        (student_tail(x, df), student_density(x, df))
    })
}

/// From here on t and normal differ by less than 1e-8 (the difference is about x^3 / 4 df).
const NORMAL_FROM_DF: f64 = 1e10;

/// Probability that a standard normal variate exceeds `x` >= 0.
fn normal_tail(x: f64) -> f64 {
    let density = normal_density(x);
    if x < 3.0 {
        return 0.5 - density * normal_series(x);
    }
    // Mills' ratio: 1/(x + 1/(x + 2/(x + 3/(x + ...)))), from the inside out.
    let fraction = (1..=60).rev().fold(x, |inner, k| x + f64::from(k) / inner);
    density / fraction
}

/// x + x^3/3 + x^5/(3*5) + ...
fn normal_series(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > sum * 1e-17 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    sum
}

fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

fn student_density(x: f64, df: f64) -> f64 {
    if df > NORMAL_FROM_DF {
        return normal_density(x);
    }
    let ln_kernel = -0.5 * (df + 1.0) * (x * x / df).ln_1p();
    (ln_kernel + ln_gamma_ratio(df / 2.0, 0.5)).exp() / df.sqrt()
}

/// The value a standard normal variate exceeds with probability `tail` <= 0.5.
fn normal_tail_quantile(tail: f64) -> f64 {
    newton(tail, normal_start(tail), |x| {
        (normal_tail(x), normal_density(x))
    })
}

/// [`normal_tail_quantile`] to 5e-4: Hastings' approximation, Abramowitz and Stegun 26.2.23.
fn normal_start(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

/// [`student_tail_quantile`] roughly: two terms of 26.7.5 of the same book.
fn student_start(tail: f64, df: f64) -> f64 {
    let z = normal_start(tail);
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * (3.0 + square * (16.0 + square * 5.0)) / 96.0;
    z + first / df + second / (df * df)
}

/// Where a tail probability is `tail`, given the tail and the density at any x > 0.
///
/// Newton's method on the logarithms of both: ln(tail) is concave in ln(x) for both
/// distributions, so after its first step it comes down on the root from above and cannot miss.
fn newton(tail: f64, start: f64, tail_and_density: impl Fn(f64) -> (f64, f64)) -> f64 {
    if tail >= 0.5 {
        return 0.0;
    }
    let mut x = start.max(1e-6);
    for _ in 0..200 {
        let (at_x, density) = tail_and_density(x);
        let step = (at_x / tail).ln() * at_x / (x * density);
        // The first step may overshoot by far where the tail is flat.
        x *= step.clamp(-20.0, 20.0).exp();
        if step.abs() < 1e-14 {
            break;
        }
    }
    x
}

/// The regularised incomplete beta function I_x(a, b), where `y` = 1 - x is given apart because
/// the caller knows it without cancellation.
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    let ln_front = ln_gamma_ratio(a, b) + a * ln_of(x, y) + b * ln_of(y, x);
    if x < (a + 1.0) / (a + b + 2.0) {
        ln_front.exp() * beta_fraction(a, b, x) / a
    } else {
        1.0 - ln_front.exp() * beta_fraction(b, a, y) / b
    }
}

/// ln(x), where 1 - x = `rest` is the exact one of the two when small.
fn ln_of(x: f64, rest: f64) -> f64 {
    if rest < 0.5 { (-rest).ln_1p() } else { x.ln() }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    // The terms needed grow with the square root of `a`, which is at most NORMAL_FROM_DF / 2.
    for m in 1..200_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        result *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let step = d * c;
        result *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

/// ln(gamma(a + b) / (gamma(a) gamma(b))).
fn ln_gamma_ratio(a: f64, b: f64) -> f64 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    if large < 1e3 {
        return ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    }
    // Stirling's series for the difference: the two large logarithms would cancel each other.
    let tail = |z: f64| 1.0 / (12.0 * z) - 1.0 / (360.0 * z * z * z);
    let growth = (large - 0.5) * (small / large).ln_1p() + small * (large + small).ln() - small;
    growth + tail(large + small) - tail(large) - ln_gamma(small)
}

/// ln(gamma(z)) for z > 0: Stirling's series, after moving z above 15.
fn ln_gamma(z: f64) -> f64 {
    let (mut z, mut product) = (z, 1.0);
    while z < 15.0 {
        product *= z;
        z += 1.0;
    }
    let square = 1.0 / (z * z);
    let series = 1.0 / 12.0
        - square
            * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0)));
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * PI).ln() + series / z - f64::ln(product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

    fn close(ours: f64, theirs: f64, tolerance: f64) {
        let scale = theirs.abs().max(1e-300);
        let off = ((ours - theirs) / scale).abs();
        assert!(off < tolerance, "{ours} is not {theirs}, off by {off:e}");
    }

    #[test]
    fn student_quantiles_match_tables() {
        // Two-sided 95 % and one-sided 99.95 %, as printed in every textbook.
        for (p, df, printed) in [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 4.0, 2.776),
            (0.975, 9.0, 2.262),
            (0.975, 19.0, 2.093),
            (0.975, 30.0, 2.042),
            (0.9995, 1.0, 636.619),
            (0.9995, 5.0, 6.869),
            (0.9995, 120.0, 3.373),
        ] {
            let ours = student_quantile(p, df);
            assert!((ours - printed).abs() < 5.1e-4, "t({p}, {df}) = {ours}");
        }
    }

    #[test]
    fn student_quantiles_match_closed_forms() {
        for tail in [0.4, 0.1, 0.025, 1e-4, 1e-9] {
            close(
                student_tail_quantile(tail, 1.0),
                1.0 / (PI * tail).tan(),
                1e-10,
            );
            let exact = (1.0 - 2.0 * tail) / (2.0 * tail * (1.0 - tail)).sqrt();
            close(student_tail_quantile(tail, 2.0), exact, 1e-10);
        }
    }

    #[test]
    fn student_cdf_matches_statrs() {
        for df in [1.0, 2.5, 4.0, 11.0, 60.0, 999.0, 12_345.0] {
            let other = StudentsT::new(0.0, 1.0, df).expect("df is positive");
            for x in [-8.0, -2.0, -0.3, 0.0, 0.1, 0.7, 3.3, 12.0] {
                let (ours, theirs) = (student_cdf(x, df), other.cdf(x));
                assert!((ours - theirs).abs() < 1e-10, "{df} {x}: {ours} {theirs}");
            }
        }
    }

    #[test]
    fn quantile_inverts_cdf() {
        for df in [1.0, 3.0, 4.5, 19.0, 200.0, 1e5, 1e9] {
            for p in [1e-12, 1e-5, 0.01, 0.3, 0.5, 0.8, 0.999] {
                let x = student_quantile(p, df);
                assert!((student_cdf(x, df) - p).abs() < 1e-10, "{df} {p}: {x}");
            }
        }
    }

    #[test]
    fn normal_quantiles_match_tables() {
        for (p, exact) in [
            (0.975, 1.959_963_984_540_054),
            (0.995, 2.575_829_303_548_901),
            (0.9, 1.281_551_565_544_6),
            (0.5, 0.0),
            (1e-9, -5.997_807_015_007_687),
        ] {
            assert!((normal_quantile(p) - exact).abs() < 1e-10, "z({p})");
        }
    }

    #[test]
    fn normal_cdf_matches_statrs() {
        let other = Normal::new(0.0, 1.0).expect("a standard normal");
        for tenth in -70..=70 {
            let x = f64::from(tenth) / 10.0;
            assert!((normal_cdf(x) - other.cdf(x)).abs() < 1e-10, "{x}");
        }
    }

    #[test]
    fn large_df_is_normal() {
        for p in [0.6, 0.975, 0.9999] {
            close(student_quantile(p, 1e9), normal_quantile(p), 1e-7);
            close(student_quantile(p, 1e12), normal_quantile(p), 1e-12);
        }
    }

    #[test]
    fn invalid_arguments_give_nan() {
        for value in [
            normal_quantile(0.0),
            normal_quantile(1.0),
            student_quantile(-1.0, 3.0),
            student_quantile(0.5, 0.0),
            student_cdf(1.0, -1.0),
            student_cdf(f64::NAN, 1.0),
        ] {
            assert!(value.is_nan());
        }
    }
}
