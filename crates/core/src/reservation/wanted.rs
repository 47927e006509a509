//! The ticket that a pod requests by its annotations. Used by the controller and by admission.

use super::names;
use super::spec::RequestedTicket;

/// The annotations that [`wanted`] reads.
pub const ANNOTATIONS: [&str; 4] =
    [names::TICKET_REQUEST, names::ORDER_REQUEST, names::REQUIRED, names::ORDER];

/// Returns the ticket that a pod requests. If several annotations are set, the most specific one counts.
pub fn wanted<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> RequestedTicket {
    let annotation = |key: &str| annotation(key).map(str::trim).filter(|value| !value.is_empty());
    if let Some(request) = annotation(names::TICKET_REQUEST) {
        return ticket_request(request);
    }
    if let Some(order) = annotation(names::ORDER_REQUEST) {
        return RequestedTicket::Order(order.into());
    }
    match (annotation(names::REQUIRED), annotation(names::ORDER)) {
        (Some("true"), Some(order)) => RequestedTicket::Order(order.into()),
        (Some("true"), None) => {
            let what =
                format!("{}: \"true\" requires {} with the name of an Order", names::REQUIRED, names::ORDER);
            RequestedTicket::Unclear(what.into())
        }
        _ => RequestedTicket::Any,
    }
}

fn ticket_request(request: &str) -> RequestedTicket {
    let label = |key: &str, value: &str| RequestedTicket::Label {
        key: key.trim().into(),
        value: value.trim().into(),
    };
    match request.split_once(':') {
        None => RequestedTicket::Ticket(request.into()),
        Some(("name", name)) => RequestedTicket::Ticket(name.trim().into()),
        Some(("group", group)) => label(names::GROUP, group),
        Some(("selector", selector)) => match selector.split_once('=') {
            Some((key, value)) => label(key, value.trim_start_matches('=')),
            None => unclear(request),
        },
        Some(_) => unclear(request),
    }
}

fn unclear(request: &str) -> RequestedTicket {
    let what = format!(
        "{} is {request:?}; expected a ticket name, name:<ticket>, selector:<label>=<value> or group:<group>",
        names::TICKET_REQUEST
    );
    RequestedTicket::Unclear(what.into())
}
