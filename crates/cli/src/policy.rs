//! `avocet policy`: what can be said of a policy without a running server.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use avocet_config::name::typed_name;
use avocet_config::{Config, environment, find};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::policy::load::Compilation;
use avocet_nameserver::policy::{GeoDatabase, Parts, Policy, load};
use avocet_policy::client::{Asker, Transport as Way};
use avocet_policy::list::Scratch as ListScratch;
use avocet_policy::rule::{self, NamedTimeZone, Sample};
use avocet_server::open_text;
use avocet_wire::{Class, Rtype, rdata, special_purpose};
use serde_json::{Value, json};

use crate::args::{PolicyArgs, PolicyCheckArgs, PolicyCommand, PolicyTestArgs};
use crate::dry_run;
use crate::lists::triggers_text;
use crate::{output, running};

/// Keys that need not be secret: nobody asks what is compiled here.
const KEY: [u8; 32] = [7; 32];
/// Who asks where a line of a query file names no client.
pub(crate) const NOBODY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// `avocet policy`.
pub(crate) fn run(args: &PolicyArgs) -> ExitCode {
    let done = match &args.command {
        PolicyCommand::Status(args) => return running::policy_status(args),
        PolicyCommand::Check(args) => check(args),
        PolicyCommand::Test(args) => test(args),
        PolicyCommand::DryRun(args) => dry_run::run(args),
        PolicyCommand::Services => {
            Ok(rule::service_names().map(|name| format!("{name}\n")).collect())
        }
    };
    match done {
        Ok(text) => match output::write(&text) {
            Ok(_) => ExitCode::SUCCESS,
            Err(message) => {
                let _ = writeln!(io::stderr(), "avocet: {message}");
                ExitCode::FAILURE
            }
        },
        Err(message) => {
            let _ = writeln!(io::stderr(), "avocet: {message}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn config(path: Option<&Path>) -> Result<Config, String> {
    Config::load(path, environment()).map_err(|errors| errors.to_string())
}

/// The countries of addresses, as the file has them now: without any rule too, for one may be
/// written by them.
pub(crate) fn countries(config: &Config) -> Result<Option<Arc<GeoDatabase>>, String> {
    let read = config.policy.geo_database.as_deref().map(GeoDatabase::read).transpose();
    read.map(|database| database.map(Arc::new)).map_err(|fault| fault.to_string())
}

/// The policy of a configuration, with the lists as they are on this machine: files, and copies of
/// what the running server fetched.
pub(crate) fn policy(
    config: &Config,
    countries: Option<Arc<GeoDatabase>>,
) -> Result<Option<Policy>, String> {
    let lists =
        load::from_texts(&config.policy, KEY, |list| open_text(&config.data.directory, list))?;
    let lists = lists.map(Arc::new);
    Policy::build(&config.policy, &Parts { lists, countries, ..Parts::new(KEY) })
        .map_err(|error| error.to_string())
}

fn check(args: &PolicyCheckArgs) -> Result<String, String> {
    let file =
        args.file.find().ok_or("there is no file to check: name one, or set AVOCET_CONFIG")?;
    let config = config(Some(&file))?;
    let countries = countries(&config)?;
    let Compilation { octets, reports, .. } =
        load::compile(&config.policy, KEY, |list| open_text(&config.data.directory, list));
    let mut lists = Vec::new();
    let mut broken = 0;
    for (list, report) in config.policy.lists.iter().zip(reports) {
        let line = match report {
            Err(error) => {
                broken += 1;
                json!({ "list": list.name, "error": error.to_string() })
            }
            Ok(None) => {
                json!({ "list": list.name, "note": "no copy on this machine yet: the running \
                                                    server fetches it" })
            }
            Ok(Some(report)) => {
                broken += usize::from(report.refusal.is_some());
                json!({
                    "list": list.name,
                    "format": report.format.name(),
                    "entries": report.entries,
                    "broken-lines": report.faults,
                    "triggers": load::shown_triggers(report.triggers, config.resolver.mode),
                    "first": report.first_faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "error": report.refusal.map(|refusal| refusal.to_string()),
                })
            }
        };
        lists.push(line);
    }
    let built =
        Policy::build(&config.policy, &Parts::new(KEY)).map_err(|error| error.to_string())?;
    let profiles = built.map_or(1, |policy| policy.profiles());
    let rules = config.policy.rules.iter().filter(|rule| rule.enabled).count();
    let report = json!({
        "lists": lists,
        "image-bytes": octets.len(),
        "rules": rules,
        "profiles": profiles,
        "geo-database": countries.map(|database| database.shown()),
    });
    let shown = if args.json { format!("{report}\n") } else { check_text(&report) };
    if broken == 0 { Ok(shown) } else { Err(format!("{broken} lists cannot be read\n{shown}")) }
}

fn check_text(report: &Value) -> String {
    let mut text = String::new();
    for list in report["lists"].as_array().into_iter().flatten() {
        let name = list["list"].as_str().unwrap_or_default();
        if let Some(error) = list["error"].as_str() {
            text += &format!("list {name}: {error}\n");
        } else if let Some(note) = list["note"].as_str() {
            text += &format!("list {name}: {note}\n");
        } else {
            let format = list["format"].as_str().unwrap_or_default();
            text += &format!(
                "list {name}: {format}, {} entries, {} broken lines\n",
                list["entries"], list["broken-lines"]
            );
        }
        if let Some(triggers) = triggers_text(&list["triggers"]) {
            text += &format!("  {triggers}\n");
        }
        for fault in list["first"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            text += &format!("  {fault}\n");
        }
    }
    if let Some(database) = running::geo_text(&report["geo-database"]) {
        text += &format!("{database}\n");
    }
    text + &format!(
        "{} rules, {} client profiles, image of {} octets\n",
        report["rules"], report["profiles"], report["image-bytes"]
    )
}

/// A name in folded wire form.
pub(crate) fn wire(name: &str) -> Result<Vec<u8>, String> {
    Ok(typed_name(name)?.to_ascii_lowercase())
}

/// The Unix second that a text means: that number, or a date and time in the policy's time zone.
///
/// # Errors
/// It is neither.
pub(crate) fn unix_secs(config: &Config, text: &str) -> Result<u64, String> {
    let name = &config.policy.time_zone;
    let in_zone = || NamedTimeZone::named(name)?.read(text);
    text.parse().ok().or_else(in_zone).ok_or_else(|| {
        format!(
            "{text:?} is not a time; expected one such as \"2026-11-22 21:30\" (in {name}) or Unix \
             seconds"
        )
    })
}

pub(crate) fn rtype(text: &str) -> Result<Rtype, String> {
    rdata::from_mnemonic(text).map(Rtype).ok_or_else(|| format!("{text:?} is not a record type"))
}

fn test(args: &PolicyTestArgs) -> Result<String, String> {
    let config = config(find(args.config.as_deref()).as_deref())?;
    let qname = wire(&args.name)?;
    let qtype = rtype(&args.rtype)?;
    let countries = countries(&config)?;
    let policy = policy(&config, countries.clone())?;
    let ip = args.client.unwrap_or(NOBODY);
    let identity = policy.as_ref().map(|policy| policy.identify(ip)).unwrap_or_default();
    let lists = policy
        .as_ref()
        .map_or_else(Vec::new, |policy| policy.on_lists(&qname, qtype, &mut ListScratch::empty()));
    let asker = Asker {
        address: Some(ip),
        client: identity.client.as_deref(),
        name: identity.name.as_deref(),
        macs: &identity.macs,
        groups: &identity.groups,
        listener: "",
        transport: Some(Way::Udp),
    };
    let inner = args.answer.iter().filter_map(|address| match address {
        IpAddr::V6(address) => special_purpose::embedded(*address).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    });
    let addresses: Vec<IpAddr> = args.answer.iter().copied().chain(inner).collect();
    let located: Vec<_> =
        args.answer.iter().filter_map(|address| countries.as_ref()?.country(*address)).collect();
    let sample = Sample {
        qname: &qname,
        qtype: qtype.0,
        qclass: Class::IN.0,
        asker,
        now: match &args.at {
            Some(at) => unix_secs(&config, at)?,
            None => wall_secs(),
        },
        lists: &lists,
        addresses: &addresses,
        countries: &located,
        ..Sample::default()
    };
    let trace =
        rule::test(&args.condition, &config.policy.vocabulary(), &sample).map_err(|fault| {
            format!("column {}\n{}", fault.column(&args.condition), fault.shown(&args.condition))
        })?;
    if !args.json {
        return Ok(trace.to_string());
    }
    let step = |step: &rule::Step| json!({ "part": trace.text(step), "depth": step.depth, "holds": step.holds });
    Ok(format!(
        "{}\n",
        json!({ "holds": trace.holds(), "parts": trace.steps.iter().map(step).collect::<Vec<_>>() })
    ))
}
