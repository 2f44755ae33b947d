// Bokeh: unpacked from the page, and what of it is used.

const library = async () => {
  const packed = atob(document.getElementById("library").textContent.trim());
  const bytes = Uint8Array.from(packed, letter => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
  script.remove();
  window.Bokeh.set_log_level("error");
  return toolkit(window.Bokeh);
};

// Bokeh's models, and three of our own: ticks at round numbers of a unit, their texts, and the names of categories.
const toolkit = Bokeh => {
  const model = name => Bokeh.Models.get(name);
  const make = (name, attributes) => new (model(name))(attributes);
  class UnitTexts extends model("BasicTickFormatter") {
    doFormat(ticks) {
      return ticks.map(tick => number(tick, this.boundby_unit));
    }
  }
  class CategoryTexts extends model("BasicTickFormatter") {
    doFormat(ticks) {
      return ticks.map(tick => elided(this.boundby_names[tick] ?? "", this.boundby_length));
    }
  }
  class LogTicks extends model("LogTicker") {
    get_ticks(low, high) {
      const base = this.boundby_base;
      const log = value => Math.log(value) / Math.log(base);
      const [first, last] = [Math.ceil(log(low) - 1e-9), Math.floor(log(high) + 1e-9)];
      const decades = log(high) - log(low);
      const between = (steps) => {
        const found = [];
        for (let power = first - 1; power <= last; power += 1) {
          for (const step of steps) {
            const tick = step * base ** power;
            if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) found.push(tick);
          }
        }
        return found;
      };
      if (base === 2) {
        const stride = Math.max(1, Math.ceil(decades / this.desired_num_ticks / 2) * 2);
        return { major: between([1]).filter(tick => Math.round(log(tick)) % stride === 0), minor: between([1]) };
      }
      if (decades < 0.6) return super.get_ticks(low, high, null, 0);
      const fine = between([2, 3, 4, 5, 6, 7, 8, 9]);
      if (decades < 2.2) return { major: between([1, 2, 5]), minor: fine };
      const stride = Math.max(1, Math.ceil(decades / this.desired_num_ticks));
      const major = between([1]).filter(tick => Math.round(log(tick)) % stride === 0);
      return { major, minor: stride === 1 ? fine : between([1]) };
    }
  }
  const { Document } = Bokeh.require("document");
  return { Bokeh, make, UnitTexts, CategoryTexts, LogTicks, Document };
};
