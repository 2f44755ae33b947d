// The names of lines, written into the picture at one of their ends.

class Names {
  constructor(drawing) {
    this.drawing = drawing;
    this.names = drawing.data.lines.filter(line => line.name_at).map(line => {
      const name = added(drawing.element, `name ${line.name_at}`);
      name.textContent = line.name;
      name.hidden = true; // until there is a place for it
      return { line, name };
    });
  }

  // Along its line, above it; from the bottom up, a name that would lie on the one below it moves higher.
  place() {
    const { drawing } = this;
    const { left, right, top, bottom } = drawing.inner;
    const room = 14;
    // On a narrow screen a name that has moved lies on as many lines as there are.
    const farthest = drawing.narrow ? room / 2 : 3 * room;
    const placed = [];
    const { clientWidth: width, clientHeight: height } = drawing.element;
    if (![width, height, bottom - top, right - left].every(size => size > 0)) {
      for (const { name } of this.names) name.hidden = true;
      return;
    }
    for (const { line, name } of this.names) {
      const pieces = this.shownPieces(line);
      name.hidden = pieces.length === 0;
      if (name.hidden) continue;
      const last = line.name_at === "last";
      const [[x0, y0], [x1, y1]] = last ? pieces[pieces.length - 1] : pieces[0];
      const angle = Math.atan2(y1 - y0, x1 - x0);
      const [x, y] = last ? [x1, y1] : [x0, y0];
      placed.push({ name, last, angle, x, y: Math.max(y, top + room), length: Math.hypot(x1 - x0, y1 - y0) });
    }
    for (const side of [true, false]) {
      let lowest = Infinity;
      for (const one of placed.filter(each => each.last === side).sort((a, b) => b.y - a.y)) {
        const apart = room / Math.max(0.3, Math.cos(one.angle));
        const y = Math.min(one.y, lowest - apart, bottom);
        // A name far from its line would be taken for another's, and above the picture it lies on what is there; the
        // table has it, and so has the line itself where it is pointed at.
        if (y < top + room || one.y - y > farthest) {
          one.name.hidden = true;
          continue;
        }
        lowest = y;
        // As shares of the element, since on paper it has another size.
        Object.assign(one.name.style, {
          top: `${100 * y / height}%`,
          [side ? "right" : "left"]: `${100 * (side ? width - one.x : one.x) / width}%`,
          transform: `translateY(-100%) rotate(${one.angle}rad)`,
          maxWidth: `${Math.max(130, one.length)}px`,
        });
      }
    }
  }

  // The pieces of a line that are shown, each from one pixel to another.
  shownPieces(line) {
    const { drawing } = this;
    const { left, right, top, bottom } = drawing.inner;
    const pieces = [];
    for (let index = 0; index + 1 < line.x.length; index += 1) {
      const pair = [index, index + 1].map(place => drawing.pixel(line.x[place], line.y[place]));
      if (!pair.flat().every(Number.isFinite)) continue;
      const [[x0, y0], [x1, y1]] = pair;
      let [from, to] = [0, 1];
      for (const [start, step, low, high] of [[x0, x1 - x0, left, right], [y0, y1 - y0, top, bottom]]) {
        if (step === 0) {
          if (start < low || start > high) to = -1;
          continue;
        }
        const [enter, leave] = [(low - start) / step, (high - start) / step].sort((a, b) => a - b);
        [from, to] = [Math.max(from, enter), Math.min(to, leave)];
      }
      if (from <= to) {
        pieces.push([from, to].map(part => [x0 + part * (x1 - x0), y0 + part * (y1 - y0)]));
      }
    }
    return pieces;
  }
}
