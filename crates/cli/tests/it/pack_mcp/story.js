// An agent on the official TypeScript SDK: review, apply, look, roll back.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

async function main() {
  const [command, ...args] = process.argv.slice(2);
  const client = new Client({ name: "story", version: "1" });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  // With the tools listed, the SDK holds every answer to its output schema.
  const { tools } = await client.listTools();
  const call = async (name, given = {}) => (await client.callTool({ name, arguments: given })).structuredContent;
  const refused = await call("deploy_apply");
  const { data } = await call("deploy");
  const applied = await call("deploy_apply", { yes: true, confirm_token: data.confirm_token });
  const status = await call("status");
  const back = await call("rollback", { to: `before:${applied.data.snapshot_id}`, yes: true });
  console.log(JSON.stringify([tools.length, refused.errors[0].code, applied.ok, status.data.summary, back.ok]));
  await client.close();
}

main();
