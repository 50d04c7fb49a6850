//! What Tenure's own tests share: conformance suites, real servers, and a proxy that misbehaves on demand.

#[allow(clippy::unwrap_used, reason = "a law is a test, and its panic the verdict")]
pub mod conformance;
pub mod etcd;
pub mod eventually;
pub mod fighter;
pub mod fuzz;
pub mod haproxy;
pub mod lateness;
pub mod log;
pub mod node;
pub mod patroni;
mod pause;
pub mod pgbouncer;
pub mod postgres;
pub mod proxy;
mod server;
pub mod sqlserver;
pub mod statements;
pub mod wire;

pub use eventually::{eventually, eventually_true, millis, secs};
pub use pause::pause;
pub use server::{Port, find_program};
