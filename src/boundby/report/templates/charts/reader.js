// Reading a chart: by pointer or by keyboard one is at a mark, which is ringed and says its words beside it.

const NEAR = 12; // pixels around a point within which pointing at it counts

class Reader {
  constructor(drawing) {
    this.drawing = drawing;
    this.at = null;
    this.ring = added(drawing.element, "ring");
    this.tip = added(drawing.element, "tip");
    this.ring.hidden = this.tip.hidden = true;
    this.tip.setAttribute("aria-hidden", "true");
    this.live = added(drawing.element, "unseen");
    this.live.setAttribute("aria-live", "polite");
    this.keyboard();
    this.pointer();
  }

  // Stays at its mark where the drawing has moved.
  follow() {
    if (this.at !== null) this.show(this.at);
  }

  // Shows what an item says beside it, and a ring around it.
  show(at) {
    this.at = at;
    const item = this.drawing.items[at];
    const [x, y] = this.drawing.pixel(item.x, item.y);
    if (!this.drawing.visible([x, y]) && !item.box) {
      this.ring.hidden = this.tip.hidden = true;
      return;
    }
    const { ring, tip, drawing } = this;
    ring.hidden = tip.hidden = false;
    ring.classList.toggle("box", Boolean(item.box));
    const round = [x - item.radius, y - item.radius, x + item.radius, y + item.radius];
    const [left, top, right, bottom] = item.box ? drawing.boxOf(item) : round;
    const gap = 3;
    Object.assign(ring.style, {
      left: `${left - gap}px`, top: `${top - gap}px`,
      width: `${right - left + 2 * gap}px`, height: `${bottom - top + 2 * gap}px`,
    });
    tip.replaceChildren(...item.says.map((text, place) => {
      const line = document.createElement(place === 0 ? "strong" : "span");
      line.textContent = text;
      return line;
    }));
    const [width, room] = [tip.offsetWidth, drawing.element.clientWidth];
    const middle = (left + right) / 2;
    tip.style.left = `${Math.max(0, Math.min(room - width, middle - width / 2))}px`;
    const above = top - gap - 6 - tip.offsetHeight;
    tip.style.top = `${above >= -40 ? above : bottom + gap + 6}px`;
  }

  hide() {
    this.at = null;
    this.ring.hidden = this.tip.hidden = true;
  }

  pointer() {
    const find = event => {
      const box = this.drawing.element.getBoundingClientRect();
      this.hover(event.clientX - box.left, event.clientY - box.top);
    };
    this.drawing.element.addEventListener("pointermove", find);
    this.drawing.element.addEventListener("pointerdown", find);
    this.drawing.element.addEventListener("pointerleave", event => {
      if (event.pointerType === "mouse") this.hide();
    });
  }

  hover(x, y) {
    let [best, nearest] = [null, Infinity];
    this.drawing.items.forEach((item, place) => {
      let distance;
      if (item.box) {
        const [left, top, right, bottom] = this.drawing.boxOf(item);
        const outside = Math.max(left - x, x - right, top - y, y - bottom, 0);
        distance = outside;
        if (outside > 3) return;
      } else {
        const [px, py] = this.drawing.pixel(item.x, item.y);
        distance = Math.hypot(px - x, py - y) - item.radius;
        if (distance > NEAR || !this.drawing.visible([px, py])) return;
        // Of two marks that both lie under the pointer, the smaller: the larger has room elsewhere.
        if (distance < 0) distance = -1 / item.radius;
      }
      if (distance < nearest) [best, nearest] = [place, distance];
    });
    if (best === null) this.hide();
    else if (best !== this.at) this.show(best);
  }

  keyboard() {
    const { element, data } = this.drawing;
    element.tabIndex = 0;
    element.setAttribute("role", "application");
    element.setAttribute("aria-label", `${data.title}. ${data.summary} ${words.keys}`);
    element.addEventListener("blur", () => this.hide());
    element.addEventListener("keydown", event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const moves = {
        ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1],
        Home: [-Infinity, 0], End: [Infinity, 0],
      };
      if (event.key in moves) this.move(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(0.7);
      else if (event.key === "-") this.zoom(1 / 0.7);
      else if (event.key === "0") this.drawing.view.reset();
      else if (event.key === "Escape" && this.at !== null) this.hide();
      else return;
      event.preventDefault();
    });
  }

  // Takes Bokeh's own places to stop at out of the way: they would say nothing, and the keys above do what they do.
  quiet(root) {
    for (const each of root.querySelectorAll("*")) {
      if (each.shadowRoot) this.quiet(each.shadowRoot);
      if (each.tabIndex >= 0) each.tabIndex = -1;
    }
  }

  // Goes along a series, or over to the next one.
  move(along, over) {
    const { items } = this.drawing;
    if (!items.length) return;
    if (this.at === null) {
      this.tell(along === Infinity ? items.length - 1 : 0);
      return;
    }
    const series = [...new Set(items.map(item => item.series))];
    const places = name => items.flatMap((item, place) => item.series === name ? [place] : []);
    let own = series.indexOf(items[this.at].series);
    const within = places(series[own]).indexOf(this.at);
    const clamp = (value, length) => Math.max(0, Math.min(length - 1, value));
    if (over && series.length > 1) {
      own = clamp(own + over, series.length);
      const others = places(series[own]);
      this.tell(others[clamp(within, others.length)]);
    } else {
      const others = places(series[own]);
      this.tell(others[clamp(within + (along || over), others.length)]);
    }
  }

  tell(place) {
    const { drawing } = this;
    const item = drawing.items[place];
    if (!item.box && !drawing.visible(drawing.pixel(item.x, item.y))) drawing.view.reset();
    this.show(place);
    const where = words.of.replace("{at}", place + 1).replace("{all}", drawing.items.length);
    this.live.textContent = `${item.says.join(". ")}. ${where}`;
  }

  zoom(factor) {
    const { items, plot, data } = this.drawing;
    const item = this.at === null ? null : items[this.at];
    for (const [name, range] of [["x", plot.x_range], ["y", plot.y_range]]) {
      const about = data[name];
      if (about.scale === "category") continue;
      const [to, from] = about.scale === "log" ? [Math.log, Math.exp] : [value => value, value => value];
      const [start, end] = [to(range.start), to(range.end)];
      const center = item ? to(item[name]) : (start + end) / 2;
      range.setv({ start: from(center + (start - center) * factor), end: from(center + (end - center) * factor) });
    }
  }
}
