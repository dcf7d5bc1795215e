//! The action of a policy zone, which the records of a trigger encode.

use avocet_wire::{NameBuf, Rtype, name};

/// A record of local data.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LocalRecord {
    /// The type, never CNAME.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl_secs: u32,
    /// The data in uncompressed form.
    pub rdata: Box<[u8]>,
}

/// The action taken when a trigger fires.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// `CNAME .`: the name does not exist.
    NxDomain,
    /// `CNAME *.`: the name has no records of the type.
    NoData,
    /// `CNAME rpz-passthru.`: the real answer, and no other policy zone applies.
    Passthru,
    /// `CNAME rpz-drop.`: no answer.
    Drop,
    /// `CNAME rpz-tcp-only.`: a truncated answer over UDP, and the actual one over TCP.
    TcpOnly,
    /// `CNAME name.`: an alias to this name.
    Cname(Box<[u8]>),
    /// `CNAME *.name.`: an alias to the QNAME followed by this name.
    CnameUnder(Box<[u8]>),
    /// The name has these records. Other types have no data.
    Data(Vec<LocalRecord>),
}

impl Action {
    /// Returns the action of a CNAME record with this target.
    pub(super) fn of_cname(target: &[u8]) -> Self {
        let target = target.to_ascii_lowercase();
        match &target[..] {
            b"\0" => Self::NxDomain,
            b"\x01*\0" => Self::NoData,
            b"\x0crpz-passthru\0" => Self::Passthru,
            b"\x08rpz-drop\0" => Self::Drop,
            b"\x0crpz-tcp-only\0" => Self::TcpOnly,
            [1, b'*', rest @ ..] => Self::CnameUnder(rest.into()),
            _ => Self::Cname(target.into()),
        }
    }

    /// Reports whether the action is unknown: an alias to a name below a top-level domain
    /// `rpz-...`. Such names are reserved for actions.
    pub(super) fn is_unheard_of(&self) -> bool {
        matches!(self, Self::Cname(target) | Self::CnameUnder(target)
            if name::labels(target).last().is_some_and(|label| label.starts_with(b"rpz-")))
    }

    /// Returns whether the action answers with data from the zone.
    #[must_use]
    pub const fn chooses(&self) -> bool {
        matches!(self, Self::Cname(_) | Self::CnameUnder(_) | Self::Data(_))
    }

    /// Returns the name used in explanations.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NxDomain => "nxdomain",
            Self::NoData => "nodata",
            Self::Passthru => "passthru",
            Self::Drop => "drop",
            Self::TcpOnly => "tcp-only",
            Self::Cname(_) | Self::CnameUnder(_) => "alias",
            Self::Data(_) => "local-data",
        }
    }

    /// Returns the folded alias target for a QNAME. Returns `None` if the action is no alias, or if
    /// the target would be too long. In the second case, the answer is YXDOMAIN, as for a DNAME
    /// (RFC 6672 §2.2).
    #[must_use]
    pub fn alias(&self, qname: &[u8]) -> Option<NameBuf> {
        match self {
            Self::Cname(target) => NameBuf::from_wire(target).ok(),
            Self::CnameUnder(suffix) => {
                let labels = qname.get(..qname.len().checked_sub(1)?)?;
                NameBuf::from_wire(&[labels, suffix].concat()).ok()
            }
            _ => None,
        }
    }

    /// Returns the records of local data that answer a question of this type.
    pub fn records(&self, qtype: Rtype) -> impl Iterator<Item = &LocalRecord> {
        let records = match self {
            Self::Data(records) => &records[..],
            _ => &[],
        };
        records.iter().filter(move |record| qtype == Rtype::ANY || record.rtype == qtype)
    }

    /// Reports whether the action is an alias to exactly the name with these labels.
    pub(super) fn leads_to(&self, labels: &[u8]) -> bool {
        matches!(self, Self::Cname(target) if target.split_last() == Some((&0, labels)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_an_action_are_known() {
        assert_eq!(Action::of_cname(b"\0"), Action::NxDomain);
        assert_eq!(Action::of_cname(b"\x01*\0"), Action::NoData);
        assert_eq!(Action::of_cname(b"\x0cRPZ-passthru\0"), Action::Passthru);
        assert_eq!(Action::of_cname(b"\x08rpz-drop\0"), Action::Drop);
        assert_eq!(Action::of_cname(b"\x0crpz-tcp-only\0"), Action::TcpOnly);
        assert_eq!(Action::of_cname(b"\x06Garden\0"), Action::Cname(b"\x06garden\0"[..].into()));
        assert_eq!(
            Action::of_cname(b"\x01*\x06garden\0"),
            Action::CnameUnder(b"\x06garden\0"[..].into())
        );
    }

    #[test]
    fn a_garden_takes_the_qname_in() {
        let action = Action::of_cname(b"\x01*\x06garden\0");
        assert_eq!(action.alias(b"\x01a\x01b\0").unwrap().wire(), b"\x01a\x01b\x06garden\0");
        assert_eq!(
            action.alias(&[&[63; 64][..], &[63; 64], &[63; 64], &[58; 59], &[0]].concat()),
            None
        );
        assert_eq!(Action::NxDomain.alias(b"\0"), None);
        assert_eq!(Action::Cname(b"\x01x\0"[..].into()).alias(b"\0").unwrap().wire(), b"\x01x\0");
    }
}
