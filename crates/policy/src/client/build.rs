//! The configured groups and clients, checked: whom an identifier belongs to, and in which groups they are.

use std::collections::HashMap;
use std::fmt;

use super::identity::host_name;
use super::{ClientSpec, DEFAULT_GROUP, GroupSpec, Id, MAX_CLIENTS, MAX_GROUPS, MAX_LISTS};

/// What is wrong with the configuration of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFault {
    /// The entry, as ``client `x` ``.
    pub entry: String,
    /// What is wrong and what to do, as a clause.
    pub message: String,
}

impl fmt::Display for ClientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.entry, self.message)
    }
}

impl std::error::Error for ClientFault {}

/// A client with what it is known by.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) ids: Vec<Id>,
    /// Places in [`Directory::groups`], never empty.
    pub(super) groups: Vec<usize>,
}

/// A group with the lists in force for it.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// Places of lists; all of them if none are named.
    pub(super) lists: Option<Vec<usize>>,
}

/// Groups and clients as configured, after all checks.
#[derive(Clone, Debug)]
pub struct Directory {
    pub(super) groups: Vec<Group>,
    pub(super) clients: Vec<Client>,
    pub(super) owner: HashMap<Id, usize>,
    pub(super) default_group: usize,
    pub(super) list_count: usize,
}

impl Directory {
    /// Checks groups and clients. `lists` are the names of all lists, in the order of their numbers.
    ///
    /// # Errors
    /// A name twice or missing, an identifier of two clients, or a group or list that there is not.
    pub fn new(groups: &[GroupSpec], clients: &[ClientSpec], lists: &[String]) -> Result<Self, ClientFault> {
        let mut directory = Self {
            groups: Vec::new(),
            clients: Vec::new(),
            owner: HashMap::new(),
            default_group: 0,
            list_count: lists.len(),
        };
        if lists.len() > MAX_LISTS {
            let message = format!("more than {MAX_LISTS}; several sources may be one list");
            return Err(ClientFault { entry: "lists".to_owned(), message });
        }
        for spec in groups {
            directory.add_group(spec, lists)?;
        }
        directory.default_group = match directory.group(DEFAULT_GROUP) {
            Some(at) => at,
            None => {
                directory.groups.push(Group { name: DEFAULT_GROUP.to_owned(), lists: None });
                directory.groups.len() - 1
            }
        };
        for spec in clients {
            directory.add_client(spec)?;
        }
        for (number, spec) in groups.iter().enumerate() {
            directory.add_members(number, spec)?;
        }
        for client in &mut directory.clients {
            if client.groups.is_empty() {
                client.groups.push(directory.default_group);
            }
        }
        Ok(directory)
    }

    /// The names of all groups, `default` included.
    pub fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.name.as_str())
    }

    fn group(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.name == name)
    }

    fn add_group(&mut self, spec: &GroupSpec, lists: &[String]) -> Result<(), ClientFault> {
        let fault = |message| ClientFault { entry: format!("group `{}`", spec.name), message };
        if self.groups.len() == MAX_GROUPS {
            return Err(fault(format!("more than {MAX_GROUPS} groups")));
        }
        check_name(&spec.name).map_err(fault)?;
        if self.group(&spec.name).is_some() {
            return Err(fault("there are two groups of this name".to_owned()));
        }
        let place = |name: &String| {
            let found = lists.iter().position(|list| list == name);
            found.ok_or_else(|| fault(format!("there is no list `{name}`")))
        };
        let lists = spec.lists.as_ref().map(|names| names.iter().map(place).collect()).transpose()?;
        self.groups.push(Group { name: spec.name.clone(), lists });
        Ok(())
    }

    fn add_client(&mut self, spec: &ClientSpec) -> Result<(), ClientFault> {
        let fault = |message| ClientFault { entry: format!("client `{}`", spec.name), message };
        if self.clients.len() == MAX_CLIENTS {
            return Err(fault(format!("more than {MAX_CLIENTS} clients")));
        }
        check_name(&spec.name).map_err(fault)?;
        if self.clients.iter().any(|client| client.name == spec.name) {
            return Err(fault("there are two clients of this name".to_owned()));
        }
        let place = |name: &String| self.group(name).ok_or_else(|| fault(format!("there is no group `{name}`")));
        let groups = spec.groups.iter().map(place).collect::<Result<_, _>>()?;
        let mut ids = Vec::new();
        for text in &spec.ids {
            ids.push(text.parse::<Id>().map_err(|reason| fault(format!("`{text}` is {reason}")))?);
        }
        self.claim(Client { name: spec.name.clone(), ids, groups }).map_err(fault)
    }

    fn claim(&mut self, client: Client) -> Result<(), String> {
        for id in &client.ids {
            if let Some(other) = self.owner.insert(id.clone(), self.clients.len()).filter(|at| *at < self.clients.len())
            {
                return Err(format!("it is known by the same as client `{}`", self.clients[other].name));
            }
        }
        self.clients.push(client);
        Ok(())
    }

    /// Puts the clients that a group names into it; what is no client's name makes a client of its own.
    fn add_members(&mut self, number: usize, spec: &GroupSpec) -> Result<(), ClientFault> {
        let fault = |message| ClientFault { entry: format!("group `{}`", spec.name), message };
        for text in &spec.clients {
            let named = self.clients.iter().position(|client| client.name == *text);
            let owner = match (named, text.parse::<Id>()) {
                (Some(at), _) => Some(at),
                (None, Ok(id)) => self.owner.get(&id).copied(),
                (None, Err(reason)) => return Err(fault(format!("`{text}` is no client, and {reason}"))),
            };
            match (owner, text.parse::<Id>()) {
                (Some(at), _) if self.clients[at].groups.contains(&number) => {}
                (Some(at), _) => self.clients[at].groups.push(number),
                (None, Ok(id)) => {
                    let name = host_name(text).unwrap_or_else(|| text.clone());
                    self.claim(Client { name, ids: vec![id], groups: vec![number] }).map_err(fault)?;
                }
                (None, Err(_)) => {}
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    match name.trim() {
        "" => Err("a name is missing".to_owned()),
        _ if name.len() > 255 => Err("the name is longer than 255 octets".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
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
        let groups = [group("kids", &["tablet", "192.0.2.9", "10.0.0.0/8"], None), group("guests", &[], None)];
        let clients = [client("tablet", &["02:00:00:00:00:01"], &["guests"]), client("tv", &["192.0.2.9"], &[])];
        let directory = Directory::new(&groups, &clients, &[]).unwrap();
        let of = |name: &str| {
            let client = directory.clients.iter().find(|client| client.name == name).unwrap();
            client.groups.iter().map(|at| directory.groups[*at].name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!((of("tablet"), of("tv"), of("10.0.0.0/8")), (vec!["guests", "kids"], vec!["kids"], vec!["kids"]));
    }

    #[test]
    fn faults_name_the_entry() {
        let check = |groups: &[GroupSpec], clients: &[ClientSpec], expected: &str| {
            assert_eq!(Directory::new(groups, clients, &[]).unwrap_err().to_string(), expected);
        };
        check(&[group("a", &[], Some(&["x"]))], &[], "group `a`: there is no list `x`");
        check(&[group("a", &[], None), group("a", &[], None)], &[], "group `a`: there are two groups of this name");
        check(&[], &[client("c", &[], &["kids"])], "client `c`: there is no group `kids`");
        let twice = [client("a", &["192.0.2.1"], &[]), client("b", &["192.0.2.1"], &[])];
        check(&[], &twice, "client `b`: it is known by the same as client `a`");
    }
}
