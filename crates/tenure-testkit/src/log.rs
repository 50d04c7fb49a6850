//! What this process logs, kept to be looked at.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

/// Every event from the first [`Log::kept`] on, whichever thread and whichever test it came from.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Begins to keep what is logged; a second call finds what the first has begun.
    pub fn kept() -> Self {
        static KEPT: OnceLock<Log> = OnceLock::new();
        let begin = || {
            let log = Self::default();
            let keeping = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
            keeping.with_writer(log.clone()).init();
            log
        };
        KEPT.get_or_init(begin).clone()
    }

    /// All of it, as it was written.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).expect("a log is text")
    }

    /// The fields of every event of this name, in order.
    pub fn events(&self, name: &str) -> Vec<Value> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("an event is one line of JSON"))
            .map(|mut event| event["fields"].take())
            .filter(|fields| fields["message"] == name)
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}
