//! Medians, percentiles, and how they are printed.

use std::time::Duration;

/// The value below which this share of the samples lies.
pub fn percentile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let at = ((samples.len() as f64 * share).ceil() as usize).clamp(1, samples.len());
    samples[at - 1]
}

pub fn median(samples: &mut [f64]) -> f64 {
    percentile(samples, 0.5)
}

pub fn heading(what: &str) {
    println!("\n{what}");
}

/// One figure beside its limit.
pub fn beside(what: &str, ours: f64, limit_name: &str, limit: f64, unit: &str) {
    println!(
        "  {what:<44} {ours:>10.2} {unit:<4} {limit_name}: {limit:.2} {unit}, ratio {:.2}",
        ours / limit
    );
}

/// Milliseconds, as all durations here are printed.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// p50, p99 and the worst of some durations in milliseconds.
pub fn spread(samples: &mut [f64]) -> String {
    let (p50, p99, worst) =
        (percentile(samples, 0.5), percentile(samples, 0.99), percentile(samples, 1.0));
    format!("p50 {p50:.1} ms, p99 {p99:.1} ms, worst {worst:.1} ms of {}", samples.len())
}
