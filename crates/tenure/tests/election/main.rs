//! Elections inside one process: what work, gate, stream, metrics and logs see of a term.

mod lifecycle;
mod observed;
mod scene;
mod service;
