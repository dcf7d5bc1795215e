//! `avocet query`: sends one query to one server and shows the reply, like dig.
//!
//! ```text
//!   words ── Request ── message ── exchange (UDP, TCP) ── Reply ── text | short | JSON
//! ```
//! It neither resolves nor validates: it shows the server's reply.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use avocet_client::json::ReplyObject;
use avocet_client::request::{OutputForm, Request};
use avocet_client::stub::from_here;
use avocet_client::{exchange, text};
use avocet_config::name::{reverse_name, shown};
use avocet_config::salvage::Whereabouts;
use avocet_config::{environment, find};
use avocet_wire::NameBuf;

use crate::args::QueryArgs;
use crate::control_args::ControlArgs;
use crate::error::CommandError;
use crate::output;
use crate::running::{self, Checks};

/// The default server, which is the address of `avocet serve` without a configuration.
const DEFAULT_SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5300);

/// The exit code for invalid arguments, as for other commands.
const WRONG_ARGUMENTS: u8 = 2;

/// Sends the query and shows the reply. Any RCODE is a success; a missing or malformed reply is a
/// failure.
pub(crate) fn run(args: &QueryArgs) -> ExitCode {
    let request = match Request::from_words(&words(args)) {
        Ok(request) => request,
        Err(message) => {
            output::note(&format!("{message}"));
            return ExitCode::from(WRONG_ARGUMENTS);
        }
    };
    match trace(args, &request) {
        Ok(None) => {}
        Ok(Some(code)) => return code,
        Err(message) => {
            output::note(&format!("{message}"));
            return ExitCode::FAILURE;
        }
    }
    match ask(args, request)
        .and_then(|shown| output::write_data(&format!("{}\n", shown.trim_end())))
    {
        Ok(_) => ExitCode::SUCCESS,
        Err(message) => {
            output::note(&format!("{message}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs `+trace`. Returns `None` without that option.
fn trace(args: &QueryArgs, request: &Request) -> Result<Option<ExitCode>, CommandError> {
    if !request.trace {
        return Ok(None);
    }
    if request.server.is_some() {
        return Err(CommandError::TraceOfServer);
    }
    let name = NameBuf::from_wire(&request.name)?.to_string();
    let json = args.json || request.form == OutputForm::Json;
    let control = ControlArgs { config: args.config.clone(), json };
    let dnssec = request.edns.as_ref().is_some_and(|edns| edns.dnssec);
    let checks = Checks { dnssec, checking_disabled: request.checking_disabled };
    Ok(Some(running::trace(&control, (name, request.rtype.to_string()), checks)))
}

/// Returns the words of the command line, with `-x` replaced by a name and its type.
fn words(args: &QueryArgs) -> Vec<String> {
    let reverse = args.reverse.map(|address| [shown(&reverse_name(address)), "PTR".to_owned()]);
    reverse.into_iter().flatten().chain(args.words.iter().cloned()).collect()
}

fn ask(args: &QueryArgs, mut request: Request) -> Result<String, CommandError> {
    if args.json {
        request.form = OutputForm::Json;
    }
    let server = match (request.server, find(args.config.as_deref())) {
        (Some(server), _) => server,
        (None, Some(file)) => configured_server(&file)?,
        (None, None) => DEFAULT_SERVER,
    };
    let reply = exchange::exchange(&request, server)?;
    let malformed = |source| CommandError::MalformedResponse { server, source };
    match request.form {
        OutputForm::Text => text::full(&reply).map_err(malformed),
        OutputForm::Short => text::short(&reply).map_err(malformed),
        OutputForm::Json => {
            let object = ReplyObject::of(&reply).map_err(malformed)?;
            Ok(serde_json::to_string_pretty(&object)?)
        }
    }
}

/// Returns the address at which this machine reaches the server of a configuration file.
fn configured_server(file: &Path) -> Result<SocketAddr, CommandError> {
    let found = Whereabouts::find(Some(file), environment())?;
    if let Some(warning) = found.warning {
        output::note(&format!("warning: {warning}"));
    }
    Ok(found.listen.map_or(DEFAULT_SERVER, from_here))
}
