//! Answers an `AdmissionReview`.

use crate::json::{
    AText, AnObject, At, Found, Malformed, Object, Source, Text, object, pass, required, text,
};
use crate::launch;
use crate::node::Node;
use crate::pod::AdmittedPod;
use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_api::names::OWN_NAMESPACE;
use rollcall_api::patch::json::Operations;
use rollcall_core::roster::Roster;
use serde::de::MapAccess;
use serde_json::{Map, Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Namespaces whose pods are never changed, even with the label: the controller must not wait for itself, and the
/// cluster must not wait for Rollcall. The webhook configuration already excludes them.
const UNTOUCHED: [&str; 4] = [OWN_NAMESPACE, "kube-system", "kube-public", "kube-node-lease"];

/// Namespaces whose containers are never ordered. Launch order does not depend on a label of the namespace.
const NEVER_ORDERED: [&str; 2] = [OWN_NAMESPACE, "kube-system"];

/// Limits of warnings, which clients print; the API server cuts off longer ones and drops further ones.
const WARNING_LIMIT: usize = 200;
const MOST_WARNINGS: usize = 10;
/// Limit of the reason for a denial. It also appears in a condition or an event of the pod's owner, which holds 1,024
/// bytes.
const DENIAL_LIMIT: usize = 600;

/// The kind of a request. Each kind has a path of its own, and a webhook configuration that selects what is sent there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Gates and tolerations from sequences, and the label of new nodes. Every request is allowed, because a pod that
    /// starts too early is better than one that cannot be created. An object that cannot be read is admitted unchanged,
    /// with a warning.
    Sequences,
    /// Launch order. Only pods that ask for an order are sent; a pod whose order is invalid is denied.
    Launch,
}

/// The decision of a feature about a new object.
#[derive(Default)]
pub struct Verdict {
    pub patch: Operations,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// The reason, if the object is denied.
    pub denied: Option<String>,
}

/// Answers a request about a pod or a node. Fails if the text is not valid JSON.
pub fn review_text(asked: Asked, review: &[u8], roster: &Roster) -> serde_json::Result<Value> {
    answer(asked, review, roster)
}

/// Like [`review_text`], for an already parsed review.
pub fn review(asked: Asked, review: &Value, roster: &Roster) -> Value {
    answer(asked, review, roster).expect("a value can be read as one")
}

/// Reads the review twice: first its namespace and resource, which determine the sequences that may select the pod;
/// then the object, with only the fields that those sequences need.
fn answer<S: Source + ?Sized>(asked: Asked, review: &S, roster: &Roster) -> serde_json::Result<Value> {
    let head = review.read(At("the review", AnObject(Head::default())))?;
    let uid = match &head {
        Some(Ok(Head { request: Some(Ok(Request { uid: Some(Ok(uid)), .. })), .. })) => uid.clone(),
        _ => Text::default(),
    };
    let verdict = match required(head, "the review").and_then(|head| About::from_head(head, asked)) {
        Ok(about) => about.judge(review, roster, &uid)?,
        Err(malformed) => Err(malformed),
    };
    let verdict = verdict.unwrap_or_else(|malformed| match asked {
        Asked::Sequences => {
            let warning = format!("rollcall did not change this object: {malformed}");
            Verdict { warnings: vec![warning], ..Verdict::default() }
        }
        Asked::Launch => Verdict { denied: Some(malformed.to_string()), ..Verdict::default() },
    });
    Ok(json!({ "apiVersion": API_VERSION, "kind": KIND, "response": verdict.response(&uid) }))
}

impl Verdict {
    fn response(self, uid: &str) -> Map<String, Value> {
        let mut response = Map::new();
        response.insert("uid".into(), uid.into());
        response.insert("allowed".into(), self.denied.is_none().into());
        if let Some(why) = self.denied {
            let message: String = format!("rollcall: {why}").chars().take(DENIAL_LIMIT).collect();
            let status = json!({ "status": "Failure", "message": message, "reason": "Invalid", "code": 422 });
            response.insert("status".into(), status);
        } else if !self.patch.is_empty() {
            response.insert("patchType".into(), "JSONPatch".into());
            response.insert("patch".into(), STANDARD.encode(Value::from(self.patch).to_string()).into());
        }
        if !self.warnings.is_empty() {
            let short = |warning: String| warning.chars().take(WARNING_LIMIT).collect::<String>();
            let warnings = self.warnings.into_iter().take(MOST_WARNINGS).map(short);
            response.insert("warnings".into(), warnings.collect());
        }
        response
    }
}

/// The subject of a review.
enum About {
    APod { namespace: String },
    AnOrderedPod,
    ANode,
    NothingOfOurs,
}

