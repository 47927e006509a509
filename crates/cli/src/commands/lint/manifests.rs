//! Everything that is linted together: the objects, and the texts that they are from.

use super::field::Field;
use crate::commands::simulate::documents::{self, Placed};
use crate::commands::simulate::source_spans::{PathSegment, SourceSpans};
use crate::commands::simulate::sources::Text;
use anyhow::Result;
use rollcall_sim::kinds::Kind;
use serde_json::Value;

/// Where objects are that name no namespace.
const DEFAULT_NAMESPACE: &str = "default";

pub struct Manifests<'a> {
    pub sources: Vec<Source<'a>>,
    pub objects: Vec<Object>,
    /// From a cluster, whose API server has filled in what was left out.
    pub live: bool,
}

pub struct Source<'a> {
    pub name: &'a str,
    pub spans: SourceSpans<'a>,
}

#[derive(Debug)]
pub struct Object {
    pub value: Value,
    /// `None` for kinds that no rule is about.
    pub kind: Option<Kind>,
    /// Empty for kinds that are in none.
    pub namespace: String,
    pub name: String,
    /// Which source, and where in it; `None` for one from a cluster.
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

    /// Where something is said about the object as a whole.
    pub fn title(&self) -> Field<'_> {
        self.field("metadata.name")
    }

    pub fn spec(&self) -> Field<'_> {
        self.field("spec")
    }

    /// `StatefulSet/db`, in whichever namespace.
    pub fn full_name(&self) -> String {
        let kind = self.value["kind"].as_str().unwrap_or_default();
        format!("{kind}/{}", self.name)
    }
}

impl<'a> Manifests<'a> {
    /// The objects of all texts. The first text that cannot be read is an error that shows the place.
    pub fn read(texts: &'a [Text]) -> Result<Manifests<'a>> {
        let (mut sources, mut objects) = (Vec::new(), Vec::new());
        for (number, Text { name, text }) in texts.iter().enumerate() {
            let spans = SourceSpans::of(text);
            for Placed { value, path, place: _ } in documents::placed(name, &spans, "lint")? {
                objects.push(Object::new(value, Some((number, path))));
            }
            sources.push(Source { name, spans });
        }
        Ok(Manifests { sources, objects, live: false })
    }

    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.kind == Some(kind))
    }

    pub fn named(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.of(kind).find(|object| object.namespace == namespace && object.name == name)
    }

    pub fn in_namespace<'m>(&'m self, kind: Kind, namespace: &'m str) -> impl Iterator<Item = &'m Object> {
        self.of(kind).filter(move |object| object.namespace == namespace)
    }
}
