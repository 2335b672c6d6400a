/* Values at the pointer, from the tables of a chart; and, in a live page, reloading without losing the place. */
'use strict';
(function () {
  function nearest(rows, place) {
    let low = 0, high = rows.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (rows[middle].place <= place) low = middle; else high = middle;
    }
    return place - rows[low].place < rows[high].place - place ? rows[low] : rows[high];
  }

  function line(parent, kind, texts) {
    const element = document.createElement(kind);
    if (texts.length === 1) element.textContent = texts[0];
    else for (const text of texts) element.appendChild(document.createElement('span')).textContent = text;
    parent.appendChild(element);
  }

  /* Tables are read when the pointer first comes. */
  function tables(figure) {
    return Array.from(figure.querySelectorAll('details table'), function (table) {
      return {
        caption: table.caption ? table.caption.textContent : '',
        heads: Array.from(table.tHead.rows[0].cells, function (cell) { return cell.textContent; }),
        rows: Array.from(table.tBodies[0].rows, function (row) { return {place: Number(row.dataset.x), cells: row.cells}; })
      };
    });
  }

  function follow(figure, plot) {
    let read = null, cursor = null, tip = null;
    function leave() {
      if (cursor) cursor.remove();
      if (tip) tip.remove();
      cursor = tip = null;
    }
    function move(event) {
      const box = plot.getBoundingClientRect(), outer = figure.getBoundingClientRect();
      const place = (event.clientX - box.left) / box.width * 1000;
      if (place < -20 || place > 1020) return leave();
      read = read || tables(figure);
      if (!tip) {
        cursor = figure.appendChild(document.createElement('div'));
        cursor.className = 'cursor';
        tip = figure.appendChild(document.createElement('div'));
        tip.className = 'tip';
        tip.setAttribute('role', 'status');
      }
      tip.textContent = '';
      let shown = null;
      for (const table of read) {
        const row = nearest(table.rows, place);
        if (!row) continue;
        if (shown === null || Math.abs(row.place - place) < Math.abs(shown - place)) shown = row.place;
        if (read.length > 1) line(tip, 'b', [table.caption]);
        for (let i = 0; i < row.cells.length; i++)
          if (row.cells[i].textContent !== '\u2013') line(tip, 'div', [table.heads[i], row.cells[i].textContent]);
      }
      const x = box.left - outer.left + Math.min(Math.max(shown, 0), 1000) / 1000 * box.width;
      cursor.style.cssText = 'left:' + x + 'px;top:' + (box.top - outer.top) + 'px;height:240px';
      const wide = tip.offsetWidth, left = x + 14 + wide < outer.width ? x + 14 : Math.max(4, x - 14 - wide);
      tip.style.left = left + 'px';
      tip.style.top = Math.max(4, box.top - outer.top + 4) + 'px';
    }
    const area = plot.parentNode;
    area.addEventListener('pointermove', move);
    area.addEventListener('pointerdown', move);
    area.addEventListener('pointerleave', leave);
  }

  for (const figure of document.querySelectorAll('figure.chart')) {
    const plot = figure.querySelector('svg.plot');
    if (!plot) continue;
    for (const title of plot.querySelectorAll('title')) title.remove();
    follow(figure, plot);
  }

  const seconds = Number(document.body.dataset.live);
  if (!seconds) return;
  const key = 'comet-report ' + location.pathname;
  const details = Array.from(document.querySelectorAll('details'));
  try {
    const kept = JSON.parse(sessionStorage.getItem(key));
    if (kept) {
      kept.open.forEach(function (i) { if (details[i]) details[i].open = true; });
      scrollTo(0, kept.y);
    }
  } catch (error) { /* without storage the page begins at its top */ }
  setTimeout(function () {
    const open = [];
    details.forEach(function (d, i) { if (d.open) open.push(i); });
    try { sessionStorage.setItem(key, JSON.stringify({y: scrollY, open: open})); } catch (error) { /* as above */ }
    location.reload();
  }, seconds * 1000);
})();
