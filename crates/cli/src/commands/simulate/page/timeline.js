// Draws the timeline: a row for each group and pod, with time from left to right. FEW limits the pods of a group before it is
// expanded; with more than MANY pods in total, all groups begin folded.

const FEW = 12;
const MANY = 60;

const chart = document.querySelector("#timeline .chart");

function percent(milliseconds) {
  return `${(100 * milliseconds) / total}%`;
}

function drawBar(span) {
  const bar = make("span", { class: `bar ${span.state}`, "data-from": span.from, "data-to": span.to });
  bar.style.left = percent(span.from);
  bar.style.width = percent(span.to - span.from);
  return bar;
}

// Draws the axis with at most eight marks, at round intervals that leave space for their labels.
function drawAxis() {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const step = 1000 * (steps.find((seconds) => total / (seconds * 1000) <= 8) ?? 604800);
  const track = make("div", { class: "track" });
  for (let at = 0; at <= total * 0.97; at += step) {
    const label = at < 60000 ? `${at / 1000}s` : time(at).replace(/(m)00s$|(h)00m$/, "$1$2");
    const tick = make("span", { class: "tick", text: label });
    tick.style.left = percent(at);
    track.append(tick);
  }
  chart.style.setProperty("--step", percent(step));
  return make("div", { class: "row axis", "aria-hidden": "true" }, make("div"), track, make("div"));
}

function drawRow({ look, name, spans, beside, about, aboutBar }) {
  const track = make("div", { class: "track", role: "gridcell" }, ...spans.map(drawBar));
  const side = make("div", { class: "beside", role: "gridcell" }, ...beside);
  const row = make("div", { class: `row ${look}`, role: "row", tabindex: "-1", "aria-label": spoken(about), "aria-describedby": "tip" },
    make("div", { class: "name", role: "rowheader" }, ...name), track, side);
  const bars = [...track.children];
  row.bars = bars;
  row.showBar = (at) => {
    bars.forEach((bar, other) => bar.classList.toggle("here", other === at));
    row.at = at;
    if (at === undefined) showTip(about, row.querySelector(".name"));
    else showTip(aboutBar(spans[at]), bars[at]);
  };
  bars.forEach((bar, at) => bar.addEventListener("pointerenter", () => showTip(aboutBar(spans[at]), bar)));
  row.querySelector(".name").addEventListener("pointerenter", () => showTip(about, row.querySelector(".name")));
  row.addEventListener("pointerleave", hideTip);
  row.addEventListener("focus", () => row.showBar(undefined));
  row.addEventListener("blur", () => {
    bars.forEach((bar) => bar.classList.remove("here"));
    hideTip();
  });
  return row;
}

function podRow(at) {
  const pod = report.pods[at];
  const step = criticalPods.get(at);
  const beside = pod.reason ? [make("span", { class: "code", text: pod.reason.code })] : [];
  const row = drawRow({
    look: `pod${step ? " critical-pod" : ""}`, name: [pod.name], spans: spansOf(pod), beside,
    about: aboutPod(pod), aboutBar: (span) => aboutSpan(pod, span),
  });
  row.dataset.pod = at;
  // Marks the part of the pod's life that belongs to the critical chain.
  if (step) row.bars.forEach((bar) => bar.classList.toggle("counts", Number(bar.dataset.from) < step.to && Number(bar.dataset.to) > step.from && !bar.classList.contains("Held")));
  return row;
}

// A row for each rank of a pod whose containers start in order.
function rankRows(at) {
  const pod = report.pods[at];
  return (pod.ranks ?? []).map((rank) => drawRow({
    look: "rank", name: [`${rank.priority} ${rank.containers.join(", ")}`], spans: spansOfRank(pod, rank), beside: [],
    about: aboutRank(pod, rank), aboutBar: (span) => aboutRank(pod, rank, span),
  }));
}

