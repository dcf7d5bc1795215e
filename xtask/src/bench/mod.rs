//! Benches against other servers. Each server is pinned to one core, and the generator to another.
//!
//! Compare only ratios within one run, never figures from different days or machines. Results are
//! stored in `bench/results` together with a description of the machine.

mod abreast;
mod age;
mod agree;
mod ask;
mod blocklist;
mod configuration;
mod crates;
mod crowd;
mod encrypted;
mod endurance;
mod extra;
mod goals;
mod instr;
mod json;
mod load;
mod machine;
mod material;
mod micro;
mod noise;
mod options;
mod packages;
mod page;
mod peer;
mod peers;
mod plan;
mod pool;
pub(crate) mod process;
mod profile;
mod publication;
mod publish;
mod querylog;
mod readme;
mod recursion;
mod reload;
mod report;
mod rounds;
mod setup;
mod signed;
mod svg;
mod syscalls;
mod table;
mod veth;
mod workload;

pub(crate) use load::output;
use options::Options;
pub(crate) use page::{documents, shown};
pub(crate) use process::{PROFILE, target_directory};
pub(crate) use profile::run as profile;
pub(crate) use publication::commit_of;

/// Runs one kind of bench with its options.
pub(crate) fn run(kind: &str, words: &[&str]) -> Result<(), String> {
    match (kind, words) {
        ("micro", _) => micro::run(&Options::parse(words)?),
        ("crates", _) => crates::run(&Options::parse(words)?),
        ("peers", _) => peers::run(kind, &Options::parse(words)?),
        ("quick", _) => peers::run(kind, &Options::parse_quick(words)?),
        ("abreast", _) => abreast::run(kind, &Options::parse_for(abreast::PEERS, words)?),
        ("agree", _) => agree::run(&Options::parse_for(agree::PEERS, words)?),
        ("instr", _) => instr::run(words),
        ("syscalls", _) => syscalls::run(&Options::parse_for(syscalls::PEERS, words)?),
        ("reload", _) => reload::run(words),
        ("querylog", _) => querylog::run(words),
        ("publish", _) => publish::run(words),
        ("pool", [first, others @ ..]) if !others.is_empty() => pool::run(first, others),
        ("pool", _) => Err("bench pool wants the paths of two results or more".to_owned()),
        ("page", []) => page::write_newest(),
        ("page", [result]) => page::write(result, &crate::root()),
        ("page", _) => Err("bench page wants the path of one result, or none".to_owned()),
        _ => Err(format!(
            "there is no bench `{kind}`: quick, publish, peers, abreast, agree, pool, page, micro, \
             crates, instr, syscalls, reload or querylog"
        )),
    }
}
