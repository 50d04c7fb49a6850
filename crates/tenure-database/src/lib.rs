//! Connections by URL, TLS, deadlines, pools and migrations. Nothing of the domain.

pub mod clock;

pub use clock::BootInstant;
