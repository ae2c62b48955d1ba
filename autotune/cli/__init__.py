"""The command line: words in, one call, words out. The only room with typer.

main      the commands, and how errors, interruptions and closed pipes end
options   options that several commands share
output    where text and JSON go
progress  what is being measured, on standard error
host      probe, doctor, settings
page      report
serve     serve
tuning    run
tables    show, explain, export
kernels   algorithms, bench

Modules here import other rooms inside their functions, so that help does not wait for NumPy or SQLAlchemy.
"""
