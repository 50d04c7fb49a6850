//! Every law of a lock, on etcd.
#![cfg(feature = "etcd")]

use tenure_testkit::{conformance::EtcdBackend, lock_conformance};

lock_conformance!(EtcdBackend::start());
