//! `Order` and `Ticket`: room on nodes that is kept for pods which come later.
//!
//! ```text
//!  spec.rs       what a person writes, as types with their descriptions
//!  placement.rs  the part of it that says where: affinity, tolerations, spreading
//!  resources.rs  the part of it that says how much
//!  words.rs      the fields that take one of a few words
//!  limits.rs     how much of it: every bound with its reason
//!  rules.rs      what the schema cannot say: the CEL rules and their words
//!  cron.rs       the form of a schedule
//!  status.rs     what the controller answers
//!  facts.rs      what decisions rest on
//!  request.rs    what a pod wants of a ticket
//!  report.rs     a status of what was decided
//!  objects.rs    what is made: tickets, guardians, classes
//!  validate.rs   reads a spec of which nothing is known, and checks what no schema can
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
