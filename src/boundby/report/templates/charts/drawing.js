// One chart as Bokeh draws it.

const NARROW = 520; // pixels of width below which a chart is drawn for a telephone

class Drawing {
  constructor(kit, element, data) {
    this.kit = kit;
    this.element = element;
    this.data = data;
    this.restyles = [];
    this.items = [];
    this.lying = data.y.scale === "category";
    this.waits = 0;
  }

  get narrow() {
    return this.element.clientWidth < NARROW;
  }

  // Calls `apply` with the page's colours now, and again whenever they change.
  styled(apply) {
    this.restyles.push(apply);
    apply(style());
  }

  async draw() {
    const { kit, data } = this;
    const range = axis => kit.make("Range1d", { start: axis.start, end: axis.end });
    const scale = axis => kit.make(axis.scale === "log" ? "LogScale" : "LinearScale", {});
    const xRange = range(data.x);
    const yRange = this.lying ? kit.make("Range1d", { start: data.y.end, end: data.y.start }) : range(data.y);
    const plot = this.plot = kit.make("Plot", {
      x_range: xRange, y_range: yRange, x_scale: scale(data.x), y_scale: scale(data.y),
      sizing_mode: "stretch_width", height: this.height(), min_border: 4, toolbar_location: "above",
      background_fill_color: null, border_fill_color: null, title: null, lod_threshold: null,
    });
    plot.toolbar.logo = null;
    this.styled(look => { plot.outline_line_color = look.rule; });
    this.axis(data.x, "below");
    this.axis(data.y, "left");
    this.tools();
    this.bars();
    data.lines.forEach((line, place) => this.line(line, place));
    this.marks();
    this.fit();
    const doc = new kit.Document();
    doc.add_root(plot);
    const views = await kit.Bokeh.embed.add_document_standalone(doc, this.element);
    this.view = [...views][0];
    this.names = new Names(this);
    this.reader = new Reader(this);
    for (const each of [plot.x_range, plot.y_range]) each.change.connect(() => this.place());
    new ResizeObserver(() => this.fit()).observe(this.element);
    // Where nothing is shown, as in a tab behind others, there are no frames to wait for.
    await new Promise(done => {
      requestAnimationFrame(() => requestAnimationFrame(done));
      setTimeout(done, 500);
    });
    this.reader.quiet(this.element);
    this.place();
  }

  height() {
    const { categories } = this.data.y;
    if (this.lying) return 86 + Math.max(1, categories.length) * ((this.narrow || categories.length > 10 ? 6 : 14) + 22 * this.data.lanes ** 0.85);
    return this.narrow ? 320 : 430;
  }

