// Viewer of attention maps. All weights arrive once, as 16-bit integers; nothing here asks the kernel for anything.

const SVG = "http://www.w3.org/2000/svg";
const HINT = "Point at a cell, or use Tab and the arrow keys; click a word on the left to pin its row.";

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function draw(name, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

function decode(view) {
  const bytes = view instanceof ArrayBuffer ? new DataView(view) : new DataView(view.buffer, view.byteOffset, view.byteLength);
  const weights = new Float64Array(bytes.byteLength / 2);
  for (let n = 0; n < weights.length; n++) weights[n] = bytes.getUint16(2 * n, true) / 65535;
  return weights;
}

function render({ model, el }) {
  const [layers, heads, length] = model.get("shape");
  const tokens = model.get("tokens");
  const weights = decode(model.get("data"));
  let cursor = null; // [query, key] under the pointer or moved by the arrow keys

  const at = (layer, head, i, j) => weights[((layer * heads + head) * length + i) * length + j];
  const weight = (i, j) => {
    const layer = model.get("layer");
    if (!model.get("mean")) return at(layer, model.get("head"), i, j);
    let sum = 0;
    for (let head = 0; head < heads; head++) sum += at(layer, head, i, j);
    return sum / heads;
  };
  const top = (i) => {
    let best = 0;
    for (let j = 1; j < length; j++) if (weight(i, j) > weight(i, best)) best = j;
    return best;
  };
  const say = (i, j) => `${tokens[i]} → ${tokens[j]} ${weight(i, j).toFixed(2)}`;
  const set = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };

  // The bar of controls.
  const slider = (name, count) => {
    const input = make("input", { type: "range", class: `mhalib-heads-${name}`, min: 0, max: count - 1, step: 1, "aria-label": name });
    const value = make("b");
    const label = make("label", {}, `${name} `, input, value);
    label.hidden = count === 1;
    input.addEventListener("input", () => set(name, Number(input.value)));
    return { input, value, label };
  };
  const layer = slider("layer", layers);
  const head = slider("head", heads);
  const mean = make("input", { type: "checkbox", class: "mhalib-heads-mean" });
  mean.addEventListener("change", () => set("mean", mean.checked));
  const meanLabel = make("label", {}, mean, "mean over heads (hides them)");
  meanLabel.hidden = heads === 1;
  const pick = make("select", { class: "mhalib-heads-pick", "aria-label": "query whose row is pinned" }, make("option", { value: -1 }, "no row"));
  tokens.forEach((token, i) => pick.append(make("option", { value: i }, `${i} ${token}`)));
  pick.addEventListener("change", () => set("query", Number(pick.value)));
  const bar = make("div", { class: "mhalib-heads-bar" }, layer.label, head.label, make("label", {}, "query ", pick), meanLabel);

  const readout = make("output", { class: "mhalib-heads-readout", "aria-live": "polite" });
  const hint = make("span", { class: "mhalib-heads-hint" });
  const sentence = make("div", { class: "mhalib-heads-say" }, readout, hint);

  // The map: queries are rows, keys are columns.
  const px = length <= 24 ? 20 : length <= 40 ? 14 : 10;
  const font = Math.min(13, Math.max(9, px - 5));
  const margin = Math.ceil(Math.max(...tokens.map((token) => token.length)) * font * 0.64) + 10;
  const side = px * length;
  const scale = 34;
  const map = draw("svg", {
    class: "mhalib-heads-canvas", role: "application", tabindex: 0,
    width: margin + side + 4, height: margin + side + 4 + scale, viewBox: `0 0 ${margin + side + 4} ${margin + side + 4 + scale}`,
  });
  const cells = [], queries = [], keys = [];
  for (let i = 0; i < length; i++) {
    const middle = margin + (i + 0.5) * px;
    queries.push(draw("text", { class: "mhalib-heads-query", x: margin - 6, y: middle, "text-anchor": "end", "dominant-baseline": "central", "font-size": font, "data-i": i }, tokens[i]));
    keys.push(draw("text", { class: "mhalib-heads-key", x: 0, y: 0, transform: `translate(${middle} ${margin - 6}) rotate(-90)`, "dominant-baseline": "central", "font-size": font }, tokens[i]));
    for (let j = 0; j < length; j++) {
      cells.push(draw("rect", { class: "mhalib-heads-cell", x: margin + j * px, y: margin + i * px, width: px, height: px, "data-i": i, "data-j": j }));
    }
  }
  const frame = draw("rect", { class: "mhalib-heads-frame", x: margin, y: margin, width: side, height: side });
  const pin = draw("rect", { class: "mhalib-heads-pin", x: margin, width: side, height: px });
  const here = draw("rect", { class: "mhalib-heads-cursor", width: px, height: px });
  const legend = draw("g", { class: "mhalib-heads-scale", transform: `translate(${margin} ${margin + side + 14})`, "aria-hidden": "true" });
  for (let n = 0; n <= 10; n++) legend.append(draw("rect", { class: "mhalib-heads-step", x: n * 11, y: 0, width: 11, height: 11, "fill-opacity": n / 10 }));
  legend.append(draw("rect", { class: "mhalib-heads-frame", x: 0, y: 0, width: 121, height: 11 }));
  legend.append(draw("text", { x: -5, y: 6, "text-anchor": "end", "dominant-baseline": "central", "font-size": 11 }, "0"));
  legend.append(draw("text", { x: 126, y: 6, "dominant-baseline": "central", "font-size": 11 }, "1 weight"));
  map.append(...cells, frame, pin, here, ...queries, ...keys, legend);

  const row = make("table", { class: "mhalib-heads-row" });
  const root = make("div", { class: "mhalib-heads", role: "group", "aria-label": "viewer of attention maps" },
    bar, sentence, make("div", { class: "mhalib-heads-body" }, map, row));
  root.dataset.lmSuppressShortcuts = "true"; // the arrow keys belong to the viewer, not to the notebook's cells
  el.append(root);

  function showCursor() {
    const pinned = model.get("query");
    here.style.display = cursor ? "" : "none";
    keys.forEach((label, j) => label.classList.toggle("is-here", Boolean(cursor) && cursor[1] === j));
    queries.forEach((label, i) => label.classList.toggle("is-here", Boolean(cursor) && cursor[0] === i));
    if (cursor) {
      const [i, j] = cursor;
      here.setAttribute("x", margin + j * px);
      here.setAttribute("y", margin + i * px);
      readout.textContent = say(i, j);
      hint.textContent = "";
    } else if (pinned >= 0) {
      readout.textContent = say(pinned, top(pinned));
      hint.textContent = "the largest weight of this row";
    } else {
      readout.textContent = "";
      hint.textContent = HINT;
    }
  }

  function showRow() {
    const pinned = model.get("query");
    pin.style.display = row.style.display = pinned >= 0 ? "" : "none";
    pick.value = String(pinned);
    queries.forEach((label, i) => label.classList.toggle("is-pinned", i === pinned));
    if (pinned < 0) return;
    pin.setAttribute("y", margin + pinned * px);
    const best = top(pinned);
    row.replaceChildren(make("caption", {}, `${tokens[pinned]} attends to, in ${place()}`));
    for (let j = 0; j < length; j++) {
      const value = weight(pinned, j);
      const stripe = make("div", { style: `width: ${(100 * value).toFixed(1)}%` });
      row.append(make("tr", { class: j === best ? "is-top" : "" },
        make("th", { scope: "row" }, tokens[j]),
        make("td", { class: "mhalib-heads-number" }, value.toFixed(2)),
        make("td", { class: "mhalib-heads-bars", "aria-hidden": "true" }, stripe)));
    }
  }

  function place() {
    const which = model.get("mean") ? `the mean of ${heads} heads` : `head ${model.get("head")}`;
    return layers > 1 ? `layer ${model.get("layer")}, ${which}` : which;
  }

  function showAll() {
    layer.input.value = layer.value.textContent = model.get("layer");
    head.input.value = head.value.textContent = model.get("head");
    head.input.disabled = mean.checked = model.get("mean");
    for (let i = 0; i < length; i++) {
      for (let j = 0; j < length; j++) cells[i * length + j].setAttribute("fill-opacity", weight(i, j).toFixed(4));
    }
    map.setAttribute("aria-label", `Attention map of ${place()}; rows are queries, columns are keys. The arrow keys move, Enter pins the row, Escape leaves.`);
    showRow();
    showCursor();
  }

  const toggle = (i) => set("query", model.get("query") === i ? -1 : i);
  map.addEventListener("pointermove", (event) => {
    const { i, j } = event.target.dataset;
    cursor = j === undefined ? null : [Number(i), Number(j)];
    showCursor();
  });
  map.addEventListener("pointerleave", () => {
    cursor = null;
    showCursor();
  });
  map.addEventListener("click", (event) => {
    if (event.target.dataset.i !== undefined) toggle(Number(event.target.dataset.i));
  });
  map.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -length], End: [0, length] };
    const inside = (n) => Math.min(length - 1, Math.max(0, n));
    if (event.key in steps) {
      const start = cursor ?? [Math.max(0, model.get("query")), model.get("query") < 0 ? 0 : top(model.get("query"))];
      cursor = cursor ? [inside(start[0] + steps[event.key][0]), inside(start[1] + steps[event.key][1])] : start;
    } else if (event.key === "Enter" || event.key === " ") {
      if (cursor) toggle(cursor[0]);
    } else if (event.key === "Escape") {
      cursor = null;
      map.blur();
    } else return;
    event.preventDefault();
    showCursor();
  });
  root.addEventListener("keydown", (event) => event.stopPropagation());

  const views = { "change:layer": showAll, "change:head": showAll, "change:mean": showAll, "change:query": () => (showRow(), showCursor()) };
  for (const [name, show] of Object.entries(views)) model.on(name, show);
  showAll();
  return () => {
    for (const [name, show] of Object.entries(views)) model.off(name, show);
  };
}

export default { render };
