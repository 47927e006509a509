//! Guarantees that do not hold in a run.

use crate::chaos::fault::{Fault, Place};
use crate::chaos::plan::FaultPlan;

/// The faults of a run, as far as they lift guarantees.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiftedGuarantees {
    /// Two controllers act, and each may decide before it sees the other's writes.
    pub two_act: bool,
    /// Decisions may be based on an old view, or be carried out long afterwards.
    pub late: bool,
    pub clocks_are_wrong: bool,
    /// Tickets cannot be deleted for a while, but their guardians can.
    pub tickets_absent: bool,
    /// The answer to a write is delayed for longer than a pod waits for a ticket.
    pub unanswered: bool,
    /// A write can fail, or be carried out later than another write that was sent at the same time.
    pub writes_fail: bool,
}

impl LiftedGuarantees {
    pub fn from_plan(plan: &FaultPlan) -> LiftedGuarantees {
        let any = |faults: &[Fault]| faults.iter().any(|fault| plan.has(*fault));
        LiftedGuarantees {
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
