//! The scheduling gates of ours, and what each of them is for.

/// The gate of sequences that name no other one in `schedulingGateName`.
pub const SEQUENCE: &str = "podsequence.example.com/sequence-gate";
/// The gate of pods whose containers start in order.
pub const LAUNCH: &str = "podsequence.example.com/launch-gate";
/// The gate of pods that wait for the room that a ticket keeps for them.
pub const TICKET: &str = "korder.dev/ticket-gate";

/// The feature that a gate belongs to, other than sequences: in words.
pub fn feature(gate: &str) -> Option<&'static str> {
    match gate {
        LAUNCH => Some("container launch order"),
        TICKET => Some("reservations"),
        _ => None,
    }
}
