//! Parses the paths of requests.

use crate::kinds::Kind;

/// The object or list that a path addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub kind: Kind,
    /// `None` for all namespaces, or for a kind without namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// Empty for the object itself.
    pub subresource: String,
}

impl Route {
    pub fn parse(path: &str) -> Option<Route> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let route = |plural: &str, namespace: Option<&str>, rest: &[&str]| {
            let kind = Kind::served(group, version, plural)?;
            if namespace.is_some() && !kind.info().namespaced {
                return None;
            }
            let (name, subresource) = match rest {
                [] => (None, ""),
                [name] => (Some(*name), ""),
                [name, subresource] => (Some(*name), *subresource),
                _ => return None,
            };
            Some(Route {
                kind,
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                subresource: subresource.to_owned(),
            })
        };
        match rest {
            ["namespaces", namespace, plural, rest @ ..]
                if Kind::served(group, version, plural).is_some() =>
            {
                route(plural, Some(namespace), rest)
            }
            [plural, rest @ ..] => route(plural, None, rest),
            [] => None,
        }
    }
}

impl Route {
    /// Whether the path belongs to a served group, even if it addresses nothing.
    pub fn is_known(path: &str) -> bool {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api", ..] => true,
            ["apis", group, ..] => Kind::all().any(|kind| kind.info().group == *group),
            _ => false,
        }
    }
}

/// The decoded parameters of a query.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: &str) -> Query {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decode = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(name), unescape(value))
        };
        Query(pairs.map(decode).collect())
    }

    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(is, _)| is == name).map_or("", |(_, value)| value)
    }

    pub fn is_set(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16));
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => b'?',
            },
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let route = |path| {
            Route::parse(path).map(|route| {
                let Route { kind, namespace, name, subresource } = route;
                (kind, namespace.unwrap_or_default(), name.unwrap_or_default(), subresource)
            })
        };
        let is = |kind, namespace: &str, name: &str, subresource: &str| {
            Some((kind, namespace.to_owned(), name.to_owned(), subresource.to_owned()))
        };
        assert_eq!(route("/api/v1/pods"), is(Kind::Pod, "", "", ""));
        assert_eq!(route("/api/v1/namespaces/a"), is(Kind::Namespace, "", "a", ""));
        assert_eq!(route("/api/v1/namespaces/a/status"), is(Kind::Namespace, "", "a", "status"));
        assert_eq!(route("/api/v1/namespaces/a/pods/b/binding"), is(Kind::Pod, "a", "b", "binding"));
        assert_eq!(route("/apis/apps/v1/namespaces/a/deployments"), is(Kind::Deployment, "a", "", ""));
        assert_eq!(route("/apis/apps/v1/nodes"), None);
        assert_eq!(route("/healthz"), None);
    }

    #[test]
    fn queries() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=true&x=1+2");
        assert_eq!(
            (query.get("labelSelector"), query.is_set("watch"), query.get("x")),
            ("a=b,c", true, "1 2")
        );
    }
}
