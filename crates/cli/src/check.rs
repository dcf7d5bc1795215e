//! `avocet check`, `avocet config show` and `avocet config schema`, which need no running server.

use std::path::Path;
use std::process::ExitCode;

use avocet_config::catalog::CatalogRole;
use avocet_config::policy::{ListConfig, ListSource};
use avocet_config::ports::SourcePorts;
use avocet_config::recurse::{LocalRootSource, Mode};
use avocet_config::zone::ZoneConfig;
use avocet_config::{Config, ConfigError, environment, json_schema};
use avocet_control::schema::InterfaceSchema;
use avocet_nameserver::leases::fault_of_leases;
use avocet_nameserver::policy::GeoDatabase;
use avocet_nameserver::policy::are_wanted;
use avocet_nameserver::policy::load::open_file;
use avocet_nameserver::private_zones::doubtful_zones;
use avocet_nameserver::query::addresses::AddressSet;
use avocet_nameserver::zone_files;
use avocet_server::{CertificateFault, own_networks, own_reserved_ports};
use avocet_zone::{Severity, ZoneFileFault};
use serde::Serialize;

use crate::args::{CheckArgs, ConfigArgs, ConfigCommand};
use crate::error::CommandError;
use crate::{output, revisions};

/// The exit code if there is nothing to check.
const WRONG_ARGUMENTS: u8 = 2;

/// Checks the file and prints each error on standard error, or with `--json` on standard output.
/// Unreadable files that the configuration names are warnings, because the server starts without
/// them. An unusable geo database is an error.
pub(crate) fn check(args: &CheckArgs) -> ExitCode {
    let Some(file) = args.file.find() else {
        refuse(&"there is no file to check: name one, or set AVOCET_CONFIG");
        return ExitCode::from(WRONG_ARGUMENTS);
    };
    let result = Config::load(Some(&file), environment());
    let fault = result.as_ref().ok().and_then(fault_of_files);
    let zones = result.as_ref().map_or_else(|_| Vec::new(), zone_faults);
    if args.json {
        let mut errors = match (&result, fault) {
            (Err(errors), _) => errors.all().to_vec(),
            (Ok(_), Some(fault)) => {
                let location = file.display().to_string();
                vec![ConfigError { location, message: fault }]
            }
            (Ok(_), None) => Vec::new(),
        };
        let mut warnings = result.as_ref().map_or_else(|_| Vec::new(), warnings);
        for fault in zones {
            match fault.severity {
                Severity::Error => errors.push(ConfigError {
                    location: fault.location(),
                    message: fault.reason.to_string(),
                }),
                Severity::Warning => warnings.push(fault.to_string()),
            }
        }
        return show_report(&CheckReport { ok: errors.is_empty(), errors, warnings });
    }
    match result {
        Ok(config) => {
            for warning in warnings(&config) {
                output::note(&format!("warning: {warning}"));
            }
            for fault in &zones {
                output::note(&format!("{fault}"));
            }
            match fault {
                Some(fault) => refuse(&format!("{}: {fault}", file.display())),
                None if zones.iter().any(|fault| fault.severity == Severity::Error) => {
                    ExitCode::FAILURE
                }
                None => print(&format!("{}: no errors", file.display())),
            }
        }
        Err(errors) => refuse(&errors),
    }
}

/// Returns the errors and warnings of the files of all zones.
fn zone_faults(config: &Config) -> Vec<ZoneFileFault> {
    // The file of such a zone may be missing: the first transfer or request creates the file of a
    // fetched zone, and the server writes the file of a catalog.
    let is_ours = |zone: &&ZoneConfig| zone.is_fetched() || zone.catalog == CatalogRole::Producer;
    let zones = config.zones.iter().filter(|zone| !is_ours(zone) || zone.file.exists());
    zones.flat_map(|zone| zone_files::faults_of(zone).list()).collect()
}

/// Returns the reason why the server would not start with the files that the configuration names;
/// `None` if it would start.
fn fault_of_files(config: &Config) -> Option<String> {
    let geo = GeoDatabase::of(&config.policy).err().map(|fault| fault.to_string());
    let certificate = || avocet_server::fault_of_certificates(config);
    let upstream = || avocet_server::fault_of_upstreams(config);
    let refused = |fault: CertificateFault| (!fault.is_of_permission()).then_some(fault);
    let provider = || avocet_server::fault_of_providers(config);
    let odoh = || avocet_server::fault_of_odoh(config).map(str::to_owned);
    geo.or_else(provider)
        .or_else(odoh)
        .or_else(|| {
            certificate().and_then(refused).map(|fault| format!("[[certificate]]: {fault}"))
        })
        .or_else(|| {
            upstream().and_then(refused).map(|fault| format!("TLS to other servers: {fault}"))
        })
}

/// The report of `avocet check --json`.
#[derive(Serialize)]
struct CheckReport {
    ok: bool,
    errors: Vec<ConfigError>,
    warnings: Vec<String>,
}

fn show_report(report: &CheckReport) -> ExitCode {
    let printed = match serde_json::to_string_pretty(report) {
        Ok(text) => print(&text),
        Err(error) => return refuse(&error),
    };
    if report.ok { printed } else { ExitCode::FAILURE }
}

