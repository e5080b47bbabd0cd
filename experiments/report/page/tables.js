// Behind charts.js: tables are sorted by a click on a head, and filtered. Reads what
// results_table.h writes.
const keyOf = cell => cell.dataset.value !== undefined ? cell.dataset.value
                                                       : cell.textContent.trim();
function compare(a, b) {
  if (a === '' || b === '') return (a === '') - (b === '');  // nothing comes last
  const [x, y] = [Number(a), Number(b)];
  return isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y;
}
function sortable(table) {
  const heads = all('thead th', table);
  const asWritten = all('tbody tr', table);
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.title = (head.title ? head.title + ': ' : '') + 'sort by it';
    const sort = () => {
      const was = head.getAttribute('aria-sort');
      const down = was === 'ascending';
      heads.forEach(other => other.removeAttribute('aria-sort'));
      if (was === 'descending') {  // a third click: as it came
        table.tBodies[0].append(...asWritten);
        return;
      }
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const rows = [...asWritten];
      const key = row => keyOf(row.children[column]);
      rows.sort((a, b) => key(a) === '' || key(b) === '' || !down
                              ? compare(key(a), key(b)) : compare(key(b), key(a)));
      table.tBodies[0].append(...rows);
    };
    head.onclick = sort;
    head.onkeydown = event => { if (event.key === 'Enter') sort(); };
  });
}
function filterable(table) {
  const chosen = new Map();
  const bar = make('p', '', {class: 'filters'});
  const words = make('input', '', {type: 'search', placeholder: 'words in a row',
                                   'aria-label': 'words in a row'});
  const told = make('output', '', {});
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(word => word);
    for (const row of all('tbody tr', table)) {
      const title = row.children[0].title;
      const text = (row.textContent + ' ' + title).toLowerCase();
      row.hidden = !wanted.every(word => text.includes(word)) ||
                   [...chosen].some(([column, want]) =>
                       want !== '' && keyOf(row.children[column]) !== want);
    }
    const rows = all('tbody tr', table);
    const left = rows.filter(row => !row.hidden).length;
    told.textContent = left < rows.length ? left + ' of ' + rows.length : '';
  };
  all('thead th', table).forEach((head, column) => {
    if (!head.classList.contains('axis')) return;
    const values = [...new Set(all('tbody tr', table).map(
        row => keyOf(row.children[column])))].sort(compare);
    if (values.length > 40) return;
    const select = make('select', '', {'aria-label': head.textContent});
    select.append(make('option', head.textContent + ': all', {value: ''}));
    for (const one of values)
      if (one !== '') select.append(make('option', one, {value: one}));
    select.onchange = () => { chosen.set(column, select.value); show(); };
    bar.append(select);
  });
  words.oninput = show;
  bar.append(words, told);
  table.closest('.scroll').before(bar);
}
// Figures that are hidden at first show where the window has room for them.
for (const box of all('#all-figures')) {
  const frame = box.parentElement.querySelector('.scroll');
  box.checked = true;
  box.checked = frame.scrollWidth <= frame.clientWidth;
}
for (const table of all('table.results')) {
  if (all('tbody tr', table).length > 5) filterable(table);
  sortable(table);
}
