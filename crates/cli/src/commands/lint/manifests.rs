//! The objects that are linted together, and the source texts that define them.

use super::field::Field;
use crate::commands::simulate::documents::{self, Placed};
use crate::commands::simulate::source_spans::{PathSegment, SourceSpans};
use crate::commands::simulate::sources::Text;
use anyhow::Result;
use rollcall_sim::kinds::Kind;
use serde_json::Value;

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

pub struct Manifests<'a> {
    pub sources: Vec<ManifestSource<'a>>,
    pub objects: Vec<Object>,
    /// Whether the objects come from a cluster, whose API server has filled in defaults.
    pub live: bool,
}

pub struct ManifestSource<'a> {
    pub name: &'a str,
    pub spans: SourceSpans<'a>,
}

#[derive(Debug)]
pub struct Object {
    pub value: Value,
    /// `None` for kinds that no rule checks.
    pub kind: Option<Kind>,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    pub name: String,
    /// Index of the source and the path in it; `None` for live objects.
    pub origin: Option<(usize, Vec<PathSegment>)>,
}

impl Object {
    pub fn new(value: Value, origin: Option<(usize, Vec<PathSegment>)>) -> Object {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = Kind::named(&text(&value["apiVersion"]), &text(&value["kind"]));
        let mut namespace = text(&value["metadata"]["namespace"]);
        if kind.is_some_and(|kind| !kind.info().namespaced) {
            namespace.clear();
        } else if namespace.is_empty() {
            namespace = DEFAULT_NAMESPACE.to_owned();
        }
        let name = match text(&value["metadata"]["name"]) {
            name if name.is_empty() => text(&value["metadata"]["generateName"]),
            name => name,
        };
        Object { kind, namespace, name, value, origin }
    }

    pub fn root(&self) -> Field<'_> {
        Field::root(self)
    }

    pub fn field(&self, path: &str) -> Field<'_> {
        self.root().down(path)
    }

    /// The field that findings about the whole object point at.
    pub fn title(&self) -> Field<'_> {
        self.field("metadata.name")
    }

    pub fn spec(&self) -> Field<'_> {
        self.field("spec")
    }

    /// Kind and name without the namespace, such as `StatefulSet/db`.
    pub fn full_name(&self) -> String {
        let kind = self.value["kind"].as_str().unwrap_or_default();
        format!("{kind}/{}", self.name)
    }
}

impl<'a> Manifests<'a> {
    /// Parses the objects of all texts. Returns an error with the position for the first text that is invalid.
    pub fn read(texts: &'a [Text]) -> Result<Manifests<'a>> {
        let (mut sources, mut objects) = (Vec::new(), Vec::new());
        for (number, Text { name, text }) in texts.iter().enumerate() {
            let spans = SourceSpans::new(text);
            for Placed { value, path, place: _ } in documents::placed(name, &spans, "lint")? {
                objects.push(Object::new(value, Some((number, path))));
            }
            sources.push(ManifestSource { name, spans });
        }
        Ok(Manifests { sources, objects, live: false })
    }

    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.kind == Some(kind))
    }

    pub fn named(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.of_kind(kind).find(|object| object.namespace == namespace && object.name == name)
    }

    pub fn in_namespace<'m>(&'m self, kind: Kind, namespace: &'m str) -> impl Iterator<Item = &'m Object> {
        self.of_kind(kind).filter(move |object| object.namespace == namespace)
    }
}
