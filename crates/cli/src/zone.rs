//! `avocet zone`: zones in files, and those of the running server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use avocet_config::name::typed_name;
use avocet_config::zonemd::ZonemdPolicy;
use avocet_control::pools::{AddressControl, PoolControl, PoolsReport, PoolsStatus, PoolsWhatIf};
use avocet_control::zone_edit::ZoneHistory;
use avocet_control::zone_keys::{ZoneKeys, ZoneKeysReport, ZoneSign};
use avocet_control::zones::{
    ZoneExport, ZoneRecords, ZoneReload, ZoneText, ZonesReport, ZonesStatus,
};
use avocet_dnssec::zonemd::Fault as DigestFault;
use avocet_nameserver::zone_digest::fault_of_digest;
use avocet_nameserver::zone_files;
use avocet_wire::FoldedNameBuf;
use avocet_zone::{Faults, HostedZone, Severity, ZoneFileFault, ZoneProblem};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::call::{Done, View, run as send};
use crate::control_args::ControlArgs;
use crate::error::CommandError;
use crate::output;
use crate::pool_text::{answers_text, histories_text, pools_text};
use crate::zone_diff::{self, ZoneDiffArgs};
use crate::zone_edit::{self, ZoneSetArgs, ZoneUnsetArgs, history_text};
use crate::zone_text::{keys_text, page_text, zones_text};

/// Arguments of `avocet zone`.
#[derive(Debug, Args)]
pub(crate) struct ZoneArgs {
    #[command(subcommand)]
    command: ZoneCommand,
}

#[derive(Debug, Subcommand)]
enum ZoneCommand {
    /// Check a zone file and the files that it includes. Prints each error and warning with file,
    /// line and column; exits with 1 if there is an error
    Check(ZoneCheckArgs),
    /// Show the state of the hosted zones: serial, size, errors, transfers
    List(ControlArgs),
    /// Show the records of a hosted zone, page by page, or the records of one name
    Show(ZoneShowArgs),
    /// Set the records of one name and type in a hosted zone. The new record replaces the existing
    /// records, unless --add is given
    Set(ZoneSetArgs),
    /// Remove records of a name from a hosted zone: all records, those of one type, or one record
    Unset(ZoneUnsetArgs),
    /// Compare a hosted zone with a master file, without the serials. `-` marks records that only
    /// the server has, `+` records that only the file has; exits with 1 if there is a difference
    Diff(ZoneDiffArgs),
    /// Show the latest changes of a hosted zone, the latest first
    History(ZoneHistoryArgs),
    /// Read the files of hosted zones at once, even if they have not changed; exits with 1 if a
    /// zone has errors
    Reload(ZoneReloadArgs),
    /// Print a hosted zone as a master file
    Export(ZoneExportArgs),
    /// Show the keys with which the server signs a zone, and the DS records for the parent zone
    Keys(ZoneExportArgs),
    /// Sign a hosted zone at once, or begin to replace a key; exits with 1 if the signed version is
    /// not in force
    Sign(ZoneSignArgs),
    /// Show pools of addresses, or set their addresses up, down or draining by hand
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Show the answers that pools would give if certain hosts were down
    WhatIf(WhatIfArgs),
}

#[derive(Debug, Subcommand)]
enum PoolCommand {
    /// Show the pools of the running server with the health of each address
    List(ControlArgs),
    /// Show a pool with the last probes of each address, and their reasons
    Show(PoolShowArgs),
    /// Let answers contain addresses, whatever their probes say
    Up(PoolControlArgs),
    /// Let no answer contain the addresses
    Down(PoolControlArgs),
    /// Let answers contain the addresses only if no other address is usable
    Drain(PoolControlArgs),
    /// Let the probes decide again whether answers contain the addresses
    Auto(PoolControlArgs),
}

