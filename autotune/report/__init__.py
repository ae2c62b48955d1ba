"""What is shown to people: values in, rich renderables and JSON documents out. Pure; the only user of rich but cli.

figures      how a gain, an interval, a problem and a config are written, in text and in JSON
grid         the look of every table
heat_map     the best config by size and ranks
outcome      what a run says at its end
table_view   a tuning table
explanation  why a call gets its config; explanation_view shows it
algorithms   what can run, with its costs
bench_table  measured times as nccl-tests prints them
findings     what doctor found, and the settings

Prints nothing, opens nothing, measures nothing.
"""
