use rollcall_core::line::CODES;
use rollcall_core::sequence::reason::ALL;

/// Every reason, by the code that stands in `blockedBy`, in conditions and in events.
pub fn page() -> String {
    let mut text = String::from(
        "# Reasons\n\nWhy something waits or has failed. The words stand in `status.blockedBy`, in the conditions of a PodSequence, in \
         events and in the answers of `rollcall explain`.\n",
    );
    for described in ALL {
        text +=
            &format!("\n## {}\n\n{}\n\nWhat to do: {}\n", described.code, described.meaning, described.hint);
    }
    text += "\n# Other lines of explain\n\nThe codes of lines that say how things stand, as `rollcall explain --output json` prints them.\n\n";
    text += "| code | meaning |\n|---|---|\n";
    for (code, meaning) in CODES {
        text += &format!("| `{code}` | {meaning} |\n");
    }
    text
}
