//! The table of results, and the verdicts.

/// Maximum spread of a baseline. With a larger spread, the ratio means nothing, and the run is rejected.
const STEADY: f64 = 0.15;

pub struct Table {
    scale: f64,
    rows: Vec<Row>,
}

struct Row {
    id: &'static str,
    work: String,
    measured: String,
    promise: &'static str,
    verdict: String,
}

impl Table {
    pub fn new(scale: f64) -> Table {
        Table { scale, rows: Vec::new() }
    }

    /// Adds a figure that must not exceed `most`.
    pub fn figure(
        &mut self,
        id: &'static str,
        work: &str,
        measured: String,
        value: f64,
        promise: (&'static str, f64),
    ) {
        let verdict = if value <= promise.1 { "reached" } else { "missed" };
        self.push(id, work, measured, promise.0, verdict.into());
    }

    /// Adds a ratio against a baseline. Rejected if the baseline was not steady.
    pub fn ratio(
        &mut self,
        id: &'static str,
        work: &str,
        ours: &[f64],
        raw: &[f64],
        promise: (&'static str, f64),
    ) {
        let (a, b) = (median(ours), median(raw));
        let spread = spread(raw);
        let measured = format!("{:.2}× ({a:.4} against {b:.4}, baseline ±{:.0} %)", a / b, spread * 100.0);
        self.push(id, work, measured, promise.0, judged(spread, a / b <= promise.1));
    }

    /// Adds the growth of a cost with a size: the exponent from the smallest size to the largest, and that of the last
    /// step alone, where constant costs matter least. The larger exponent is judged. Rejected if any size was not
    /// steady.
    pub fn growth(
        &mut self,
        id: &'static str,
        work: &str,
        runs: &[(usize, Vec<f64>)],
        promise: (&'static str, f64),
    ) {
        assert!(runs.len() > 1, "growth needs at least two sizes");
        let points: Vec<(f64, f64)> =
            runs.iter().map(|(size, costs)| (*size as f64, median(costs))).collect();
        let exponent = |from: (f64, f64), to: (f64, f64)| (to.1 / from.1).ln() / (to.0 / from.0).ln();
        let last = points[points.len() - 1];
        let (whole, step) = (exponent(points[0], last), exponent(points[points.len() - 2], last));
        let each: Vec<String> = points.iter().map(|(size, cost)| format!("{size}: {cost:.3}")).collect();
        let spread = runs.iter().map(|(_, costs)| spread(costs)).fold(0.0, f64::max);
        let measured =
            format!("{whole:.2}, last step {step:.2} ({}; ±{:.0} %)", each.join(", "), spread * 100.0);
        let verdict = judged(spread, whole.max(step) <= promise.1);
        self.push(id, work, measured, promise.0, verdict);
    }

    fn push(
        &mut self,
        id: &'static str,
        work: &str,
        measured: String,
        promise: &'static str,
        verdict: String,
    ) {
        eprintln!("{id}  {work}: {measured} — must be {promise}: {verdict}");
        self.rows.push(Row { id, work: work.into(), measured, promise, verdict });
    }

    pub fn render(&self) -> String {
        let mut text = String::from("| id | work | measured | must reach | |\n|---|---|---|---|---|\n");
        for Row { id, work, measured, promise, verdict } in &self.rows {
            text += &format!("| {id} | {work} | {measured} | {promise} | {verdict} |\n");
        }
        if self.scale != 1.0 {
            text += &format!("\nSizes scaled by {}: not the promised work.\n", self.scale);
        }
        text
    }
}

fn judged(spread_of_baseline: f64, within: bool) -> String {
    match (spread_of_baseline > STEADY, within) {
        (true, within) => {
            format!("rejected: unsteady baseline ({})", if within { "within" } else { "beyond" })
        }
        (false, true) => "reached".into(),
        (false, false) => "missed".into(),
    }
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * q).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Half the interquartile range, relative to the median.
pub fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    ((quantile(values, 0.75) - middle).abs()).max((middle - quantile(values, 0.25)).abs()) / middle
}
