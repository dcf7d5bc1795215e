//! The names from the configuration that expressions may use.

/// Names from the configuration that expressions may refer to.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// The names of the lists, in the order of their indices.
    pub lists: Vec<String>,
    /// The names of the groups of clients.
    pub groups: Vec<String>,
    /// The names of the listeners.
    pub listeners: Vec<String>,
    /// The default time zone of rules.
    pub time_zone: String,
    /// Whether a database of countries is configured.
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
