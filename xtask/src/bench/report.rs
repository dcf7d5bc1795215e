//! Samples, their evaluation, and their representation in JSON.

use serde_json::Value;

use super::extra::Extra;
use super::json::{self, Json};
use super::load::{Latency, Load};
use super::noise::Noise;
use super::packages::LeftOut;
use super::peer::Peer;
use super::workload::{Measure, Workload};

/// The result of one run of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) peer: Peer,
    pub(super) workload: Workload,
    /// The number of the round, starting at 1. Ratios are only formed within a round.
    pub(super) round: usize,
    /// CPU time of the server's processes per answer in microseconds, user and system.
    pub(super) cpu_us: f64,
    /// CPU time in user mode per answer in microseconds. The kernel samples it per tick, so it is
    /// less precise than the sum.
    pub(super) user_us: f64,
    /// Seconds from the start of the process to its first right answer.
    pub(super) ready_secs: f64,
    /// Memory of the server's processes at its first right answer.
    pub(super) start_bytes: f64,
    pub(super) growth: Option<Growth>,
    /// The disturbances of the run. `None` in results of older benches, and if the kernel does not
    /// show them.
    pub(super) noise: Option<Noise>,
    pub(super) load: Load,
}

/// The cost of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// Growth of the memory of the processes per name that is still cached.
    pub(super) bytes_per_name: f64,
    /// The share of the names queried first that are still cached.
    pub(super) kept: f64,
}

impl Sample {
    /// Returns the headline figure of the workload in its unit.
    pub(super) fn figure(&self) -> f64 {
        match self.workload.measure() {
            Measure::Cpu => self.cpu_us,
            Measure::Latency => self.load.latency.map_or(f64::NAN, |latency| latency.p99_us),
            Measure::Resident => self.load.extra(Extra::ResidentMb).unwrap_or(f64::NAN),
            Measure::Memory => self.growth.map_or(f64::NAN, |growth| growth.bytes_per_name),
        }
    }

    /// Returns the sample on one line, for progress output.
    pub(super) fn line(&self) -> String {
        let pair = format!("{}/{}", self.peer.name(), self.workload.name());
        format!(
            "{pair:<26} {:8.2}  {:9.0}/s  lost {}",
            self.figure(),
            self.load.per_sec,
            self.load.lost
        )
    }

    fn json(&self) -> Json {
        let count = |count: u64| json::number(count as f64);
        let rcodes =
            self.load.rcodes.iter().map(|(name, answers)| (name.as_str(), count(*answers)));
        let mut members = vec![
            ("peer", json::string(self.peer.name())),
            ("workload", json::string(self.workload.name())),
            ("round", count(self.round as u64)),
            ("cpu_us", json::number(self.cpu_us)),
            ("user_us", json::number(self.user_us)),
            ("ready_secs", json::number(self.ready_secs)),
            ("start_bytes", json::number(self.start_bytes)),
            ("per_sec", json::number(self.load.per_sec)),
            ("answered", count(self.load.answered)),
            ("lost", count(self.load.lost)),
            ("rcodes", json::object(rcodes)),
        ];
        if let Some(latency) = self.load.latency {
            members.extend(
                [
                    ("p50_us", latency.p50_us),
                    ("p99_us", latency.p99_us),
                    ("p999_us", latency.p999_us),
                ]
                .map(|(key, micros)| (key, json::number(micros))),
            );
        }
        let extras = self.load.extras.iter();
        members.extend(extras.map(|(extra, value)| (extra.key(), json::number(*value))));
        if let Some(growth) = self.growth {
            members.extend([
                ("bytes_per_name", json::number(growth.bytes_per_name)),
                ("kept", json::number(growth.kept)),
            ]);
        }
        members.extend(self.noise.into_iter().flat_map(Noise::json));
        json::object(members)
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let number = |key: &str| value[key].as_f64();
        let wanted =
            |key: &str| number(key).ok_or_else(|| format!("a sample without `{key}`: {value}"));
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let latency = [number("p50_us"), number("p99_us"), number("p999_us")];
        let latency = match latency {
            [Some(p50_us), Some(p99_us), Some(p999_us)] => {
                Some(Latency { p50_us, p99_us, p999_us })
            }
            _ => None,
        };
        let growth = number("bytes_per_name").zip(number("kept"));
        let rcodes = value["rcodes"].as_object().into_iter().flatten();
        let extras = Extra::ALL.iter().filter_map(|extra| Some((*extra, number(extra.key())?)));
        Ok(Self {
            peer: Peer::named(text("peer"))?,
            workload: Workload::named(text("workload"))?,
            round: wanted("round")? as usize,
            cpu_us: wanted("cpu_us")?,
            user_us: wanted("user_us")?,
            ready_secs: wanted("ready_secs")?,
            start_bytes: wanted("start_bytes")?,
            growth: growth.map(|(bytes_per_name, kept)| Growth { bytes_per_name, kept }),
            noise: Noise::parse(value),
            load: Load {
                answered: wanted("answered")? as u64,
                lost: wanted("lost")? as u64,
                per_sec: wanted("per_sec")?,
                rcodes: rcodes
                    .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or_default()))
                    .collect(),
                latency,
                extras: extras.collect(),
                ..Load::default()
            },
        })
    }
}

