"""A client on the official Python SDK that offers to show people links (elicitation, URL mode)."""
import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

KEYLESS, PATH = sys.argv[1:]
shown: "asyncio.Queue[str]" = asyncio.Queue()
said = []


async def show(_context, params):
    assert params.mode == "url", params
    said.append({"message": params.message, "elicitation_id": params.elicitation_id})
    await shown.put(params.url)
    return ElicitResult(action="accept")


async def main():
    server = StdioServerParameters(command=KEYLESS, args=["mcp"], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write, elicitation_callback=show) as session:
        await session.initialize()

        async def tool(name, **arguments):
            result = (await session.call_tool(name, arguments)).model_dump(by_alias=True)
            assert not result["isError"], result
            return result["structuredContent"]

        line = asyncio.to_thread(sys.stdin.readline)
        request_id = (await tool("secrets_request_rotation", path=PATH))["request_id"]
        await asyncio.sleep(0.5)
        print(f"shown: {shown.qsize()}", flush=True)
        while word := (await line).strip():
            if word == "ask":
                request_id = (await tool("secrets_request_rotation", path=PATH))["request_id"]
                print(request_id, flush=True)
                print(await asyncio.wait_for(shown.get(), 120), flush=True)
            else:
                print((await tool("secrets_poll_status", request_id=request_id))["status"]["kind"], flush=True)
                break
            line = asyncio.to_thread(sys.stdin.readline)
    with open("elicited.json", "w", encoding="utf-8") as file:
        json.dump(said, file)


asyncio.run(main())
