// Behaviour of a page, without any library: a click on an entry of a legend hides
// what it stands for; charts show values under the pointer and change between
// linear and logarithmic axes. Without it everything is there all the same. Reads
// what chart.h writes.
'use strict';
const all = (selector, root) => [...(root || document).querySelectorAll(selector)];
const make = (name, text, attributes) => {
  const made = document.createElement(name);
  made.textContent = text;
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  return made;
};

// Legends: a click, or the space bar, hides an entry's items in its group; the
// pointer on one makes the others pale.
function hide(group) {
  const off = new Set(all('.legend li.off', group).map(li => li.dataset.entry));
  for (const series of all('g.series', group))
    series.style.display = off.has(series.dataset.entry) ? 'none' : '';
}
function turn(li, on) {
  li.classList.toggle('off', !on);
  li.setAttribute('aria-pressed', String(on));
}
function pale(group, isPale) {
  for (const series of all('g.series', group))
    series.style.opacity = isPale(series.dataset.entry) ? '.12' : '';
}
for (const group of all('.group')) {
  const entries = all('.legend li', group);
  for (const li of entries) {
    li.tabIndex = 0;
    li.setAttribute('role', 'button');
    turn(li, true);
    li.onclick = () => {
      turn(li, li.classList.contains('off'));
      hide(group);
    };
    li.onkeydown = event => {
      if (event.key !== ' ' && event.key !== 'Enter') return;
      event.preventDefault();
      li.onclick();
    };
    li.onmouseenter = () => pale(group, entry => entry !== li.dataset.entry);
    li.onmouseleave = () => pale(group, () => false);
  }
  if (entries.length <= 8) continue;
  const bar = make('p', '', {class: 'filters'});
  for (const name of ['all', 'none']) {
    const button = make('button', name, {type: 'button'});
    button.onclick = () => {
      entries.forEach(li => turn(li, name === 'all'));
      hide(group);
    };
    bar.append(button);
  }
  group.querySelector('.legend').after(bar);
}

// Axes: from values to places in the drawing, and back.
function axisOf(text) {
  const [low, high, log, begin, end] = text.split(' ').map(Number);
  return {low, high, log: log === 1, begin, end};
}
function place(axis, value) {
  const at = Math.min(Math.max(value, axis.low), axis.high);
  const part = axis.log ? Math.log(at / axis.low) / Math.log(axis.high / axis.low)
                        : (at - axis.low) / (axis.high - axis.low);
  return axis.begin + part * (axis.end - axis.begin);
}
function value(axis, at) {
  const part = (at - axis.begin) / (axis.end - axis.begin);
  return axis.log ? axis.low * Math.pow(axis.high / axis.low, part)
                  : axis.low + part * (axis.high - axis.low);
}
function ticks(axis) {
  const found = [];
  if (axis.log) {
    for (let power = Math.floor(Math.log10(axis.low)); power <= Math.log10(axis.high);
         ++power)
      for (const step of Math.log10(axis.high / axis.low) > 3 ? [1] : [1, 2, 5])
        found.push(step * Math.pow(10, power));
  } else {
    const rough = (axis.high - axis.low) / 5;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 :
                          rough / power > 1 ? 2 : 1);
    for (let i = Math.ceil(axis.low / step); i * step <= axis.high; ++i)
      found.push(i * step);
  }
  return found.filter(at => at >= axis.low && at <= axis.high);
}
const short = number => String(Number(number.toPrecision(4)));

// Every coordinate of what is drawn, through a function for each direction.
function moveAll(svg, x, y) {
  const set = (element, key, f) =>
      element.setAttribute(key, f(Number(element.getAttribute(key))).toFixed(2));
  for (const series of all('g.series', svg))
    for (const element of series.children) {
      const text = element.getAttribute('points');
      if (text && element.classList.contains('mark')) {
        const corners = text.split(' ').map(pair => pair.split(',').map(Number));
        const middle = k => (Math.min(...corners.map(c => c[k])) +
                             Math.max(...corners.map(c => c[k]))) / 2;
        const [cx, cy] = [middle(0), middle(1)];
        const [dx, dy] = [x(cx) - cx, y(cy) - cy];
        element.setAttribute('points', corners.map(
            c => (c[0] + dx).toFixed(2) + ',' + (c[1] + dy).toFixed(2)).join(' '));
      } else if (text) {
        element.setAttribute('points', text.split(' ').map(pair => {
          const [px, py] = pair.split(',').map(Number);
          return x(px).toFixed(2) + ',' + y(py).toFixed(2);
        }).join(' '));
      }
      for (const key of ['cx', 'x1', 'x2'])
        if (element.hasAttribute(key)) set(element, key, x);
      for (const key of ['cy', 'y1', 'y2'])
        if (element.hasAttribute(key)) set(element, key, y);
    }
}
// The least positive value of the points, for an axis that has become
// logarithmic; 0: there is none.
function leastPositive(svg, axis, k) {
  let least = Infinity;
  for (const line of all('polyline', svg))
    for (const pair of line.getAttribute('points').split(' ')) {
      const found = value(axis, Number(pair.split(',')[k]));
      if (found > (axis.high - axis.low) * 1e-4) least = Math.min(least, found);
    }
  for (const mark of all('.mark', svg)) {
    const b = mark.getBBox();
    const found = value(axis, k ? b.y + b.height / 2 : b.x + b.width / 2);
    if (found > (axis.high - axis.low) * 1e-4) least = Math.min(least, found);
  }
  return least < Infinity ? least : axis.high / 1000;
}
function drawTicks(svg, state, told) {
  const svgName = 'http://www.w3.org/2000/svg';
  const remove = elements => elements.forEach(element => element.remove());
  const add = (name, attributes, text) => {
    const made = document.createElementNS(svgName, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text) made.textContent = text;
    svg.insertBefore(made, svg.firstChild);
  };
  const {x, y} = state;
  if (y !== told.y) remove(all('.grid,.tick[text-anchor=end]', svg));
  if (x !== told.x) {
    remove(all('.tick[text-anchor=middle]', svg));
    remove(all('line.axis', svg).slice(0, -1));
  }
  for (const at of y === told.y ? [] : ticks(y)) {
    const py = place(y, at);
    add('line', {class: 'grid', x1: x.begin, x2: x.end, y1: py, y2: py});
    add('text', {class: 'tick', x: x.begin - 6, y: py + 4, 'text-anchor': 'end'},
        short(at));
  }
  for (const at of x === told.x ? [] : ticks(x))
    add('text', {class: 'tick', x: place(x, at), y: y.begin + 18,
                 'text-anchor': 'middle'}, short(at));
}

