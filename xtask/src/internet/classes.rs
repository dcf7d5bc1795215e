//! The checked-in list of accepted differences and their reasons.

use std::fs;

use serde::Deserialize;

use super::compare::Difference;
use super::message::type_name;

const FILE: &str = "tests/internet/differences.toml";

/// Differences that have the same reason. Each condition is optional; without a condition, any
/// value matches.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Class {
    pub(super) name: String,
    servers: Option<Vec<String>>,
    /// Labels of zone families. The answers must involve at least one of them.
    families: Option<Vec<String>>,
    types: Option<Vec<String>>,
    checking_disabled: Option<bool>,
    /// The difference: `silence`, `rcode`, `ad` or `records`.
    differs: Option<String>,
    got: Option<String>,
    expected: Option<String>,
    /// The reason why these differences are not a fault, with the section of the RFC.
    reason: String,
}

/// All classes. The first class that matches explains a difference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Classes {
    #[serde(default, rename = "difference")]
    list: Vec<Class>,
}

impl Classes {
    /// Reads the list from the source tree.
    pub(super) fn read() -> Result<Self, String> {
        let text = fs::read_to_string(crate::root().join(FILE))
            .map_err(|error| format!("{FILE}: {error}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let classes: Self = toml::from_str(text).map_err(|error| format!("{FILE}: {error}"))?;
        let bare = classes.list.iter().find(|class| class.reason.trim().is_empty());
        bare.map_or(Ok(()), |class| Err(format!("{FILE}: `{}` has no reason", class.name)))?;
        Ok(classes)
    }

    /// Returns the class that explains a server's difference.
    pub(super) fn explain(&self, server: &str, difference: &Difference) -> Option<&Class> {
        self.list.iter().find(|class| class.fits(server, difference))
    }
}

impl Class {
    fn fits(&self, server: &str, difference: &Difference) -> bool {
        let lists = |list: &Option<Vec<String>>, word: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|listed| listed == word))
        };
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        let touches = |families: &Vec<String>| {
            difference.families.iter().any(|label| families.iter().any(|of| of == label))
        };
        lists(&self.servers, server)
            && lists(&self.types, &type_name(difference.question.kind))
            && self.families.as_ref().is_none_or(touches)
            && self
                .checking_disabled
                .is_none_or(|wanted| wanted == difference.question.is_checking_disabled)
            && is(&self.differs, difference.aspect.name())
            && is(&self.got, &difference.got)
            && is(&self.expected, &difference.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare::Aspect;
    use super::super::families::{FAMILIES, HOSTERS};
    use super::super::message::Question;
    use super::*;

    fn difference(aspect: Aspect) -> Difference {
        Difference {
            aspect,
            question: Question {
                name: "a.".to_owned(),
                kind: 1,
                is_dnssec_ok: true,
                is_checking_disabled: false,
            },
            families: ["alg16", "tld"].into(),
            got: "no ad".to_owned(),
            expected: "ad".to_owned(),
        }
    }

    #[test]
    fn a_class_explains_what_it_names_and_nothing_else() {
        let text = "[[difference]]\nname = 'a'\nservers = ['avocet']\nfamilies = \
                    ['alg16']\ndiffers = 'ad'\ngot = 'no ad'\nreason = 'RFC 8624 section 3.1'\n";
        let classes = Classes::parse(text).unwrap();
        assert_eq!(classes.explain("avocet", &difference(Aspect::Authenticity)).unwrap().name, "a");
        assert!(classes.explain("avocet", &difference(Aspect::Rcode)).is_none());
        assert!(classes.explain("kresd", &difference(Aspect::Authenticity)).is_none());
        assert!(
            Classes::parse("[[difference]]\nname = 'a'\nreason = ''\n")
                .unwrap_err()
                .contains("no reason")
        );
    }

    #[test]
    fn the_list_names_families_that_exist() {
        let labels: Vec<_> = FAMILIES.iter().chain(HOSTERS).map(|family| family.label).collect();
        for class in Classes::read().unwrap().list {
            for family in class.families.into_iter().flatten() {
                let known = labels.contains(&family.as_str())
                    || ["root", "tld", "root-servers"].contains(&family.as_str());
                assert!(known, "{}: {family}", class.name);
            }
        }
    }
}
