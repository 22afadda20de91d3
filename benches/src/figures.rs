//! Medians over interleaved rounds, and how figures are written.

/// The middle one; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// The value below which `percent` of all lie, by the nearest rank; 0 of none.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among far fewer than 2^52 values"
    )]
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The median of the ratios of each round, so that what disturbed one round disturbs one ratio.
pub fn paired_ratio(ours: &[f64], baseline: &[f64]) -> f64 {
    median(&ours.iter().zip(baseline).map(|(ours, base)| ours / base).collect::<Vec<_>>())
}

/// `1234567.8` with no decimals is `1,234,568`.
pub fn decimals(value: f64, places: usize) -> String {
    let plain = format!("{value:.places$}");
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// Bytes as MB, of 10^6 bytes each.
pub fn megabytes(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 bytes")]
    let bytes = bytes as f64;
    bytes / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_what_they_are_called() {
        let all: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert!((percentile(&all, 99.0) - 198.0).abs() < 1e-9);
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
        assert!((paired_ratio(&[1.0, 8.0, 3.0], &[2.0, 2.0, 2.0]) - 1.5).abs() < 1e-9);
        assert_eq!(decimals(1_234_567.8, 0), "1,234,568");
        assert_eq!(decimals(-999.96, 1), "-1,000.0");
        assert_eq!(decimals(0.125, 2), "0.12");
    }
}
