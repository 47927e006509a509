// The tooltip that explains the element under the pointer or with the focus.

const tip = document.getElementById("tip");

function showTip(about, anchor) {
  const { title, lines, why } = about;
  tip.replaceChildren(
    make("b", { text: title }),
    ...lines.filter(Boolean).map((line) => make("div", { class: "soft", text: line })),
  );
  if (why) {
    tip.append(make("div", { text: `${why.sentence} (${why.code})` }));
    if (why.hint) tip.append(make("div", { class: "hint", text: why.hint }));
  }
  tip.hidden = false;
  tip.anchor = anchor;
  placeTip();
}

// Places the tooltip below the element, or above it if there is no space, but always within the window.
function placeTip() {
  const box = tip.anchor.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(12, box.left), window.innerWidth - own.width - 12);
  const below = box.bottom + 8;
  const fits = below + own.height < window.innerHeight;
  tip.style.left = `${Math.max(12, left)}px`;
  tip.style.top = `${fits ? below : Math.max(8, box.top - own.height - 8)}px`;
}

function hideTip() {
  tip.hidden = true;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
// Focusing an element can scroll the page, so the tooltip moves with it.
window.addEventListener("scroll", () => tip.hidden || placeTip(), { passive: true, capture: true });
