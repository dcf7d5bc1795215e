//! Charts as small SVG files, readable on light and dark backgrounds.

use std::fmt::Write as _;

use super::report::Spread;

/// A row of a picture.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) standing: Standing,
    pub(super) marks: Marks,
}

/// The prominence of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The subject of the chart.
    Ours,
    Other,
    /// The limit of the machine.
    Limit,
}

/// The marks of a row.
pub(super) enum Marks {
    /// A bar to the median, with a line from minimum to maximum.
    Bar(Spread),
    /// Three dots on a logarithmic scale: the 50th, 99th and 99.9th percentiles of the latency.
    Dots([f64; 3]),
}

const WIDTH: f64 = 760.0;
const LABELS: f64 = 128.0;
/// Space for the figure to the right of the longest bar.
const FIGURES: f64 = 170.0;
const ROW: f64 = 24.0;
const HEAD: f64 = 34.0;
const BAR: f64 = 14.0;

const STYLE: &str = "text{font:13px \
                     system-ui,sans-serif;fill:#222}.h{font-weight:600}.ours{fill:#d9480f}.\
                     other{fill:#5c7cba}.limit{fill:#adb5bd}.w{stroke:#222;stroke-width:1.2}@\
                     media(prefers-color-scheme:dark){text{fill:#ddd}.w{stroke:#eee}.other{fill:#\
                     7b9be0}.limit{fill:#6c757d}.ours{fill:#ff7b39}}";

impl Standing {
    fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Other => "other",
            Self::Limit => "limit",
        }
    }
}

/// Draws rows under a title. Figures have `digits` decimal places.
pub(super) fn picture(title: &str, rows: &[Row], digits: usize) -> String {
    let height = HEAD + ROW * rows.len() as f64 + 8.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<text class=\"h\" x=\"8\" y=\"20\">{title}</text>\n",
        title = escaped(title),
    );
    let scale = Scale::of(rows);
    for (index, row) in rows.iter().enumerate() {
        draw(&mut text, row, HEAD + ROW * index as f64, (&scale, digits));
    }
    text + "</svg>\n"
}

fn draw(text: &mut String, row: &Row, top: f64, (scale, digits): (&Scale, usize)) {
    let (middle, baseline, class) = (top + ROW / 2.0, top + ROW / 2.0 + 4.5, row.standing.class());
    let label = escaped(&row.label);
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{label}</text>",
        LABELS - 8.0
    );
    match &row.marks {
        Marks::Bar(spread) => {
            let (end, from, to) =
                (scale.x(spread.median), scale.x(spread.least), scale.x(spread.most));
            let (y, width) = (middle - BAR / 2.0, end - LABELS);
            let _ = writeln!(
                text,
                "<rect class=\"{class}\" x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" \
                 height=\"{BAR}\"/>"
            );
            let _ = writeln!(
                text,
                "<line class=\"w\" x1=\"{from:.1}\" y1=\"{middle}\" x2=\"{to:.1}\" \
                 y2=\"{middle}\"/>"
            );
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{baseline}\">{:.digits$}</text>",
                to + 6.0,
                spread.median
            );
        }
        Marks::Dots(values) => {
            let (from, to) = (scale.x(values[0]), scale.x(values[2]));
            let _ = writeln!(
                text,
                "<line class=\"w\" x1=\"{from:.1}\" y1=\"{middle}\" x2=\"{to:.1}\" \
                 y2=\"{middle}\"/>"
            );
            for (value, radius) in values.iter().zip([6.0, 5.0, 4.0]) {
                let x = scale.x(*value);
                let _ = writeln!(
                    text,
                    "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{middle}\" r=\"{radius}\"/>"
                );
            }
            let figures = values.map(|value| format!("{value:.digits$}")).join(" / ");
            let _ =
                writeln!(text, "<text x=\"{:.1}\" y=\"{baseline}\">{figures}</text>", to + 10.0);
        }
    }
}

/// The mapping of values to positions.
enum Scale {
    /// A linear axis from zero to the maximum.
    Linear { most: f64 },
    /// An axis from the minimum to the maximum, with powers of ten at equal distances.
    Logarithmic { least: f64, most: f64 },
}

impl Scale {
    fn of(rows: &[Row]) -> Self {
        let dots: Vec<f64> = rows
            .iter()
            .flat_map(|row| {
                if let Marks::Dots(values) = &row.marks { values.to_vec() } else { Vec::new() }
            })
            .collect();
        if dots.is_empty() {
            let ends = rows
                .iter()
                .map(|row| if let Marks::Bar(spread) = &row.marks { spread.most } else { 0.0 });
            return Self::Linear { most: ends.fold(f64::MIN_POSITIVE, f64::max) };
        }
        let least = dots.iter().copied().fold(f64::INFINITY, f64::min).max(1.0);
        Self::Logarithmic { least, most: dots.iter().copied().fold(least * 1.1, f64::max) }
    }

    fn x(&self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { most } => value / most,
            Self::Logarithmic { least, most } => {
                (value.max(*least) / least).ln() / (most / least).ln()
            }
        };
        LABELS + share.clamp(0.0, 1.0) * (WIDTH - LABELS - FIGURES)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, median: f64) -> Row {
        let spread = Spread { median, least: median, most: median };
        Row { label: label.to_owned(), standing: Standing::Other, marks: Marks::Bar(spread) }
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let text = picture("a < b", &[bar("x", 2.0), bar("y", 4.0)], 1);
        let full = WIDTH - LABELS - FIGURES;
        assert!(
            text.contains(&format!("width=\"{full:.1}\""))
                && text.contains(&format!("width=\"{:.1}\"", full / 2.0))
        );
        assert!(text.contains("<title>a &lt; b</title>") && text.contains(">4.0</text>"), "{text}");
    }

    #[test]
    fn dots_are_on_a_logarithmic_scale() {
        let scale = Scale::Logarithmic { least: 10.0, most: 1000.0 };
        let (start, end) = (scale.x(10.0), scale.x(1000.0));
        assert!((scale.x(100.0) - f64::midpoint(start, end)).abs() < 0.01);
        assert!((scale.x(1.0) - start).abs() < 0.01);
    }
}
