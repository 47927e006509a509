// The remaining parts of the page, from top to bottom.

function drawVerdict() {
  const verdicts = {
    Complete: ["good", "✓", "All pods arrived", `after ${time(report.ended)}.`],
    Stuck: ["bad", "✗", "Some pods can never start.", `Nothing more can happen after ${time(report.ended)}.`],
    Unfinished: ["busy", "…", "Not complete", `at the time limit, after ${time(report.ended)}.`],
  };
  const [look, mark, word, rest] = verdicts[report.outcome];
  const nothing = !report.pods.length && !report.sequences.length;
  const text = nothing ? " The manifests contain no pods and no sequences." : ` ${rest}`;
  document.getElementById("verdict").append(make("b", { class: look, "data-mark": mark, text: nothing ? "Nothing to start." : word }), text);
  const arrived = report.pods.filter((pod) => pod.arrived !== null).length;
  const groups = report.sequences.flatMap((sequence) => sequence.groups);
  const figures = [
    ["total time", time(report.ended)],
    ["pods arrived", `${arrived} of ${report.pods.length}`],
    ["groups complete", `${groups.filter((group) => group.completed !== null).length} of ${groups.length}`],
    ["nodes", report.nodes],
    ["seed", report.seed],
  ];
  document.getElementById("figures").append(
    ...figures.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }))),
  );
}

function drawNever() {
  const section = document.getElementById("never");
  section.hidden = !report.never.length;
  for (const { what, why } of report.never) {
    const item = make("li", {}, make("b", { text: what }), make("span", { class: "code", text: why.code }), make("div", { text: why.sentence }));
    if (why.hint) item.append(make("div", { class: "hint", text: why.hint }));
    section.querySelector("ol").append(item);
  }
}

function drawCritical() {
  const section = document.getElementById("critical");
  section.hidden = !report.critical.length;
  for (const step of report.critical) {
    const name = report.pods[step.pod]?.name ?? "?";
    section.querySelector("ol").append(make("li", {}, make("span", { text: name }, make("b", { text: time(step.to - step.from) }))));
  }
}

function drawNotes() {
  const section = document.getElementById("notes");
  section.hidden = !report.notes.length;
  section.querySelector("ul").append(...report.notes.map((note) => make("li", { text: note })));
}

function drawTable() {
  const section = document.getElementById("table");
  section.hidden = !report.pods.length;
  const details = section.querySelector("details");
  // Created on demand, because thousands of rows take time.
  details.addEventListener("toggle", () => section.querySelector(".scroll").append(table()), { once: true });
}

function table() {
  const head = ["Namespace", "Pod", "Workload", "Node", "Arrived", "At the end", "Reason"];
  const rows = report.pods.map((pod) => {
    const arrived = pod.arrived === null ? "" : time(pod.arrived);
    const last = pod.deleted !== null ? "deleted" : (WORDS[pod.spans.at(-1)?.state] ?? "");
    const cells = [pod.namespace, pod.name, pod.workload ?? "", pod.node ?? "", arrived, last, pod.reason?.sentence ?? ""];
    return make("tr", {}, ...cells.map((text) => make("td", { text })));
  });
  const titles = head.map((text) => make("th", { scope: "col", text }));
  return make("table", {}, make("thead", {}, make("tr", {}, ...titles)), make("tbody", {}, ...rows));
}

drawVerdict();
drawNever();
drawCritical();
drawTimeline();
drawGraphs();
drawNotes();
drawTable();
document.documentElement.dataset.drawn = "yes";
