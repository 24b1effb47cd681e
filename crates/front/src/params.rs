//! Parameters of a query string or of a form: names and values, however often and in whatever order.
//!
//! What is missing reads as empty, and of a name given twice the first value counts. A number that is none, or out of
//! its range, is refused: a program that asks for 500 results must not take 100 for all there are.

use crate::failure::{Failure, FailureKind};
use axum::extract::{Form, FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::ops::RangeInclusive;

/// Parameters read per request; the rest is ignored.
const PARAMS_MAX: usize = 32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// The value of a parameter, spaces around it removed; empty where it is not given.
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.trim())
    }

    /// The value of a parameter as a whole number; `default` where it is not given.
    ///
    /// # Errors
    /// Where it is no whole number of this range. A range up to [`usize::MAX`] has no upper end.
    pub fn number(&self, name: &str, default: usize, range: RangeInclusive<usize>) -> Result<usize, Failure> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(default);
        }
        let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
        // Digits that do not fit are a number all the same, and a large one.
        let number = is_whole.then(|| text.parse().unwrap_or(usize::MAX));
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let ends = match range.end() {
                &usize::MAX => format!("{} or more", range.start()),
                end => format!("{} to {end}", range.start()),
            };
            Failure::invalid(format!("{name}: {text:?} is not a whole number, {ends}"))
        })
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
    async fn reading_texts_never_fails() {
        let params = read("/?q=+a+b%20c+&q=second&page=7&bad=%ff%zz&&=&empty").await;
        assert_eq!(params.text("q"), "a b c");
        assert_eq!(params.text("missing"), "");
        assert_eq!(params.without("q").next(), Some(("page", "7")));
    }

    #[tokio::test]
    async fn numbers_out_of_their_range_are_refused() {
        let check = async |value: &str, range: RangeInclusive<usize>, want: Result<usize, &str>| {
            let got = read(&format!("/?n={value}")).await.number("n", 3, range);
            assert_eq!(got.map_err(|failure| failure.detail), want.map_err(String::from));
        };
        check("", 1..=5, Ok(3)).await;
        check("5", 1..=5, Ok(5)).await;
        check("6", 1..=5, Err("n: \"6\" is not a whole number, 1 to 5")).await;
        check("0", 1..=usize::MAX, Err("n: \"0\" is not a whole number, 1 or more")).await;
        check(
            "99999999999999999999999",
            1..=5,
            Err("n: \"99999999999999999999999\" is not a whole number, 1 to 5"),
        )
        .await;
        check("99999999999999999999999", 1..=usize::MAX, Ok(usize::MAX)).await;
        for odd in ["-1", "1.5", "ten", "0x10", "%2B1"] {
            assert!(read(&format!("/?n={odd}")).await.number("n", 3, 0..=100).is_err(), "{odd}");
        }
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
