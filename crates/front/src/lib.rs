//! What people see: search page, JSON API, OpenSearch, admin.