/// A pair that could not be measured or that gave wrong answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) peer: Peer,
    pub(super) workload: Workload,
    pub(super) reason: String,
}

/// Counts per query, one for each server.
pub(super) type Counts = Vec<(Peer, f64)>;

/// All results of a bench.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    pub(super) samples: Vec<Sample>,
    pub(super) failures: Vec<Failure>,
    pub(super) left_out: Vec<LeftOut>,
    /// User instructions per cached query. Empty if the result does not have them.
    pub(super) instructions: Counts,
    /// System calls per query that no cache answers. Empty if the result does not have them.
    pub(super) calls: Counts,
}

/// The median of several values, with their minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Returns the median of values, or `None` if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Self {
            median: f64::midpoint(lower, upper),
            least: *sorted.first()?,
            most: *sorted.last()?,
        })
    }
}

impl Report {
    /// Removes the samples of a pair and records the reason.
    pub(super) fn fail(&mut self, peer: Peer, workload: Workload, reason: String) {
        self.samples.retain(|sample| (sample.peer, sample.workload) != (peer, workload));
        self.failures.push(Failure { peer, workload, reason });
    }

    pub(super) fn has_failed(&self, peer: Peer, workload: Workload) -> bool {
        self.failures.iter().any(|failure| (failure.peer, failure.workload) == (peer, workload))
    }

    /// Returns the samples of a pair, one per round.
    fn of_pair(&self, peer: Peer, workload: Workload) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| (sample.peer, sample.workload) == (peer, workload))
    }

    /// Returns the spread of a value of a pair, or `None` if the pair was not measured or does not
    /// have the value.
    pub(super) fn spread(
        &self,
        peer: Peer,
        workload: Workload,
        value: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<Spread> {
        Spread::of(&self.of_pair(peer, workload).filter_map(value).collect::<Vec<_>>())
    }

    /// Returns the headline figure of a pair.
    pub(super) fn figure(&self, peer: Peer, workload: Workload) -> Option<Spread> {
        self.spread(peer, workload, |sample| Some(sample.figure()))
    }

    /// Returns the ratio of one peer's headline figure to another's, formed in each round.
    ///
    /// Drift between rounds affects both and cancels.
    pub(super) fn ratio(&self, peer: Peer, other: Peer, workload: Workload) -> Option<Spread> {
        self.ratio_of((peer, workload), (other, workload))
    }

    /// Returns the ratio of the headline figures of any two pairs.
    pub(super) fn ratio_of(
        &self,
        one: (Peer, Workload),
        other: (Peer, Workload),
    ) -> Option<Spread> {
        Spread::of(&self.ratios_of(one, other, Sample::figure))
    }

    /// Returns the ratios of a value of one pair to the value of another pair. There is one ratio
    /// for each round that has both.
    pub(super) fn ratios_of(
        &self,
        one: (Peer, Workload),
        other: (Peer, Workload),
        value: fn(&Sample) -> f64,
    ) -> Vec<f64> {
        self.values_of(one, other, value).map(|[one, other]| one / other).collect()
    }

    /// Returns the differences between a value of one pair and the value of another pair, one for
    /// each round that has both.
    pub(super) fn differences_of(
        &self,
        one: (Peer, Workload),
        other: (Peer, Workload),
        value: fn(&Sample) -> f64,
    ) -> Vec<f64> {
        self.values_of(one, other, value).map(|[one, other]| one - other).collect()
    }

    /// Returns a value of two pairs for each round that has both.
    fn values_of(
        &self,
        one: (Peer, Workload),
        other: (Peer, Workload),
        value: fn(&Sample) -> f64,
    ) -> impl Iterator<Item = [f64; 2]> {
        self.of_pair(one.0, one.1).filter_map(move |sample| {
            let mut others = self.of_pair(other.0, other.1);
            let other = others.find(|other| other.round == sample.round)?;
            Some([value(sample), value(other)])
        })
    }

    /// Returns the memory of the block list in a server in bytes, and its loading time in seconds.
    pub(super) fn list_cost(&self, peer: Peer) -> Option<(f64, f64)> {
        let start = |workload| self.spread(peer, workload, |sample| Some(sample.start_bytes));
        let ready = self.spread(peer, Workload::Blocked, |sample| Some(sample.ready_secs))?.median;
        Some((start(Workload::Blocked)?.median - start(Workload::Miss)?.median, ready))
    }

    pub(super) fn json(&self) -> Json {
        let failures = self.failures.iter().map(|failure| {
            json::object([
                ("peer", json::string(failure.peer.name())),
                ("workload", json::string(failure.workload.name())),
                ("reason", json::string(&failure.reason)),
            ])
        });
        let left_out = self.left_out.iter().map(|left_out| {
            let reason = json::string(&left_out.reason);
            json::object([("peer", json::string(left_out.peer.name())), ("reason", reason)])
        });
        let counts = |counts: &Counts| {
            json::object(counts.iter().map(|(peer, count)| (peer.name(), json::number(*count))))
        };
        json::object([
            ("samples", json::array(self.samples.iter().map(Sample::json))),
            ("failures", json::array(failures)),
            ("left_out", json::array(left_out)),
            ("instructions", counts(&self.instructions)),
            ("calls", counts(&self.calls)),
        ])
    }

    /// Parses the output of [`Report::json`].
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let list = |key: &str| value[key].as_array().into_iter().flatten();
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let failure = |value: &Value| {
            let (peer, workload) =
                (Peer::named(&text(value, "peer"))?, Workload::named(&text(value, "workload"))?);
            Ok(Failure { peer, workload, reason: text(value, "reason") })
        };
        let left_out = |value: &Value| {
            Ok(LeftOut { peer: Peer::named(&text(value, "peer"))?, reason: text(value, "reason") })
        };
        Ok(Self {
            samples: list("samples").map(Sample::parse).collect::<Result<_, _>>()?,
            failures: list("failures").map(failure).collect::<Result<_, String>>()?,
            left_out: list("left_out").map(left_out).collect::<Result<_, String>>()?,
            instructions: parse_counts(&value["instructions"])?,
            calls: parse_counts(&value["calls"])?,
        })
    }
}

