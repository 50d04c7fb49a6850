//! What an installation leaves.

use std::{fs, path::Path};

use tenure_outbox::{
    doctor::{self, Finding},
    install,
};
use uuid::Uuid;

use crate::scene::{Scene, on_every_version};

on_every_version![
    a_fresh_installation_is_as_described,
    leases_are_unset_by_default,
    keys_are_uuids_of_version_seven,
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

async fn leases_are_unset_by_default(scene: &Scene) {
    let insert = "INSERT INTO payment_outbox_pending (instruction_id, participant_id, sequence_id,
            idempotency_key, rail_type, payload)
        VALUES ('i', 'p', 1, 'k', 'wire', '{}')
        RETURNING concat_ws(' ', claimed_by, claimed_at, lease_token, lease_expires_at, attempt_count)";
    assert_eq!(scene.text(insert).await, "0");
    let volatile = "SELECT count(*)::text FROM pg_index
        WHERE indrelid = 'payment_outbox_pending'::regclass AND pg_get_expr(indpred, indrelid) ~ 'now'";
    assert_eq!(scene.text(volatile).await, "0");
}

async fn keys_are_uuids_of_version_seven(scene: &Scene) {
    let server: u32 = scene.text("SHOW server_version_num").await.parse().unwrap();
    let strategy = if server >= 180_000 { "uuidv7_native" } else { "uuidv7_sql" };
    assert_eq!(scene.text("SELECT uuid_strategy()").await, strategy);

    let here = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text";
    for call in ["uuidv7()", "public.uuidv7()", "uuid_v7_or_random()"] {
        let before: u64 = scene.text(here).await.parse().unwrap();
        let query = format!("SELECT {call} FROM generate_series(1, 1000)");
        let rows = scene.admin.query(&query, &[]).await.unwrap();
        let after: u64 = scene.text(here).await.parse().unwrap();
        let mut ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        for id in &ids {
            assert_eq!(
                (id.get_version_num(), id.get_variant()),
                (7, uuid::Variant::RFC4122),
                "{call}"
            );
            let made = u64::try_from(id.as_u128() >> 80).unwrap();
            assert!((before - 1..=after + 1).contains(&made), "{call}: {before} {made} {after}");
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 1000, "{call}");
    }
    let enqueued = crate::calls::enqueue(&scene.admin, "p", "k").await;
    assert_eq!(enqueued.outbox_id.get_version_num(), 7);
}