// Points of a series, each with the place of its upper deviation, or none.
function pointsOf(series) {
  const pairs = element => element.getAttribute('points').split(' ').map(
      pair => pair.split(',').map(Number));
  const line = series.querySelector('polyline');
  if (line) {
    const band = series.querySelector('.band');
    const upper = band ? pairs(band) : [];
    return pairs(line).map(
        ([x, y], i) => ({x, y, upper: upper[i] && upper[i][1]}));
  }
  const upright = all('.bar', series).filter(
      bar => bar.getAttribute('x1') === bar.getAttribute('x2'));
  return all('.mark', series).map(mark => {
    const b = mark.getBBox();
    const [x, y] = [b.x + b.width / 2, b.y + b.height / 2];
    const bar = upright.find(one => Math.abs(one.getAttribute('x1') - x) < 1);
    return {x, y, upper: bar && Math.min(bar.getAttribute('y1'),
                                         bar.getAttribute('y2'))};
  });
}
function nearestOf(series, x, y) {
  let best;
  for (const point of pointsOf(series)) {
    const far = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (!best || far < best.far)
      best = {...point, far, label: series.dataset.label};
  }
  return best;
}
function textOf(point, axis) {
  const mean = value(axis, point.y);
  const off = point.upper === undefined ? 0 : value(axis, point.upper) - mean;
  return point.label + ': ' + short(mean) +
         (off > 0 ? '\u00a0\u00b1\u00a0' + Number(off.toPrecision(2)) : '');
}

function interactive(svg) {
  const abscissa = svg.getAttribute('aria-label').split(' against ').pop();
  const original = svg.innerHTML;
  const told = {x: axisOf(svg.dataset.x), y: axisOf(svg.dataset.y)};
  const state = {x: told.x, y: told.y};
  const box = make('div', '', {class: 'chart-box'});
  const said = make('div', '', {class: 'said', role: 'status'});
  said.hidden = true;
  const bar = make('p', '', {class: 'axes'});
  svg.replaceWith(box);
  box.append(svg, said, bar);
  // Always from what the page came with: nothing is rounded twice.
  const redraw = () => {
    svg.innerHTML = original;
    if (state.x !== told.x || state.y !== told.y) {
      moveAll(svg, at => place(state.x, value(told.x, at)),
              at => place(state.y, value(told.y, at)));
      drawTicks(svg, state, told);
    }
    const group = svg.closest('.group');
    if (group) hide(group);
  };
  for (const name of ['x', 'y']) {
    const button = make('button', 'log ' + name,
                        {type: 'button', 'aria-pressed': String(told[name].log)});
    button.onclick = () => {
      const log = !state[name].log;
      if (log === told[name].log) {
        state[name] = told[name];
      } else {
        const low = log ? Math.max(told[name].low,
                                   0.9 * leastPositive(svg, told[name], name === 'y' ? 1 : 0))
                        : told[name].low;
        state[name] = {...told[name], log, low};
      }
      button.setAttribute('aria-pressed', String(log));
      redraw();
    };
    bar.append(button);
  }
  const forget = () => {
    all('.here', svg).forEach(element => element.remove());
    said.hidden = true;
  };
  // The nearest point of a line, or mark, that shows, and those that lie on it.
  svg.onmousemove = event => {
    forget();
    const frame = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / frame.width;
    const [mx, my] = [(event.clientX - frame.left) * scale,
                      (event.clientY - frame.top) * scale];
    const near = all('g.series', svg)
        .filter(series => series.style.display !== 'none')
        .map(series => nearestOf(series, mx, my)).filter(point => point);
    const best = near.reduce((a, b) => a && a.far <= b.far ? a : b, undefined);
    if (!best || best.far > 24 * 24) return;
    const here = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
    for (const [key, set] of [['class', 'here'], ['r', 6], ['cx', best.x], ['cy', best.y]])
      here.setAttribute(key, set);
    svg.append(here);
    const there = near.filter(
        point => Math.hypot(point.x - best.x, point.y - best.y) <= 5);
    said.replaceChildren(
        make('b', abscissa + ': ' + short(value(state.x, best.x)), {}),
        ...there.slice(0, 6).map(point => make('span', textOf(point, state.y), {})));
    if (there.length > 6)
      said.append(make('span', 'and ' + (there.length - 6) + ' more', {}));
    said.hidden = false;
    const [x, y] = [best.x / scale, best.y / scale];
    const room = frame.width - said.offsetWidth;
    said.style.left = Math.max(0, Math.min(room, x - said.offsetWidth / 2)) + 'px';
    said.style.top = (y > said.offsetHeight + 12 ? y - said.offsetHeight - 12
                                                 : y + 12) + 'px';
  };
  svg.onmouseleave = forget;
}
all('svg.chart').forEach(interactive);