/// Returns the warnings that a server would log at its start: settings without effect, and missing
/// files.
fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = config.doubts.clone();
    if config.is_bare {
        warnings.push(
            "the file has no settings: the defaults apply, and nothing is filtered".to_owned(),
        );
    }
    if let (Mode::Recurse, LocalRootSource::File(path)) =
        (config.resolver.mode, &config.resolver.local_root)
    {
        warnings.extend(
            avocet_server::fault_of_root_file(path)
                .map(|fault| format!("the copy of the root zone: {fault}")),
        );
    }
    if let Some(path) = config.policy.leases.as_deref().filter(|_| !config.policy.is_empty()) {
        let fault = fault_of_leases(path);
        warnings.extend(
            fault.map(|fault| format!("cannot read the leases in {}: {fault}", path.display())),
        );
    }
    warnings.extend(avocet_server::open_keys(config));
    let unreadable = avocet_server::fault_of_certificates(config);
    warnings.extend(
        unreadable.filter(CertificateFault::is_of_permission).map(|fault| fault.to_string()),
    );
    let unreadable = avocet_server::fault_of_upstreams(config);
    warnings.extend(
        unreadable.filter(CertificateFault::is_of_permission).map(|fault| fault.to_string()),
    );
    warnings.extend(avocet_server::fault_of_neighbours(&config.policy));
    warnings.extend(avocet_server::fault_of_certificate(&config.web));
    warnings.extend(host_warnings(config));
    if !config.server.allow.local && config.server.allow.networks.is_empty() {
        warnings.push("[server] allow is empty: every query is refused".to_owned());
    }
    let allowed = AddressSet::new(&config.server.allow.with_own(&own_networks()));
    let own = avocet_client::stub::from_here(config.server.listen[0]);
    if are_wanted(&config.policy) && !allowed.contains(own.ip()) {
        let own = own.ip();
        warnings.push(format!(
            "the server looks up names of clients with queries from {own} to itself, but `allow` \
             lacks that address"
        ));
    }
    warnings.extend(zone_files::doubts_of_pools(config));
    for zone in doubtful_zones(config) {
        warnings.push(format!(
            "{zone} has private servers: its names fail to validate if a signed zone above denies \
             it or has other keys; in that case, add it to `negative-anchors` of [dnssec]"
        ));
    }
    for list in &config.policy.lists {
        if let ListSource::Url(url) = &list.source
            && url.starts_with("http://")
        {
            warnings.push(format!(
                "the list {:?} is fetched without https: an attacker on the path can change it",
                list.name
            ));
        }
        warnings.extend(unproved(list));
        let fault = open_file(list).err();
        warnings
            .extend(fault.map(|fault| format!("cannot read the list {:?}: {fault}", list.name)));
    }
    warnings
}

/// Returns a warning about a list that is transferred with neither a key nor TLS; `None` for other
/// lists.
fn unproved(list: &ListConfig) -> Option<String> {
    let primary = list.source.zone()?.primaries.unproved()?;
    let (name, primary) = (&list.name, primary.shown());
    Some(format!(
        "the list {name:?} is transferred from {primary} without a key and without TLS: an \
         attacker on the path can change it"
    ))
}

/// Prints a schema, or the configuration in force.
pub(crate) fn show(args: &ConfigArgs) -> ExitCode {
    match &args.command {
        ConfigCommand::Schema { control: false } => print(&format!("{:#}", json_schema())),
        ConfigCommand::Schema { control: true } => {
            match serde_json::to_string_pretty(&InterfaceSchema::of_all()) {
                Ok(text) => print(&text),
                Err(error) => refuse(&error),
            }
        }
        ConfigCommand::Show { file, json } => effective(
            file.find().as_deref(),
            if *json { ConfigSyntax::Json } else { ConfigSyntax::Toml },
        ),
        ConfigCommand::Revisions(command) => revisions::revisions(command),
    }
}

/// The syntax in which the configuration is printed.
enum ConfigSyntax {
    Json,
    Toml,
}

/// Prints every key with its value in force.
fn effective(file: Option<&Path>, form: ConfigSyntax) -> ExitCode {
    let tables = match Config::load(file, environment()) {
        Ok(config) => config.effective(),
        Err(errors) => return refuse(&errors),
    };
    let text = match form {
        ConfigSyntax::Json => serde_json::to_string_pretty(&tables).map_err(CommandError::from),
        ConfigSyntax::Toml => toml::to_string(&tables).map_err(CommandError::from),
    };
    match text {
        Ok(text) => print(text.trim_end()),
        Err(error) => refuse(&error),
    }
}

/// Prints a line on standard output.
fn print(text: &str) -> ExitCode {
    match output::write_data(&format!("{text}\n")) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

/// Returns warnings about parts that this host lacks: the control group, the account, enough source
/// ports.
fn host_warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(group) = &config.server.control_group {
        warnings.extend(
            avocet_io::process::find_group(group)
                .err()
                .map(|fault| format!("[server] control-group: {fault}")),
        );
    }
    if let Some(user) = &config.server.user {
        warnings.extend(
            avocet_io::process::find_user(user)
                .err()
                .map(|fault| format!("[server] user: {fault}")),
        );
    }
    if let Err(fault) = SourcePorts::new(&config.avoid_ports, &own_reserved_ports()) {
        warnings.push(format!("the server would not start on this host: {fault}"));
    }
    warnings
}

fn refuse(error: &impl std::fmt::Display) -> ExitCode {
    output::note(&format!("{error}"));
    ExitCode::FAILURE
}
