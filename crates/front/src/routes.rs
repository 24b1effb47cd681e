//! The routing table: which path leads to which handler.
//!
//! INVARIANT: every route is in [`Routes::list`], because there is no other way to add one; the API document and
//! the metrics are checked against that list.

use crate::shared::Shared;
use crate::{admin, api, assets, failure, metrics, pages};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;

/// Largest body of a form or of a JSON request. The largest thing to send is one URL.
const BODY_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub method: &'static str,
    pub path: &'static str,
}

/// The router, and the list of what was added to it.
pub(crate) struct Routes {
    pub router: Router<Arc<Shared>>,
    pub list: Vec<Route>,
}

impl Routes {
    fn add(mut self, method: &'static str, path: &'static str, to: MethodRouter<Arc<Shared>>) -> Routes {
        self.router = self.router.route(path, to);
        self.list.push(Route { method, path });
        self
    }

    fn get<T: 'static>(self, path: &'static str, handler: impl Handler<T, Arc<Shared>>) -> Routes {
        self.add("get", path, get(handler))
    }

    fn post<T: 'static>(self, path: &'static str, handler: impl Handler<T, Arc<Shared>>) -> Routes {
        self.add("post", path, post(handler))
    }
}

/// All routes.
pub(crate) fn build() -> Routes {
    let routes = Routes { router: Router::new(), list: Vec::new() }
        // For everybody.
        .get("/", pages::home::show)
        .get("/search", pages::search::show)
        .post("/clicked", pages::search::clicked)
        .get("/copy", pages::copy::show)
        .get("/copy/raw", pages::copy::raw)
        .get("/about", pages::about::show)
        .get("/suggest", api::search::opensearch_suggestions)
        .get("/opensearch.xml", assets::opensearch)
        .get("/robots.txt", assets::robots)
        .get("/favicon.svg", assets::favicon)
        .get("/favicon.ico", assets::favicon)
        .get("/assets/style.css", assets::style)
        .get("/assets/suggest.js", assets::suggest_script)
        .get("/assets/admin.js", assets::admin_script)
        .get("/healthz", metrics::health)
        // For programs.
        .get("/api/v1/openapi.json", api::openapi)
        .get("/api/v1/search", api::search::search)
        .get("/api/v1/suggest", api::search::suggest)
        // For the operator and the operator's programs; each handler takes an `Admin`.
        .get("/api/v1/status", api::status::status)
        .get("/api/v1/history", api::status::history)
        .get("/api/v1/hosts", api::hosts::hosts)
        .get("/api/v1/host", api::hosts::host)
        .get("/api/v1/page", api::page::page)
        .get("/api/v1/broken", api::broken::broken)
        .get("/api/v1/removed-pages", api::page::removed)
        .get("/api/v1/cluster", api::cluster::cluster)
        .get("/api/v1/ring", api::ring::ring)
        .get("/api/v1/federation", api::federation::federation)
        .post("/api/v1/admin/federation", api::federation::order)
        .post("/api/v1/admin/pause", api::commands::pause)
        .post("/api/v1/admin/resume", api::commands::resume)
        .post("/api/v1/admin/seeds", api::commands::add_seed)
        .post("/api/v1/admin/remove-host", api::commands::remove_host)
        .post("/api/v1/admin/refetch", api::commands::refetch)
        .post("/api/v1/admin/remove-pages", api::commands::remove_pages)
        .post("/api/v1/admin/restore-pages", api::commands::restore_pages)
        .post("/api/v1/admin/drain-node", api::cluster::drain)
        .post("/api/v1/admin/replan", api::plan::replan)
        .get("/metrics", metrics::show)
        .get("/admin", admin::dashboard::show)
        .get("/admin/live", admin::dashboard::live)
        .get("/admin/hosts", admin::hosts::list)
        .get("/admin/host", admin::host::show)
        .get("/admin/page", admin::page_detail::show)
        .get("/admin/broken", admin::broken::list)
        .get("/admin/cluster", admin::cluster::show)
        .get("/admin/ring", admin::ring::show)
        .get("/admin/cluster/drain", admin::cluster::confirm_drain)
        .post("/admin/cluster/drain", admin::cluster::drain)
        .post("/admin/cluster/replan", admin::plan::replan)
        .get("/admin/federation", admin::federation::show)
        .get("/admin/federation/agreement", admin::federation::show_agreement)
        .get("/admin/federation/accept", admin::federation::confirm_accept)
        .post("/admin/federation/accept", admin::federation::accept)
        .get("/admin/federation/refuse", admin::federation::confirm_refuse)
        .post("/admin/federation/refuse", admin::federation::refuse)
        .get("/admin/federation/end", admin::federation::confirm_end)
        .post("/admin/federation/end", admin::federation::end)
        .post("/admin/page/refetch", admin::commands::refetch)
        .post("/admin/page/remove", admin::commands::remove_pages)
        .post("/admin/page/restore", admin::commands::restore_pages)
        .get("/admin/login", admin::login::show)
        .post("/admin/login", admin::login::enter)
        .get("/admin/enter", admin::login::enter_by_link)
        .post("/admin/logout", admin::login::leave)
        .post("/admin/pause", admin::commands::pause)
        .post("/admin/resume", admin::commands::resume)
        .post("/admin/seed", admin::commands::add_seed)
        .get("/admin/remove", admin::commands::confirm_removal)
        .post("/admin/remove", admin::commands::remove_host);
    let router = routes
        .router
        .fallback(|| async { failure::Failure::not_found("") })
        .method_not_allowed_fallback(|| async {
            failure::Failure::new(failure::FailureKind::WrongMethod, "")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    Routes { router, list: routes.list }
}
