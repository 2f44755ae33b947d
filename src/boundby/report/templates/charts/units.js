// Numbers along axes in the unit's own prefixes, names cut to the room there is, and the page's colours.

// SI prefixes, or IEC for sizes.
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
const scaled = (value, base, names, unit) => {
  if (value === 0) return `0${unit ? " " + unit : ""}`;
  const size = Math.abs(value) * (1 + 1e-12);
  let place = 0;
  while (place < names.length - 1 && size >= base ** (place + 1)) place += 1;
  return `${plain.format(value / base ** place)} ${names[place]}${unit}`.trim();
};
const shown = {
  "s": value => value === 0 ? "0 s"
    : Math.abs(value) >= 1 - 1e-12 ? `${plain.format(value)} s`
    : scaled(value * 1e9, 1000, ["ns", "µs", "ms", "s"], ""),
  "byte": value => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], ""),
  "byte/s": value => scaled(value, 1000, ["", "k", "M", "G", "T", "P", "E"], "B/s"),
  "flop/s": value => scaled(value, 1000, ["", "k", "M", "G", "T", "P", "E"], "FLOP/s"),
  "%": value => `${plain.format(value * 100)}%`,
};
const number = (value, unit) => {
  if (unit in shown) return shown[unit](value);
  return Math.abs(value) >= 1e6 ? scaled(value, 1000, ["", "k", "M", "G", "T"], "") : plain.format(value);
};

// A text cut in its middle: of a path, the end tells most.
const elided = (text, length) => {
  const letters = [...text];
  if (letters.length <= length) return text;
  const head = Math.floor((length - 1) / 3);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (length - 1 - head)).join("")}`;
};

const SERIES = 8; // colours in the page's style

const style = () => {
  const given = getComputedStyle(document.documentElement);
  const color = name => given.getPropertyValue(name).trim();
  return {
    ink: color("--ink"),
    soft: color("--soft"),
    rule: color("--rule"),
    series: Array.from({ length: SERIES }, (_, place) => color(`--series-${place}`)),
    font: color("--font"),
  };
};

// A new element within another.
const added = (parent, name) => {
  const element = document.createElement("div");
  element.className = name;
  parent.append(element);
  return element;
};
