//! The results as a self-contained HTML page without scripts, for mail, archives and offline
//! reading.

use std::fmt::Write as _;

use super::chart::{COLOURS, Chart, ChartLine, Mark, Scale, escape};
use super::{Cpu, Outcome, Report, Sample, WrongReport};
use crate::units::{count_text, nanos_text};

/// Maximum number of runs on one page: more lines in one chart cannot be distinguished.
const MAX_RUNS: usize = 24;

/// Shares of the queries that are marked on the axis of the latency chart.
const PERCENTILE_MARKS: [f64; 7] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

const STYLE: &str = "\
:root{color-scheme:light \
     dark;--text:#1d2430;--quiet:#5d6878;--back:#fff;--grid:#dfe4ea;--bad:#b3261e;--c0:#1261a6;\
     --c1:#c2570c;--c2:#2f7d32;--c3:#8e2f8e;--c4:#8a6d00;--c5:#007a86}@media(prefers-color-scheme:\
     dark){:root{--text:#e4e8ee;--quiet:#9aa6b6;--back:#14181e;--grid:#2b333d;--bad:#ff8a80;--c0:#\
     6cb4f5;--c1:#ff9d5c;--c2:#7fd083;--c3:#dc8fdc;--c4:#e0c14f;--c5:#56cdd8}}body{font:15px/1.5 \
     system-ui,sans-serif;color:var(--text);background:var(--back);max-width:60rem;margin:2rem \
     auto;padding:0 \
     1rem}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.bad{color:var(--bad);\
     font-weight:600}.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:\
     tabular-nums}th,td{padding:.2rem .8rem .2rem 0;text-align:right;border-bottom:1px solid \
     var(--grid);vertical-align:top}th:first-child{text-align:left;font-weight:400;color:\
     var(--quiet)}thead \
     th{font-weight:600;max-width:16rem;overflow-wrap:anywhere}figure{margin:1.5rem \
     0}figcaption{font-weight:600}svg{width:100%;height:auto}svg text{font:11px \
     system-ui,sans-serif;fill:var(--quiet)}.x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:\
     var(--grid);fill:none}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.c0{stroke:\
     var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:\
     var(--c4)}.c5{stroke:var(--c5)}.key{display:inline-block;width:1.2em;height:.7em;\
     margin-right:.4em}.k0{background:var(--c0)}.k1{background:var(--c1)}.k2{background:\
     var(--c2)}.k3{background:var(--c3)}.k4{background:var(--c4)}.k5{background:var(--c5)}code,\
     pre{font:13px ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}";

/// Returns a page with one or more runs.
pub(crate) fn write(runs: &[Report]) -> String {
    let runs = runs.get(..runs.len().min(MAX_RUNS)).unwrap_or_default();
    let title = match runs {
        [one] => format!("Load on {}", one.server.address),
        _ => format!("{} runs of load", runs.len()),
    };
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    let _ = write!(
        out,
        "<meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{STYLE}</style></\
         head><body>\n<h1>{0}</h1>\n",
        escape(&title)
    );
    for run in runs {
        verdict(run, &mut out);
    }
    table(runs, &mut out);
    percentiles(runs, &mut out);
    courses(runs, &mut out);
    flows(runs, &mut out);
    searches(runs, &mut out);
    for run in runs {
        origin(run, &mut out);
    }
    out.push_str("</body></html>\n");
    out
}

/// Returns the name of a run: the software or the process of its server, and the scenario.
fn name(run: &Report) -> String {
    let server = &run.server;
    let who = server.process.as_ref().or(server.version.as_ref()).unwrap_or(&server.address);
    format!("{who}, {}", format!("{:?}", run.scenario).to_lowercase())
}

fn verdict(run: &Report, out: &mut String) {
    if run.passed {
        return;
    }
    for fault in &run.faults {
        let _ = writeln!(out, "<p class=\"bad\">{}: {}</p>", escape(&name(run)), escape(fault));
    }
}

