// What a pointer or a key is at is read out below its chart, exactly; a stretch that is dragged over, or chosen with
// Shift and the arrows and Enter, is shown closer in all charts over the same time, until Escape or a double click.
'use strict';
(() => {
  const grouped = v => Math.round(v).toLocaleString('en-US');
  const trimmed = (v, n) => v.toFixed(n).replace(/\.0$/, '');
  const digits = v => v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : grouped(v);
  const number = v => v >= 99.95 || Number.isInteger(v) ? grouped(v) : v >= 9.995 ? trimmed(v, 1) : v < 0.095 ? String(+v.toPrecision(2)) : v.toFixed(2);
  const show = {
    micros: v => v < 9.995 ? trimmed(v, 1) + ' µs' : v < 999.5 ? v.toFixed(0) + ' µs' : v < 999500 ? digits(v / 1e3) + ' ms' : digits(v / 1e6) + ' s',
    rate: v => number(v) + '/s',
    number,
    share: v => 100 * v > 0 && 100 * v < 0.095 ? +(100 * v).toPrecision(1) + ' %' : trimmed(100 * v, 1) + ' %',
    bytes: v => [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'KB']].filter(u => v >= 0.9995 * u[0]).map(u => number(v / u[0]) + ' ' + u[1])[0] || grouped(v) + ' B',
    seconds: v => number(v) + ' s',
    percentile: v => 'p' + +(100 - 100 / v).toPrecision(5),
  };
  const charts = [...document.querySelectorAll('.chart')].map(figure => new Chart(figure));

  function Chart(figure) {
    const data = JSON.parse(figure.querySelector('script').textContent);
    const plot = figure.querySelector('.plot'), svg = plot.querySelector('svg'), out = figure.querySelector('output');
    const full = data.x.log ? { low: Math.log10(data.x.low), high: Math.log10(data.x.high) } : { low: data.x.low, high: data.x.high };
    const labels = [...plot.querySelectorAll('.x')].map(e => ({ e, at: full.low + (full.high - full.low) * parseFloat(e.style.left) / 100 }));
    const marks = [...plot.querySelectorAll('.mark')].map(e => ({ e, at: full.low + (full.high - full.low) * parseFloat(e.style.left) / 100 }));
    let view = full, at = null, anchor = null, cursor = null, chosen = null;
    const over = figure.dataset.over;
    const group = () => over ? charts.filter(c => c.over === over) : [this];
    const share = v => (v - view.low) / (view.high - view.low);
    const places = data.lines && data.lines.length ? data.lines[0].v.map((_, i) => data.at ? data.at[i] : (data.from || 0) + i * data.step) : [];
    const axis = v => data.x.log ? Math.log10(v) : v, real = v => data.x.log ? 10 ** v : v;

    const box = (name, left, right) => {
      const e = document.createElement('div');
      e.className = name;
      e.style.left = 100 * left + '%';
      if (right !== undefined) e.style.right = 100 - 100 * right + '%';
      plot.append(e);
      return e;
    };
    const nearest = v => {
      let best = -1;
      places.forEach((p, i) => { if (best < 0 || Math.abs(axis(p) - v) < Math.abs(axis(places[best]) - v)) best = i; });
      return best;
    };
    const value = (line, i) => {
      const v = line.v[i], low = line.low ? line.low[i] : v, text = show[data.y.unit];
      if (v === null || v === undefined) return line.name + ' not measured';
      return line.name + ' ' + (text(low) === text(v) ? '' : text(low) + ' to ') + text(v);
    };
    const cell = (v, height) => {
      const heat = data.heat, column = heat.columns[Math.floor((v - data.x.low) / heat.width)];
      const row = Math.min(heat.edges.length - 2, Math.floor(height * (heat.edges.length - 1)));
      const from = Math.floor((v - data.x.low) / heat.width) * heat.width + data.x.low;
      const n = column ? column[1 + row - column[0]] || 0 : 0, all = column ? column.slice(1).reduce((a, b) => a + b, 0) : 0;
      const range = show.micros(heat.edges[row]) + ' to ' + show.micros(heat.edges[row + 1]);
      return show.seconds(from) + ' to ' + show.seconds(from + heat.width) + ': ' +
        (all ? grouped(n) + ' operations took ' + range + ', ' + show.share(n / all) + ' of these ' + grouped(all) : 'nothing was answered');
    };
    const near = v => (group().map(c => c.marks).find(m => m) || []).filter(m => Math.abs(m.at - v) <= (view.high - view.low) / 100).map(m => 'event ' + m.text);

    this.over = over;
    this.marks = data.marks;
    this.point = v => { // the cursor, without words
      at = v;
      if (cursor) cursor.remove();
      cursor = v === null || v < view.low || v > view.high ? null : box('cursor', share(v));
    };
    this.read = (v, height) => {
      let parts;
      if (data.heat) {
        parts = [cell(v, height)];
      } else {
        const i = nearest(v);
        if (i < 0) return;
        v = axis(places[i]);
        const off = s => figure.querySelector('[data-s="' + s + '"]:not(:checked)');
        parts = [show[data.x.unit](places[i]) + ': ' + data.lines.filter((_, s) => !off(s)).map(l => value(l, i)).join(' · ')];
      }
      out.textContent = parts.concat(near(v)).join(' · ');
      group().forEach(c => c.point(v));
    };
    this.show = next => { // a part of the axis
      view = next || full;
      const span = 3000 / (full.high - full.low);
      svg.setAttribute('viewBox', [(view.low - full.low) * span, 0, (view.high - view.low) * span, 1000].join(' '));
      plot.querySelectorAll('.near').forEach(e => e.remove());
      labels.concat(marks).forEach(l => { l.e.style.left = 100 * share(l.at) + '%'; l.e.hidden = share(l.at) < 0 || share(l.at) > 1; });
      if (next) {
        labels.forEach(l => { l.e.hidden = true; });
        [0, 0.25, 0.5, 0.75, 1].forEach(s => {
          const e = document.createElement('span');
          e.className = 'x near';
          e.style.left = 100 * s + '%';
          e.textContent = show[data.x.unit](+real(view.low + s * (view.high - view.low)).toFixed(1));
          plot.append(e);
        });
      }
      this.point(null);
    };
    const choose = (a, b) => {
      if (chosen) chosen.remove();
      chosen = a === null ? null : box('chosen', Math.max(0, share(Math.min(a, b))), Math.min(1, share(Math.max(a, b))));
    };
    const closer = (a, b) => {
      choose(null);
      anchor = null;
      if (over && Math.abs(share(b) - share(a)) > 0.005) group().forEach(c => c.show({ low: Math.min(a, b), high: Math.max(a, b) }));
    };
    const under = e => {
      const r = plot.getBoundingClientRect();
      return [view.low + (view.high - view.low) * Math.min(1, Math.max(0, (e.clientX - r.left) / r.width)), 1 - (e.clientY - r.top) / r.height];
    };

    // Without a pointer a heat map is read in the fullest row of a column.
    const height = v => {
      if (!data.heat) return 0;
      const column = data.heat.columns[Math.floor((v - data.x.low) / data.heat.width)] || [0];
      const fullest = column.slice(1).reduce((best, n, i, a) => n > a[best] ? i : best, 0);
      return (column[0] + fullest + 0.5) / (data.heat.edges.length - 1);
    };

    svg.addEventListener('pointermove', e => {
      const [v, height] = under(e);
      this.read(v, Math.min(0.9999, Math.max(0, height)));
      if (anchor !== null && e.buttons) choose(anchor, v);
    });
    svg.addEventListener('pointerdown', e => {
      if (over && e.pointerType === 'mouse' && e.button === 0) {
        anchor = under(e)[0];
        svg.setPointerCapture(e.pointerId);
      }
    });
    svg.addEventListener('pointerup', e => { if (anchor !== null) closer(anchor, under(e)[0]); });
    svg.addEventListener('dblclick', () => group().forEach(c => c.show()));
    svg.addEventListener('pointerleave', () => { out.textContent = ''; group().forEach(c => c.point(null)); });
    svg.addEventListener('keydown', e => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[e.key];
      const all = data.heat ? Math.round((full.high - full.low) / data.heat.width) : places.length;
      const where = i => data.heat ? full.low + (i + 0.5) * data.heat.width : axis(places[i]);
      const index = v => data.heat ? Math.floor((v - full.low) / data.heat.width) : nearest(v);
      if (e.key === 'Escape') {
        choose(null);
        anchor = null;
        group().forEach(c => c.show());
      } else if (e.key === 'Enter' && anchor !== null && at !== null) {
        closer(anchor, at);
      } else if (e.key === 'Home' || e.key === 'End') {
        const end = where(e.key === 'Home' ? 0 : all - 1);
        this.read(end, height(end));
      } else if (step) {
        const next = Math.min(all - 1, Math.max(0, index(at === null ? view.low : at) + (at === null ? 0 : step)));
        if (e.shiftKey && anchor === null) anchor = at === null ? view.low : at;
        if (!e.shiftKey) { anchor = null; choose(null); }
        this.read(where(next), height(where(next)));
        if (anchor !== null) choose(anchor, at);
      } else {
        return;
      }
      e.preventDefault();
    });
    figure.addEventListener('change', () => { if (at !== null && !data.heat) this.read(at, 0); });
  }
})();
