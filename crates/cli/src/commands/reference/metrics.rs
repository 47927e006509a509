use rollcall_controller::metrics::ALL;

/// Every metric that the controller serves at `/metrics`.
pub fn page() -> String {
    let mut text = String::from(
        "# Metrics\n\nServed at `/metrics` (`--metrics-bind-address`). Labels are words from short lists, never names of objects.\n\n\
         | metric | what it is |\n|---|---|\n",
    );
    for (name, meaning) in ALL {
        text += &format!("| `{name}` | {meaning} |\n");
    }
    text
}