fn table(runs: &[Report], out: &mut String) {
    out.push_str("<div class=\"scroll\"><table><thead><tr><th></th>");
    for (number, run) in runs.iter().enumerate() {
        let _ = write!(
            out,
            "<th><span class=\"key k{}\"></span>{}</th>",
            number % COLOURS,
            escape(&name(run))
        );
    }
    out.push_str("</tr></thead><tbody>\n");
    let micros = |cpu: Option<Cpu>, part: fn(Cpu) -> f64| {
        cpu.map_or("-".to_owned(), |cpu| format!("{:.3} us", part(cpu)))
    };
    let mut row = |label: &str, cell: &dyn Fn(&Report) -> String| {
        let _ = write!(out, "<tr><th>{label}</th>");
        for run in runs {
            let _ = write!(out, "<td>{}</td>", escape(&cell(run)));
        }
        out.push_str("</tr>\n");
    };
    row("CPU per answer", &|run| micros(run.server_cpu, |cpu| cpu.total_us));
    row("user", &|run| micros(run.server_cpu, |cpu| cpu.user_us));
    row("system", &|run| micros(run.server_cpu, |cpu| cpu.system_us));
    row("answers per second", &|run| count_text(run.outcome.answered_per_sec as u64));
    row("sent", &|run| count_text(run.outcome.sent));
    row("lost", &|run| {
        format!("{} ({:.3}%)", count_text(run.outcome.lost), run.outcome.loss * 100.0)
    });
    row("wrong", &|run| count_text(run.outcome.wrong.total));
    for (label, count) in WrongReport::KINDS {
        if runs.iter().any(|run| count(&run.outcome.wrong) > 0) {
            row(label, &|run| count_text(count(&run.outcome.wrong)));
        }
    }
    for (label, count) in Outcome::OTHERS {
        if runs.iter().any(|run| count(&run.outcome) > 0) {
            row(label, &|run| count_text(count(&run.outcome)));
        }
    }
    row("P50", &|run| nanos_text(run.latency.p50_ns));
    row("P90", &|run| nanos_text(run.latency.p90_ns));
    row("P99", &|run| nanos_text(run.latency.p99_ns));
    row("P99.9", &|run| nanos_text(run.latency.p999_ns));
    row("P99.99", &|run| nanos_text(run.latency.p9999_ns));
    row("longest", &|run| nanos_text(run.latency.max_ns));
    row("peak memory", &|run| {
        run.memory.map_or("-".to_owned(), |memory| {
            format!("{:.1} MiB", memory.peak_bytes as f64 / 1_048_576.0)
        })
    });
    row("generator, CPU per query", &|run| micros(run.generator_cpu, |cpu| cpu.total_us));
    out.push_str("</tbody></table></div>\n");
}

/// Draws the latency as a curve over the share of the queries. The upper end of the shares is
/// stretched.
fn percentiles(runs: &[Report], out: &mut String) {
    let place = |share: f64| -(1.0 - share).max(1e-7).log10();
    let lines = runs.iter().enumerate().map(|(colour, run)| ChartLine {
        name: name(run),
        colour,
        points: run
            .latency
            .curve
            .iter()
            .map(|(share, nanos)| (place(*share), *nanos as f64))
            .collect(),
    });
    let marks: Vec<Mark> = PERCENTILE_MARKS
        .iter()
        .map(|share| (place(*share), format!("{}%", (share * 1e5).round() / 1e3)))
        .collect();
    Chart {
        title: "Latency by percentile",
        x_name: "share of queries answered within this latency",
        x_marks: marks,
        y_scale: Scale::Logarithmic,
        y_text: &|nanos| nanos_text(nanos as u64),
        lines: lines.collect(),
    }
    .draw(out);
}

fn courses(runs: &[Report], out: &mut String) {
    let mut course = |title: &str,
                      y_scale,
                      y_text: &dyn Fn(f64) -> String,
                      value: &dyn Fn(&Sample) -> Option<f64>| {
        let line = |(colour, run): (usize, &Report)| ChartLine {
            name: name(run),
            colour,
            points: run
                .series
                .iter()
                .filter_map(|sample| Some((sample.secs, value(sample)?)))
                .collect(),
        };
        let lines = runs.iter().enumerate().map(line).collect();
        Chart { title, x_name: "seconds", x_marks: Vec::new(), y_scale, y_text, lines }.draw(out);
    };
    let count = |value: f64| count_text(value as u64);
    course("Answers per second", Scale::Linear, &count, &|sample| Some(sample.answered_per_sec));
    course("P99 over time", Scale::Logarithmic, &|nanos| nanos_text(nanos as u64), &|sample| {
        Some(sample.p99_ns as f64)
    });
    if runs.iter().any(|run| run.series.iter().any(|sample| sample.lost > 0)) {
        course("Lost", Scale::Linear, &count, &|sample| Some(sample.lost as f64));
    }
    course("Cores of the server", Scale::Linear, &|cores| format!("{cores:.2}"), &|sample| {
        sample.server_cores
    });
    course(
        "Memory of the server",
        Scale::Linear,
        &|bytes| format!("{:.0} MiB", bytes / 1_048_576.0),
        &|sample| sample.server_bytes.map(|bytes| bytes as f64),
    );
}

