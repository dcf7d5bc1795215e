//! The names that expressions may use: what there is in the configuration.

/// Names from the configuration that expressions refer to.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Lists, in the order of their numbers.
    pub lists: Vec<String>,
    /// Groups of clients.
    pub groups: Vec<String>,
    /// Listeners.
    pub listeners: Vec<String>,
    /// The time zone of rules that name none.
    pub time_zone: String,
    /// Whether there is a database that gives the countries of addresses.
    pub has_countries: bool,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self {
            lists: Vec::new(),
            groups: vec![crate::client::DEFAULT_GROUP.to_owned()],
            listeners: Vec::new(),
            time_zone: "UTC".to_owned(),
            has_countries: false,
        }
    }
}
