//! The API described, for programs.

use axum::Json;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{Http, HttpAuthScheme, SecurityScheme},
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tenure controller",
        description = "Jobs that agents lease and report on: changed on the leader, read on every node."
    ),
    paths(
        super::jobs::submit,
        super::jobs::list,
        super::jobs::show,
        super::leases::lease,
        super::leases::expire,
        super::results::report,
        super::agents::hear,
        super::agents::list,
        super::agents::bury,
        super::events::follow,
    ),
    components(schemas(super::described::StateName)),
    modifiers(&Bearer),
    security(("bearer" = []), ())
)]
struct Description;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        openapi.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

pub(super) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}
