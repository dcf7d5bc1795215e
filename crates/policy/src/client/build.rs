//! Validation of the configured groups and clients: identifiers and memberships.

use std::collections::HashMap;
use std::fmt;

use super::identity::host_name;
use super::{ClientSpec, DEFAULT_GROUP, GroupSpec, Id, MAX_CLIENTS, MAX_GROUPS, MAX_LISTS};
use crate::PolicyError;

/// Maximum number of octets of the name of a client or group.
const MAX_ENTRY_NAME: usize = 255;

/// An error in the configuration of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFault {
    /// The faulty group or client, such as ``client `x` ``.
    pub entry: String,
    /// The problem.
    pub error: PolicyError,
}

impl fmt::Display for ClientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.entry, self.error)
    }
}

impl std::error::Error for ClientFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl ClientFault {
    fn of(kind: &str, name: &str, error: PolicyError) -> Self {
        Self { entry: format!("{kind} `{name}`"), error }
    }
}

/// The identity that decides if the address of a device and the identifier (word) that the device
/// sends belong to different clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdPrecedence {
    /// The client with the address.
    #[default]
    Address,
    /// The client with the identifier (word) that the device sends.
    Device,
}

/// A client with its identifiers.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) ids: Vec<Id>,
    /// Indices into [`Directory::groups`]. A client is in at least one group.
    pub(super) groups: Vec<usize>,
}

/// A group with the lists in force for it.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// The indices of the lists in force; `None` for all lists.
    pub(super) lists: Option<Vec<usize>>,
}

/// Groups and clients of the configuration, validated.
#[derive(Clone, Debug)]
pub struct Directory {
    pub(super) groups: Vec<Group>,
    pub(super) clients: Vec<Client>,
    pub(super) owner: HashMap<Id, usize>,
    pub(super) default_group: usize,
    pub(super) list_count: usize,
    pub(super) precedence: IdPrecedence,
}

impl Directory {
    /// Returns the directory with another precedence between addresses and the identifiers (words)
    /// that devices send.
    #[must_use]
    pub fn preferring(self, precedence: IdPrecedence) -> Self {
        Self { precedence, ..self }
    }

    /// Validates groups and clients. `lists` holds the names of all lists, in the order of their
    /// indices.
    ///
    /// # Errors
    /// Duplicate or empty names, identifiers claimed by two clients, and unknown groups or lists.
    pub fn new(
        groups: &[GroupSpec],
        clients: &[ClientSpec],
        lists: &[String],
    ) -> Result<Self, Vec<ClientFault>> {
        let mut directory = Self {
            groups: Vec::new(),
            clients: Vec::new(),
            owner: HashMap::new(),
            default_group: 0,
            list_count: lists.len(),
            precedence: IdPrecedence::Address,
        };
        let mut faults = Vec::new();
        if lists.len() > MAX_LISTS {
            let error = PolicyError::TooManyLists(MAX_LISTS);
            faults.push(ClientFault { entry: "lists".to_owned(), error });
        }
        for (kind, count, most) in
            [("groups", groups.len(), MAX_GROUPS), ("clients", clients.len(), MAX_CLIENTS)]
        {
            if count > most {
                faults.push(ClientFault {
                    entry: kind.to_owned(),
                    error: PolicyError::TooMany(most),
                });
            }
        }
        for spec in groups.iter().take(MAX_GROUPS) {
            let found = directory.add_group(spec, lists);
            faults
                .extend(found.into_iter().map(|error| ClientFault::of("group", &spec.name, error)));
        }
        directory.default_group = match directory.group(DEFAULT_GROUP) {
            Some(at) => at,
            None => {
                directory.groups.push(Group { name: DEFAULT_GROUP.to_owned(), lists: None });
                directory.groups.len() - 1
            }
        };
        for spec in clients.iter().take(MAX_CLIENTS) {
            let found = directory.add_client(spec);
            faults.extend(
                found.into_iter().map(|error| ClientFault::of("client", &spec.name, error)),
            );
        }
        for spec in groups.iter().take(MAX_GROUPS) {
            let found = directory.add_members(spec);
            faults
                .extend(found.into_iter().map(|error| ClientFault::of("group", &spec.name, error)));
        }
        for client in &mut directory.clients {
            if client.groups.is_empty() {
                client.groups.push(directory.default_group);
            }
        }
        if faults.is_empty() { Ok(directory) } else { Err(faults) }
    }

