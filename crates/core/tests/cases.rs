//! Runs the cases of `tests/cases`: what is given, what happens, what must come of it. `tests/cases/README.md`
//! tells how they are written.

mod script;
mod support;

fn run(path: &datatest_stable::Utf8Path, text: String) -> datatest_stable::Result<()> {
    let case: script::Case = serde_saphyr::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    script::run(case)?;
    Ok(())
}

datatest_stable::harness! {
    { test = run, root = "tests/cases", pattern = r"^.*\.yaml$" },
}
