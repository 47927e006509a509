use rollcall_core::line::CODES;
use rollcall_core::reason::Described;
use rollcall_core::{reservation, sequence};

/// Every reason, by the code that stands in statuses, in conditions and in events.
pub fn page() -> String {
    let mut text = String::from(
        "# Reasons\n\nWhy something waits or has failed. The words stand in `status.blockedBy`, in the conditions of a PodSequence, in \
         events and in the answers of `rollcall explain`.\n",
    );
    list(sequence::reason::ALL, &mut text);
    text += "\n# Reasons of reservations\n\nHow an Order, a Ticket or a pod that wants one stands. The words stand in `status.reason` of a \
             Ticket, in the conditions of both, in events and in the answers of `rollcall explain`, `rollcall orders` and `rollcall tickets`.\n";
    list(reservation::reason::ALL, &mut text);
    text += "\n# Other lines of explain\n\nThe codes of lines that say how things stand, as `rollcall explain --output json` prints them.\n\n";
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
