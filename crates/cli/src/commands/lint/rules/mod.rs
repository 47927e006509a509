//! All rules, one file each. Schedules, selectors, placement and validation come from the core, the API crate and the embedded
//! server; a rule file contains only the logic of its rule.

pub mod agent;
mod general;
mod launch;
mod prelude;
mod priority;
mod reservation;
mod sequence;
mod workload;

use super::rule::Rule;

/// Groups of rules, by the first digit of their codes.
pub const GROUPS: [(char, &str); 7] = [
    ('0', "Any object"),
    ('1', "Sequences"),
    ('2', "Workloads"),
    ('3', "Priority"),
    ('4', "Launch order"),
    ('5', "Agents"),
    ('6', "Reservations"),
];

/// All rules, sorted by code.
pub static ALL: [&Rule; 77] = [
    &general::refused::RULE,
    &general::unknown_field::RULE,
    &general::twice::RULE,
    &sequence::invalid::RULE,
    &sequence::selects_nothing::RULE,
    &sequence::workload_missing::RULE,
    &sequence::name_of_nobody::RULE,
    &sequence::ordinals_out_of_order::RULE,
    &sequence::gate_forgotten::RULE,
    &sequence::gate_misspelt::RULE,
    &sequence::nobody_claims::RULE,
    &sequence::claimed_twice::RULE,
    &sequence::circle::RULE,
    &sequence::never_ends::RULE,
    &sequence::timeout_too_short::RULE,
    &sequence::deadline_while_held::RULE,
    &sequence::progress_deadline::RULE,
    &sequence::quota::RULE,
    &sequence::node_scope_without_daemon_set::RULE,
    &sequence::lacks_toleration::RULE,
    &sequence::not_permitted::RULE,
    &sequence::more_than_there_are::RULE,
    &workload::no_service_name::RULE,
    &workload::service_missing::RULE,
    &workload::service_not_headless::RULE,
    &workload::service_selects_others::RULE,
    &workload::deleted_for_order::RULE,
    &workload::retention_assumed::RULE,
    &workload::scaled_down_data::RULE,
    &workload::update_strategy_name::RULE,
    &workload::no_disruption_budget::RULE,
    &workload::budget_of_nothing::RULE,
    &workload::quorum::RULE,
    &workload::shared_claim::RULE,
    &workload::claim_in_rolling_update::RULE,
    &workload::shell_in_env::RULE,
    &workload::master_role::RULE,
    &workload::no_limits::RULE,
    &workload::fits_no_node::RULE,
    &workload::daemon_set_update::RULE,
    &workload::control_plane_toleration::RULE,
    &workload::job_restart_policy::RULE,
    &workload::job_no_ttl::RULE,
    &workload::job_no_deadline::RULE,
    &workload::job_no_backoff_limit::RULE,
    &workload::work_queue::RULE,
    &workload::job_no_requests::RULE,
    &workload::cron_time_zone::RULE,
    &workload::cron_overlap::RULE,
    &workload::cron_starting_deadline::RULE,
    &workload::cron_never::RULE,
    &priority::too_high::RULE,
    &priority::two_defaults::RULE,
    &priority::agent_without_class::RULE,
    &priority::unknown_class::RULE,
    &launch::refused::RULE,
    &launch::nothing_to_order::RULE,
    &launch::ignored::RULE,
    &launch::native_sidecar::RULE,
    &agent::not_propagated::RULE,
    &agent::no_timeout::RULE,
    &agent::shared_marker::RULE,
    &agent::no_readiness::RULE,
    &agent::foreign_marker::RULE,
    &agent::not_shared_with_host::RULE,
    &reservation::invalid::RULE,
    &reservation::never_reserves::RULE,
    &reservation::outlasts_period::RULE,
    &reservation::no_node::RULE,
    &reservation::same_room::RULE,
    &reservation::request_for_nobody::RULE,
    &reservation::nobody_serves::RULE,
    &reservation::gate_forgotten::RULE,
    &reservation::request_unclear::RULE,
    &reservation::too_large::RULE,
    &reservation::below_ticket::RULE,
    &reservation::gate_misspelt::RULE,
];

pub fn find(code: &str) -> Option<&'static Rule> {
    ALL.into_iter().find(|rule| rule.code == code)
}

/// Whether the rule only reports the API server's own validation.
pub fn is_general(rule: &Rule) -> bool {
    rule.code.starts_with("RC0")
}