  axis(about, side) {
    const { kit, plot } = this;
    const across = side === "below";
    let axis;
    if (about.scale === "category") {
      const ticks = about.categories.map((_, place) => place);
      const formatter = new kit.CategoryTexts({});
      formatter.boundby_names = about.categories;
      formatter.boundby_length = 40;
      this.categories = { formatter, across };
      axis = kit.make("LinearAxis", { ticker: kit.make("FixedTicker", { ticks }), formatter });
      axis.major_tick_line_color = null;
    } else {
      const formatter = new kit.UnitTexts({});
      formatter.boundby_unit = about.unit;
      let ticker;
      if (about.scale === "log") {
        ticker = new kit.LogTicks({ desired_num_ticks: across ? 8 : 7 });
        ticker.boundby_base = about.unit === "byte" ? 2 : 10;
      } else {
        const binary = { base: 1024, mantissas: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512], desired_num_ticks: 6 };
        ticker = about.unit === "byte"
          ? kit.make("AdaptiveTicker", binary) : kit.make("BasicTicker", { desired_num_ticks: across ? 7 : 6 });
      }
      axis = kit.make(about.scale === "log" ? "LogAxis" : "LinearAxis", { ticker, formatter });
      const grid = kit.make("Grid", { dimension: across ? 0 : 1, ticker });
      plot.add_layout(grid);
      this.styled(look => { grid.grid_line_color = look.rule; });
      this[across ? "xTicker" : "yTicker"] = ticker;
    }
    axis.axis_label = about.name || null;
    axis.axis_label_standoff = 6;
    axis.axis_label_text_font_style = "normal";
    axis.minor_tick_line_color = null;
    plot.add_layout(axis, side);
    this.styled(look => {
      axis.axis_line_color = look.soft;
      if (about.scale !== "category") axis.major_tick_line_color = look.soft;
      axis.major_label_text_color = look.ink;
      axis.major_label_text_font = look.font;
      axis.axis_label_text_color = look.ink;
      axis.axis_label_text_font = look.font;
    });
    this[across ? "xAxis" : "yAxis"] = axis;
  }

  tools() {
    const { kit, plot } = this;
    const zoom = kit.make("BoxZoomTool", {});
    plot.add_tools(zoom, kit.make("PanTool", {}), kit.make("WheelZoomTool", {}), kit.make("ResetTool", {}));
    // A finger that drags means to scroll the page.
    plot.toolbar.active_drag = matchMedia("(pointer: fine)").matches ? zoom : null;
    plot.toolbar.active_scroll = null;
  }

  // Adds a glyph over columns; `paint` gives its colours in the page's style.
  glyph(name, columns, attributes, paint) {
    const source = this.kit.make("ColumnDataSource", { data: columns });
    const glyph = this.kit.make(name, attributes);
    this.plot.add_glyph(glyph, source);
    this.styled(look => paint(look, glyph, source));
  }

  line(line, place) {
    const color = look => line.color === null ? look.soft : look.series[line.color];
    const known = value => value ?? NaN;
    const [x, y] = [line.x.map(known), line.y.map(known)];
    if (line.low && line.high) {
      const columns = { x, y1: line.low.map(known), y2: line.high.map(known) };
      this.glyph("VArea", columns, { x: { field: "x" }, y1: { field: "y1" }, y2: { field: "y2" } }, (look, glyph) => {
        glyph.fill_color = color(look);
        glyph.fill_alpha = 0.18;
      });
      if (x.length === 1) this.whiskers(x, columns.y1, columns.y2, false, 0, color);
    }
    const fields = { x: { field: "x" }, y: { field: "y" } };
    const dashes = { ...fields, line_width: line.color === null ? 1.6 : 2.2, line_dash: line.dash };
    this.glyph("Line", { x, y }, dashes, (look, glyph) => { glyph.line_color = color(look); });
    if (line.points) {
      this.glyph("Scatter", { x, y }, { ...fields, marker: "circle", size: 8 }, (look, glyph) => {
        glyph.fill_color = color(look);
        glyph.line_color = color(look);
      });
    }
    line.says.forEach((says, index) => {
      if (line.x[index] !== null && line.y[index] !== null) {
        this.items.push({ series: `line ${place}`, x: x[index], y: y[index], radius: 5, says });
      }
    });
  }

  marks() {
    const { marks } = this.data;
    const drawn = marks.filter(mark => mark.x !== null && mark.y !== null);
    for (const mark of drawn) {
      this.items.push({ series: "marks", x: mark.x, y: mark.y, radius: mark.radius, says: mark.says });
    }
    if (!drawn.length) return;
    // The large first, so that they do not hide the small.
    const order = [...drawn].sort((one, other) => other.radius - one.radius);
    const column = name => order.map(mark => mark[name]);
    const shrink = this.narrow ? 0.7 : 1;
    const columns = { x: column("x"), y: column("y"), size: order.map(mark => 2 * mark.radius * shrink), marker: column("shape") };
    const fields = { x: { field: "x" }, y: { field: "y" }, marker: { field: "marker" }, size: { field: "size" } };
    this.glyph("Scatter", { ...columns, color: column("color") }, fields, (look, glyph, source) => {
      source.data = { ...source.data, paint: column("color").map(place => look.series[place]) };
      glyph.fill_color = { field: "paint" };
      glyph.line_color = { field: "paint" };
      glyph.fill_alpha = 0.6;
      glyph.line_width = 1.2;
    });
  }

  bars() {
    const { bars } = this.data;
    if (!bars.length) return;
    const kinds = new Map();
    for (const bar of bars) {
      const kind = `${bar.fill}`;
      if (!kinds.has(kind)) kinds.set(kind, []);
      kinds.get(kind).push(bar);
    }
    for (const alike of kinds.values()) {
      const known = alike.filter(bar => bar.start !== null && bar.end !== null);
      const ends = [known.map(bar => bar.start), known.map(bar => bar.end)];
      const sides = [known.map(bar => bar.from), known.map(bar => bar.to)];
      const [[left, right], [bottom, top]] = this.lying ? [ends, sides] : [sides, ends];
      const sidesOf = Object.fromEntries(["left", "right", "top", "bottom"].map(side => [side, { field: side }]));
      const dash = { ...sidesOf, line_dash: alike[0].dash, fill_alpha: alike[0].fill, line_width: 1.4 };
      this.glyph("Quad", { left, right, top, bottom }, dash, (look, glyph, source) => {
        source.data = { ...source.data, paint: known.map(bar => look.series[bar.color]) };
        glyph.fill_color = { field: "paint" };
        glyph.line_color = { field: "paint" };
      });
    }
    const ranged = bars.filter(bar => bar.low !== null && bar.high !== null);
    const column = name => ranged.map(bar => bar[name]);
    this.whiskers(ranged.map(bar => (bar.from + bar.to) / 2), column("low"), column("high"), this.lying, Math.min(0.12, (bars[0].to - bars[0].from) / 4), look => look.ink);
    const stacked = new Set(bars.map(bar => bar.at)).size < bars.length;
    for (const bar of bars) {
      if (bar.start === null || bar.end === null) continue;
      const middle = this.data[this.lying ? "x" : "y"].scale === "log"
        ? Math.sqrt(bar.start * bar.end) : (bar.start + bar.end) / 2;
      this.items.push({
        series: stacked ? `bars ${bar.at}` : "bars", says: bar.says, radius: 0,
        x: this.lying ? middle : (bar.from + bar.to) / 2, y: this.lying ? (bar.from + bar.to) / 2 : middle,
        box: this.lying ? [bar.start, bar.from, bar.end, bar.to] : [bar.from, bar.start, bar.to, bar.end],
      });
    }
  }

  // Intervals as lines with caps `cap` wide to either side, along the value axis.
  whiskers(at, low, high, lying, cap, color) {
    const columns = { a0: [], b0: [], a1: [], b1: [] };
    const add = (a0, b0, a1, b1) => {
      columns.a0.push(a0); columns.b0.push(b0); columns.a1.push(a1); columns.b1.push(b1);
    };
    at.forEach((place, index) => {
      add(place, low[index], place, high[index]);
      if (cap) for (const end of [low[index], high[index]]) add(place - cap, end, place + cap, end);
    });
    const fields = lying ? { x0: "b0", y0: "a0", x1: "b1", y1: "a1" } : { x0: "a0", y0: "b0", x1: "a1", y1: "b1" };
    for (const key of Object.keys(fields)) fields[key] = { field: fields[key] };
    this.glyph("Segment", columns, { ...fields, line_width: 1.6 }, (look, glyph) => { glyph.line_color = color(look); });
  }

  // From values to pixels of the element.
  pixel(x, y) {
    const { frame } = this.view;
    return [frame.x_scale.compute(x), frame.y_scale.compute(y)];
  }

  get inner() {
    return this.view.frame.bbox;
  }

  visible([x, y]) {
    const { left, right, top, bottom } = this.inner;
    return x >= left - 1 && x <= right + 1 && y >= top - 1 && y <= bottom + 1;
  }

  // Puts what lies over the drawing where the drawing now has it.
  place() {
    if (!this.view?.frame || this.element.classList.contains("printing")) return;
    if (this.inner.right <= this.inner.left && this.waits < 50) {
      // Not laid out yet: a page may be opened where it is not to be seen.
      this.waits += 1;
      setTimeout(() => this.place(), 100);
      return;
    }
    this.names.place();
    this.reader.follow();
  }

  // Sizes that depend on the room there is.
  fit() {
    const width = this.element.clientWidth;
    if (!width || width === this.width || this.element.classList.contains("printing")) return;
    this.width = width;
    const size = this.narrow ? "11px" : "13px";
    for (const axis of [this.xAxis, this.yAxis]) {
      axis.major_label_text_font_size = size;
      axis.axis_label_text_font_size = size;
    }
    this.plot.height = this.height();
    if (this.xTicker) this.xTicker.desired_num_ticks = Math.max(2, Math.floor(width / 110));
    if (this.categories) {
      const { formatter, across } = this.categories;
      const letter = this.narrow ? 6.2 : 7.2;
      const share = across ? (width - 70) / this.data.x.categories.length - 8 : width * 0.34;
      // Names that do not fit beside each other are set at a slant, which takes room from the drawing.
      const longest = Math.max(0, ...formatter.boundby_names.map(name => name.length));
      const slanted = across && longest * letter > share;
      this.xAxis.major_label_orientation = slanted ? 0.9 : "horizontal";
      formatter.boundby_length = slanted ? 20 : Math.max(6, Math.floor(share / letter));
      formatter.change.emit();
    }
    setTimeout(() => this.place(), 60);
  }

  // A bar's pixels, as far as they are shown.
  boxOf(item) {
    const [x0, y0] = this.pixel(item.box[0], item.box[1]);
    const [x1, y1] = this.pixel(item.box[2], item.box[3]);
    const { left, right, top, bottom } = this.inner;
    const within = (value, low, high) => Math.max(low, Math.min(high, value));
    return [
      within(Math.min(x0, x1), left, right), within(Math.min(y0, y1), top, bottom),
      within(Math.max(x0, x1), left, right), within(Math.max(y0, y1), top, bottom),
    ];
  }

  restyle() {
    const look = style();
    for (const apply of this.restyles) apply(look);
  }

  // Paper is white and has its own width: a picture of the drawing, in the light style, stands in for it.
  print() {
    this.restyle();
    // Bokeh takes up new colours a little later; the picture is made now.
    for (const renderer of this.view.renderer_views.values()) renderer.set_visuals?.();
    this.view.repaint();
    const { canvas } = this.view.export("auto", true);
    canvas.className = "printed";
    this.element.append(canvas);
    this.element.classList.add("printing");
  }

  printed() {
    this.element.querySelector(".printed")?.remove();
    this.element.classList.remove("printing");
    this.restyle();
  }
}