impl About {
    fn from_head(head: Head<'_>, asked: Asked) -> Result<About, Malformed> {
        if text(&head.api_version)? != API_VERSION || text(&head.kind)? != KIND {
            let expected = "an AdmissionReview of admission.k8s.io/v1";
            return Err(Malformed { field: "the review", expected });
        }
        let request = required(head.request, "the review.request")?;
        let is_new = text(&request.operation)? == "CREATE" && text(&request.sub_resource)?.is_empty();
        let resource = required(request.resource, "request.resource")?;
        let resource = (text(&resource.group)?, text(&resource.resource)?);
        let namespace = text(&request.namespace)?;
        Ok(match (asked, resource) {
            _ if !is_new => About::NothingOfOurs,
            (Asked::Sequences, ("", "pods")) if UNTOUCHED.contains(&namespace) => About::NothingOfOurs,
            (Asked::Sequences, ("", "pods")) => About::APod { namespace: namespace.to_owned() },
            (Asked::Sequences, ("", "nodes")) => About::ANode,
            (Asked::Launch, ("", "pods")) if NEVER_ORDERED.contains(&namespace) => About::NothingOfOurs,
            (Asked::Launch, ("", "pods")) => About::AnOrderedPod,
            _ => About::NothingOfOurs,
        })
    }

    /// Decides about the object of the review.
    fn judge<S: Source + ?Sized>(
        self,
        review: &S,
        roster: &Roster,
        uid: &str,
    ) -> serde_json::Result<Result<Verdict, Malformed>> {
        let changed = |patch| Verdict { patch, ..Verdict::default() };
        match self {
            About::APod { namespace } => {
                let wanted = roster.needed_parts(&namespace);
                let pod = object_of(review, || AdmittedPod::looking_for(&wanted))?;
                Ok(pod.and_then(|pod| pod.claimed(roster, &namespace)).map(changed))
            }
            About::AnOrderedPod => {
                Ok(object_of(review, launch::LaunchPod::default)?.and_then(|pod| pod.ordered(uid)))
            }
            About::ANode => Ok(object_of(review, Node::default)?.and_then(Node::mark_unseen).map(changed)),
            About::NothingOfOurs => Ok(Ok(Verdict::default())),
        }
    }
}

/// A review without its object.
#[derive(Default)]
struct Head<'a> {
    api_version: Found<Text<'a>>,
    kind: Found<Text<'a>>,
    request: Found<Request<'a>>,
}

#[derive(Default)]
struct Request<'a> {
    uid: Found<Text<'a>>,
    operation: Found<Text<'a>>,
    sub_resource: Found<Text<'a>>,
    resource: Found<Resource<'a>>,
    namespace: Found<Text<'a>>,
}

#[derive(Default)]
struct Resource<'a> {
    group: Found<Text<'a>>,
    resource: Found<Text<'a>>,
}

object! { Head<'a>, "the review", |this|
    "apiVersion" => api_version: AText,
    "kind" => kind: AText,
    "request" => request: AnObject(Request::default()),
}

object! { Request<'a>, "request", |this|
    "uid" => uid: AText,
    "operation" => operation: AText,
    "subResource" => sub_resource: AText,
    "resource" => resource: AnObject(Resource::default()),
    "namespace" => namespace: AText,
}

object! { Resource<'a>, "request.resource", |this|
    "group" => group: AText,
    "resource" => resource: AText,
}

/// Reads the object of a review into the initial value `blank`.
fn object_of<'a, S: Source + ?Sized, T: Object<'a>>(
    review: &'a S,
    blank: impl Fn() -> T + Copy,
) -> serde_json::Result<Result<T, Malformed>> {
    let read = review.read(At("the review", AnObject(ReviewOf { blank, object: None })))?;
    let object = read.and_then(Result::ok).and_then(|review| review.object);
    Ok(required(object, "request.object"))
}

/// A review; only its object is read.
struct ReviewOf<F, T> {
    blank: F,
    object: Found<T>,
}

/// The request of such a review.
struct RequestOf<F, T> {
    blank: F,
    object: Found<T>,
}

impl<'a, T: Object<'a>, F: Fn() -> T + Copy> Object<'a> for ReviewOf<F, T> {
    fn field<A: MapAccess<'a>>(&mut self, name: &str, value: &mut A) -> Result<(), A::Error> {
        if name != "request" {
            return pass(value);
        }
        let request = RequestOf { blank: self.blank, object: None };
        let request = value.next_value_seed(At("the review.request", AnObject(request)))?;
        self.object = request.and_then(Result::ok).and_then(|request| request.object);
        Ok(())
    }
}

impl<'a, T: Object<'a>, F: Fn() -> T> Object<'a> for RequestOf<F, T> {
    fn field<A: MapAccess<'a>>(&mut self, name: &str, value: &mut A) -> Result<(), A::Error> {
        if name != "object" {
            return pass(value);
        }
        self.object = value.next_value_seed(At("request.object", AnObject((self.blank)())))?;
        Ok(())
    }
}
