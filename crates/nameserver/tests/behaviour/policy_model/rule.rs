//! The rules of a seed: their conditions, their actions, and their text.

use crate::choices::{Choices, GARDEN, OWN};
use crate::policy_model::{ALIAS, CHAIN, HINT, LISTS, NAMES, NETWORKS};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Test {
    Always,
    Under(&'static str),
    OnList(usize),
    Kids,
    OverTcp,
    IsAddress,
    AtNight,
    AnswerIn(usize),
    AliasUnder(&'static str),
    OfService,
}

impl Test {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Always => "true".to_owned(),
            Self::Under(name) => format!("qname.under(\"{name}\")"),
            Self::OnList(list) => format!("list(\"{}\")", LISTS[list]),
            Self::Kids => "client.group(\"kids\")".to_owned(),
            Self::OverTcp => "client.transport == \"tcp\"".to_owned(),
            Self::IsAddress => "qtype == \"A\"".to_owned(),
            Self::AtNight => "now.between(\"21:00\", \"22:00\")".to_owned(),
            Self::AnswerIn(network) => format!("answer.ip.in(\"{}\")", NETWORKS[network].0),
            Self::AliasUnder(name) => format!("answer.cname.under(\"{name}\")"),
            Self::OfService => "service(\"youtube\")".to_owned(),
        }
    }

    pub(crate) fn reads_answer(self) -> bool {
        matches!(self, Self::AnswerIn(_) | Self::AliasUnder(_))
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Action {
    Block,
    Allow,
    ToAddress,
    To(&'static str),
    Drop,
    Truncate,
    Ttl,
    Tag,
    Limit(&'static str),
}

impl Action {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Block => "action = \"block\"\nanswer = \"nxdomain\"".to_owned(),
            Self::Allow => "action = \"allow\"".to_owned(),
            Self::ToAddress => "action = \"redirect\"\nto = [\"203.0.113.5\"]".to_owned(),
            Self::To(name) => format!("action = \"redirect\"\nto = [\"{name}\"]"),
            Self::Drop => "action = \"drop\"".to_owned(),
            Self::Truncate => "action = \"truncate\"".to_owned(),
            Self::Ttl => "action = \"ttl\"\nmin-secs = 600".to_owned(),
            Self::Tag => "action = \"tag\"\ntag = \"x\"".to_owned(),
            Self::Limit(over) => {
                format!(
                    "action = \"rate-limit\"\nrps = 1\nburst = 1\nper = \"rule\"\nover = \"{over}\""
                )
            }
        }
    }

    pub(crate) fn decides(self) -> bool {
        !matches!(self, Self::Ttl | Self::Tag | Self::Limit(_))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) tests: Vec<(Test, bool)>,
    pub(crate) action: Action,
    pub(crate) log_only: bool,
}

impl Rule {
    pub(crate) fn any(choices: &mut Choices) -> Self {
        let action = match choices.below(12) {
            0 | 1 => Action::Block,
            2 => Action::Allow,
            3 => Action::ToAddress,
            4 => Action::To(choices.of(&[GARDEN, OWN])),
            5 => Action::Drop,
            6 | 7 => Action::Truncate,
            8 => Action::Ttl,
            9 => Action::Tag,
            _ => Action::Limit(choices.of(&["refuse", "drop", "truncate"])),
        };
        let may_read = matches!(
            action,
            Action::Block | Action::Allow | Action::ToAddress | Action::Ttl | Action::Tag
        );
        let tests = (0..=choices.below(2))
            .map(|_| (Test::any(choices, may_read), choices.one_in(5)))
            .collect();
        Self { tests, action, log_only: choices.one_in(8) }
    }

    pub(crate) fn text(&self, place: usize) -> String {
        let test = |(test, is_negated): &(Test, bool)| {
            if *is_negated { format!("!({})", test.text()) } else { test.text() }
        };
        let when: Vec<String> = self.tests.iter().map(test).collect();
        let (action, log_only) = (self.action.text(), self.log_only);
        let when = when.join(" && ");
        format!("[[rule]]\nname = \"r{place}\"\nwhen = '{when}'\n{action}\nlog-only = {log_only}\n")
    }

    pub(crate) fn reads_answer(&self) -> bool {
        self.tests.iter().any(|(test, _)| test.reads_answer())
    }

    /// Whether the rule is also evaluated for the names in the answer. Such a name never allows
    /// anything.
    pub(crate) fn looks_behind(&self) -> bool {
        let has_test =
            self.tests.iter().any(|(test, _)| matches!(test, Test::OnList(_) | Test::OfService));
        has_test && !matches!(self.action, Action::Limit(_) | Action::Allow)
    }
}

impl Test {
    pub(crate) fn any(choices: &mut Choices, may_read_answer: bool) -> Self {
        match choices.below(if may_read_answer { 13 } else { 10 }) {
            0 | 1 => Self::Always,
            2 => Self::Under(
                choices.of(&[NAMES[0], NAMES[1], NAMES[2], NAMES[3], ALIAS, CHAIN, HINT, OWN]),
            ),
            3 | 4 => Self::OnList(choices.below(LISTS.len())),
            5 => Self::Kids,
            6 => Self::OverTcp,
            7 => Self::IsAddress,
            8 => Self::AtNight,
            9 => Self::OfService,
            10 | 11 => Self::AnswerIn(choices.below(NETWORKS.len())),
            _ => Self::AliasUnder(choices.of(&NAMES)),
        }
    }
}
