//! Requests, and the meaning of their answers. Nothing here retries; the controller loop does.

use http::Request;
use kube::Client;
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// Time limit for an answer. After it, the outcome of the request is unknown.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// The API server's answer to a JSON patch with a failed `test`. Every other 422 names an invalid field, and the same request
/// would fail again. (A wrong uid results in a 409.)
const PATCH_DOES_NOT_FIT: &str = "the server rejected our request due to an error in our request";

pub const JSON: &str = "application/json";

/// A request that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The HTTP status, if the API server answered at all.
    pub code: Option<u16>,
    pub message: String,
}

/// The meaning of a failure for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The object has changed since the decision: read it again.
    Moved,
    /// Not done: the server rejected the request, or was overloaded.
    Refused,
    /// The outcome is unknown.
    Unknown,
}

impl Failure {
    pub fn timeout(limit: Duration) -> Failure {
        Failure { code: None, message: format!("no answer within {limit:?}") }
    }

    /// Whether a watch or a continue token is too old.
    pub fn is_gone(&self) -> bool {
        self.code == Some(410)
    }

    pub fn meaning(&self) -> Meaning {
        match self.code {
            Some(404 | 409 | 410) => Meaning::Moved,
            Some(422) if self.message.starts_with(PATCH_DOES_NOT_FIT) => Meaning::Moved,
            Some(400..=499) => Meaning::Refused,
            Some(_) | None => Meaning::Unknown,
        }
    }

    /// Whether a retry fails until the cause is removed: the request is forbidden or invalid.
    pub fn is_final(&self) -> bool {
        matches!(self.code, Some(400 | 401 | 403 | 405 | 413 | 422)) && self.meaning() == Meaning::Refused
    }

    pub fn is_forbidden(&self) -> bool {
        matches!(self.code, Some(401 | 403))
    }

    /// The value of the metric label `kind`.
    pub fn kind(&self) -> &'static str {
        match self.code {
            None => "connection",
            Some(401 | 403) => "forbidden",
            Some(404) => "not_found",
            Some(409) => "conflict",
            Some(422) if self.meaning() == Meaning::Moved => "conflict",
            Some(410) => "gone",
            Some(429) => "throttled",
            Some(400..=499) => "rejected",
            Some(_) => "server",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl From<kube::core::Status> for Failure {
    fn from(status: kube::core::Status) -> Failure {
        Failure { code: Some(status.code), message: status.message }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => Failure::from(*status),
            other => Failure { code: None, message: chain(&other) },
        }
    }
}

/// Joins an error with its causes: "error trying to connect" alone does not explain anything.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Appends a query to `path`.
pub fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    (byte as char).to_string()
                }
                _ => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
    format!("{path}?{}", pairs.join("&"))
}

pub fn request(method: &str, path: &str, content: Option<&str>, body: Vec<u8>) -> Request<Vec<u8>> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(content) = content {
        request = request.header("content-type", content);
    }
    request.body(body).expect("paths are made of names that the API server accepted")
}

pub async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Failure> {
    send(client, request("GET", path, None, Vec::new())).await
}

/// Sends one request and returns its answer.
pub async fn send<T: DeserializeOwned>(client: &Client, request: Request<Vec<u8>>) -> Result<T, Failure> {
    match tokio::time::timeout(TIMEOUT, client.request::<T>(request)).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::timeout(TIMEOUT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_means() {
        let too_long =
            "Node \"n\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes";
        let by_policy =
            "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no";
        for (code, message, meaning, kind, is_final) in [
            (404, "", Meaning::Moved, "not_found", false),
            (409, "", Meaning::Moved, "conflict", false),
            (422, PATCH_DOES_NOT_FIT, Meaning::Moved, "conflict", false),
            (422, too_long, Meaning::Refused, "rejected", true),
            (422, by_policy, Meaning::Refused, "rejected", true),
            (403, by_policy, Meaning::Refused, "forbidden", true),
            (429, "", Meaning::Refused, "throttled", false),
            (500, "", Meaning::Unknown, "server", false),
        ] {
            let failure = Failure { code: Some(code), message: message.into() };
            let found = (failure.meaning(), failure.kind(), failure.is_final());
            assert_eq!(found, (meaning, kind, is_final), "{failure}");
        }
    }
}