    /// Returns the names of all groups, including `default`.
    pub fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.name.as_str())
    }

    /// Returns the name of each group, including `default`, and the indices of its lists.
    pub fn lists_of_groups(&self) -> impl Iterator<Item = (&str, Vec<usize>)> {
        self.groups.iter().map(|group| (group.name.as_str(), self.lists_of(group)))
    }

    /// Puts a further list in force for these groups only. Returns its index, which follows those
    /// of the other lists.
    pub fn add_list(&mut self, groups: &[String]) -> usize {
        let list = self.list_count;
        for at in 0..self.groups.len() {
            let mut lists = self.lists_of(&self.groups[at]);
            lists.extend(Some(list).filter(|_| groups.contains(&self.groups[at].name)));
            self.groups[at].lists = Some(lists);
        }
        self.list_count += 1;
        list
    }

    pub(super) fn lists_of(&self, group: &Group) -> Vec<usize> {
        group.lists.clone().unwrap_or_else(|| (0..self.list_count).collect())
    }

    fn group(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.name == name)
    }

    /// Adds a group and returns its errors.
    fn add_group(&mut self, spec: &GroupSpec, lists: &[String]) -> Vec<PolicyError> {
        let mut faults: Vec<PolicyError> = check_name(&spec.name).err().into_iter().collect();
        if self.group(&spec.name).is_some() {
            faults.push(PolicyError::DuplicateName("group"));
            return faults;
        }
        let mut places = spec.lists.as_ref().map(|_| Vec::new());
        for name in spec.lists.iter().flatten() {
            match (lists.iter().position(|list| list == name), &mut places) {
                (Some(at), Some(places)) => places.push(at),
                _ => faults.push(PolicyError::UnknownList(name.clone())),
            }
        }
        self.groups.push(Group { name: spec.name.clone(), lists: places });
        faults
    }

    /// Adds a client and returns its errors.
    fn add_client(&mut self, spec: &ClientSpec) -> Vec<PolicyError> {
        let mut faults: Vec<PolicyError> = check_name(&spec.name).err().into_iter().collect();
        if self.clients.iter().any(|client| client.name == spec.name) {
            faults.push(PolicyError::DuplicateName("client"));
            return faults;
        }
        let (mut groups, mut ids) = (Vec::new(), Vec::new());
        for name in &spec.groups {
            match self.group(name) {
                Some(at) => groups.push(at),
                None => faults.push(PolicyError::UnknownGroup(name.clone())),
            }
        }
        for text in &spec.ids {
            match text.parse::<Id>() {
                Ok(id) => ids.push(id),
                Err(source) => faults.push(PolicyError::ClientId { text: text.clone(), source }),
            }
        }
        faults.extend(self.claim(Client { name: spec.name.clone(), ids, groups }).err());
        faults
    }

    /// Adds a client. If another client has one of the same identifiers, returns an error, but
    /// still adds the client, so that references to it resolve.
    fn claim(&mut self, client: Client) -> Result<(), PolicyError> {
        let mut taken = None;
        for id in &client.ids {
            let other = self
                .owner
                .insert(id.clone(), self.clients.len())
                .filter(|at| *at < self.clients.len());
            taken = taken.or(other);
        }
        self.clients.push(client);
        match taken {
            Some(other) => Err(PolicyError::ClaimedTwice(self.clients[other].name.clone())),
            None => Ok(()),
        }
    }

    /// Adds the members of a group. A member that is an address or another identifier, not a
    /// client's name, becomes a client of its own. Returns the errors.
    fn add_members(&mut self, spec: &GroupSpec) -> Vec<PolicyError> {
        let Some(number) = self.group(&spec.name) else { return Vec::new() };
        let mut faults = Vec::new();
        for text in &spec.clients {
            let named = self.clients.iter().position(|client| client.name == *text);
            let owner = match (named, text.parse::<Id>()) {
                (Some(at), _) => Some(at),
                (None, Ok(id)) => self.owner.get(&id).copied(),
                (None, Err(source)) => {
                    faults.push(PolicyError::GroupMember { text: text.clone(), source });
                    continue;
                }
            };
            match (owner, text.parse::<Id>()) {
                (Some(at), _) if self.clients[at].groups.contains(&number) => {}
                (Some(at), _) => self.clients[at].groups.push(number),
                (None, Ok(id)) => {
                    let name = host_name(text).unwrap_or_else(|| text.clone());
                    faults.extend(
                        self.claim(Client { name, ids: vec![id], groups: vec![number] }).err(),
                    );
                }
                (None, Err(_)) => {}
            }
        }
        faults
    }
}

