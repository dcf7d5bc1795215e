//! Line charts as SVG, with colours from the page's style sheet for light and dark mode.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;

/// Maximum number of points of a line, because a chart has no more pixels.
const MAX_POINTS: usize = 1_000;

/// Number of colours in the style sheet. Further lines reuse them from the first one.
pub(crate) const COLOURS: usize = 6;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// A linear scale from zero.
    Linear,
    /// A logarithmic scale in powers of ten.
    Logarithmic,
}

/// A line of a chart.
pub(crate) struct ChartLine {
    pub(crate) name: String,
    /// The index of the line's colour in the style sheet.
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A mark on an axis: its value and its text.
pub(crate) type Mark = (f64, String);

/// A chart of lines that share their axes.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_name: &'a str,
    /// Marks along the horizontal axis. By default, they are at round numbers.
    pub(crate) x_marks: Vec<Mark>,
    pub(crate) y_scale: Scale,
    /// Formats a value on the vertical axis.
    pub(crate) y_text: &'a dyn Fn(f64) -> String,
    pub(crate) lines: Vec<ChartLine>,
}

/// The ends of an axis.
#[derive(Clone, Copy)]
struct AxisRange {
    low: f64,
    high: f64,
}

impl AxisRange {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let extent =
            values.filter(|value| value.is_finite()).fold(None, |found: Option<Self>, value| {
                let Self { low, high } = found.unwrap_or(Self { low: value, high: value });
                Some(Self { low: low.min(value), high: high.max(value) })
            })?;
        Some(if extent.high > extent.low {
            extent
        } else {
            Self { high: extent.low + 1.0, ..extent }
        })
    }

    fn share(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

impl Chart<'_> {
    /// Draws the chart. Draws nothing if there are no points.
    pub(crate) fn draw(&self, out: &mut String) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = AxisRange::of(points().map(|point| point.0));
        let y = AxisRange::of(points().map(|point| self.scaled(point.1)));
        let (Some(x), Some(y)) = (x, y) else { return };
        let y = match self.y_scale {
            Scale::Linear => AxisRange { low: 0.0, high: y.high.max(f64::MIN_POSITIVE) },
            Scale::Logarithmic => {
                AxisRange { low: y.low.floor(), high: y.high.ceil().max(y.low.floor() + 1.0) }
            }
        };
        let _ = write!(
            out,
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" aria-label=\"{}\">",
            escape(self.title),
            escape(self.title)
        );
        self.draw_axes(x, y, out);
        for line in &self.lines {
            self.draw_line(line, x, y, out);
        }
        out.push_str("</svg></figure>\n");
    }

    fn scaled(&self, value: f64) -> f64 {
        match self.y_scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(1.0).log10(),
        }
    }

    fn draw_axes(&self, x: AxisRange, y: AxisRange, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, text) in self.y_marks(y) {
            let at = place_y(y.share(value));
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text x=\"{:.1}\" \
                 y=\"{:.1}\" class=\"y\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                escape(&text)
            );
        }
        let round;
        let marks = if self.x_marks.is_empty() {
            round = round_marks(x);
            &round
        } else {
            &self.x_marks
        };
        for (value, text) in
            marks.iter().filter(|(value, _)| (0.0..=1.0).contains(&x.share(*value)))
        {
            let at = place_x(x.share(*value));
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/><text x=\"{at:.1}\" \
                 y=\"{:.1}\" class=\"x\">{}</text>",
                bottom + 16.0,
                escape(text)
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"x\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 6.0,
            escape(self.x_name)
        );
    }

    fn y_marks(&self, y: AxisRange) -> Vec<Mark> {
        match self.y_scale {
            Scale::Linear => {
                let step = round_step(y.high / 5.0);
                let count = (y.high / step).floor() as u32;
                (0..=count)
                    .map(|i| f64::from(i) * step)
                    .map(|value| (value, (self.y_text)(value)))
                    .collect()
            }
            Scale::Logarithmic => {
                let powers = y.low as i32..=y.high as i32;
                powers.map(|power| (f64::from(power), (self.y_text)(10f64.powi(power)))).collect()
            }
        }
    }

    fn draw_line(&self, line: &ChartLine, x: AxisRange, y: AxisRange, out: &mut String) {
        let every = line.points.len().div_ceil(MAX_POINTS).max(1);
        let _ = write!(out, "<path class=\"line c{}\" d=\"", line.colour % COLOURS);
        let mut letter = 'M';
        for (value_x, value_y) in line.points.iter().step_by(every) {
            let (at_x, at_y) =
                (place_x(x.share(*value_x)), place_y(y.share(self.scaled(*value_y))));
            if at_x.is_finite() && at_y.is_finite() {
                let _ = write!(out, "{letter}{at_x:.1} {at_y:.1}");
                letter = 'L';
            }
        }
        let _ = write!(out, "\"><title>{}</title></path>", escape(&line.name));
    }
}

fn place_x(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

fn place_y(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

fn round_marks(x: AxisRange) -> Vec<Mark> {
    let step = round_step((x.high - x.low) / 8.0);
    let first = (x.low / step).ceil();
    let count = ((x.high / step).floor() - first).max(0.0) as u32;
    let values = (0..=count).map(|i| (first + f64::from(i)) * step);
    values
        .map(|value| {
            (value, if step < 1.0 { format!("{value:.1}") } else { format!("{value:.0}") })
        })
        .collect()
}

/// Returns the smallest value of at least `step` that is 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|round| *round >= step)
        .unwrap_or(power)
}

/// Escapes text for HTML: output of a server or a command line must not become markup.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(y_scale: Scale, points: Vec<(f64, f64)>) -> String {
        let lines = vec![ChartLine { name: "a<b".to_owned(), colour: 7, points }];
        let y_text = |value: f64| format!("{value}");
        let mut out = String::new();
        Chart { title: "t", x_name: "x", x_marks: Vec::new(), y_scale, y_text: &y_text, lines }
            .draw(&mut out);
        out
    }

    #[test]
    fn a_line_stays_within_its_frame() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let text = drawn(scale, vec![(0.0, 0.0), (5.0, 1e6), (10.0, 3.0), (11.0, f64::NAN)]);
            assert!(text.contains("class=\"line c1\"") && text.contains("a&lt;b"), "{text}");
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
        assert_eq!(drawn(Scale::Linear, Vec::new()), "");
        assert!(drawn(Scale::Linear, vec![(1.0, 0.0)]).contains("<svg"));
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(
            [round_step(0.7), round_step(1.2), round_step(30.0), round_step(70.0)],
            [1.0, 2.0, 50.0, 100.0]
        );
    }
}
