"""An official client, driven line by line: a line of stdin is calls to make at once, a line of stdout what came of them."""
import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def say(something):
    print(json.dumps(something), flush=True)


def door():
    """A server to start, or one that listens: its address and the file with the credential."""
    if sys.argv[1].startswith("http://"):
        with open(sys.argv[2]) as file:
            bearer = {"Authorization": f"Bearer {file.read().strip()}"}
        return streamable_http_client(sys.argv[1], http_client=create_mcp_http_client(headers=bearer))
    return stdio_client(StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ)))


async def main():
    async with door() as (read, write, *_), ClientSession(read, write) as session:
        plain = lambda model: model.model_dump(mode="json", by_alias=True, exclude_none=True)
        hello = plain(await session.initialize())
        say({"hello": hello, "tools": plain(await session.list_tools())["tools"]})

        async def call(name, arguments, meta=None):
            steps = []

            async def progress(done, total, _):
                steps.append([done, total])

            try:
                result = plain(await session.call_tool(name, arguments, progress_callback=progress, meta=meta))
            except Exception as error:
                return {"refused": str(error)}
            return {"result": result, "progress": steps}

        while line := await asyncio.to_thread(sys.stdin.readline):
            say(await asyncio.gather(*(call(**one) for one in json.loads(line))))


asyncio.run(main())
