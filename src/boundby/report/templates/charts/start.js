// Draws every chart of the page, and keeps it in the page's colours.

const words = JSON.parse(document.getElementById("words").textContent);
// For whoever waits for the page, as its tests do.
const charts = [];
window.boundby = { drawn: false, charts };

const start = async () => {
  const elements = [...document.querySelectorAll(".plot")];
  try {
    const kit = await library();
    for (const element of elements) {
      const figure = element.closest("figure");
      const drawing = new Drawing(kit, element, JSON.parse(figure.querySelector(".chart-data").textContent));
      await drawing.draw();
      charts.push(drawing);
      figure.querySelector("details").open = false;
    }
  } catch (error) {
    console.error(error);
    for (const element of elements.slice(charts.length)) {
      element.replaceChildren(words.failed);
      element.classList.add("failed");
    }
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(one => one.restyle()));
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    charts.forEach(one => one.print());
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    charts.forEach(one => one.printed());
  });
  window.boundby.drawn = true;
};

start();
