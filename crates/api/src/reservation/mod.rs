//! `Order` and `Ticket`: capacity on nodes that is reserved for future pods.
//!
//! ```text
//!  spec.rs       the specs, with the field descriptions of the CRDs
//!  placement.rs  the part of a spec that selects nodes: affinity, tolerations, topology spread
//!  resources.rs  the part of a spec that says how much capacity is reserved
//!  words.rs      the enums of the specs and statuses
//!  limits.rs     the bounds of all fields, each with its reason
//!  rules.rs      the CEL rules, with their messages
//!  cron.rs       the pattern of a schedule
//!  status.rs     the statuses, written by the controller
//!  facts.rs      converts objects into the facts that decisions use
//!  request.rs    the ticket that a pod requests, and its resource requests
//!  report.rs     converts decisions into statuses
//!  objects.rs    builds the objects that the controller creates: tickets, guardians, PriorityClasses
//!  validate.rs   parses unvalidated specs and checks what no schema can express
//! ```

mod cron;
mod facts;
pub mod limits;
mod objects;
mod placement;
mod report;
mod request;
mod resources;
pub(crate) mod rules;
mod spec;
mod status;
mod validate;
mod words;

pub use facts::{OrderObject, PriorityClassObject, TicketObject};
pub use objects::{GuardianOptions, guardian, nomination, priority_class, ticket, ticket_record};
pub use placement::{
    Affinity, FieldRequirement, NodeAffinity, NodeRequirement, NodeTerm, NodeTerms, PodAffinity, PodTerm,
    Preference, Spread, Toleration, WeightedPodTerm,
};
pub use report::{order_status, ticket_status};
pub use request::{Amounts, ContainerResources, PodResources, requested, wanted};
pub use resources::{Amount, Resources};
pub use spec::{Lifecycle, Order, OrderSpec, Strategy, TemplateMetadata, Ticket, TicketSpec, TicketTemplate};
pub use status::{OrderStatus, TicketStatus};
pub use validate::{parse_order, parse_ticket};
pub use words::{
    CleanupPolicy, FieldOperator, Mode, NodeField, NodeOperator, NodePolicy, Phase, RefreshPolicy,
    StrategyType, TaintEffect, TolerationOperator, WhenUnsatisfiable,
};
