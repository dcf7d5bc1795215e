//! A flame graph. Each function is a box above its caller, and its width is its share. Tooltips
//! show names and weights; the picture contains no script.

use std::fmt::Write as _;

use super::stacks::Stacks;

/// Width of the picture and height of a box, in pixels.
const WIDTH: f64 = 1600.0;
const ROW: f64 = 17.0;
/// Height of the title.
const HEAD: f64 = 30.0;
/// Minimum width of a box. Narrower boxes are omitted, because they would not be visible.
const NARROWEST: f64 = 0.3;
/// Width of a letter.
const LETTER: f64 = 6.6;

/// A function with its callees.
#[derive(Default)]
struct Frame<'s> {
    name: &'s str,
    weight: u64,
    callees: Vec<Frame<'s>>,
}

impl<'s> Frame<'s> {
    fn add(&mut self, frames: &'s [String], weight: u64) {
        self.weight += weight;
        let Some((first, rest)) = frames.split_first() else { return };
        let at = self.callees.iter().position(|callee| callee.name == first).unwrap_or_else(|| {
            self.callees.push(Frame { name: first, ..Frame::default() });
            self.callees.len() - 1
        });
        self.callees[at].add(rest, weight);
    }

    fn depth(&self) -> usize {
        1 + self.callees.iter().map(Self::depth).max().unwrap_or(0)
    }
}

/// Returns the picture as SVG.
pub(super) fn draw(title: &str, stacks: &Stacks) -> String {
    let mut root = Frame { name: "all", ..Frame::default() };
    for (frames, weight) in stacks.iter() {
        root.add(frames, weight);
    }
    let height = HEAD + root.depth() as f64 * ROW + 4.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fdfdf8\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let scale = WIDTH / root.weight.max(1) as f64;
    draw_frame(&mut svg, &root, (0.0, height - ROW - 2.0), scale);
    svg.push_str("</svg>\n");
    svg
}

/// Draws a frame with its lower left corner at a point. Draws the callees of the frame above it.
fn draw_frame(svg: &mut String, frame: &Frame<'_>, (x, y): (f64, f64), scale: f64) {
    let width = frame.weight as f64 * scale;
    if width < NARROWEST {
        return;
    }
    let name = escaped(frame.name);
    let share = width / WIDTH * 100.0;
    // Writing to a String cannot fail.
    let _ = write!(
        svg,
        "<g><title>{name}: {} ({share:.2} %)</title><rect x=\"{x:.1}\" y=\"{y:.1}\" \
         width=\"{:.1}\" height=\"{}\" rx=\"1\" fill=\"{}\"/>",
        frame.weight,
        (width - 0.4).max(0.2),
        ROW - 1.0,
        colour(frame.name)
    );
    let letters = (width / LETTER) as usize;
    if letters > 3 {
        let cut: String = frame.name.chars().take(letters - 1).collect();
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 2.0,
            y + 12.0,
            escaped(&cut)
        );
    }
    svg.push_str("</g>\n");
    let mut left = x;
    for callee in &frame.callees {
        draw_frame(svg, callee, (left, y - ROW), scale);
        left += callee.weight as f64 * scale;
    }
}

/// Returns green for functions of Avocet and a warm colour for others. The name determines the
/// shade.
fn colour(name: &str) -> String {
    let shade =
        name.bytes().fold(7u32, |sum, octet| sum.wrapping_mul(31).wrapping_add(u32::from(octet)))
            % 30;
    let hue = if name.contains("avocet") { 85 } else { 28 };
    format!("hsl({hue},{}%,{}%)", 55 + shade, 62 + shade / 2)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_their_share() {
        let mut stacks = Stacks::default();
        stacks.add(&["run".to_owned(), "Vec<u8>::push".to_owned()], 3);
        stacks.add(&["run".to_owned()], 1);
        let svg = draw("a & b", &stacks);
        assert!(svg.starts_with("<svg ") && svg.contains("a &amp; b"), "{svg}");
        assert!(svg.contains("<title>run: 4 (100.00 %)</title>"), "{svg}");
        assert!(svg.contains("<title>Vec&lt;u8&gt;::push: 3 (75.00 %)</title>"), "{svg}");
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    }
}
