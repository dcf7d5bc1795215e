//! The names that this server knows by itself, as the resolver asks for them where an alias leads
//! to one.

use std::sync::Arc;

use avocet_resolver::{Own, OwnNames, Sought};

use super::local::LocalRecords;
use super::question::LocalQuestion;
use super::special::{InZone, SpecialNames};

/// See the module.
#[derive(Debug)]
pub struct Names {
    /// Local records.
    pub local: Arc<LocalRecords>,
    /// Local zones and special names.
    pub special: Arc<SpecialNames>,
}

impl Names {
    fn zone_of<'a>(&'a self, sought: &Sought<'a>) -> Option<InZone<'a>> {
        let question = LocalQuestion { qname: sought.qname, qtype: sought.qtype, turn: 0 };
        self.special.find(&question).filter(|zone| !zone.gives_way(sought.served_len))
    }
}

impl OwnNames for Names {
    fn find<'a>(&'a self, sought: &Sought<'a>) -> Option<Own<'a>> {
        let own = self.local.find(sought.qname, sought.qtype);
        own.or_else(|| Some(self.zone_of(sought)?.find(|name| self.local.has_below(name))))
    }

    fn has_zone_of(&self, sought: &Sought<'_>) -> bool {
        self.zone_of(sought).is_some()
    }
}
