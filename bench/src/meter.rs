//! The cost of a piece of work: time, CPU time of the controller, and its requests.

use crate::controller::Controller;
use crate::lab::Lab;
use anyhow::Result;
use rollcall_testbed::{AuditEvent, AuditLog};
use std::time::{Duration, Instant};

const ACCOUNT: &str = "system:serviceaccount:pod-sequence-system:pod-sequence-controller";

#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub seconds: f64,
    pub cpu: Duration,
    /// Number of writes, without those of leases.
    pub writes: f64,
    /// Number of reads, without watches.
    pub reads: f64,
}

impl Cost {
    pub fn mean(costs: &[Cost]) -> Cost {
        let mean = |number: fn(&Cost) -> f64| costs.iter().map(number).sum::<f64>() / costs.len() as f64;
        let cpu = Duration::from_secs_f64(mean(|cost| cost.cpu.as_secs_f64()));
        let (writes, reads) = (mean(|cost| cost.writes), mean(|cost| cost.reads));
        Cost { seconds: mean(|cost| cost.seconds), cpu, writes, reads }
    }
}

pub struct Meter {
    audit: AuditLog,
    cpu: Duration,
    /// Start of the time measurement. Set again where requests are counted from an earlier moment.
    pub begun: Instant,
}

impl Meter {
    /// Starts a measurement. `cpu` is the CPU time that the controller has used already.
    pub fn start(lab: &Lab, cpu: Duration) -> Result<Meter> {
        Ok(Meter { audit: lab.cluster.audit_from_now()?, cpu, begun: Instant::now() })
    }

    /// The number of writes so far.
    pub fn writes(&mut self) -> Result<usize> {
        let is_write = |event: &&AuditEvent| is_ours(event) && event.is_write() && event.resource != "leases";
        Ok(self.audit.all()?.iter().filter(is_write).count())
    }

    /// Ends the measurement. The time counts until `end`, everything else until now.
    pub fn stop(mut self, controller: &Controller, end: Instant) -> Result<Cost> {
        let cpu = controller.cpu()?.saturating_sub(self.cpu);
        let is_read = |event: &&AuditEvent| is_ours(event) && matches!(event.verb.as_str(), "get" | "list");
        let (writes, reads) =
            (self.writes()? as f64, self.audit.all()?.iter().filter(is_read).count() as f64);
        Ok(Cost { seconds: end.duration_since(self.begun).as_secs_f64(), cpu, writes, reads })
    }
}

fn is_ours(event: &AuditEvent) -> bool {
    event.user == ACCOUNT && event.stage == "ResponseComplete"
}
