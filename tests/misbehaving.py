"""Answers of HTTP servers that a client must outlive: none, one that drips, one without an end."""

from __future__ import annotations

import asyncio

from aiohttp import web


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def drip(request: web.Request) -> web.StreamResponse:
    """Headers at once, then a byte now and then."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65536)
