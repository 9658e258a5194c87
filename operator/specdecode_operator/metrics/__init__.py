"""Prometheus' HTTP API -> samples: what the judge reads, from raw scrapes, or the reason why there is nothing to read.

Data goes one way: `query` writes down what is asked, as text that a person can paste, `prometheus` asks it, `answer`
reads what came, `pods` and `tracks` put series together by pod and process, and `fetch` is the whole of it. `backends`
is whom the operator may ask. Counters come as they were scraped and are differenced by `gates.windows`; no function of
Prometheus that extrapolates (increase, rate) is in any query.

A backend is trusted with the numbers only: time, bytes and series are bounded, and what it sends is checked before it
is used. Credentials are read from files when they are needed and are in no message, log line or repr.
"""
