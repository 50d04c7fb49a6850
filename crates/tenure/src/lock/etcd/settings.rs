//! Where etcd is, and who we are to it.

use std::fmt;

/// What is particular to this lock.
#[derive(Clone)]
pub struct EtcdSettings {
    /// The members, as `host:port`, `http://host:port` or `https://host:port`. One is used at a time,
    /// and the next one after a call that failed.
    pub endpoints: Vec<String>,
    /// What all keys begin with.
    pub prefix: String,
    /// The name and the password, where etcd asks for them.
    pub user: Option<(String, String)>,
}

impl EtcdSettings {
    /// The defaults for a place.
    #[must_use]
    pub fn at(endpoints: Vec<String>) -> Self {
        Self { endpoints, prefix: "/tenure/".to_owned(), user: None }
    }
}

/// Without the user, so that no password reaches a log.
impl fmt::Debug for EtcdSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdSettings")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_print_without_the_password() {
        let user = Some(("root".to_owned(), "secret".to_owned()));
        let settings = EtcdSettings { user, ..EtcdSettings::at(vec!["localhost:2379".to_owned()]) };
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
