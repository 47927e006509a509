// The report, and functions that describe its parts in words.

const report = JSON.parse(document.getElementById("report").textContent);

const WORDS = {
  Held: "held", Unschedulable: "no node fits", Starting: "starting", Ready: "ready", NotReady: "not ready",
  Succeeded: "succeeded", Failed: "failed", Terminating: "terminating",
  Pending: "pending", NoRoom: "no capacity", Reserved: "reserved", Claimed: "claimed", Expired: "expired",
};

// The picture extends a little beyond the end of the run, so that the bars of the last pods are visible.
const total = Math.max((report.ended * 17) / 16, 1);
const criticalPods = new Map(report.critical.map((step) => [step.pod, step]));

// Creates an element with text, never markup, because the names in a report are untrusted.
function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key === "text") element.textContent = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Formats a duration: 12.4s, 2m05s, 1h02m.
function time(milliseconds) {
  const tenths = Math.floor((milliseconds + 50) / 100);
  if (tenths < 600) return `${Math.floor(tenths / 10)}.${tenths % 10}s`;
  const seconds = Math.floor((milliseconds + 500) / 1000);
  const two = (number) => String(number).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  return `${Math.floor(seconds / 3600)}h${two(Math.floor(seconds / 60) % 60)}m`;
}

// The spans of a pod with their ends; a span without an end extends to the edge of the picture.
function spansOf(pod) {
  const end = (at) => pod.spans[at + 1]?.from ?? pod.deleted;
  return pod.spans.map((span, at) => ({ ...span, to: end(at) ?? total, lasts: end(at) === null || end(at) === undefined }));
}

// The spans of a rank of the pod's containers; the last one ends when the pod is deleted.
function spansOfRank(pod, rank) {
  return spansOf({ spans: rank.spans, deleted: pod.deleted });
}

// The creation time of the group's first pod.
function began(group) {
  const first = group.pods.map((pod) => report.pods[pod]?.spans[0]?.from).filter((from) => from !== undefined);
  return first.length ? Math.min(...first) : 0;
}

function spansOfGroup(group) {
  const [from, opened, completed] = [began(group), group.opened ?? total, group.completed ?? total];
  const opens = Math.max(from, opened);
  const spans = [
    { from, to: opened, state: "Held" },
    { from: opens, to: completed, state: "Starting" },
    { from: Math.max(opens, completed), to: total, state: "Ready" },
  ];
  return spans.filter((span) => span.to > span.from);
}

// The title of a sequence, with its namespace if the report has sequences of several namespaces.
function titleOf(sequence) {
  const several = report.sequences.some((other) => other.namespace !== sequence.namespace);
  return several ? `podseq/${sequence.namespace}/${sequence.name}` : `podseq/${sequence.name}`;
}

function nameOf(group, at) {
  return group.name || `group ${at + 1}`;
}

function progress(group) {
  const states = group.pods.map((pod) => report.pods[pod]?.spans.at(-1)?.state);
  const done = states.filter((state) => state === "Succeeded").length;
  const how = done === 0 ? "ready" : done === states.length ? "done" : "arrived";
  const of = group.expected === null ? `${group.arrived}` : `${group.arrived}/${group.expected}`;
  if (group.completed !== null) return `${of} ${how} after ${time(group.completed)}`;
  if (group.state === "TimedOut") return `${of} ${how}, timed out`;
  return group.opened === null ? `${of} ${how}, never opened` : `${of} ${how}, not complete`;
}

function waited(groups, group) {
  const before = group.waitsFor.filter((at) => groups[at]);
  if (!before.length) return "";
  const when = (at) => groups[at].completed ?? Infinity;
  const last = before.reduce((one, other) => (when(other) >= when(one) ? other : one));
  const name = nameOf(groups[last], last);
  if (group.opened === null) return `waits for ${name}`;
  const waited = group.opened - began(group);
  return waited > 0 ? `waited for ${name} ${time(waited)}` : "";
}

// Descriptions for tooltips: a title, further lines, and the reason for a wait.
function aboutPod(pod) {
  const where = [pod.workload, pod.node && `on ${pod.node}`].filter(Boolean).join(" ");
  const last = pod.spans.at(-1);
  const now = pod.arrived !== null ? `arrived after ${time(pod.arrived)}` : last ? `${WORDS[last.state]} at the end` : "never created";
  return { title: pod.name, lines: [where, now], why: pod.reason };
}

function aboutSpan(pod, span) {
  const { lines } = aboutPod(pod);
  const word = WORDS[span.state];
  const length = span.lasts ? `${word} from ${time(span.from)} on` : `${word} for ${time(span.to - span.from)}: ${time(span.from)} – ${time(span.to)}`;
  const isLast = span.from === pod.spans.at(-1).from;
  return { title: pod.name, lines: [length, span.why, lines[0]], why: isLast ? pod.reason : null };
}

function aboutRank(pod, rank, span) {
  const about = { title: `${pod.name}, rank ${rank.priority}`, lines: [rank.containers.join(", ")], why: null };
  if (!span) return { ...about, lines: [...about.lines, `${WORDS[rank.spans.at(-1)?.state] ?? "never created"} at the end`] };
  const { lines } = aboutSpan({ ...pod, spans: rank.spans }, span);
  return { ...about, lines: [...about.lines, lines[0], lines[1]] };
}

function aboutTicket(ticket, span) {
  const last = span ?? ticket.spans.at(-1);
  const where = [ticket.order ? `of Order ${ticket.order}` : "created by hand", ticket.node && `on ${ticket.node}`].filter(Boolean).join(" ");
  const word = last ? (last.claimedBy ? `claimed by ${last.claimedBy}` : WORDS[last.state]) : "never created";
  const when = !span ? `${word} at the end` : span.lasts ? `${word} from ${time(span.from)} on` : `${word} for ${time(span.to - span.from)}: ${time(span.from)} – ${time(span.to)}`;
  return { title: ticket.name, lines: [where, when, last?.why], why: null };
}

function aboutGroup(sequence, at) {
  const group = sequence.groups[at];
  const place = `group ${at + 1} of ${sequence.groups.length} in ${sequence.name}`;
  const names = group.waitsFor.map((before) => nameOf(sequence.groups[before] ?? { name: "" }, before));
  const waits = names.length ? `waits for ${names.join(", ")}` : "waits for nothing";
  const opened = group.opened === null ? "never opened" : `opened after ${time(group.opened)}`;
  return { title: nameOf(group, at), lines: [place, progress(group), `${waits}; ${opened}`], why: group.reason };
}

function spoken(about) {
  const { title, lines, why } = about;
  return [title, ...lines.filter(Boolean), why?.sentence].filter(Boolean).join(". ");
}
