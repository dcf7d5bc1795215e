//! The text format of Prometheus metrics (exposition format 0.0.4).

use std::fmt::{Display, Write};

/// The media type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A label and its value.
pub(super) type Label<'a> = (&'a str, &'a str);

/// The type of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MetricType {
    /// A value that only increases; its name ends with `_total`.
    Counter,
    /// A value that may increase and decrease.
    Gauge,
    /// Counts of values, by upper bounds.
    Histogram,
}

/// Metrics as text.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
}

/// A family of samples with one name; each family is written once.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Exposition {
    /// Begins a family.
    pub(super) fn family<'a>(
        &'a mut self,
        name: &'a str,
        kind: MetricType,
        help: &str,
    ) -> Family<'a> {
        debug_assert_eq!(kind == MetricType::Counter, name.ends_with("_total"), "{name}");
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        put(&mut self.text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { text: &mut self.text, name }
    }

    /// Writes a counter with one sample.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, MetricType::Counter, help).sample(&[], value);
    }

    /// Writes a gauge with one sample.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, MetricType::Gauge, help).sample(&[], value);
    }

    /// Returns the complete text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub(super) fn sample(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.line("", labels, value);
    }

    /// Adds the samples of a histogram: the counts up to each bound in seconds, and the sum of all
    /// values in seconds. The last class has no bound.
    pub(super) fn histogram(
        &mut self,
        labels: &[Label<'_>],
        (bounds, counts): (&[f64], &[u64]),
        sum: f64,
    ) {
        let mut all = 0;
        let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts) {
            all += count;
            let labels: Vec<Label<'_>> =
                labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.line("_bucket", &labels, all);
        }
        self.line("_sum", labels, sum);
        self.line("_count", labels, all);
    }

    fn line(&mut self, suffix: &str, labels: &[Label<'_>], value: impl Display) {
        put(self.text, format_args!("{}{suffix}", self.name));
        for (number, (label, text)) in labels.iter().enumerate() {
            let opening = if number == 0 { '{' } else { ',' };
            put(self.text, format_args!("{opening}{label}=\"{}\"", escaped(text)));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        put(self.text, format_args!("{closing} {value}\n"));
    }
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = text.write_fmt(line);
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_family() {
        let mut metrics = Exposition::default();
        metrics.gauge("a_bytes", "Room.", 7);
        let mut family = metrics.family("b_total", MetricType::Counter, "Events.");
        family.sample(&[("x", "1"), ("y", "a\"\\\n")], 2u64);
        assert_eq!(
            metrics.into_text(),
            "# HELP a_bytes Room.\n# TYPE a_bytes gauge\na_bytes 7\n# HELP b_total Events.\n# TYPE b_total counter\n\
             b_total{x=\"1\",y=\"a\\\"\\\\\\n\"} 2\n"
        );
    }

    #[test]
    fn buckets_of_a_histogram_are_cumulative_and_end_without_a_bound() {
        let mut metrics = Exposition::default();
        let mut family = metrics.family("t_seconds", MetricType::Histogram, "Time.");
        family.histogram(&[("path", "hit")], (&[0.5, 1.0], &[3, 0, 4]), 9.25);
        let text = metrics.into_text();
        let samples: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            samples,
            [
                "t_seconds_bucket{path=\"hit\",le=\"0.5\"} 3",
                "t_seconds_bucket{path=\"hit\",le=\"1\"} 3",
                "t_seconds_bucket{path=\"hit\",le=\"+Inf\"} 7",
                "t_seconds_sum{path=\"hit\"} 9.25",
                "t_seconds_count{path=\"hit\"} 7",
            ]
        );
    }
}
