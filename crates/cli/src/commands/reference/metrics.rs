use rollcall_controller::metrics::ALL;

/// Every metric that the controller serves at `/metrics`.
pub fn page() -> String {
    let mut text = String::from(
        "# Metrics\n\nServed at `/metrics` (`--metrics-bind-address`). Label values come from fixed, short lists; they never contain object names.\n\n\
         | metric | meaning |\n|---|---|\n",
    );
    for (name, meaning) in ALL {
        text += &format!("| `{name}` | {meaning} |\n");
    }
    text
}