// Selects the pods to show first, preferring pods that are on the critical chain or never arrived; keeps the order of creation.
function telling(pods) {
  const dull = (pod) => Number(!criticalPods.has(pod) && report.pods[pod].arrived !== null);
  const few = new Set([...pods].sort((one, other) => dull(one) - dull(other)).slice(0, FEW - 1));
  return pods.filter((pod) => few.has(pod));
}

// The row of a group and the rows of its pods, which can be folded and expanded.
function drawBlock({ header, pods, toggle }) {
  const block = make("div", { role: "rowgroup" }, header);
  let [open, all] = [report.pods.length <= MANY, false];
  const fill = () => {
    header.setAttribute("aria-expanded", open);
    toggle.textContent = pods.length ? (open ? "▾" : "▸") : "";
    const shown = !open ? [] : all || pods.length <= FEW ? pods : telling(pods);
    const rows = shown.flatMap((at) => [podRow(at), ...rankRows(at)]);
    if (open && shown.length < pods.length) rows.push(moreRow());
    block.replaceChildren(header, ...rows);
  };
  const moreRow = () => {
    const left = pods.length - (FEW - 1);
    const about = { title: `${left} more pods`, lines: ["press Enter to show them"], why: null };
    const row = drawRow({ look: "more", name: [`… and ${left} more`], spans: [], beside: ["show all"], about, aboutBar: () => about });
    row.act = () => {
      all = true;
      fill();
      take(block.querySelectorAll(".row.pod")[FEW - 1]);
    };
    row.addEventListener("click", row.act);
    return row;
  };
  header.act = () => {
    open = !open;
    fill();
    take(header);
  };
  if (pods.length) header.addEventListener("click", header.act);
  fill();
  return block;
}

function groupBlock(sequence, at) {
  const group = sequence.groups[at];
  const about = aboutGroup(sequence, at);
  const toggle = make("span", { class: "fold", "aria-hidden": "true" });
  const beside = [make("b", { text: progress(group) })];
  const wait = waited(sequence.groups, group);
  if (wait) beside.push(make("span", { text: wait }));
  const header = drawRow({ look: "group", name: [toggle, nameOf(group, at)], spans: spansOfGroup(group), beside, about, aboutBar: () => about });
  header.dataset.group = at;
  return drawBlock({ header, pods: group.pods.filter((pod) => report.pods[pod]), toggle });
}

function otherBlock(pods) {
  const toggle = make("span", { class: "fold", "aria-hidden": "true" });
  const about = { title: "Pods without a sequence", lines: [`${pods.length} pods that no sequence holds`], why: null };
  const header = drawRow({ look: "group", name: [toggle, about.title], spans: [], beside: [], about, aboutBar: () => about });
  return drawBlock({ header, pods, toggle });
}

// Reservations: an Order, or the tickets that were created by hand, and a row for each ticket, sorted by node.
function ticketBlock(title, message, tickets) {
  const about = { title, lines: [message, `${tickets.length} tickets`], why: null };
  const header = drawRow({ look: "group", name: [title], spans: [], beside: message ? [make("b", { text: message })] : [], about, aboutBar: () => about });
  const byNode = [...tickets].sort((one, other) => (one.node ?? "").localeCompare(other.node ?? ""));
  const block = make("div", { role: "rowgroup" }, header);
  const rowOf = (ticket) => drawRow({
    look: "ticket", name: [ticket.name], spans: spansOf(ticket), beside: [make("span", { text: [ticket.spans.at(-1)?.claimedBy, ticket.node && `on ${ticket.node}`].filter(Boolean).join(" ") })],
    about: aboutTicket(ticket), aboutBar: (span) => aboutTicket(ticket, span),
  });
  const fill = (all) => {
    const shown = all || byNode.length <= FEW ? byNode : byNode.slice(0, FEW - 1);
    const rows = shown.map(rowOf);
    if (shown.length < byNode.length) {
      const left = byNode.length - shown.length;
      const more = { title: `${left} more tickets`, lines: ["press Enter to show them"], why: null };
      const row = drawRow({ look: "more", name: [`… and ${left} more`], spans: [], beside: ["show all"], about: more, aboutBar: () => more });
      row.act = () => fill(true);
      row.addEventListener("click", row.act);
      rows.push(row);
    }
    block.replaceChildren(header, ...rows);
  };
  fill(false);
  return block;
}

