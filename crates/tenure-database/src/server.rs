//! A server that sessions are opened to.

use std::{fmt, future::Future};

use crate::{DatabaseError, Deadline};

/// Opens sessions to one place, always in the same way.
pub trait Server: Clone + fmt::Debug + Send + Sync + 'static {
    /// What a call runs on.
    type Session: fmt::Debug + Send;

    /// A new session.
    fn connect(
        &self,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Self::Session, DatabaseError>> + Send;

    /// Whether the other side has ended it while nobody used it.
    fn is_closed(session: &Self::Session) -> bool;
}
