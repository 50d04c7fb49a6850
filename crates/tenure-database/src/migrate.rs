//! Numbered migrations, forward only, under a lock, with checksums.
//!
//! A *breaking* migration is one that an older binary cannot live with. After it, the older binary
//! refuses to run; after a harmless one it merely warns.

mod plan;
pub mod postgres;
pub mod sqlite;
pub mod sqlserver;

pub use self::plan::{Applied, MigrateError, Migration, Standing};
