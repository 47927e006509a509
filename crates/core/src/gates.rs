//! The scheduling gates of Rollcall and their purposes.

/// The default gate of sequences, if `schedulingGateName` is not set.
pub const SEQUENCE: &str = "podsequence.example.com/sequence-gate";
/// The gate of pods whose containers start in order.
pub const LAUNCH: &str = "podsequence.example.com/launch-gate";
/// The gate of pods that wait for the capacity that a ticket reserves.
pub const TICKET: &str = "korder.dev/ticket-gate";

/// A description of the feature that a gate belongs to; `None` for sequences and foreign gates.
pub fn feature(gate: &str) -> Option<&'static str> {
    match gate {
        LAUNCH => Some("container launch order"),
        TICKET => Some("reservations"),
        _ => None,
    }
}
