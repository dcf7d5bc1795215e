//! The commands that send requests to the running server: `avocet status`, `cache`, `lists`,
//! `anchors`, `nta`, `pause`, `grant`, `why`, `query +trace`, `policy status`, `reload`, `user` and
//! `token`.

use std::process::ExitCode;

use avocet_control::access::{
    TokenCreate, TokenList, TokenRevoke, TokenRevoked, UserAdd, UserChange, UserList, UserRemove,
    UserRemoved, UserReport,
};
use avocet_control::lists::Refreshed;
use avocet_control::request::{
    Anchors, Dump, Flush, FlushTree, Grant, ListsCheck, ListsRefresh, ListsStatus, Load, Lookup,
    NtaAdd, NtaList, NtaRemove, Pause, Reload, Stats, Status, Switches, Trace, Why,
};
use avocet_control::trust::{NegativeAdded, NegativeRemoved};
use avocet_policy::rule::Scope;

use crate::args::{
    CacheArgs, CacheCommand, GrantArgs, ListsArgs, ListsCommand, PauseArgs, ScopeArgs, SpanArgs,
    TokenArgs, TokenCommand, UserArgs, UserCommand, WhyArgs,
};
use crate::call::{Done, View, refuse, run, send, whereabouts};
use crate::control_args::{ControlArgs, StatusArgs};
use crate::error::CommandError;
use crate::nta_args::{NtaArgs, NtaCommand};
use crate::policy::unix_secs;
use crate::{access, dump, lists, load_text, password, state, switches, trust, why};

/// Runs `avocet cache`.
pub(crate) fn cache(args: &CacheArgs) -> ExitCode {
    let to = &args.control;
    match &args.command {
        CacheCommand::Stats => run(to, Stats {}, &View::of(dump::stats_text)),
        CacheCommand::Dump => {
            let view = View { part: dump::to_text, end: dump::end_text, done: |_| Done::Whole };
            run(to, Dump {}, &view)
        }
        CacheCommand::Show { name, rtype } => {
            let request = Lookup { name: name.clone(), rtype: rtype.clone() };
            run(to, request, &View::of(dump::look_text))
        }
        CacheCommand::Flush { name } => {
            run(to, Flush { name: name.clone() }, &View::of(dump::flush_text))
        }
        CacheCommand::FlushTree { name } => {
            run(to, FlushTree { name: name.clone() }, &View::of(dump::flush_text))
        }
    }
}

/// Runs `avocet lists`.
pub(crate) fn lists(args: &ListsArgs) -> ExitCode {
    let to = &args.control;
    match &args.command {
        ListsCommand::Status => run(to, ListsStatus {}, &View::of(lists::status_text)),
        ListsCommand::Refresh { name, force } => {
            let request = ListsRefresh { name: name.clone(), force: *force };
            let view = View { part: |_| String::new(), end: lists::refresh_text, done: refreshed };
            run(to, request, &view)
        }
        ListsCommand::Check { name, skipped } => {
            let text = if *skipped { lists::check_text_with_skipped } else { lists::check_text };
            run(to, ListsCheck { name: name.clone() }, &View::of(text))
        }
    }
}

fn refreshed(reply: &Refreshed) -> Done {
    if reply.lists.iter().any(|list| list.error.is_some()) {
        return Done::InPart;
    }
    Done::of_change(reply.lists.iter().find_map(|list| list.unsaved.as_ref()))
}

/// Runs `avocet why`.
pub(crate) fn why(args: &WhyArgs) -> ExitCode {
    let found = match whereabouts(&args.control) {
        Ok(found) => found,
        Err(error) => return refuse(&error),
    };
    let in_zone = |at: &str| match &found.config {
        Some(config) => unix_secs(config, at),
        // The time zone is unknown without a configuration, so only Unix seconds are accepted.
        None => at.parse().map_err(|_| CommandError::NotUnixSecs(at.to_owned())),
    };
    let at = match args.at.as_deref().map(in_zone).transpose() {
        Ok(at) => at,
        Err(error) => return refuse(&error),
    };
    let (name, rtype) = (args.name.clone(), args.rtype.clone());
    let (client, listener) = (args.client.clone(), args.listener.clone());
    let id = args.id.clone();
    let view = View { part: why::text, end: |_| String::new(), done: |_| Done::Whole };
    let transport = args.transport;
    let request = Why { name, rtype, client, id, listener, transport, at, logged: None };
    send(&args.control, &found.directory, request, &view)
}

/// Runs `avocet query +trace`, which sends a request over the control socket.
pub(crate) fn trace(args: &ControlArgs, question: (String, String), checks: Checks) -> ExitCode {
    let (name, rtype) = question;
    let Checks { dnssec, checking_disabled } = checks;
    let view = View { part: why::text, end: |_| String::new(), done: |_| Done::Whole };
    run(args, Trace { name, rtype: Some(rtype), dnssec, checking_disabled }, &view)
}

/// The DNSSEC flags of a question.
#[derive(Clone, Copy)]
pub(crate) struct Checks {
    /// DO.
    pub(crate) dnssec: bool,
    /// CD.
    pub(crate) checking_disabled: bool,
}