fn check_name(name: &str) -> Result<(), PolicyError> {
    match name.trim() {
        "" => Err(PolicyError::NoName),
        _ if name.len() > MAX_ENTRY_NAME => Err(PolicyError::LongName(MAX_ENTRY_NAME)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::NotAnId;

    use super::*;

    fn group(name: &str, clients: &[&str], lists: Option<&[&str]>) -> GroupSpec {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        GroupSpec { name: name.to_owned(), clients: owned(clients), lists: lists.map(owned) }
    }

    fn client(name: &str, ids: &[&str], groups: &[&str]) -> ClientSpec {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ClientSpec { name: name.to_owned(), ids: owned(ids), groups: owned(groups) }
    }

    #[test]
    fn groups_take_clients_by_name_by_identifier_and_strangers() {
        let groups = [
            group("kids", &["tablet", "192.0.2.9", "10.0.0.0/8"], None),
            group("guests", &[], None),
        ];
        let clients = [
            client("tablet", &["02:00:00:00:00:01"], &["guests"]),
            client("tv", &["192.0.2.9"], &[]),
        ];
        let directory = Directory::new(&groups, &clients, &[]).unwrap();
        let of = |name: &str| {
            let client = directory.clients.iter().find(|client| client.name == name).unwrap();
            client.groups.iter().map(|at| directory.groups[*at].name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(
            (of("tablet"), of("tv"), of("10.0.0.0/8")),
            (vec!["guests", "kids"], vec!["kids"], vec!["kids"])
        );
    }

    #[test]
    fn faults_name_the_entry() {
        let check = |groups: &[GroupSpec], clients: &[ClientSpec], expected: &str| {
            let faults = Directory::new(groups, clients, &[]).unwrap_err();
            assert_eq!(
                faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                expected
            );
        };
        check(&[group("a", &[], Some(&["x"]))], &[], "group `a`: there is no list `x`");
        check(
            &[group("a", &[], None), group("a", &[], None)],
            &[],
            "group `a`: duplicate group name",
        );
        check(&[], &[client("c", &[], &["kids"])], "client `c`: there is no group `kids`");
        let twice = [client("a", &["192.0.2.1"], &[]), client("b", &["192.0.2.1"], &[])];
        check(&[], &twice, "client `b`: client `a` has it too");
        check(
            &[group("a", &["a b", "tv"], Some(&["x", "y"]))],
            &[client("tv", &["c d", "e f"], &["kids"]), client("", &[], &["nobody"])],
            &format!(
                "group `a`: there is no list `x`; group `a`: there is no list `y`; client `tv`: \
                 there is no group `kids`; client `tv`: `c d` is {NotAnId}; client `tv`: `e f` is \
                 {NotAnId}; client ``: the name is missing; client ``: there is no group `nobody`; \
                 group `a`: `a b` is not the name of a client, and {NotAnId}"
            ),
        );
    }
}