#[derive(Debug, Args)]
struct PoolShowArgs {
    /// Name of the pool
    name: String,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct PoolControlArgs {
    /// Name of the pool
    name: String,
    /// Address to set [default: all addresses of the pool]
    address: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct WhatIfArgs {
    /// Address of a host that would be down: an address of a pool or the target of a probe; may be
    /// given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    down: Vec<String>,
    /// Address of the client that would query the pools [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct ZoneShowArgs {
    /// Name of the zone
    name: String,
    /// An item in `view` of the zone, such as a group [default: the zone without a view]
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    /// Show only this name: relative to the zone, or with the name of the zone; `@` is the zone
    /// itself
    owner: Option<String>,
    /// Show only the records of this type
    #[arg(long = "type", value_name = "TYPE")]
    rtype: Option<String>,
    /// Show only the records of names that contain this text
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Show the records that can be changed, without those that signing by this server adds
    #[arg(long)]
    unsigned: bool,
    /// Maximum number of records on a page, 1 to 1000; a page never divides an RRset [default: 100]
    #[arg(long, value_name = "RECORDS")]
    limit: Option<u32>,
    /// Continue after this place, which the end of the previous page shows
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct ZoneHistoryArgs {
    /// Name of the zone
    name: String,
    /// An item in `view` of the zone, such as a group [default: the zone without a view]
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    /// Maximum number of changes to show, 1 to 100 [default: 20]
    #[arg(long, value_name = "CHANGES")]
    limit: Option<u32>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct ZoneReloadArgs {
    /// Name of the zone [default: all zones]
    name: Option<String>,
    /// An item in `view` of the zone, such as a group [default: the zone without a view]
    #[arg(long, value_name = "VIEW", requires = "name")]
    view: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct ZoneSignArgs {
    /// Name of the zone
    name: String,
    /// An item in `view` of the zone, such as a group [default: the zone without a view]
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    /// Begin to replace the key with this role: csk, ksk or zsk
    #[arg(long, value_name = "ROLE")]
    roll: Option<String>,
    /// Confirm that the parent zone has the DS record of the key with this tag, and of no other
    /// key. Use this option only if the server cannot query the parent zone
    #[arg(long, value_name = "TAG")]
    ds_published: Option<u16>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct ZoneExportArgs {
    /// Name of the zone
    name: String,
    /// An item in `view` of the zone, such as a group [default: the zone without a view]
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Debug, Args)]
struct ZoneCheckArgs {
    /// Master file of the zone
    file: PathBuf,
    /// Name of the zone [default: the name of the file without db. before it, and without .zone,
    /// .db, .txt or .signed after it]
    #[arg(short, long)]
    name: Option<String>,
    /// Check of the digest in the ZONEMD record: `verify` makes a wrong digest an error, and
    /// `require` also a missing digest. Without this option, a wrong digest is a warning
    #[arg(long, value_name = "POLICY", value_parser = ["verify", "require"])]
    zonemd: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `avocet zone`.
///
/// # Errors
/// The name is not a domain name, or the output cannot be written.
pub(crate) fn run(args: &ZoneArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        ZoneCommand::Check(args) => check(args),
        ZoneCommand::List(args) => Ok(send(args, ZonesStatus::default(), &View::of(zones_text))),
        ZoneCommand::Show(args) => Ok(show(args)),
        ZoneCommand::Set(args) => zone_edit::set(args),
        ZoneCommand::Unset(args) => Ok(zone_edit::unset(args)),
        ZoneCommand::Diff(args) => zone_diff::run(args),
        ZoneCommand::History(args) => {
            let request =
                ZoneHistory { name: args.name.clone(), view: args.view.clone(), limit: args.limit };
            Ok(send(&args.control, request, &View::of(history_text)))
        }
        ZoneCommand::Reload(args) => {
            let request = ZoneReload { name: args.name.clone(), view: args.view.clone() };
            Ok(send(&args.control, request, &View::of_change(zones_text, reloaded)))
        }
        ZoneCommand::Keys(args) => {
            let request = ZoneKeys { name: args.name.clone(), view: args.view.clone() };
            Ok(send(&args.control, request, &View::of(keys_text)))
        }
        ZoneCommand::Sign(args) => {
            let request = ZoneSign {
                name: args.name.clone(),
                view: args.view.clone(),
                roll: args.roll.clone(),
                ds_published: args.ds_published,
            };
            let done = |report: &ZoneKeysReport| match report.error {
                Some(_) => Done::InPart,
                None => Done::Whole,
            };
            Ok(send(&args.control, request, &View::of_change(keys_text, done)))
        }
        ZoneCommand::Export(args) => {
            let view = View {
                part: |part: &ZoneText| part.text.clone(),
                end: |_| String::new(),
                done: |_| Done::Whole,
            };
            let request = ZoneExport { name: args.name.clone(), view: args.view.clone() };
            Ok(send(&args.control, request, &view))
        }
        ZoneCommand::Pool(command) => Ok(pool(command)),
        ZoneCommand::WhatIf(args) => {
            let request = PoolsWhatIf { down: args.down.join(","), client: args.client.clone() };
            Ok(send(&args.control, request, &View::of(answers_text)))
        }
    }
}

fn pool(command: &PoolCommand) -> ExitCode {
    let (args, control) = match command {
        PoolCommand::List(args) => {
            return send(args, PoolsStatus::default(), &View::of(pools_text));
        }
        PoolCommand::Show(args) => {
            let request = PoolsStatus { name: Some(args.name.clone()) };
            return send(&args.control, request, &View::of(histories_text));
        }
        PoolCommand::Up(args) => (args, AddressControl::Up),
        PoolCommand::Down(args) => (args, AddressControl::Down),
        PoolCommand::Drain(args) => (args, AddressControl::Drain),
        PoolCommand::Auto(args) => (args, AddressControl::Auto),
    };
    let request = PoolControl { name: args.name.clone(), address: args.address.clone(), control };
    let done = |reply: &PoolsReport| Done::of_change(reply.unsaved.as_ref());
    send(&args.control, request, &View::of_change(pools_text, done))
}

fn show(args: &ZoneShowArgs) -> ExitCode {
    let request = ZoneRecords {
        name: args.name.clone(),
        view: args.view.clone(),
        owner: args.owner.clone(),
        rtype: args.rtype.clone(),
        contains: args.contains.clone(),
        unsigned: args.unsigned,
        after: args.after.clone(),
        limit: args.limit,
    };
    send(&args.control, request, &View::of(page_text))
}

fn reloaded(report: &ZonesReport) -> Done {
    let has_failed = report.zones.iter().any(|zone| zone.error.is_some());
    if has_failed { Done::InPart } else { Done::Whole }
}

/// The report of `avocet zone check --json`.
#[derive(Serialize)]
struct ZoneReport {
    ok: bool,
    zone: String,
    serial: Option<u32>,
    records: Option<u32>,
    signed: Option<bool>,
    /// Whether the ZONEMD record of the zone matches; `null` without a digest of a known kind.
    digest: Option<bool>,
    faults: Vec<ZoneFaultReport>,
    /// Number of faults that are not listed.
    more: u64,
}

#[derive(Serialize)]
struct ZoneFaultReport {
    severity: &'static str,
    file: String,
    line: u32,
    column: u32,
    message: String,
}

fn check(args: &ZoneCheckArgs) -> Result<ExitCode, CommandError> {
    let text = args.name.clone().unwrap_or_else(|| name_of(&args.file));
    let name = FoldedNameBuf::from_wire(&typed_name(&text)?)?;
    let (zone, mut faults) = zone_files::load(name.view(), &args.file);
    let digest = zone.as_ref().and_then(|zone| checked_digest(args, zone, &mut faults));
    let zone = zone.filter(|_| !faults.has_errors());
    let shown = if args.json {
        let report = ZoneReport { digest, ..report(&name, zone.as_ref(), &faults) };
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        let mut err = io::stderr().lock();
        for fault in faults.list() {
            let _ = writeln!(err, "{}", output::lines(&fault.to_string()));
        }
        if faults.more() > 0 {
            let _ = writeln!(err, "... and {} more", faults.more());
        }
        zone.as_ref().map_or_else(String::new, |zone| summary(zone, digest))
    };
    if args.json {
        output::write_data(&shown)?
    } else {
        output::write(&shown)?
    };
    Ok(if zone.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares a zone with its ZONEMD record. Returns whether they match; `None` if the zone has no
/// digest of a known kind.
fn checked_digest(args: &ZoneCheckArgs, zone: &HostedZone, faults: &mut Faults) -> Option<bool> {
    let policy = args.zonemd.as_deref();
    let fault = fault_of_digest(ZonemdPolicy::Require, zone);
    let is_lacking = fault == Some(DigestFault::NoDigest);
    if let Some(fault) = fault.filter(|_| !is_lacking || policy == Some("require")) {
        let severity = if policy.is_some() { Severity::Error } else { Severity::Warning };
        faults.add(severity, &args.file, ZoneProblem::Digest(fault));
    }
    (!is_lacking).then_some(fault.is_none())
}

fn summary(zone: &HostedZone, digest: Option<bool>) -> String {
    let signed = if zone.is_signed() { ", signed" } else { "" };
    let digested = if digest == Some(true) { ", with its digest" } else { "" };
    let name = zone.apex().to_buf();
    let (serial, records) = (zone.serial(), zone.records());
    format!("{name}: serial {serial}, {records} records{signed}{digested}, no errors\n")
}

fn report(name: &FoldedNameBuf, zone: Option<&HostedZone>, faults: &Faults) -> ZoneReport {
    let shown =
        |ZoneFileFault { severity, file, line, column, reason }: ZoneFileFault| ZoneFaultReport {
            severity: if severity == Severity::Error { "error" } else { "warning" },
            file: file.display().to_string(),
            line,
            column,
            message: reason.to_string(),
        };
    ZoneReport {
        ok: zone.is_some(),
        zone: name.to_string(),
        serial: zone.map(HostedZone::serial),
        records: zone.map(HostedZone::records),
        signed: zone.map(HostedZone::is_signed),
        digest: None,
        faults: faults.list().into_iter().map(shown).collect(),
        more: faults.more(),
    }
}

/// Returns the name of a zone from its file name: `db.example.com`, `example.com.zone`.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut name = name.strip_prefix("db.").unwrap_or(&name);
    while let Some(rest) =
        [".signed", ".zone", ".db", ".txt"].iter().find_map(|ending| name.strip_suffix(ending))
    {
        name = rest;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_zone_is_that_of_its_file() {
        for file in
            ["example.com", "db.example.com", "/a/example.com.zone", "example.com.db.signed"]
        {
            assert_eq!(name_of(Path::new(file)), "example.com", "{file}");
        }
    }
}