/// Runs `avocet anchors`.
pub(crate) fn anchors(args: &ControlArgs) -> ExitCode {
    run(args, Anchors {}, &View::of(trust::anchors_text))
}

/// Runs `avocet nta`.
pub(crate) fn nta(args: &NtaArgs) -> ExitCode {
    let to = &args.control;
    match &args.command {
        NtaCommand::Add { name, lifetime } => {
            let request = NtaAdd { name: name.clone(), secs: lifetime.as_secs() };
            let done = |reply: &NegativeAdded| Done::of_change(reply.unsaved.as_ref());
            run(to, request, &View::of_change(trust::added_text, done))
        }
        NtaCommand::Remove { name } => {
            let done = |reply: &NegativeRemoved| Done::of_change(reply.unsaved.as_ref());
            run(to, NtaRemove { name: name.clone() }, &View::of_change(trust::removed_text, done))
        }
        NtaCommand::List => run(to, NtaList {}, &View::of(trust::negative_text)),
    }
}

/// Runs `avocet reload`.
pub(crate) fn reload(args: &ControlArgs) -> ExitCode {
    run(args, Reload {}, &View::of(state::reload_text))
}

/// Runs `avocet user`.
pub(crate) fn user(args: &UserArgs) -> ExitCode {
    let to = &args.control;
    match &args.command {
        UserCommand::Add { name, role, limits } => match password::read() {
            Ok(password) => {
                let (name, limits) = (name.clone(), limits.limits());
                let request = UserAdd { name, role: *role, password, limits };
                run(to, request, &View::of(access::user_text))
            }
            Err(error) => refuse(&error),
        },
        UserCommand::Passwd { name, role, limits, no_limits, remove_second_factor } => {
            let (name, role, remove_second_factor) = (name.clone(), *role, *remove_second_factor);
            let (limits, remove_limits) = (limits.limits(), *no_limits);
            let keeps_password =
                role.is_some() || limits.is_some() || remove_limits || remove_second_factor;
            match (!keeps_password).then(password::read).transpose() {
                Ok(password) => {
                    let request = UserChange {
                        name,
                        role,
                        limits,
                        remove_limits,
                        password,
                        remove_second_factor,
                    };
                    let done = |reply: &UserReport| Done::of_change(reply.unsaved.as_ref());
                    run(to, request, &View::of_change(access::user_text, done))
                }
                Err(error) => refuse(&error),
            }
        }
        UserCommand::List => run(to, UserList {}, &View::of(access::users_text)),
        UserCommand::Remove { name } => {
            let done = |reply: &UserRemoved| Done::of_change(reply.unsaved.as_ref());
            let view = View::of_change(access::removed_text, done);
            run(to, UserRemove { name: name.clone() }, &view)
        }
    }
}

/// Runs `avocet token`.
pub(crate) fn token(args: &TokenArgs) -> ExitCode {
    let to = &args.control;
    match &args.command {
        TokenCommand::Create { name, scopes, lifetime } => {
            let (name, scopes, secs) = (name.clone(), scopes.clone(), lifetime.as_secs());
            let request = TokenCreate { name, scopes, secs };
            run(to, request, &View::of(access::created_text))
        }
        TokenCommand::List => run(to, TokenList {}, &View::of(access::tokens_text)),
        TokenCommand::Revoke { id } => {
            let done = |reply: &TokenRevoked| Done::of_change(reply.unsaved.as_ref());
            run(to, TokenRevoke { id: id.clone() }, &View::of_change(access::revoked_text, done))
        }
    }
}

/// Runs `avocet status`.
pub(crate) fn status(args: &StatusArgs) -> ExitCode {
    match args.load {
        true => run(&args.control, Load {}, &View::of(load_text::text)),
        false => run(&args.control, Status {}, &View::of(state::text)),
    }
}

/// Runs `avocet pause`.
pub(crate) fn pause(args: &PauseArgs) -> ExitCode {
    let request = Pause { scope: scope(&args.scope), secs: secs(&args.span) };
    run(&args.control, request, &View::of_change(switches::changed_text, switches::done))
}

/// Runs `avocet grant`.
pub(crate) fn grant(args: &GrantArgs) -> ExitCode {
    let request =
        Grant { name: args.name.clone(), scope: scope(&args.scope), secs: secs(&args.span) };
    run(&args.control, request, &View::of_change(switches::changed_text, switches::done))
}

/// Runs `avocet policy status`.
pub(crate) fn policy_status(args: &ControlArgs) -> ExitCode {
    run(args, Switches {}, &View::of(switches::text))
}

fn scope(args: &ScopeArgs) -> Scope {
    match (&args.group, &args.client) {
        (Some(group), _) => Scope::Group(group.clone()),
        (None, Some(client)) => Scope::Client(client.clone()),
        (None, None) => Scope::All,
    }
}

/// Returns the duration in seconds; 0 ends the pause or grant.
fn secs(args: &SpanArgs) -> u64 {
    if args.end { 0 } else { args.span.as_secs() }
}