fn flows(runs: &[Report], out: &mut String) {
    for run in runs.iter().filter(|run| run.flows.len() > 1) {
        let _ = writeln!(
            out,
            "<h2>Kinds of queries: {}</h2><div \
             class=\"scroll\"><table><thead><tr><th></th><th>sent</th><th>answered</th><th>lost</\
             th><th>wrong</th><th>P50</th><th>P99</th><th>P99.9</th></tr></thead><tbody>",
            escape(&name(run))
        );
        for flow in &run.flows {
            let (outcome, latency) = (&flow.outcome, &flow.latency);
            let _ = writeln!(
                out,
                "<tr><th>{}</th><td>{}</td><td>{}</td><td>{:.3}%</td><td>{}</td><td>{}</\
                 td><td>{}</td><td>{}</td></tr>",
                escape(&flow.name),
                count_text(outcome.sent),
                count_text(outcome.answered),
                outcome.loss * 100.0,
                count_text(outcome.wrong.total),
                nanos_text(latency.p50_ns),
                nanos_text(latency.p99_ns),
                nanos_text(latency.p999_ns)
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
}

fn searches(runs: &[Report], out: &mut String) {
    let line = |(colour, run): (usize, &Report)| {
        let mut points: Vec<(f64, f64)> = run
            .ramp
            .iter()
            .flat_map(|ramp| &ramp.steps)
            .map(|step| (step.rate, step.p99_ns as f64))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        ChartLine { name: name(run), colour, points }
    };
    Chart {
        title: "P99 by rate",
        x_name: "queries per second",
        x_marks: Vec::new(),
        y_scale: Scale::Logarithmic,
        y_text: &|nanos| nanos_text(nanos as u64),
        lines: runs.iter().enumerate().map(line).collect(),
    }
    .draw(out);
    for run in runs {
        if let Some(ramp) = &run.ramp {
            let own = if ramp.own_limit { ", the generator's own limit" } else { "" };
            let _ = writeln!(
                out,
                "<p>{}: up to {} queries per second{own}, with at most {:.3}% lost and a P99 of \
                 {}.</p>",
                escape(&name(run)),
                count_text(ramp.highest_rate as u64),
                ramp.bounds.max_loss * 100.0,
                nanos_text(ramp.bounds.max_p99_ns)
            );
        }
    }
}

/// Writes a description of the machine, the command line and the program that produced the figures.
fn origin(run: &Report, out: &mut String) {
    let machine = &run.machine;
    let version = run.server.version.as_deref().unwrap_or("unknown");
    let _ = write!(
        out,
        "<h2>{}</h2><p>{} ({}), software {}; sent for {:.2} s by {} clients, seed {}, avocet \
         {}.<br>{}, {} processors, {:.1} GiB, kernel {}.</p><pre>{}</pre>",
        escape(&name(run)),
        escape(&run.server.address),
        escape(&format!("{:?}", run.server.transport).to_lowercase()),
        escape(version),
        run.asked_secs,
        run.pace.clients,
        run.seed,
        escape(&run.version),
        escape(&machine.cpu),
        machine.cpus,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        escape(&machine.kernel),
        escape(&run.command_line.join(" "))
    );
    for (label, texts) in [("Checked", &run.checked), ("Not checked", &run.unchecked)] {
        if !texts.is_empty() {
            let _ = write!(out, "<p>{label}: {}.</p>", escape(&texts.join("; ")));
        }
    }
    for remark in run.remarks.iter().chain(&run.examples) {
        let _ = write!(out, "<p><code>{}</code></p>", escape(remark));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn a_page_is_whole_and_loads_nothing() {
        let mut run = report();
        run.server.version = Some("<script>alert(1)</script>".to_owned());
        run.server.process = None;
        let page = write(&[run, report()]);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(
            !page.contains("<script") && !page.contains("http") && !page.contains("url("),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"));
        for wanted in [
            "Latency by percentile",
            "Answers per second",
            "prefers-color-scheme:dark",
            "k1\"></span>",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn a_run_without_answers_has_a_page() {
        let mut run = report();
        (run.series, run.latency, run.passed) =
            (Vec::new(), crate::report::Latency::default(), false);
        run.faults = vec!["127.0.0.1:53 answered nothing".to_owned()];
        assert!(write(&[run]).contains("answered nothing"));
    }
}
