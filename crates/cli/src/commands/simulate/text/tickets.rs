//! Draws reservations: a row for each ticket, under its Order, sorted by node.

use super::axis::Scale;
use super::{FIXED, LEAST_PODS, PROGRESS, Picture, fit, words, wrapped};
use crate::output::{BAD, BUSY, FAINT, GOOD, STRONG, styled};
use crate::shown;
use crate::shown::{Show, Shown};
use anstyle::Style;
use rollcall_sim::report::{OrderReport, Report, TicketReport, TicketSpan, TicketState};

/// In the order of the life cycle, for the legend.
const STATES: [TicketState; 5] = [
    TicketState::Pending,
    TicketState::NoRoom,
    TicketState::Reserved,
    TicketState::Claimed,
    TicketState::Expired,
];

fn mark(state: TicketState) -> char {
    match state {
        TicketState::Pending => '░',
        TicketState::NoRoom => '?',
        TicketState::Reserved => '▓',
        TicketState::Claimed => '█',
        TicketState::Expired => '─',
    }
}

fn word(state: TicketState) -> &'static str {
    match state {
        TicketState::Pending => "pending",
        TicketState::NoRoom => "no capacity",
        TicketState::Reserved => "reserved",
        TicketState::Claimed => "claimed",
        TicketState::Expired => "expired",
    }
}

fn style(state: TicketState) -> Style {
    match state {
        TicketState::Pending => BUSY,
        TicketState::NoRoom => BAD,
        TicketState::Reserved | TicketState::Claimed => GOOD,
        TicketState::Expired => FAINT,
    }
}

/// The state to show in a column: the state at its middle, or else the first state that begins in the column.
fn state_in(ticket: &TicketReport, (from, to): (u64, u64)) -> Option<TicketState> {
    let middle = from + (to - from) / 2;
    if ticket.deleted.is_some_and(|deleted| deleted <= middle) {
        return None;
    }
    let before = ticket.spans.iter().rfind(|span| span.from <= middle);
    before.or(ticket.spans.iter().find(|span| span.from < to)).map(|span| span.state)
}

fn bar(ticket: &TicketReport, scale: Scale) -> Shown {
    let states: Vec<Option<TicketState>> =
        (0..scale.columns).map(|column| state_in(ticket, scale.times(column))).collect();
    let mut text = Shown::default();
    for same in states.chunk_by(|one, other| one == other) {
        match same[0] {
            Some(state) => text += styled(style(state), mark(state).to_string().repeat(same.len())),
            None => text += " ".repeat(same.len()).shown(),
        }
    }
    text
}

fn beside(ticket: &TicketReport) -> String {
    let on = ticket.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
    match ticket.spans.last() {
        Some(TicketSpan { claimed_by: Some(pod), .. }) => format!("{on}{pod}"),
        Some(span) => format!("{on}{}", word(span.state)),
        None => on,
    }
}

/// Counts the existing tickets by state, as in `tickets: 3 reserved, 1 claimed`; `None` without tickets.
pub(super) fn totals(report: &Report) -> Option<String> {
    let there: Vec<&TicketReport> = report.tickets.iter().filter(|ticket| ticket.deleted.is_none()).collect();
    (!there.is_empty()).then(|| format!("tickets: {}", tally(&there)))
}

/// Counts tickets by state: `3 reserved, 1 claimed`.
fn tally(tickets: &[&TicketReport]) -> String {
    let counted = STATES.into_iter().filter_map(|state| {
        let is = |ticket: &&&TicketReport| ticket.spans.last().is_some_and(|span| span.state == state);
        let number = tickets.iter().filter(is).count();
        (number > 0).then(|| format!("{number} {}", word(state)))
    });
    counted.collect::<Vec<_>>().join(", ")
}

impl Picture<'_> {
    /// Draws the tickets of each Order, and the tickets that were created by hand.
    pub(super) fn reservations(&self) -> Shown {
        let mut text = Shown::default();
        for order in &self.report.orders {
            text += self.order(order);
        }
        let by_hand: Vec<&TicketReport> =
            self.report.tickets.iter().filter(|ticket| ticket.order.is_none()).collect();
        if !by_hand.is_empty() {
            text += shown!("{}\n", styled(STRONG, "tickets without an Order"));
            text += self.tickets(by_hand);
        }
        text
    }

    fn order(&self, order: &OrderReport) -> Shown {
        let OrderReport { namespace, name, ready, message } = order;
        let several = self.report.orders.iter().any(|other| other.namespace != *namespace);
        let title = if several { shown!("order/{}/{}", namespace, name) } else { shown!("order/{}", name) };
        let room = self.width().saturating_sub(title.width() + 1);
        let look = if *ready { GOOD } else { BAD };
        let mut text = shown!("{} {}\n", styled(STRONG, title), styled(look, words::cut_end(message, room)));
        let of_order = |ticket: &&TicketReport| {
            ticket.namespace == *namespace && ticket.order.as_deref() == Some(name.as_str())
        };
        text += self.tickets(self.report.tickets.iter().filter(of_order).collect());
        text
    }

    fn tickets(&self, mut tickets: Vec<&TicketReport>) -> Shown {
        // The sort is stable: on each node, tickets stay in the order of creation.
        tickets.sort_by(|one, other| one.node.cmp(&other.node));
        let rows = if self.pods_per_group == 0 { LEAST_PODS } else { self.pods_per_group };
        let folded = match tickets.len() > rows {
            true => tickets.split_off(rows.saturating_sub(1)),
            false => Vec::new(),
        };
        let mut text = Shown::default();
        for ticket in tickets {
            let name = fit(&format!("  {}", ticket.name), self.names);
            let beside = words::cut_end(&beside(ticket), self.beside.max(PROGRESS));
            text += shown!("{}  {}  {}\n", name, bar(ticket, self.scale), styled(FAINT, beside));
        }
        if !folded.is_empty() {
            let more = format!("  … and {} more", folded.len());
            text += shown!("{}  {}\n", fit(&more, self.names), styled(FAINT, tally(&folded)));
        }
        text
    }

    /// The legend of the states that occur in the picture; `None` if there are no tickets.
    pub(super) fn legend_of_tickets(&self) -> Option<Shown> {
        let spans = || self.report.tickets.iter().flat_map(|ticket| &ticket.spans);
        let used = STATES.into_iter().filter(|state| spans().any(|span| span.state == *state));
        let entries: Vec<String> =
            used.map(|state| format!("{} {}", mark(state), word(state)).replace(' ', FIXED)).collect();
        if entries.is_empty() {
            return None;
        }
        let legend = wrapped(&format!("tickets:{FIXED}{}", entries.join("   ")), self.width(), 0);
        let lines = legend.as_str().lines().map(|line| line.replace(FIXED, " "));
        Some(Shown::joined(lines.map(|line| line.shown()), "\n"))
    }
}
