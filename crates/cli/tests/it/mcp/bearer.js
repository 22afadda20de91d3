// Shows the credential for a client that can't: what else it sends goes on as it came.
const http = require("node:http");

const [to, credential] = process.argv.slice(2);
const { hostname, port } = new URL(to);
const server = http.createServer((asked, answer) => {
  const headers = { ...asked.headers, authorization: `Bearer ${credential}` };
  const onward = http.request({ hostname, port, path: asked.url, method: asked.method, headers }, (came) => {
    answer.writeHead(came.statusCode, came.headers);
    came.pipe(answer);
  });
  onward.on("error", () => answer.destroy());
  asked.pipe(onward);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
