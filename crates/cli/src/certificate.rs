//! `avocet certificate`: the certificates of the running server.

use std::process::ExitCode;

use avocet_control::certificates::{CertificateList, CertificateRenew, CertificatesReport};
use clap::{Args, Subcommand};

use crate::call::{View, run};
use crate::control_args::ControlArgs;
use crate::state::certificate_text;

/// Arguments of `avocet certificate`.
#[derive(Debug, Args)]
pub(crate) struct CertificateArgs {
    /// The command.
    #[command(subcommand)]
    command: CertificateCommand,
    /// Connection to the running server.
    #[command(flatten)]
    control: ControlArgs,
}

/// The commands under `avocet certificate`.
#[derive(Debug, Subcommand)]
enum CertificateCommand {
    /// Show each certificate: names, expiry, addresses that show it, and renewals by the server
    List,
    /// Begin to renew the certificate of [acme]; `avocet certificate list` shows the result
    Renew,
    /// Print the certificate of the authority of [home-ca] in PEM form, to install on devices
    Authority,
}

/// Runs `avocet certificate`.
pub(crate) fn run_command(args: &CertificateArgs) -> ExitCode {
    let to = &args.control;
    match &args.command {
        CertificateCommand::List => run(to, CertificateList {}, &View::of(list_text)),
        CertificateCommand::Renew => run(to, CertificateRenew {}, &View::of(ordered_text)),
        CertificateCommand::Authority => run(to, CertificateList {}, &View::of(authority_text)),
    }
}

fn list_text(report: &CertificatesReport) -> String {
    match report.certificates.as_slice() {
        [] => "no address of this server shows a certificate".to_owned(),
        all => all.iter().map(certificate_text).collect::<Vec<_>>().join("\n"),
    }
}

fn authority_text(report: &CertificatesReport) -> String {
    match report.certificates.iter().find_map(|one| one.authority.as_ref()) {
        Some(authority) => authority.pem.trim_end().to_owned(),
        None => "this server has no authority of its own: set `names` in [home-ca]".to_owned(),
    }
}

fn ordered_text(report: &CertificatesReport) -> String {
    let of_acme = report.certificates.iter().filter(|one| one.renewal.is_some());
    let names: Vec<_> = of_acme.flat_map(|one| one.names.iter().map(String::as_str)).collect();
    format!("asking for a certificate for {}: see `avocet certificate list`", names.join(", "))
}
