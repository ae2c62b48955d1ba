"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const popup = document.getElementById("popup");
  const links = [...document.querySelectorAll(".heat a")];
  let open = null;
  let leaving = 0;

  const hide = () => {
    clearTimeout(leaving);
    if (!open) return;
    open.classList.remove("open");
    open.removeAttribute("aria-describedby");
    open = null;
    popup.hidden = true;
  };

  const place = (cell) => {
    popup.style.left = popup.style.top = "";
    if (matchMedia("(max-width: 40rem)").matches) return;
    const box = cell.getBoundingClientRect();
    const size = popup.getBoundingClientRect();
    const width = root.clientWidth;
    const height = root.clientHeight;
    const beside = box.right + 8 + size.width <= width ? box.right + 8 : box.left - 8 - size.width;
    const left = beside >= 8 ? beside : Math.max(8, Math.min(box.left, width - size.width - 8));
    const below = beside >= 8 ? box.top : box.bottom + 8;
    const top = below + size.height <= height - 8 ? below : Math.max(8, beside >= 8 ? height - size.height - 8 : box.top - size.height - 8);
    popup.style.left = `${left}px`;
    popup.style.top = `${top}px`;
  };

  const show = (cell) => {
    clearTimeout(leaving);
    if (open === cell) return;
    const card = document.getElementById(cell.hash.slice(1));
    if (!card) return;
    hide();
    popup.replaceChildren(...[...card.children].map((child) => child.cloneNode(true)));
    popup.hidden = false;
    open = cell;
    cell.classList.add("open");
    cell.setAttribute("aria-describedby", "popup");
    place(cell);
  };

  const hideSoon = () => {
    clearTimeout(leaving);
    leaving = setTimeout(hide, 200);
  };

  // The pointer may move from the cell onto the card, to read and to copy.
  for (const link of links) {
    link.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show(link));
    link.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hideSoon());
    link.addEventListener("focus", () => show(link));
    link.addEventListener("blur", hideSoon);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      show(link);
    });
    link.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      const td = link.closest("td");
      const row = td.parentElement.parentElement.rows[td.parentElement.sectionRowIndex + step[0]];
      const next = row && row.cells[td.cellIndex + step[1]];
      const target = next && next.querySelector("a");
      event.preventDefault();
      if (target) target.focus();
    });
  }
  if (popup) {
    popup.addEventListener("pointerenter", () => clearTimeout(leaving));
    popup.addEventListener("pointerleave", hideSoon);
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("click", (event) => !event.target.closest(".heat a, #popup") && hide());
  addEventListener("resize", hide);

  const charts = document.querySelector(".charts");
  const buttons = [...document.querySelectorAll("[data-pick]")];
  const pinned = new Set();
  const mark = (extra) => {
    const picked = new Set(pinned);
    if (extra !== undefined) picked.add(extra);
    charts.classList.toggle("picked", picked.size > 0);
    for (const part of charts.querySelectorAll("[data-part]")) part.classList.toggle("on", picked.has(part.dataset.part));
  };
  for (const button of buttons) {
    const part = button.dataset.pick;
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && mark(part));
    button.addEventListener("pointerleave", () => mark());
    button.addEventListener("click", () => {
      if (!pinned.delete(part)) pinned.add(part);
      button.setAttribute("aria-pressed", String(pinned.has(part)));
      mark();
    });
  }
})();
