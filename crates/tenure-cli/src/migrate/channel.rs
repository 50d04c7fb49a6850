//! The channel on which Postgres tells of a new leader under an advisory lock.

use anyhow::{Result, ensure};

/// Postgres refuses a longer channel, and it would do so at every change of leader.
const MAX_BYTES: usize = 63;

/// A channel's name that Postgres can use.
#[derive(Debug)]
pub struct Channel(String);

impl Channel {
    /// Any name that is not too long.
    pub fn named(name: &str) -> Result<Self> {
        ensure!(
            name.len() <= MAX_BYTES,
            "the channel {name:?} has {} bytes, and Postgres takes {MAX_BYTES} at most",
            name.len()
        );
        Ok(Self(name.to_owned()))
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Fills the channel into a template, where no parameter is possible.
    pub fn statement(&self, template: &str) -> String {
        template.replace("{channel}", &self.literal())
    }

    /// Means the same whatever `standard_conforming_strings` is.
    fn literal(&self) -> String {
        format!("E'{}'", self.0.replace('\\', r"\\").replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_cannot_leave_its_quotes() {
        let channel = Channel::named(r"it's\'); DROP").unwrap();
        assert_eq!(channel.statement("f({channel})"), r"f(E'it''s\\''); DROP')");
    }

    #[test]
    fn a_channel_that_postgres_would_refuse_later_is_refused_now() {
        assert!(Channel::named(&"c".repeat(63)).is_ok());
        let refused = Channel::named(&"c".repeat(64)).unwrap_err().to_string();
        assert!(refused.contains("64 bytes"), "{refused}");
    }
}
