"""The report as one HTML page: values in, text out. The only user of Jinja2, and with the pictures of matplotlib.

contents    what a page is made of
cells       what the table decides, by size and ranks, with the proof of each decision
grid        those cells as a heat map
curves      the time of every algorithm over sizes
progress    how fast the search came to its choices
figures     curves and progress drawn, as SVG for the inside of a page
inline_svg  an SVG file made fit for the inside of a page
words       decisions in words for cards, lists and the summary
render      the page

Prints nothing, opens nothing but its templates, measures nothing. Neither Jinja2 nor matplotlib loads before a page is
made.
"""
