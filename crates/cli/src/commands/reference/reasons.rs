use rollcall_core::line::CODES;
use rollcall_core::reason::Described;
use rollcall_core::{reservation, sequence};

/// Every reason, by the code that statuses, conditions and events contain.
pub fn page() -> String {
    let mut text = String::from(
        "# Reasons\n\nReasons why something waits or has failed. These codes appear in `status.blockedBy`, in the conditions of a PodSequence, in \
         events and in the output of `rollcall explain`.\n",
    );
    list(sequence::reason::ALL, &mut text);
    text += "\n# Reasons of reservations\n\nStates of an Order, a Ticket, or a pod that requests one. These codes appear in `status.reason` of a \
             Ticket, in the conditions of both, in events and in the output of `rollcall explain`, `rollcall orders` and `rollcall tickets`.\n";
    list(reservation::reason::ALL, &mut text);
    text += "\n# Other lines of explain\n\nThe codes of the remaining lines, as `rollcall explain --output json` prints them.\n\n";
    text += "| code | meaning |\n|---|---|\n";
    for (code, meaning) in CODES {
        text += &format!("| `{code}` | {meaning} |\n");
    }
    text
}

fn list(reasons: &[Described], text: &mut String) {
    for Described { code, meaning, hint } in reasons {
        *text += &format!("\n## {code}\n\n{meaning}\n\nWhat to do: {hint}\n");
    }
}
