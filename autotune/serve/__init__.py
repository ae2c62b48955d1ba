"""What a store knows of machines, handed out: tables by fingerprint, runs, and pages, over HTTP.

machines  the store's machines as values: tables, runs, reports; knows no HTTP
secret    the token from a file
access    who may ask: the token, and the names under which the server may be called
answers   JSON and errors
app       addresses to answers (Starlette)
server    from an address to a running server (uvicorn)

The only room with Starlette and uvicorn; importing ``machines`` loads neither. It writes nothing into the store.
docs/serve.md describes the addresses and answers.
"""
