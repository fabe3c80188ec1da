// The space-time diagram. Draws the visible window of time with few SVG paths, so that it stays fast with many events.
// Texts of a target become text nodes, never markup.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const GUTTER = 160, ROW = 30, SUBROW = 17, CLIENT = 20, TOP = 8, LABEL = 17, AXIS = 40, HIT = 7, TRACK = 17, TOGETHER = 14;
  const LABELS_MAX = 24, CHAIN_MAX = 40, CAUSED_MAX = 300;
  const STEPS = [1, 2, 5];
  // How operations on stores are linked; the first two are causes, the others dependences. Words for the later operation,
  // before the name of the earlier one; and the other way round.
  const LINKS = [["takes the item put by", "taken by"], ["receives the message sent by", "received by"],
    ["reads the value written by", "read by"], ["follows the change by", "followed by"]];
  const DEPENDS = 2, READERS_MAX = 12;

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function svg(name, attributes = {}, parent = null) {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.append(made);
    return made;
  }

  function html(name, kind = "", text = "") {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text) made.textContent = text;
    return made;
  }

  function summed(deltas) {
    const out = new Float64Array(deltas.length);
    let sum = 0;
    for (let i = 0; i < deltas.length; i++) out[i] = sum += deltas[i];
    return out;
  }

  function duration(ns) {
    if (ns >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
    if (ns >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
    return `${(ns / 1e3).toFixed(1)} µs`;
  }

  class Diagram {
    constructor(box, picture) {
      this.box = box;
      this.p = picture;
      this.whole = box.classList.contains("st-page");
      const e = picture.events;
      this.n = e.t.length;
      this.t = summed(e.t);
      this.d = Float64Array.from(e.d);
      this.group = Uint8Array.from(e.op, (op) => picture.groupOf[op]);
      this.shown = new Uint8Array(this.n).fill(1);
      this.late = Uint8Array.from(e.op, (op) => (picture.late.includes(op) ? 1 : 0));
      for (const i of picture.taken) this.late[i] = 1;
      this.ma = summed(picture.messages.a);
      this.mb = picture.messages.b;
      this.open = new Set();
      this.hidden = new Set(picture.groups.map((g, i) => (g.hidden ? i : -1)).filter((i) => i >= 0));
      this.with = { messages: true, failures: true, edges: false, stores: false };
      this.query = "";
      this.pinned = -1;
      this.lanesOf = picture.subs.map(([lane]) => lane);
      this.used = new Set(e.s.map((s) => this.lanesOf[s]));
      this.from = picture.view[0];
      this.to = picture.view[1];
      this.build();
      this.filter();
      new ResizeObserver(() => this.later()).observe(this.stage);
    }

    // --- the frame

    build() {
      this.box.textContent = "";
      this.box.classList.add("st-live");
      this.bar = html("div", "st-bar");
      this.stage = html("div", "st-stage");
      this.stage.tabIndex = 0;
      this.stage.setAttribute("aria-label", `${this.p.title}. Arrow keys move, plus and minus zoom, 0 shows all.`);
      this.svg = svg("svg", { class: "st-svg", role: "img" }, this.stage);
      this.tip = html("div", "st-tip");
      this.tip.hidden = true;
      this.panel = html("div", "st-panel");
      this.legend = html("div", "st-legend");
      this.box.append(this.bar, this.stage, this.legend, this.tip, this.panel);
      this.buildBar();
      this.buildLegend();
      this.listen();
      for (const note of this.p.notes) this.box.append(html("p", "st-note", note));
    }

    button(text, title, action) {
      const made = html("button", "", text);
      made.type = "button";
      made.title = title;
      made.addEventListener("click", action);
      this.bar.append(made);
      return made;
    }

    buildBar() {
      this.button("−", "zoom out (-)", () => this.zoom(1.6));
      this.button("+", "zoom in (+)", () => this.zoom(1 / 1.6));
      this.button("all", "the whole run (0)", () => this.fit());
      if (this.p.marks.length) this.button("fault", "go to the fault (f)", () => this.toFault());
      this.opener = this.button("threads", "show or hide the threads of all lanes (o)", () => this.toggleAll());
      this.search = html("input", "st-search");
      this.search.type = "search";
      this.search.placeholder = "filter: operation, target, function …";
      this.search.setAttribute("aria-label", "show only operations that contain this text");
      this.search.addEventListener("input", () => {
        this.query = this.search.value.trim().toLowerCase();
        this.filter();
      });
      this.bar.append(this.search);
      this.count = html("span", "st-count");
      this.bar.append(this.count);
      this.check("messages", "messages", this.ma.length);
      this.check("failures", "failed messages", this.p.failures.length);
      this.check("edges", "hand-overs and waits", this.p.edges.a.length);
    }

    check(key, text, number) {
      if (!number) return;
      const label = html("label"), input = html("input");
      input.type = "checkbox";
      input.checked = this.with[key];
      input.addEventListener("change", () => {
        this.with[key] = input.checked;
        this.later();
      });
      label.append(input, ` ${text} (${number.toLocaleString("en")})`);
      this.bar.append(label);
    }

    buildLegend() {
      const numbers = new Array(this.p.groups.length).fill(0);
      for (const g of this.group) numbers[g]++;
      this.p.groups.forEach((group, i) => {
        if (!numbers[i]) return;
        const chip = html("button", `st-chip st-g-${group.key}`);
        chip.type = "button";
        chip.append(html("i"), `${group.words} (${numbers[i].toLocaleString("en")})`);
        chip.title = "show or hide";
        chip.setAttribute("aria-pressed", String(!this.hidden.has(i)));
        chip.addEventListener("click", () => {
          if (!this.hidden.delete(i)) this.hidden.add(i);
          chip.setAttribute("aria-pressed", String(!this.hidden.has(i)));
          this.filter();
        });
        this.legend.append(chip);
      });
      if (this.p.stores.a.length) this.buildStoresChip();
      for (const [kind, words] of this.p.signs) {
        const sign = html("span", "st-sign");
        const picture = svg("svg", { class: "tl st-mini", viewBox: "0 0 16 16" }, sign);
        this.sign(picture, kind);
        sign.append(words);
        this.legend.append(sign);
      }
    }

    buildStoresChip() {
      const chip = html("button", "st-chip st-links");
      chip.type = "button";
      chip.append(html("i"), `links through stores (${this.p.stores.a.length.toLocaleString("en")})`);
      chip.title = "show or hide: items put and taken, messages published and received (solid lines); values written and read (dotted lines)";
      chip.setAttribute("aria-pressed", "false");
      chip.addEventListener("click", () => {
        this.with.stores = !this.with.stores;
        chip.setAttribute("aria-pressed", String(this.with.stores));
        this.later();
      });
      this.legend.append(chip);
    }

    sign(to, kind) {
      const shapes = {
        fault: ["path", { d: "M8 1l6 7l-6 7l-6 -7z" }], healed: ["path", { d: "M8 1v14" }], stalled: ["path", { d: "M8 1v14" }],
        death: ["path", { d: "M3 4h10l-5 7z" }], well: ["circle", { cx: 8, cy: 8, r: 3.6 }], ill: ["circle", { cx: 8, cy: 8, r: 3.6 }],
        over: ["path", { d: "M5 1v14l7 -7z" }], failed: ["path", { d: "M1 8h7m1 -4l6 8m0 -8l-6 8" }], end: ["path", { d: "M4 4l8 8m0 -8l-8 8" }],
      };
      const [name, attributes] = shapes[kind.split(" ")[0]] || ["rect", { x: 1, y: 3, width: 14, height: 10, rx: 2 }];
      svg(name, { class: `tl-${kind}`, ...attributes }, to);
    }

    listen() {
      const stage = this.stage;
      stage.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
      stage.addEventListener("pointerdown", (e) => this.press(e));
      stage.addEventListener("pointermove", (e) => this.move(e));
      stage.addEventListener("pointerup", (e) => this.release(e));
      stage.addEventListener("pointercancel", () => { this.drag = null; });
      stage.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      stage.addEventListener("dblclick", (e) => this.zoom(1 / 3, this.timeAt(this.xOf(e))));
      const target = this.whole ? document : stage;
      target.addEventListener("keydown", (e) => this.key(e));
    }

    // --- the visible window

    /** Reading the page's width while drawing is slow, so each picture does it once. */
    measure() {
      this.width = Math.max(GUTTER + 100, this.stage.clientWidth);
      this.right = this.width - 12;
      this.scale = (this.right - GUTTER) / (this.to - this.from);
    }

    x(t) { return GUTTER + (t - this.from) * this.scale; }
    timeAt(x) { return this.from + ((x - GUTTER) / (this.right - GUTTER)) * (this.to - this.from); }
    xOf(e) { return e.clientX - this.svg.getBoundingClientRect().left; }
    yOf(e) { return e.clientY - this.svg.getBoundingClientRect().top; }

    look(from, to) {
      const [least, most] = this.p.span;
      const span = Math.min(Math.max(to - from, 2000), (most - least) * 1.04);
      from = Math.min(Math.max(from, least - span * 0.02), most - span * 0.98);
      this.from = from;
      this.to = from + span;
      this.later();
    }

    zoom(factor, at = (this.from + this.to) / 2) {
      this.look(at - (at - this.from) * factor, at + (this.to - at) * factor);
    }

    pan(share) { const by = (this.to - this.from) * share; this.look(this.from + by, this.to + by); }
    fit() { this.look(...this.p.span); }

    toFault() {
      const t = this.p.marks[0][1], span = Math.min(this.to - this.from, 1e9);
      this.look(t - span / 2, t + span / 2);
    }

    toggleAll() {
      const all = this.p.lanes.map((lane, i) => (lane.subs.length > 1 ? i : -1)).filter((i) => i >= 0);
      if (all.every((i) => this.open.has(i))) this.open.clear();
      else all.forEach((i) => this.open.add(i));
      this.later();
    }

    wheel(e) {
      // On a page with many diagrams the wheel scrolls, unless this diagram has the focus.
      if (!this.whole && !e.ctrlKey && !e.metaKey && document.activeElement !== this.stage) return;
      const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
      if (!sideways && this.whole && this.xOf(e) < GUTTER) return;
      e.preventDefault();
      const unit = e.deltaMode ? 16 : 1;
      if (sideways) this.pan(((e.deltaX || e.deltaY) * unit) / this.width);
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY * unit * 0.002))), this.timeAt(this.xOf(e)));
    }

    press(e) {
      this.drag = { x: e.clientX, from: this.from, to: this.to, moved: false };
      this.stage.setPointerCapture(e.pointerId);
    }

    move(e) {
      if (!this.drag) return this.hover(e);
      const by = e.clientX - this.drag.x;
      if (Math.abs(by) > 3) this.drag.moved = true;
      if (!this.drag.moved) return undefined;
      const ns = (-by / (this.right - GUTTER)) * (this.drag.to - this.drag.from);
      this.tip.hidden = true;
      return this.look(this.drag.from + ns, this.drag.to + ns);
    }

    release(e) {
      const moved = this.drag && this.drag.moved;
      this.drag = null;
      if (moved) return;
      const x = this.xOf(e), y = this.yOf(e), row = this.rowAt(y);
      if (x < GUTTER && row && row.sub < 0 && this.p.lanes[row.lane].subs.length > 1) {
        if (!this.open.delete(row.lane)) this.open.add(row.lane);
        this.later();
        return;
      }
      const hit = this.hit(x, y);
      this.pin(hit && hit.event !== undefined ? hit.event : hit && hit.message !== undefined ? this.mb[hit.message] : -1);
    }

    key(e) {
      if (e.target === this.search) {
        if (e.key === "Escape") { this.search.value = this.query = ""; this.filter(); this.stage.focus(); }
        if (e.key === "Enter") this.next(e.shiftKey ? -1 : 1);
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      const keys = {
        ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), a: () => this.pan(-0.15), d: () => this.pan(0.15),
        "+": () => this.zoom(1 / 1.6), "=": () => this.zoom(1 / 1.6), w: () => this.zoom(1 / 1.6),
        "-": () => this.zoom(1.6), s: () => this.zoom(1.6),
        0: () => this.fit(), o: () => this.toggleAll(), f: () => this.p.marks.length && this.toFault(),
        n: () => this.next(1), p: () => this.next(-1), "/": () => this.search.focus(), Escape: () => this.pin(-1),
      };
      const action = keys[e.key];
      if (!action) return;
      e.preventDefault();
      action();
    }

    // --- filtering

    filter() {
      const { texts, stacks, events, subs } = this.p, wanted = this.query;
      const textHas = wanted ? texts.map((text) => text.toLowerCase().includes(wanted)) : null;
      const stackHas = wanted ? stacks.map((frames) => frames.some((frame) => textHas[frame])) : null;
      const subHas = wanted ? subs.map(([, name]) => name.toLowerCase().includes(wanted)) : null;
      let matches = 0;
      for (let i = 0; i < this.n; i++) {
        let keep = !this.hidden.has(this.group[i]);
        if (wanted) {
          keep = textHas[events.op[i]] || textHas[events.target[i]] || textHas[events.resource[i]] ||
            textHas[events.error[i]] || stackHas[events.stack[i]] || subHas[events.s[i]];
        }
        this.shown[i] = keep ? 1 : 0;
        matches += this.shown[i];
      }
      this.count.textContent = wanted ? `${matches.toLocaleString("en")} match` : "";
      this.later();
    }

    /** Go to the next shown operation after the pinned one, or after the middle of the window. */
    next(step) {
      const middle = (this.from + this.to) / 2;
      let i = this.pinned;
      if (i < 0) {
        i = 0;
        while (i < this.n && this.t[i] < middle) i++;
        if (step > 0) i--;
      }
      for (i += step; i >= 0 && i < this.n; i += step) if (this.shown[i]) return this.show(i);
      return undefined;
    }

    show(i) {
      const span = this.to - this.from, t = this.moment(i);
      if (t < this.from + span * 0.05 || t > this.to - span * 0.05) this.look(t - span / 2, t + span / 2);
      this.pin(i);
    }

    // --- drawing

    later() {
      if (!this.due) this.due = requestAnimationFrame(() => { this.due = 0; this.draw(); });
    }

    layout() {
      const rows = [], rowOf = new Int32Array(this.p.subs.length), laneRow = [];
      let y = TOP + LABEL * this.placeLabels();
      this.top = y;
      this.p.lanes.forEach((lane, i) => {
        const h = lane.kind === "client" && !this.used.has(i) ? CLIENT : ROW;
        laneRow.push(rows.length);
        const all = h + TRACK * this.p.tracks[i].length;
        rows.push({ lane: i, sub: -1, y, h, all, name: lane.name });
        for (const sub of lane.subs) rowOf[sub] = rows.length - 1;
        y += all;
        if (!this.open.has(i)) return;
        for (const sub of lane.subs) {
          rowOf[sub] = rows.length;
          rows.push({ lane: i, sub, y, h: SUBROW, all: SUBROW, name: this.p.subs[sub][1] });
          y += SUBROW;
        }
      });
      Object.assign(this, { rows, rowOf, laneRow, bottom: y + 4 });
    }

    draw() {
      if (!this.stage.clientWidth) return;
      this.measure();
      this.layout();
      const height = this.bottom + AXIS;
      this.svg.textContent = "";
      this.svg.setAttribute("width", this.width);
      this.svg.setAttribute("height", height);
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
      this.drawGround();
      const clip = svg("svg", { x: GUTTER, y: 0, width: this.right - GUTTER, height: this.bottom, viewBox: `${GUTTER} 0 ${this.right - GUTTER} ${this.bottom}` }, this.svg);
      for (const [start, end] of this.p.cuts) svg("rect", { class: "tl-cut-time", x: this.x(start), y: this.top, width: Math.max(1, this.x(end) - this.x(start)), height: this.bottom - this.top }, clip);
      this.drawLives(clip);
      this.drawClients(clip);
      if (this.with.edges) this.drawEdges(clip, this.p.edges, (kind) => `st-${this.p.edgeKinds[kind][1]}`);
      if (this.with.stores) this.drawEdges(clip, this.p.stores, (kind) => (kind < DEPENDS ? "st-given" : "st-depends"));
      this.drawEvents(clip);
      if (this.with.messages) this.drawMessages(clip);
      this.drawValues(clip);
      this.drawFailures(clip);
      this.drawTool(clip);
      this.drawPinned(clip);
      this.drawLabels();
      this.drawBeyond();
    }

    /** Say how much of the run is outside the window, so that nobody takes a part for the whole. */
    drawBeyond() {
      const [least, most] = this.p.span, few = (most - least) / 100;
      const words = (ns) => (ns >= 1e9 ? `${(ns / 1e9).toFixed(1)} s` : ns >= 1e6 ? `${Math.round(ns / 1e6)} ms` : `${Math.round(ns / 1e3)} µs`);
      const say = (ns, x, anchor, text) => {
        if (ns > few) svg("text", { class: "st-beyond", x, y: this.bottom + 32, "text-anchor": anchor }, this.svg).textContent = text(words(ns));
      };
      say(this.from - least, GUTTER, "start", (time) => `◂ first ${time} not shown: zoom out`);
      say(most - this.to, this.right, "end", (time) => `last ${time} not shown ▸`);
    }

    drawGround() {
      this.rows.forEach((row) => {
        const kind = row.sub < 0 ? (row.lane % 2 ? "" : "tl-stripe") : "st-sub";
        if (kind) svg("rect", { class: kind, x: 0, y: row.y, width: this.width, height: row.all }, this.svg);
        this.drawName(row);
        if (row.sub < 0) this.p.tracks[row.lane].forEach((label, k) => this.drawTrackName(row, label, k));
      });
      const span = this.to - this.from, least = (span * 90) / (this.right - GUTTER);
      let step = 1, k = 0;
      while (step * STEPS[k] < least) if (++k === 3) { k = 0; step *= 10; }
      step *= STEPS[k];
      for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
        const x = this.x(t).toFixed(1);
        svg("line", { class: "tl-grid", x1: x, x2: x, y1: this.top, y2: this.bottom }, this.svg);
        const tick = svg("text", { class: "tl-tick", x, y: this.bottom + 15, "text-anchor": x > this.right - 24 ? "end" : "middle" }, this.svg);
        tick.textContent = step >= 1e9 ? `${Math.round(t / 1e9)} s` : step >= 1e6 ? `${+(t / 1e9).toFixed(3)} s` : `${+(t / 1e6).toFixed(4)} ms`;
      }
    }

    drawName(row) {
      const lane = this.p.lanes[row.lane], inner = row.sub >= 0, can = !inner && lane.subs.length > 1;
      if (can) svg("path", { class: "st-arrow", d: this.open.has(row.lane) ? `M6 ${row.y + row.h / 2 - 2}h8l-4 5z` : `M8 ${row.y + row.h / 2 - 4}v8l5 -4z` }, this.svg);
      const kind = inner ? "st-sub-name" : lane.kind === "client" ? "tl-client" : "tl-lane";
      const text = svg("text", { class: kind + (can ? " st-can" : ""), x: inner ? 26 : 18, y: row.y + row.h / 2 + 4 }, this.svg);
      const room = inner ? 22 : 18;
      text.textContent = row.name.length > room ? `${row.name.slice(0, room / 2)}…${row.name.slice(1 - room / 2)}` : row.name;
      svg("title", {}, text).textContent = inner ? row.name : `${lane.name}${lane.note ? `: ${lane.note}` : ""}`;
    }

    drawTrackName(row, label, k) {
      const text = svg("text", { class: "st-sub-name", x: 26, y: row.y + row.h + k * TRACK + 9 }, this.svg);
      text.textContent = this.short(label, 22);
      svg("title", {}, text).textContent = label;
    }

    drawLives(to) {
      for (const [lane, incarnation, start, end, how, expected, unready] of this.p.lives) {
        const row = this.rows[this.laneRow[lane]], a = Math.max(this.x(start), GUTTER - 4), b = Math.min(this.x(end), this.width);
        if (b < GUTTER || a > this.right) continue;
        const kind = unready ? "tl-unready" : incarnation > 1 ? "tl-again" : "tl-node";
        svg("rect", { class: `${kind} st-life`, x: a, y: row.y + 8, width: Math.max(1, b - a), height: row.h - 16 }, to);
        if (!how) continue;
        const x = this.x(end), y = row.y + row.h / 2;
        svg("path", { class: expected ? "tl-end" : "tl-end tl-bad", d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` }, to);
      }
    }

    drawClients(to) {
      for (const [lane, start, end, status] of this.p.ops) {
        const row = this.rows[this.laneRow[lane]], a = this.x(start), b = end < 0 ? this.right + 4 : this.x(end);
        if (b < GUTTER || a > this.right) continue;
        const left = Math.max(a, GUTTER - 4), width = Math.max(2.5, Math.min(b, this.right + 4) - left - 0.6);
        svg("rect", { class: `tl-op tl-${status} st-op`, x: left, y: row.y + row.h / 2 - 5, width, height: 10, rx: 2 }, to);
      }
    }

    /** The time at which an operation is drawn: its end if it waits for something, else its beginning. */
    moment(i) { return this.late[i] && this.d[i] >= 0 ? this.t[i] + this.d[i] : this.t[i]; }

    place(i) {
      const row = this.rows[this.rowOf[this.p.events.s[i]]];
      return [this.x(this.moment(i)), row.y + row.h / 2, row];
    }

    /** At most one tick for each pixel, and a thin line for the duration: the number of shapes depends on pixels, not on events. */
    drawEvents(to) {
      const width = Math.ceil(this.width) + 1, groups = this.p.groups.length, rows = this.rows.length;
      const ticks = new Array(rows * groups), wrong = new Array(rows), ends = new Float64Array(rows * groups).fill(-1);
      const bars = new Array(groups).fill(""), marks = new Array(groups).fill("");
      let errors = "";
      for (let i = 0; i < this.n; i++) {
        if (!this.shown[i] || this.t[i] > this.to) continue;
        const d = this.d[i], end = d < 0 ? Infinity : this.t[i] + d;
        if (end < this.from) continue;
        const at = this.rowOf[this.p.events.s[i]], row = this.rows[at], key = at * groups + this.group[i];
        const half = row.sub < 0 ? 7 : 5, y = row.y + row.h / 2;
        const a = this.x(this.t[i]), b = Math.min(d < 0 ? a + 8 : this.x(end), this.right);
        if (b - a > 3) {
          const left = Math.max(a, GUTTER, ends[key]);
          if (b - left > 1) { bars[this.group[i]] += `M${left.toFixed(1)} ${y - 1.5}h${(b - left).toFixed(1)}v3h${(left - b).toFixed(1)}z`; ends[key] = b; }
        }
        const px = Math.round(this.x(this.moment(i)));
        if (px < GUTTER - 2 || px > width) continue;
        if (this.p.events.error[i]) {
          const seen = wrong[at] || (wrong[at] = new Uint8Array(width + 2));
          if (!seen[px]) { seen[px] = 1; errors += `M${px - 1.5} ${y - half}h3v${half * 2}h-3z`; }
          continue;
        }
        const seen = ticks[key] || (ticks[key] = new Uint8Array(width + 2));
        if (!seen[px]) { seen[px] = 1; marks[this.group[i]] += `M${px - 0.8} ${y - half}h1.8v${half * 2}h-1.8z`; }
      }
      for (let g = groups - 1; g >= 0; g--) if (bars[g]) svg("path", { class: `st-took st-g-${this.p.groups[g].key}`, d: bars[g] }, to);
      for (let g = groups - 1; g >= 0; g--) if (marks[g]) svg("path", { class: `st-mark st-g-${this.p.groups[g].key}`, d: marks[g] }, to);
      if (errors) svg("path", { class: "st-error", d: errors }, to);
    }

    arrow(ax, ay, bx, by) {
      const length = Math.hypot(bx - ax, by - ay) || 1, ux = (bx - ax) / length, uy = (by - ay) / length;
      const x = bx - ux * 7, y = by - uy * 7;
      return `M${bx.toFixed(1)} ${by.toFixed(1)}L${(x - uy * 3).toFixed(1)} ${(y + ux * 3).toFixed(1)}L${(x + uy * 3).toFixed(1)} ${(y - ux * 3).toFixed(1)}z`;
    }

    /** A key that all lines share which look the same. */
    between(ay, by, ax, bx) {
      const a = Math.max(-1, Math.min(4094, Math.round(ax))) + 1, b = Math.max(-1, Math.min(4094, Math.round(bx))) + 1;
      return ((Math.round(ay) * 8192 + Math.round(by)) * 4096 + a) * 4096 + b;
    }

    drawMessages(to) {
      const seen = new Set(), lines = [];
      this.lines = lines;
      const wanted = this.query !== "";
      for (let m = 0; m < this.ma.length; m++) {
        const a = this.ma[m], b = this.mb[m];
        if (this.t[a] > this.to || this.moment(b) < this.from) continue;
        if (wanted && !this.shown[a] && !this.shown[b]) continue;
        const [ax, ay, arow] = this.place(a), [bx, by, brow] = this.place(b);
        if (arow === brow && bx - ax < 2) continue;
        const key = this.between(arow.y, brow.y, ax / 2, bx / 2);
        if (seen.has(key)) continue;
        seen.add(key);
        lines.push([m, ax, ay + Math.sign(by - ay) * 7, bx, by - Math.sign(by - ay) * 7]);
      }
      const few = lines.length <= (this.right - GUTTER) / 4; // heads have room
      let path = "", heads = "";
      for (const [, ax, ay, bx, by] of lines) {
        if (ay === by) path += `M${ax.toFixed(1)} ${ay - 6}Q${((ax + bx) / 2).toFixed(1)} ${ay - 20} ${bx.toFixed(1)} ${by - 6}`;
        else path += `M${ax.toFixed(1)} ${ay}L${bx.toFixed(1)} ${by}`;
        if (few) heads += ay === by ? this.arrow(bx - 4, by - 12, bx, by - 6) : this.arrow(ax, ay, bx, by);
      }
      if (path) svg("path", { class: few ? "st-message" : "st-message st-many", d: path }, to);
      if (heads) svg("path", { class: "st-head", d: heads }, to);
      if (lines.length <= LABELS_MAX) this.nameMessages(to, lines);
    }

    /** The values of variables: equal ones have the same colour on all nodes. */
    drawValues(to) {
      for (const [lane, track, start, end, words, colour] of this.p.values) {
        const row = this.rows[this.laneRow[lane]], y = row.y + row.h + track * TRACK - 3;
        const a = Math.max(this.x(start), GUTTER), b = Math.min(this.x(end), this.right);
        if (b < GUTTER || a > this.right) continue;
        svg("rect", { class: `tl-value ${colour < 0 ? "tl-absent" : `tl-v${colour}`}`, x: a, y, width: Math.max(2, b - a - 1), height: TRACK - 2, rx: 2 }, to);
        const room = Math.floor((b - a - 8) / 6.6);
        if (room >= Math.min(words.length, 4)) svg("text", { class: "tl-value-text", x: a + 4, y: y + 11 }, to).textContent = this.short(words, room);
      }
    }

    /** Broken arrows for the messages that a partition stopped. Those that lie close together share one, with their number. */
    drawFailures(to) {
      const groups = [], last = {};
      this.crosses = groups;
      if (!this.with.failures) return;
      for (const [a, b, t, words] of this.p.failures) {
        const x = this.x(t), key = `${a} ${b}`;
        if (x < GUTTER || x > this.right || (this.query && !this.p.texts[words].toLowerCase().includes(this.query))) continue;
        if (!last[key] || x - last[key].x > TOGETHER) groups.push(last[key] = { a, b, x, first: t, kinds: new Map(), number: 0 });
        const group = last[key];
        group.number++;
        group.last = t;
        group.kinds.set(words, (group.kinds.get(words) || 0) + 1);
      }
      let path = "", signs = "";
      for (const group of groups) {
        const one = this.rows[this.laneRow[group.a]], other = this.rows[this.laneRow[group.b]], way = Math.sign(other.y - one.y) || 1;
        const y = one.y + one.h / 2 + way * 7, until = other.y + other.h / 2 - way * 17, x = group.x;
        Object.assign(group, { top: Math.min(y, until) - 4, bottom: Math.max(y, until) + 4 });
        path += `M${x.toFixed(1)} ${y}V${until}`;
        signs += `M${(x - 3.5).toFixed(1)} ${until - 3.5}l7 7m0 -7l-7 7`;
        if (group.number > 1) svg("text", { class: "st-kind st-failed-number", x: x + 6, y: until + 4 }, to).textContent = group.number;
      }
      if (path) svg("path", { class: "st-failed", d: path }, to);
      if (signs) svg("path", { class: "tl-failed", d: signs }, to);
    }

    nameMessages(to, lines) {
      const taken = [];
      for (const [m, ax, ay, bx, by] of lines) {
        const x = (ax + bx) / 2 + 5, y = (ay + by) / 2 + 3, kind = this.p.texts[this.p.messages.kind[m]];
        // a kind made from a stack: drop its hash and the leading module
        const words = this.short(kind.replace(/^[^:]*:(.*) [0-9a-f]{12}$/, "$1"), 32);
        const width = words.length * 6;
        if (Math.abs(by - ay) < 12 || taken.some(([u, v, w]) => Math.abs(v - y) < 12 && x < u + w && u < x + width)) continue;
        taken.push([x, y, width]);
        svg("text", { class: "st-kind", x, y }, to).textContent = words;
      }
    }

    short(text, most) { return text.length > most ? `${text.slice(0, most - 1)}…` : text; }

    drawEdges(to, { a, b, kind }, nameOf) {
      const paths = {};
      const seen = new Set();
      for (let k = 0; k < a.length; k++) {
        const s = a[k], e = b[k];
        if (s < 0 || this.t[s] > this.to || this.moment(e) < this.from) continue;
        if (this.query && !this.shown[s] && !this.shown[e]) continue;
        const [ax, ay] = this.place(s), [bx, by] = this.place(e);
        const key = this.between(ay, by, ax, bx);
        if (seen.has(key) || (ay === by && bx - ax < 3)) continue;
        seen.add(key);
        const name = nameOf(kind[k]);
        paths[name] = (paths[name] || "") + (ay === by ? `M${ax.toFixed(1)} ${ay + 7}Q${((ax + bx) / 2).toFixed(1)} ${ay + 16} ${bx.toFixed(1)} ${by + 7}` : `M${ax.toFixed(1)} ${ay}L${bx.toFixed(1)} ${by}`);
      }
      for (const name in paths) svg("path", { class: `st-edge ${name}`, d: paths[name] }, to);
    }

    upright(to, t, kind) {
      const x = this.x(t).toFixed(1);
      svg("line", { class: kind, x1: x, x2: x, y1: this.top - 4, y2: this.bottom }, to);
    }

    drawTool(to) {
      const { healed, stalled, deaths, health, marks } = this.p;
      if (healed !== null) this.upright(to, healed, "tl-healed");
      if (stalled !== null) this.upright(to, stalled, "tl-stalled");
      const middle = (lane) => { const row = this.rows[this.laneRow[lane]]; return row.y + row.h / 2; };
      for (const [lane, t] of deaths) svg("path", { class: "tl-death", d: `M${this.x(t) - 6} ${middle(lane) - 12}h12l-6 8z` }, to);
      for (const [lane, t, answer] of health) svg("circle", { class: answer ? "tl-ill" : "tl-well", cx: this.x(t), cy: middle(lane) + 11, r: 3.2 }, to);
      for (const [lane, t, until, , , , band] of marks) {
        const x = this.x(t), y = middle(lane);
        if (!band) { this.upright(to, t, "tl-over-line"); svg("path", { class: "tl-over", d: `M${x} ${y - 10}v20l8 -10z` }, to); continue; }
        this.upright(to, t, "tl-fault-line");
        if (until > t) svg("rect", { class: `tl-${band}`, x, y: y - 6, width: Math.max(2, this.x(until) - x), height: 12 }, to);
        svg("path", { class: "tl-fault", d: `M${x} ${y - 10}l9 10l-9 10l-9 -10z` }, to);
      }
    }

    /** Place the labels above the lanes, each in the first line where it covers no other. Returns the number of lines. */
    placeLabels() {
      const wanted = this.p.marks.slice(0, 8).map((m) => [m[1], m[6] ? "fault" : "healed", `${m[3]} · ${this.p.lanes[m[0]].name}`]);
      if (this.p.healed !== null) wanted.push([this.p.healed, "healed", "healed"]);
      if (this.p.stalled !== null) wanted.push([this.p.stalled, "stalled", "no progress"]);
      const taken = [];
      this.labels = [];
      let lines = 0;
      for (const [t, kind, words] of wanted) {
        const x = this.x(t), width = words.length * 6.8 + 10;
        if (x < GUTTER - 1 || x > this.right + 1) continue;
        const flip = x + width > this.right, left = flip ? x - width : x;
        let line = 0;
        while (taken.some(([l, a, b]) => l === line && left < b && a < left + width)) line++;
        taken.push([line, left, left + width]);
        this.labels.push([line, x, flip, kind, words]);
        lines = Math.max(lines, line + 1);
      }
      return lines;
    }

    drawLabels() {
      for (const [line, x, flip, kind, words] of this.labels) {
        const text = svg("text", { class: `tl-label tl-${kind}-text`, x, y: TOP + LABEL * line + 11, "text-anchor": flip ? "end" : "start" }, this.svg);
        text.textContent = words;
      }
    }

    /** Draw the clicked operation, its causes and its effects. */
    drawPinned(to) {
      if (this.pinned < 0) return;
      const chain = this.chain(this.pinned);
      let path = "";
      for (let k = 0; k + 1 < chain.length; k++) {
        const [bx, by] = this.place(chain[k]), [ax, ay] = this.place(chain[k + 1]);
        path += `M${ax.toFixed(1)} ${ay}L${bx.toFixed(1)} ${by}`;
      }
      if (path) svg("path", { class: "st-chain", d: path }, to);
      let caused = "";
      const [px, py] = this.place(this.pinned);
      for (const i of this.causedBy(this.pinned)) { const [x, y] = this.place(i); caused += `M${px.toFixed(1)} ${py}L${x.toFixed(1)} ${y}`; }
      if (caused) svg("path", { class: "st-caused", d: caused }, to);
      let related = "";
      for (const [k] of this.related(this.pinned)) if (k >= 0) { const [x, y] = this.place(k); related += `M${px.toFixed(1)} ${py}L${x.toFixed(1)} ${y}`; }
      if (related) svg("path", { class: "st-related", d: related }, to);
      svg("circle", { class: "st-pin", cx: px, cy: py, r: 8 }, to);
    }

    // --- finding and describing what is under the pointer

    rowAt(y) { return this.rows && this.rows.find((row) => y >= row.y && y < row.y + row.h); }

    hit(x, y) {
      if (x < GUTTER || !this.rows) return null;
      for (const m of this.p.marks) {
        const row = this.rows[this.laneRow[m[0]]];
        if (Math.abs(this.x(m[1]) - x) < 9 && Math.abs(row.y + row.h / 2 - y) < 11) return { mark: m };
      }
      const failed = this.crosses.filter((group) => y >= group.top && y <= group.bottom && Math.abs(group.x - x) < 5);
      if (failed.length) return { failed: failed.reduce((one, other) => (Math.abs(other.x - x) < Math.abs(one.x - x) ? other : one)) };
      const value = this.hitValue(x, y);
      if (value) return { value };
      const row = this.rowAt(y);
      let best = null, distance = HIT;
      if (row) {
        for (let i = 0; i < this.n && this.t[i] <= this.to; i++) {
          if (!this.shown[i] || this.rows[this.rowOf[this.p.events.s[i]]] !== row) continue;
          const by = Math.abs(Math.round(this.x(this.moment(i))) - x); // where its mark is; at equal distance the mark on top wins
          if (by < distance || (best && by === distance && this.group[i] < this.group[best.event])) { distance = by; best = { event: i }; }
        }
        if (best) return best;
      }
      best = this.hitLine(x, y) || (row && this.hitBar(row, x));
      return best || null;
    }

    hitValue(x, y) {
      return this.p.values.find(([lane, track, start, end]) => {
        const row = this.rows[this.laneRow[lane]], top = row.y + row.h + track * TRACK - 3;
        return y >= top && y < top + TRACK - 2 && this.x(start) <= x && Math.max(this.x(end), this.x(start) + 2) >= x;
      });
    }

    hitLine(x, y) {
      if (!this.with.messages || !this.lines) return null;
      let best = null, distance = 5;
      for (const [m, ax, ay, bx, by] of this.lines) {
        const dx = bx - ax, dy = by - ay, share = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
        const off = Math.hypot(x - ax - share * dx, y - ay - share * dy);
        if (off < distance) { distance = off; best = { message: m }; }
      }
      return best;
    }

    hitBar(row, x) {
      const at = this.timeAt(x);
      if (row.sub < 0) {
        const op = this.p.ops.find(([lane, start, end]) => lane === row.lane && start <= at && (end < 0 || this.x(end) + 2 >= x));
        if (op) return { op };
      }
      for (let i = this.n - 1; i >= 0; i--) {
        if (this.shown[i] && this.t[i] <= at && this.d[i] > 0 && this.t[i] + this.d[i] >= at && this.rows[this.rowOf[this.p.events.s[i]]] === row) return { event: i };
      }
      return null;
    }

    hover(e) {
      const found = this.hit(this.xOf(e), this.yOf(e));
      this.stage.classList.toggle("st-over", Boolean(found));
      this.tip.hidden = !found;
      if (!found) return;
      this.tip.textContent = "";
      if (found.event !== undefined) this.describe(this.tip, found.event, 6);
      else if (found.message !== undefined) this.describeMessage(this.tip, found.message);
      else if (found.failed) this.describeFailed(this.tip, found.failed);
      else if (found.value) this.describeValue(this.tip, found.value);
      else if (found.op) this.tip.append(html("b", "", found.op[4]), html("p", "", found.op[5]));
      else this.tip.append(html("b", "", `injected: ${found.mark[3]}`), html("p", "", found.mark[4]));
      const box = this.box.getBoundingClientRect(), wide = this.tip.offsetWidth, high = this.tip.offsetHeight;
      let left = e.clientX - box.left + 14, top = e.clientY - box.top + 16;
      if (left + wide > box.width) left = Math.max(0, e.clientX - box.left - wide - 14);
      if (e.clientY + 16 + high > window.innerHeight) top = Math.max(0, e.clientY - box.top - high - 12);
      this.tip.style.left = `${left}px`;
      this.tip.style.top = `${top}px`;
    }

    at(t) { return `${(t / 1e9).toFixed(6)} s`; }

    line(to, name, text, kind = "") {
      if (!text) return;
      const p = html("p", kind);
      p.append(html("span", "st-key", name), " ", text);
      to.append(p);
    }

    describe(to, i, framesMax) {
      const { events: e, texts, stacks, subs, lanes } = this.p, say = (column) => texts[e[column][i]];
      to.append(html("b", `st-g-${this.p.groups[this.group[i]].key}`, say("op")));
      to.append(html("span", "st-where", ` ${lanes[subs[e.s[i]][0]].name} · ${subs[e.s[i]][1]}`));
      const took = this.d[i] < 0 ? "never returned" : `took ${duration(this.d[i])}`;
      this.line(to, "at", `${this.at(this.t[i])}, ${took}`);
      this.line(to, "target", this.short(say("target"), 160));
      if (say("resource") !== say("target")) this.line(to, "resource", this.short(say("resource"), framesMax > 6 ? 1200 : 200));
      if (e.size[i]) this.line(to, "size", this.p.timed.includes(e.op[i]) ? `limit ${duration(e.size[i])}` : `${e.size[i].toLocaleString("en")} bytes`);
      if (e.bytes[i]) this.line(to, "moved", `${e.bytes[i].toLocaleString("en")} bytes`);
      this.line(to, "error", say("error"), "st-wrong");
      this.line(to, "locks held", (this.p.held[e.held[i]] || []).map((lock) => texts[lock]).join("; "));
      if (e.deadline[i]) this.line(to, "deadline", `${e.deadline[i] >= this.t[i] ? `in ${duration(e.deadline[i] - this.t[i])}` : `expired ${duration(this.t[i] - e.deadline[i])} before`}, set by ${texts[e.limit[i]]}`);
      if (e.by[i] >= 0) this.line(to, "caused by", `${texts[e.op[e.by[i]]]} of ${lanes[subs[e.s[e.by[i]]][0]].name} (${this.p.causes[e.why[i]]})`);
      if (i !== this.pinned) for (const [, words] of this.related(i)) this.line(to, "store", words); // the panel lists them with links
      const frames = stacks[e.stack[i]] || [], list = html("ol", "st-stack");
      for (const frame of frames.slice(0, framesMax)) list.append(html("li", "", texts[frame]));
      if (frames.length > framesMax) list.append(html("li", "st-more", `… ${frames.length - framesMax} more; click for all`));
      to.append(list);
    }

    describeMessage(to, m) {
      const { texts, messages, subs, lanes, events } = this.p, a = this.ma[m], b = this.mb[m];
      to.append(html("b", "st-g-net", "message "), html("span", "", texts[messages.kind[m]]));
      this.line(to, "from", `${lanes[subs[events.s[a]][0]].name} at ${this.at(this.t[a])}`);
      this.line(to, "to", `${lanes[subs[events.s[b]][0]].name} at ${this.at(this.moment(b))}, ${duration(this.moment(b) - this.t[a])} later`);
      if (messages.bytes[m]) this.line(to, "size", `${messages.bytes[m].toLocaleString("en")} bytes`);
      this.line(to, "handled by", texts[messages.handler[m]]);
    }

    describeFailed(to, { a, b, first, last, number, kinds }) {
      to.append(html("b", "st-wrong", `${number === 1 ? "failed" : `${number} failed`}: ${this.p.lanes[a].name} → ${this.p.lanes[b].name}`));
      this.line(to, "at", number === 1 ? this.at(first) : `${this.at(first)} to ${this.at(last)}`);
      for (const [words, times] of kinds) this.line(to, times > 1 ? `${times} ×` : "", this.p.texts[words]);
    }

    describeValue(to, [lane, track, start, end, words]) {
      to.append(html("b", "", `${this.p.lanes[lane].name}.${this.p.tracks[lane][track]} = ${words}`));
      this.line(to, "from", `${this.at(start)}, for ${duration(end - start)}`);
    }

    chain(i) {
      const found = [i];
      while (this.p.events.by[i] >= 0 && found.length < CHAIN_MAX) found.push(i = this.p.events.by[i]);
      return found;
    }

    causedBy(i) {
      const found = [];
      for (let k = 0; k < this.n && found.length < CAUSED_MAX; k++) if (this.p.events.by[k] === i) found.push(k);
      return found;
    }

    /** The operations on stores that this one is linked to: [event, words]; event is -1 if it is not drawn. */
    related(i) {
      const { a, b, kind, did, found } = this.p.stores, before = [], after = [];
      let more = 0;
      for (let k = 0; k < b.length; k++) {
        const [later, earlier] = LINKS[kind[k]];
        if (b[k] === i) before.push([a[k], `${later} ${this.p.texts[did[k]]}`]);
        if (a[k] === i && after.push([b[k], `${earlier} ${this.p.texts[found[k]]}`]) > READERS_MAX) { after.pop(); more++; }
      }
      if (more) after.push([-1, `and by ${more.toLocaleString("en")} more`]);
      return before.concat(after);
    }

    pin(i) {
      this.pinned = i;
      this.panel.textContent = "";
      this.panel.classList.toggle("st-full", i >= 0);
      if (i >= 0) {
        const left = html("div"), right = html("div");
        this.describe(left, i, 200);
        this.pinStores(right, i);
        right.append(html("b", "", "Causes, the nearest first"));
        const list = html("ol", "st-causes");
        for (const k of this.chain(i)) list.append(this.link(k));
        right.append(list);
        const caused = this.causedBy(i);
        if (caused.length) right.append(html("b", "", `Effects: ${caused.length}${caused.length === CAUSED_MAX ? " or more" : ""}`));
        const more = html("ol", "st-causes");
        for (const k of caused.slice(0, 12)) more.append(this.link(k));
        right.append(more);
        this.panel.append(left, right);
      }
      this.later();
    }

    pinStores(to, i) {
      const list = html("ol", "st-causes");
      for (const [k, words] of this.related(i)) {
        const item = html("li");
        if (k >= 0) item.append(this.goTo(k, words), html("span", "", `, ${this.at(this.moment(k))}`));
        else item.append(words);
        list.append(item);
      }
      if (list.childElementCount) to.append(html("b", "", "Links through stores"), list);
    }

    goTo(i, words) {
      const button = html("button", "", words);
      button.type = "button";
      button.addEventListener("click", () => this.show(i));
      return button;
    }

    link(i) {
      const { events: e, texts, subs, lanes, stacks } = this.p, item = html("li"), button = this.goTo(i, texts[e.op[i]]);
      const loc = (stacks[e.stack[i]] || [0])[0];
      const why = e.by[i] >= 0 ? ` ← ${this.p.causes[e.why[i]]}` : "";
      item.append(button, html("span", "", ` ${lanes[subs[e.s[i]][0]].name}, ${this.at(this.t[i])}, ${this.short(texts[loc], 70)}${why}`));
      return item;
    }
  }

  async function start(box) {
    try {
      const picture = await unpack(box.dataset.picture);
      delete box.dataset.picture;
      box.diagram = new Diagram(box, picture);
    } catch (error) {
      console.error(error); // the still picture remains
    }
  }

  const boxes = document.querySelectorAll(".st[data-picture]");
  if (!boxes.length || !window.DecompressionStream) return;
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); start(entry.target); }
  }, { rootMargin: "400px" });
  boxes.forEach((box) => seen.observe(box));
})();
