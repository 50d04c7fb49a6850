//! What an installation leaves, and what the doctor says of it.

use std::{fs, path::Path};

use tenure_outbox::{
    doctor::{self, Finding},
    install,
};

use crate::scene::{Scene, on_every_version};

on_every_version![
    a_fresh_installation_is_as_described,
];

/// With `TENURE_UPDATE_EXPECTED=1` the description is written anew.
async fn a_fresh_installation_is_as_described(scene: &Scene) {
    if std::env::var_os("TENURE_UPDATE_EXPECTED").is_some() {
        let facts = doctor::describe(&scene.admin).await.unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/postgres/expected.txt");
        fs::write(path, facts.join("\n") + "\n").unwrap();
        return;
    }
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
    install::install(&scene.admin).await.unwrap();
    assert_eq!(doctor::examine(&scene.admin).await.unwrap(), Vec::<Finding>::new());
}
