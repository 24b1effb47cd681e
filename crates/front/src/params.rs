//! Parameters of a query string or of a form: names and values, however often and in whatever order.
//!
//! Reading never fails: what is missing reads as empty, and of a name given twice the first value counts.

use crate::failure::{Failure, FailureKind};
use axum::extract::{Form, FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use std::convert::Infallible;

/// Parameters read per request; the rest is ignored.
const PARAMS_MAX: usize = 32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// The value of a parameter, spaces around it removed; empty where it is not given.
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.trim())
    }

    /// The value of a parameter as a number within bounds; `default` where it is none.
    pub fn number(&self, name: &str, default: usize, least: usize, most: usize) -> usize {
        self.text(name).parse().unwrap_or(default).clamp(least, most)
    }

    /// All parameters but one.
    pub fn without<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter(move |(key, _)| key != name).map(|(key, value)| (&**key, &**value))
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params, Infallible> {
        let read = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let mut params = read.map(|Query(params)| params).unwrap_or_default();
        params.truncate(PARAMS_MAX);
        Ok(Params(params))
    }
}

/// Parameters in the body of a form.
pub(crate) struct FormParams(pub Params);

impl<S: Send + Sync> FromRequest<S> for FormParams {
    type Rejection = Failure;
    async fn from_request(request: Request, state: &S) -> Result<FormParams, Failure> {
        match Form::<Vec<(String, String)>>::from_request(request, state).await {
            Ok(Form(mut params)) => {
                params.truncate(PARAMS_MAX);
                Ok(FormParams(Params(params)))
            }
            Err(rejection) => Err(Failure::new(kind_of(rejection.status()), rejection.body_text())),
        }
    }
}

/// What a body that could not be read is called here.
pub(crate) fn kind_of(status: StatusCode) -> FailureKind {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => FailureKind::TooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => FailureKind::WrongMedia,
        _ => FailureKind::Invalid,
    }
}

/// Writes a path with parameters; empty values are left out.
pub(crate) fn link<'a>(path: &str, params: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut link = path.to_string();
    let mut mark = '?';
    for (name, value) in params.into_iter().filter(|(_, value)| !value.is_empty()) {
        link.push(mark);
        mark = '&';
        push_escaped(&mut link, name);
        link.push('=');
        push_escaped(&mut link, value);
    }
    link
}

fn push_escaped(link: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => link.push(byte as char),
            b' ' => link.push('+'),
            _ => link.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    async fn read(uri: &str) -> Params {
        let request = axum::http::Request::builder().uri(uri).body(()).unwrap();
        Params::from_request_parts(&mut request.into_parts().0, &()).await.unwrap()
    }

    #[tokio::test]
    async fn reading_never_fails() {
        let params = read("/?q=+a+b%20c+&q=second&page=7&bad=%ff%zz&&=&empty").await;
        assert_eq!(params.text("q"), "a b c");
        assert_eq!(params.text("missing"), "");
        assert_eq!(params.number("page", 1, 1, 5), 5);
        assert_eq!(params.number("q", 3, 1, 5), 3);
        assert_eq!(params.without("q").next(), Some(("page", "7")));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in ".{0,40}") {
            let uri = link("/search", [("q", &*value), ("hl", "")]);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let params = runtime.block_on(read(&uri));
            prop_assert_eq!(params.text("q"), value.trim());
            prop_assert!(uri.is_ascii() && !uri.contains("hl="));
        }
    }
}
