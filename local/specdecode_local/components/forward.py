"""HAProxy as a plain TCP forwarder: loopback to the gateway's service address and to Prometheus.

A service address is reachable from this machine, but a person and a script look on 127.0.0.1. No time-outs that could
cut a stream.
"""

from __future__ import annotations

from specdecode_local import addresses, paths, probe
from specdecode_local.process import Component


def configuration() -> str:
    return f"""global
    maxconn 8000
    nbthread 1
    stats socket {paths.RUN / "forward.sock"} mode 600 level operator

defaults
    mode tcp
    timeout connect 3s
    timeout client 24h
    timeout server 24h

listen gateway
    bind {addresses.LOOPBACK}:{addresses.GATEWAY_PORT}
    server gateway {addresses.GATEWAY_SERVICE}:80

listen prometheus
    bind {addresses.LOOPBACK}:{addresses.PROMETHEUS_PORT}
    server prometheus {addresses.NODE}:{addresses.PROMETHEUS_PORT}
"""


def component() -> Component:
    file = paths.CONFIGURATION / "haproxy.cfg"
    return Component(
        name="forward",
        argv=("/usr/sbin/haproxy", "-db", "-f", str(file)),
        configuration={file: configuration()},
        ready=lambda: probe.tcp(addresses.LOOPBACK, addresses.GATEWAY_PORT),
    )
