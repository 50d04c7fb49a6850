//! Postgres: a URL, sessions over TLS, and the way a call uses one.

mod hosts;
mod listener;
mod moment;
mod pooler;
mod server;
mod session;
mod socket;
mod tls;
mod url;

pub use self::{
    listener::{Heard, listen},
    moment::Moment,
    pooler::is_transaction_pooler,
    server::{Line, Pool, Pooled, Settled},
    session::Session,
    url::PostgresUrl,
};
