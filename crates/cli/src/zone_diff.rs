//! `avocet zone diff`: the difference between the zone that the running server has and a file.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use avocet_config::name::typed_name;
use avocet_control::line::ReplyLine;
use avocet_control::zones::ZoneExport;
use avocet_dnssec::zonemd::ZONEMD;
use avocet_nameserver::zone_files;
use avocet_wire::canonical::compare_names;
use avocet_wire::{FoldedName, FoldedNameBuf, Rtype};
use avocet_zone::{HostedZone, OwnedRecord, Severity, ZoneChange, append_line, with_serial};
use clap::Args;

use crate::call::{exchange, whereabouts};
use crate::control_args::ControlArgs;
use crate::error::CommandError;
use crate::output::{self, Reader};

/// Arguments of `avocet zone diff`.
#[derive(Debug, Args)]
pub(crate) struct ZoneDiffArgs {
    /// Name of the hosted zone
    name: String,
    /// Master file to compare with the zone
    file: PathBuf,
    /// An item in `view` of the zone, such as a group [default: the zone without a view]
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
}

/// Runs `avocet zone diff`: exits with 1 if there is a difference.
///
/// # Errors
/// The file has errors, or no server has the zone.
pub(crate) fn run(args: &ZoneDiffArgs) -> Result<ExitCode, CommandError> {
    let name = FoldedNameBuf::from_wire(&typed_name(&args.name)?)?;
    let (file, faults) = zone_files::load(name.view(), &args.file);
    let fault = faults.list().into_iter().find(|fault| fault.severity == Severity::Error);
    let file = file.ok_or_else(|| {
        CommandError::UnusableZone(fault.map_or_else(String::new, |fault| fault.to_string()))
    })?;
    let served = served(args, name.view())?;
    let lines = differences(&served, &file);
    let serials = format!(
        "zone {name}: serial {} is in force, {} has serial {}",
        served.serial(),
        args.file.display(),
        file.serial()
    );
    if args.control.json {
        let report = serde_json::json!({
            "same": lines.is_empty(), "serial": served.serial(), "file-serial": file.serial(),
            "lines": lines,
        });
        output::write_data(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        let lines: Vec<String> = lines.iter().cloned().chain([serials]).collect();
        output::write(&format!("{}\n", lines.join("\n")))?;
    }
    Ok(if lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the zone of the running server.
fn served(args: &ZoneDiffArgs, name: FoldedName<'_>) -> Result<HostedZone, CommandError> {
    let found = whereabouts(&args.control)?;
    let mut text = String::new();
    let request = ZoneExport { name: args.name.clone(), view: args.view.clone() };
    exchange::<ZoneExport>(&found.directory, request, |_, reply| {
        if let ReplyLine::Part(part) = reply {
            text += &part.text;
            text.push('\n');
        }
        Ok(Reader::Reads)
    })?;
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let now = avocet_nameserver::clock::wall_secs();
    let (zone, _) = avocet_zone::load(name, Path::new("served"), now, &mut open);
    zone.ok_or(CommandError::Incomplete)
}

/// A record of a difference.
struct DiffLine<'d> {
    sign: char,
    one: OwnedRecord<'d>,
}

impl DiffLine<'_> {
    /// Returns whether the line only shows that the server publishes the addresses behind an ALIAS
    /// record of the file.
    fn is_of_alias(&self, served: &HostedZone, file: &HostedZone) -> bool {
        let has = |zone: &HostedZone, rtype: Rtype| {
            let sets = zone.sets_of(self.one.owner);
            sets.is_some_and(|mut sets| sets.any(|set| set.rtype == rtype))
        };
        let is_published = |rtype| has(served, rtype) && !has(file, rtype);
        let is_flattened = has(file, Rtype::ALIAS) && !has(served, Rtype::ALIAS);
        is_flattened
            && match self.one.record.rtype {
                Rtype::ALIAS => is_published(Rtype::A) || is_published(Rtype::AAAA),
                rtype @ (Rtype::A | Rtype::AAAA) => is_published(rtype),
                _ => false,
            }
    }
}

/// Returns a line for each record that only one of the zones has. Serials are not compared, and
/// records that signing adds are left out if the file is not signed. So are the addresses behind
/// ALIAS records of the file, because the file does not have them.
fn differences(served: &HostedZone, file: &HostedZone) -> Vec<String> {
    let Some(change) = ZoneChange::difference(served, file, usize::MAX) else { return Vec::new() };
    let is_signed_here = served.is_signed() && !file.is_signed();
    let soa = |zone: &HostedZone| {
        let soa = zone.soa()?;
        Some((soa.ttl_secs, with_serial(soa.rdata, 0)))
    };
    let is_digest_of_here = served.zonemd().is_some() && file.zonemd().is_none();
    let is_same_soa = soa(served) == soa(file);
    let is_left_out = |rtype| match rtype {
        Rtype::SOA => is_same_soa,
        Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM | Rtype::DNSKEY => {
            is_signed_here
        }
        // CDS and CDNSKEY (RFC 7344).
        Rtype(59 | 60) => is_signed_here,
        ZONEMD => is_signed_here || is_digest_of_here,
        _ => false,
    };
    let removed = change.removed.iter().map(|one| DiffLine { sign: '-', one });
    let added = change.added.iter().map(|one| DiffLine { sign: '+', one });
    let mut lines: Vec<DiffLine<'_>> = removed.chain(added).collect();
    let is_compared = |line: &DiffLine<'_>| {
        !is_left_out(line.one.record.rtype) && !line.is_of_alias(served, file)
    };
    lines.retain(is_compared);
    // The order is stable: removed records come first.
    lines.sort_by(|a, b| order(&a.one, &b.one));
    let shown = |DiffLine { sign, one }: &DiffLine<'_>| {
        let mut text = String::from(*sign);
        append_line(&mut text, one.owner, &one.record);
        text.trim_end().to_owned()
    };
    lines.iter().map(shown).collect()
}

fn order(a: &OwnedRecord<'_>, b: &OwnedRecord<'_>) -> Ordering {
    let by_name = compare_names(a.owner.wire(), b.owner.wire());
    by_name.then(a.record.rtype.0.cmp(&b.record.rtype.0))
}
