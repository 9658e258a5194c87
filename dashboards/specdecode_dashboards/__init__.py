"""Grafana's dashboards and Prometheus's rules, of which the chart carries what is generated.

What a panel shows and what an alert asks is written here once, in the names that engines and operator export; rules
that both need are recorded. Nothing here runs in a cluster, and nothing but the chart's files comes out.
"""