function drawTickets() {
  const tickets = report.tickets ?? [];
  for (const order of report.orders ?? []) {
    const own = tickets.filter((ticket) => ticket.namespace === order.namespace && ticket.order === order.name);
    chart.append(ticketBlock(`order/${order.name}`, order.message, own));
  }
  const byHand = tickets.filter((ticket) => ticket.order === null);
  if (byHand.length) chart.append(ticketBlock("Tickets without an Order", "", byHand));
}

// Exactly one row is in the Tab order; the arrow keys choose it.
function take(row) {
  if (!row) return;
  chart.querySelectorAll('[tabindex="0"]').forEach((other) => other.setAttribute("tabindex", "-1"));
  row.setAttribute("tabindex", "0");
  row.focus();
}

function steer(event) {
  const row = event.target.closest(".row");
  if (!row) return;
  const rows = [...chart.querySelectorAll(".row[tabindex]")];
  const at = rows.indexOf(row);
  const bar = (next) => row.showBar(next < 0 || next >= row.bars.length ? undefined : next);
  const keys = {
    ArrowDown: () => take(rows[at + 1]),
    ArrowUp: () => take(rows[at - 1]),
    Home: () => take(rows[0]),
    End: () => take(rows.at(-1)),
    ArrowRight: () => bar(row.at === undefined ? 0 : row.at + 1),
    ArrowLeft: () => bar(row.at === undefined ? row.bars.length - 1 : row.at - 1),
    Enter: () => row.act?.(),
    " ": () => row.act?.(),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function drawLegend() {
  const spans = report.pods.flatMap((pod) => [...pod.spans, ...(pod.ranks ?? []).flatMap((rank) => rank.spans)]);
  const seen = new Set([...spans, ...(report.tickets ?? []).flatMap((ticket) => ticket.spans)].map((span) => span.state));
  for (const group of report.sequences.flatMap((sequence) => sequence.groups)) {
    spansOfGroup(group).forEach((span) => seen.add(span.state));
  }
  const legend = document.querySelector("#timeline .legend");
  for (const state of Object.keys(WORDS).filter((state) => seen.has(state))) {
    const sample = make("i", {});
    const bar = make("span", { class: `bar ${state}` });
    bar.style.width = "26px";
    sample.append(bar);
    legend.append(make("li", {}, sample, WORDS[state]));
  }
  if (criticalPods.size) legend.append(make("li", { text: "◆ on the critical chain" }));
}

function drawTimeline() {
  const section = document.getElementById("timeline");
  const empty = !report.pods.length && !(report.tickets ?? []).length && !(report.orders ?? []).length;
  section.hidden = empty && !report.sequences.some((sequence) => sequence.groups.length);
  if (section.hidden) return;
  chart.setAttribute("role", "grid");
  chart.setAttribute("aria-label", `Timeline of ${report.pods.length} pods over ${time(report.ended)}`);
  chart.append(drawAxis());
  const claimed = new Set();
  for (const sequence of report.sequences) {
    if (report.sequences.length > 1) chart.append(make("h3", { text: titleOf(sequence) }));
    sequence.groups.forEach((group, at) => {
      chart.append(groupBlock(sequence, at));
      group.pods.forEach((pod) => claimed.add(pod));
    });
  }
  const others = report.pods.map((_, at) => at).filter((at) => !claimed.has(at));
  if (others.length) chart.append(otherBlock(others));
  drawTickets();
  chart.querySelector(".row[tabindex]")?.setAttribute("tabindex", "0");
  chart.addEventListener("keydown", steer);
  drawLegend();
}
