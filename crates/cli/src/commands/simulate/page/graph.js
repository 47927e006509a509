// Draws the groups of each sequence as a graph in columns: a group stands to the right of all groups that it waits for.

const BOX = { width: 184, height: 62, apart: 54, below: 18, lane: 14 };

function svg(name, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Returns, for each group, the length of the longest chain of groups before it.
function depths(groups) {
  const known = new Array(groups.length);
  const depth = (at, path) => {
    if (known[at] !== undefined || path.has(at)) return known[at] ?? 0;
    const before = groups[at].waitsFor.filter((other) => groups[other]);
    known[at] = before.length ? 1 + Math.max(...before.map((other) => depth(other, new Set(path).add(at)))) : 0;
    return known[at];
  };
  // In the order of the list: most groups come after those that they wait for, so the recursion stays shallow.
  return groups.map((_, at) => depth(at, new Set()));
}

// Assigns each column its slots: groups, and lanes for edges that pass through the column, so that no edge crosses a box.
function layOut(groups) {
  const depth = depths(groups);
  const columns = Array.from({ length: Math.max(...depth) + 1 }, () => []);
  groups.forEach((_, at) => columns[depth[at]].push({ group: at, from: groups[at].waitsFor.filter((b) => groups[b]) }));
  const edges = [];
  groups.forEach((group, to) => {
    for (const from of group.waitsFor.filter((before) => groups[before])) {
      const lanes = [];
      for (let column = depth[from] + 1; column < depth[to]; column++) {
        const lane = { lane: true, from: [from] };
        columns[column].push(lane);
        lanes.push(lane);
      }
      edges.push({ from, to, lanes });
    }
  });
  const slots = new Map();
  const heights = columns.map((column) => column.reduce((sum, slot) => sum + (slot.lane ? BOX.lane : BOX.height) + BOX.below, -BOX.below));
  const height = Math.max(...heights);
  columns.forEach((column, number) => {
    // The mean position of the groups that a slot depends on; sorting by it places each slot near them.
    const middle = (slot) => {
      const places = slot.from.map((group) => slots.get(group)?.y ?? 0);
      return places.length ? places.reduce((sum, y) => sum + y, 0) / places.length : 0;
    };
    if (number > 0) column.sort((one, other) => middle(one) - middle(other));
    let y = (height - heights[number]) / 2;
    for (const slot of column) {
      const tall = slot.lane ? BOX.lane : BOX.height;
      Object.assign(slot, { x: number * (BOX.width + BOX.apart), y, middle: y + tall / 2 });
      if (!slot.lane) slots.set(slot.group, slot);
      y += tall + BOX.below;
    }
  });
  return { slots, edges, columns, width: columns.length * (BOX.width + BOX.apart) - BOX.apart, height };
}

function route(edge, slots) {
  const [from, to] = [slots.get(edge.from), slots.get(edge.to)];
  let path = `M${from.x + BOX.width},${from.middle}`;
  let [x, y] = [from.x + BOX.width, from.middle];
  const curve = (nextX, nextY) => {
    const bend = (nextX - x) / 2;
    path += ` C${x + bend},${y} ${nextX - bend},${nextY} ${nextX},${nextY}`;
    [x, y] = [nextX, nextY];
  };
  for (const lane of edge.lanes) {
    curve(lane.x, lane.middle);
    path += ` H${lane.x + BOX.width}`;
    x = lane.x + BOX.width;
  }
  curve(to.x - 7, to.middle);
  return { path, arrow: `M${to.x - 8},${to.middle - 4.5} l8,4.5 l-8,4.5 z` };
}

// Cuts the text to the width of the box; the tooltip has the whole name.
function clipped(element, text, width) {
  element.textContent = text;
  let length = [...text].length;
  while (length > 1 && element.getComputedTextLength() > width) {
    length -= 1;
    element.textContent = [...text].slice(0, length).join("") + "…";
  }
}

function drawNode(sequence, at, slot, critical) {
  const group = sequence.groups[at];
  const about = aboutGroup(sequence, at);
  const share = group.expected ? Math.min(1, group.arrived / group.expected) : group.completed !== null ? 1 : 0;
  const state = group.completed !== null ? "complete" : group.opened === null ? "waiting" : "open";
  const name = svg("text", { x: slot.x + 12, y: slot.y + 22 });
  const small = svg("text", { class: "small", x: slot.x + 12, y: slot.y + 41 });
  const bar = { x: slot.x + 12, y: slot.y + BOX.height - 11, height: 4, rx: 2 };
  const node = svg("g", {
    class: `node ${state}${critical ? " critical" : ""}`, tabindex: "-1", role: "img",
    "aria-label": spoken(about), "aria-describedby": "tip", "data-group": at,
  },
    svg("rect", { class: "box", x: slot.x, y: slot.y, width: BOX.width, height: BOX.height, rx: 8 }),
    name, small,
    svg("rect", { class: "share", width: BOX.width - 24, ...bar }),
    svg("rect", { class: "done", width: (BOX.width - 24) * share, ...bar }),
  );
  node.addEventListener("pointerenter", () => showTip(about, node));
  node.addEventListener("pointerleave", hideTip);
  node.addEventListener("focus", () => showTip(about, node));
  node.addEventListener("blur", hideTip);
  const mark = state === "complete" ? "" : "✗ ";
  return { node, fill: () => { clipped(name, mark + nameOf(group, at), BOX.width - 24); clipped(small, progress(group), BOX.width - 24); } };
}

function drawGraph(sequence) {
  const { groups } = sequence;
  const { slots, edges, columns, width, height } = layOut(groups);
  const steps = report.critical.map((step) => groups.findIndex((group) => group.pods.includes(step.pod)));
  const critical = new Set(steps);
  const isCritical = (edge) => critical.has(edge.from) && critical.has(edge.to) &&
    steps.some((group, at) => group === edge.to && steps.slice(0, at).includes(edge.from));
  const picture = svg("svg", {
    width: width + 8, height: height + 8, viewBox: `-4 -4 ${width + 8} ${height + 8}`, role: "group",
    "aria-label": `The groups of ${sequence.name} in ${columns.length} columns`,
  });
  const inOrder = [...edges].sort((one, other) => isCritical(one) - isCritical(other));
  for (const edge of inOrder) {
    const { path, arrow } = route(edge, slots);
    const look = isCritical(edge) ? " critical" : "";
    picture.append(svg("path", { class: `edge${look}`, d: path }), svg("path", { class: `arrow${look}`, d: arrow }));
  }
  const nodes = groups.map((_, at) => drawNode(sequence, at, slots.get(at), critical.has(at)));
  picture.append(...nodes.map(({ node }) => node));
  if (nodes.length) nodes[0].node.setAttribute("tabindex", "0");
  picture.addEventListener("keydown", (event) => {
    const at = Number(event.target.dataset?.group);
    const next = Number.isInteger(at) ? neighbour(groups, columns, slots, at, event.key) : undefined;
    if (next === undefined) return;
    event.preventDefault();
    nodes.forEach(({ node }, other) => node.setAttribute("tabindex", other === next ? "0" : "-1"));
    nodes[next].node.focus();
  });
  return { picture, fill: () => nodes.forEach(({ fill }) => fill()) };
}

// Moves left to a group that this group waits for, right to a group that waits for it, and up and down within the column.
function neighbour(groups, columns, slots, at, key) {
  if (key === "ArrowLeft") return groups[at].waitsFor.find((other) => groups[other]);
  if (key === "ArrowRight") {
    const next = groups.findIndex((group) => group.waitsFor.includes(at));
    return next < 0 ? undefined : next;
  }
  const column = columns.map((slots) => slots.filter((slot) => !slot.lane)).find((slots) => slots.some((slot) => slot.group === at));
  const place = column.findIndex((slot) => slot.group === at);
  if (key === "ArrowUp") return column[place - 1]?.group;
  if (key === "ArrowDown") return column[place + 1]?.group;
  return undefined;
}

function drawGraphs() {
  const sequences = report.sequences.filter((sequence) => sequence.groups.length);
  const section = document.getElementById("graph");
  section.hidden = !sequences.length;
  for (const sequence of sequences) {
    const { picture, fill } = drawGraph(sequence);
    const place = section.querySelector(".graphs");
    const title = `${titleOf(sequence)} · ${sequence.phase}`;
    place.append(make("h3", { text: title }), make("div", { class: "graph" }, picture));
    // The length of text can be measured only once it is in the page.
    fill();
  }
}
