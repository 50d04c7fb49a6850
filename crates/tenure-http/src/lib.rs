//! What every server of Tenure shares.
//!
//! | call | answer |
//! | --- | --- |
//! | `GET /healthz` | 200 `ok`: the process runs |
//! | `GET /readyz` | 200 `mode=<leader\|follower> holder_id=<id>` |
//! | `GET /role` | who this node is, what it is, and who leads |
//! | `GET /leader` | 200 while this node's gate is open, 503 otherwise: for load balancers |
//! | `GET /metrics` | Prometheus |
//! | `GET /` | a page for people |
//! | `POST /drain`, `DELETE /drain` | hand over and stay out; contend again |
//!
//! [`routes`] are those of an election, [`plain_routes`] what remains without one, [`Server`] serves them and a component's own, [`Address`] has the
//! rule of loopback, and [`Token`] the secret that a caller must bring.

mod address;
mod guard;
mod key;
mod metrics;
mod node;
mod server;
mod status;
mod token;

pub use self::{
    address::{Address, AddressError},
    guard::{Guard, Refusal, keep_out},
    key::key_for_header,
    metrics::plain_routes,
    node::{Health, KnownLeader, Node, RoleView, Stand, routes},
    server::{Limits, Server},
    token::{Token, TokenError, read_secret},
};
