//! Formatting of numbers and names.

use results::metric;

/// Stands for a missing or non-finite number.
pub(crate) const MISSING: &str = "\u{2013}";

/// Three significant digits, without a trailing point.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        MISSING.into()
    } else if size >= 99.95 || size == 0.0 {
        grouped(value)
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 {
        format!("{value:.2}")
    } else if size >= 0.0009995 {
        format!("{value:.3}")
    } else {
        format!("{value:.1e}")
    }
}

/// At most three significant digits: 5, 0.4, 12.3.
pub(crate) fn short(value: f64) -> String {
    let text = digits(value);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A whole number with commas between thousands.
pub(crate) fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.into();
    }
    let plain = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in plain.chars().enumerate() {
        if place > 0 && (plain.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let sign = if value < 0.0 && plain != "0" { "-" } else { "" };
    format!("{sign}{text}")
}

/// A value with an SI prefix before its unit: `1.27 M/s`, `9.65 Gbit/s`.
pub(crate) fn si(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return MISSING.into();
    }
    const PREFIXES: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    let size = value.abs() * 1.0005;
    let found = PREFIXES.iter().find(|(scale, _)| size >= *scale);
    let (scale, prefix) = *found.unwrap_or(&(1.0, ""));
    let gap = if prefix.is_empty() && unit.is_empty() {
        ""
    } else {
        " "
    };
    format!("{}{gap}{prefix}{unit}", digits(value / scale))
}

/// A time in nanoseconds, in a suitable unit.
pub(crate) fn time_ns(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "\u{b5}s"), (1.0, "ns")];
    if !value.is_finite() {
        return MISSING.into();
    }
    let size = value.abs() * 1.0005;
    let found = UNITS.iter().find(|(scale, _)| size >= *scale);
    let (scale, unit) = *found.unwrap_or(&(1.0, "ns"));
    format!("{} {unit}", digits(value / scale))
}

/// A span in seconds: `0.4 s`, `1 min 5 s`.
pub(crate) fn span_s(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return MISSING.into();
    }
    let whole = value.round();
    if whole < 60.0 {
        return format!("{} s", short(value));
    }
    let (minutes, seconds) = ((whole / 60.0).floor(), whole % 60.0);
    if minutes < 60.0 {
        format!("{minutes:.0} min {seconds:.0} s")
    } else {
        format!(
            "{:.0} h {:.0} min",
            (minutes / 60.0).floor(),
            minutes % 60.0
        )
    }
}

/// A message size: `64 B`, `1 KiB`, `1,400 B`, `16 KiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = UNITS
        .iter()
        .find(|(scale, _)| value >= *scale && value.is_multiple_of(*scale));
    match whole {
        Some((scale, unit)) => format!("{} {unit}", value / scale),
        None => format!("{} B", grouped(value as f64)),
    }
}

/// A share in per cent: `12.3 %`, `under 0.01 %`.
pub(crate) fn share(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent > 0.0 && percent < 0.01 {
        return "under 0.01 %".into();
    }
    format!("{} %", short(percent))
}

/// A ratio: `1.40x`.
pub(crate) fn ratio(value: f64) -> String {
    if value.is_finite() {
        format!("{}x", digits(value))
    } else {
        MISSING.into()
    }
}

/// A ratio as a change in per cent: `+40 %`.
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if !percent.is_finite() {
        return MISSING.into();
    }
    let sign = if percent > 0.0 { "+" } else { "" };
    if percent.abs() < 9.95 {
        format!("{sign}{percent:.1} %")
    } else {
        format!("{sign}{} %", grouped(percent))
    }
}

/// A metric's value with its unit.
pub(crate) fn measure(name: &str, value: f64) -> String {
    match metric::find(name).map_or("", |metric| metric.unit) {
        "/s" => si(value, "/s"),
        "Mbit/s" => si(value * 1e6, "bit/s"),
        "us" => time_ns(value * 1e3),
        "ns/message" => time_ns(value),
        "ns/B" => format!("{} ns/B", digits(value)),
        _ if name.ends_with("_us") => time_ns(value * 1e3),
        _ if name.ends_with("_fraction") => format!("{} %", digits(value * 100.0)),
        unit => si(value, unit),
    }
}

/// A name from a result file without control and direction characters, at most `length_max` long.
pub(crate) fn clean(text: &str, length_max: usize) -> String {
    let mut short: String = text
        .chars()
        .take(length_max)
        .map(replace_unprintable)
        .collect();
    if text.chars().nth(length_max).is_some() {
        short.push('\u{2026}');
    }
    short
}

/// A contestant's name, cleaned. It may be long: options distinguish contestants of one transport.
pub(crate) fn label(name: &str) -> String {
    clean(name, LABEL_MAX)
}

/// Room for two transports with three options.
const LABEL_MAX: usize = 80;

fn replace_unprintable(character: char) -> char {
    match character {
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => '\u{fffd}',
        '\u{feff}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

/// A key such as `wakeups_per_message` with spaces.
pub(crate) fn spaced(key: &str) -> String {
    clean(&key.replace(['_', '-'], " "), 60)
}

/// A time since 1970 as `2026-11-21 14:03 UTC`; None outside the years 1970 to 9999.
pub(crate) fn date(seconds: f64) -> Option<String> {
    if !(0.0..253_402_300_800.0).contains(&seconds) {
        return None;
    }
    let whole = seconds as i64;
    let (days, rest) = (whole / 86_400, whole % 86_400);
    // Civil date from days, by 400-year eras that start on 1 March.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    Some(format!(
        "{year}-{month:02}-{day_of_month:02} {hour:02}:{minute:02} UTC"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_with_units() {
        assert_eq!(si(1_272_345.0, "/s"), "1.27 M/s");
        assert_eq!(si(999.9, "/s"), "1.00 k/s");
        assert_eq!(si(0.0, "/s"), "0 /s");
        assert_eq!(time_ns(15_240.0), "15.2 \u{b5}s");
        assert_eq!(bytes(16_384), "16 KiB");
        assert_eq!(bytes(1400), "1,400 B");
        assert_eq!(change(1.4), "+40 %");
        assert_eq!(change(0.985), "-1.5 %");
        assert_eq!(digits(1234.5), "1,234");
        assert_eq!(short(5.0), "5");
        assert_eq!(short(0.4), "0.4");
        assert_eq!(share(0.1234), "12.3 %");
        assert_eq!(share(0.000_000_1), "under 0.01 %");
        assert_eq!(span_s(65.2), "1 min 5 s");
        assert_eq!(measure("mbit_per_s", 9_650.0), "9.65 Gbit/s");
    }

    #[test]
    fn non_finite_numbers_print_as_dash() {
        for text in [
            si(f64::NAN, "/s"),
            ratio(f64::INFINITY),
            digits(f64::NAN),
            span_s(-1.0),
        ] {
            assert_eq!(text, MISSING);
        }
    }

    #[test]
    fn control_characters_are_replaced_in_names() {
        assert_eq!(clean("a\u{1b}[31mb", 40), "a\u{fffd}[31mb");
        assert_eq!(clean("abcdef", 3), "abc\u{2026}");
    }

    #[test]
    fn timestamps_convert_to_civil_dates() {
        assert_eq!(date(0.0).as_deref(), Some("1970-01-01 00:00 UTC"));
        assert_eq!(date(951_782_400.0).as_deref(), Some("2000-02-29 00:00 UTC"));
        assert_eq!(
            date(1_795_269_780.0).as_deref(),
            Some("2026-11-21 14:03 UTC")
        );
        assert_eq!(date(f64::NAN), None);
    }
}