/// Parses an object with peers and numbers. If there is no object, the result is empty.
fn parse_counts(value: &Value) -> Result<Counts, String> {
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(name, count)| {
            Ok((Peer::named(name)?, count.as_f64().ok_or(format!("{name} has no number"))?))
        })
        .collect()
}

/// Returns a sample of a plain run, for tests.
#[cfg(test)]
pub(super) fn sample(peer: Peer, workload: Workload, round: usize, cpu_us: f64) -> Sample {
    let load =
        Load { answered: 1000, rcodes: vec![("NOERROR".to_owned(), 1000)], ..Load::default() };
    let (user_us, ready_secs, start_bytes) = (cpu_us / 4.0, 0.5, 1e6);
    let (growth, noise) = (None, None);
    Sample { peer, workload, round, cpu_us, user_us, ready_secs, start_bytes, growth, noise, load }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOT: Workload = Workload::Hot;

    #[test]
    fn medians_are_in_the_middle_of_their_spread() {
        assert_eq!(
            Spread::of(&[3.0, 1.0, 2.0]),
            Some(Spread { median: 2.0, least: 1.0, most: 3.0 })
        );
        assert_eq!(Spread::of(&[4.0, 1.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_ratio_is_that_of_the_same_round() {
        let samples =
            [(Peer::Bare, 1, 2.0), (Peer::Nsd, 1, 3.0), (Peer::Nsd, 2, 6.0), (Peer::Bare, 2, 4.0)];
        let samples = samples.map(|(peer, round, cpu_us)| sample(peer, HOT, round, cpu_us)).into();
        let mut report = Report { samples, ..Report::default() };
        let same = Spread { median: 1.5, least: 1.5, most: 1.5 };
        assert_eq!(report.ratio(Peer::Nsd, Peer::Bare, HOT), Some(same));
        // A round in which the other peer was not measured has no ratio.
        report.samples.truncate(3);
        assert_eq!(report.ratio(Peer::Nsd, Peer::Bare, HOT), Some(same));
        assert_eq!(report.ratio(Peer::Nsd, Peer::Unbound, HOT), None);
    }

    #[test]
    fn a_pair_that_failed_has_no_samples() {
        let samples =
            vec![sample(Peer::Nsd, HOT, 1, 2.0), sample(Peer::Nsd, Workload::Tcp, 1, 5.0)];
        let mut report = Report { samples, ..Report::default() };
        report.fail(Peer::Nsd, HOT, "wrong answers".to_owned());
        assert!(report.has_failed(Peer::Nsd, HOT) && report.figure(Peer::Nsd, HOT).is_none());
        assert!(report.figure(Peer::Nsd, Workload::Tcp).is_some());
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let mut latency = sample(Peer::Bare, Workload::Latency, 1, 2.5);
        latency.load.latency = Some(Latency { p50_us: 30.0, p99_us: 60.0, p999_us: 90.0 });
        latency.load.extras = Extra::ALL.iter().map(|extra| (*extra, 7.5)).collect();
        let mut memory = sample(Peer::Avocet, Workload::Memory, 1, 9.0);
        memory.growth = Some(Growth { bytes_per_name: 190.0, kept: 0.999 });
        let left_out =
            vec![LeftOut { peer: Peer::CoreDns, reason: "Go is \"missing\"".to_owned() }];
        memory.noise = Some(Noise { steal_secs: 0.5, ksoftirqd_secs: 0.0, load_average: 1.25 });
        let counts = vec![(Peer::Avocet, 1700.5), (Peer::Nsd, 2910.0)];
        let mut report = Report {
            samples: vec![latency, memory],
            left_out,
            instructions: counts.clone(),
            calls: counts,
            ..Report::default()
        };
        report.fail(Peer::Knot, HOT, "wrong\nanswers".to_owned());
        let value = serde_json::from_str(&report.json().to_string()).unwrap();
        assert_eq!(Report::parse(&value), Ok(report));
    }
}
