// Behind tables.js: in a narrow window long sections are folded. Reads what page.cpp
// and results_table.h write.
// Narrow windows: sections longer than two of them are folded below their
// heading, but for the results, of which the best rows show.
function countsIn(section) {
  const told = (singular, plural, selector) => {
    const count = all(selector, section).filter(
        element => !element.parentElement.closest('details')).length;
    return count === 0 ? '' : count + ' ' + (count === 1 ? singular : plural);
  };
  return [told('chart', 'charts', 'svg.chart'), told('picture', 'pictures', 'figure'),
          told('row', 'rows', 'tbody tr')].filter(text => text).join(', ') ||
         told('entry', 'entries', 'details') || 'more';
}
function fold(section) {
  const details = make('details', '', {class: 'fold'});
  const inside = [...section.children].slice(1);
  details.append(make('summary', countsIn(section), {}), ...inside);
  section.append(details);
}
// Unfolds the target of a link.
function reveal(hash) {
  const there = document.getElementById(decodeURIComponent(hash.slice(1)));
  for (let at = there; at; at = at.parentElement)
    if (at.tagName === 'DETAILS') at.open = true;
  if (there) all('details.fold', there).forEach(details => { details.open = true; });
  return there;
}
if (matchMedia('(max-width: 600px)').matches) {
  all('#only-best').forEach(box => { box.checked = true; });
  const long = all('main > section:not(#results)').filter(
      section => section.offsetHeight > 2 * innerHeight);
  long.forEach(fold);
}
document.addEventListener('click', event => {
  const link = event.target.closest('a[href^="#"]');
  if (link) reveal(link.hash);
});
if (location.hash) reveal(location.hash)?.scrollIntoView();
