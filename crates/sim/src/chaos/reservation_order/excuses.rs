//! What cannot be promised in a run.

use crate::chaos::fault::{Fault, Place};
use crate::chaos::plan::Plan;

/// What cannot be promised in a run, because of its faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Excuses {
    /// Two decide, and each may have decided before the other's write.
    pub two_act: bool,
    /// What is decided on may be long past, or be carried out long afterwards.
    pub late: bool,
    pub clocks_are_wrong: bool,
    /// Tickets cannot be deleted for a while, and their guardians can.
    pub tickets_absent: bool,
    /// A write is without an answer for longer than a pod waits for a ticket.
    pub unanswered: bool,
    /// One write can fail, or be carried out later than the one that was sent with it.
    pub writes_fail: bool,
}

impl Excuses {
    pub fn of(plan: &Plan) -> Excuses {
        let any = |faults: &[Fault]| faults.iter().any(|fault| plan.has(*fault));
        Excuses {
            two_act: any(&[Fault::TwoLeaders, Fault::Pause]),
            late: any(&[
                Fault::SlowCommit,
                Fault::Hang,
                Fault::Silence,
                Fault::Behind,
                Fault::Unseen,
                Fault::ServerRestart,
                Fault::OlderList,
                Fault::OlderEvents,
            ]),
            clocks_are_wrong: plan.has(Fault::ClockJump),
            tickets_absent: plan.has(Fault::KindAbsent),
            unanswered: any(&[Fault::Timeout, Fault::SlowAnswer]),
            writes_fail: Fault::at(Place::Write).any(|fault| plan.has(fault)),
        }
    }
}
