//! Postgres: a URL, sessions over TLS, and the way a call uses one.

mod line;
mod listener;
mod moment;
mod pool;
mod pooler;
mod session;
mod socket;
mod tls;
mod url;

pub use self::{
    line::Line,
    listener::{Heard, listen},
    moment::Moment,
    pool::{Pool, Pooled},
    pooler::is_transaction_pooler,
    session::Session,
    url::PostgresUrl,
};
